package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a group has used. What the node does not count is zero.
type Usage struct {
	CPU      time.Duration
	RSS      uint64 // bytes of anonymous memory now
	MaxBytes uint64 // most bytes charged at one time, page cache too
	OOMKills uint64 // processes killed for the memory limit
}

// Usage reads the counters of the group and those below it.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	if dir, v1 := g.dir("cpuacct"); v1 {
		n, err := number(filepath.Join(dir, "cpuacct.usage"))
		if err != nil {
			return u, err
		}
		u.CPU = time.Duration(n)
	} else if dir != "" {
		n, err := keyed(filepath.Join(dir, "cpu.stat"), "usage_usec")
		if ignoreGone(err) != nil {
			return u, err
		}
		u.CPU = time.Duration(n) * time.Microsecond
	}
	dir, v1 := g.dir("memory")
	if dir == "" {
		return u, nil
	}
	stat, peak, events, rss := "memory.stat", "memory.peak", "memory.events", "anon"
	if v1 {
		peak, events, rss = "memory.max_usage_in_bytes", "memory.oom_control", "total_rss"
	}
	var err error
	if u.RSS, err = keyed(filepath.Join(dir, stat), rss); ignoreGone(err) != nil {
		return u, err
	}
	// memory.peak came with kernel 5.19.
	if u.MaxBytes, err = number(filepath.Join(dir, peak)); ignoreGone(err) != nil {
		return u, err
	}
	u.OOMKills, err = keyed(filepath.Join(dir, events), "oom_kill")
	return u, ignoreGone(err)
}

// OOMFile is the file whose oom_kill line counts the processes of the group
// that were killed for its memory limit, "" for none.
func (g *Group) OOMFile() string {
	dir, v1 := g.dir("memory")
	switch {
	case dir == "":
		return ""
	case v1:
		return filepath.Join(dir, "memory.oom_control")
	}
	return filepath.Join(dir, "memory.events")
}

func number(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// keyed reads one number of a file of "key number" lines; 0 when the key is
// not there.
func keyed(file, key string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return Keyed(string(text), key)
}

// Keyed finds a number in text made of "key number" lines, 0 when the key is
// not there.
func Keyed(text, key string) (uint64, error) {
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", key, err)
			}
			return n, nil
		}
	}
	return 0, nil
}
