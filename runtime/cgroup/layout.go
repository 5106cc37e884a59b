// Package cgroup makes, reads and removes control groups of jobs on whatever
// layout a node has: version 1, version 2, or both at once (hybrid). The
// container drivers call it; it needs no systemd. It must not decide what a
// job may use.
package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// controllers are those a job's group is made in, where the node has them.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "freezer", "pids"}

// Layout is where this node keeps its controllers, as seen from one process.
// The zero Layout has none.
type Layout struct {
	all []mountPoint          // every hierarchy, named ones and those of no use here too
	v1  map[string]mountPoint // by controller
	v2  mountPoint            // dir is "" without the unified hierarchy
	// unified are the controllers that the unified hierarchy offers.
	unified []string
}

// mountPoint is one mounted hierarchy: its cgroup root appears at dir.
type mountPoint struct{ root, dir string }

// path is the directory of the cgroup that /proc/PID/cgroup calls name.
func (m mountPoint) path(name string) string {
	if m.root != "/" {
		if rest, ok := strings.CutPrefix(name, m.root); ok && (rest == "" || rest[0] == '/') {
			name = rest
		}
	}
	return filepath.Join(m.dir, filepath.Clean("/"+name))
}

// Detect reads the layout of the node from the mounts of this process.
func Detect() (*Layout, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	l, err := parseMounts(f)
	if err != nil {
		return nil, err
	}
	if l.v2.dir != "" {
		text, err := os.ReadFile(filepath.Join(l.v2.dir, "cgroup.controllers"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		l.unified = strings.Fields(string(text))
	}
	return l, nil
}

// parseMounts finds the cgroup mounts in the text of a mountinfo file
// (proc_pid_mountinfo(5)). The last mount on a directory is the one seen.
func parseMounts(r io.Reader) (*Layout, error) {
	l := &Layout{v1: map[string]mountPoint{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		front, back, ok := strings.Cut(lines.Text(), " - ")
		if !ok {
			continue
		}
		fields, tail := strings.Fields(front), strings.Fields(back)
		if len(fields) < 6 || len(tail) < 3 {
			continue
		}
		at := mountPoint{root: unescape(fields[3]), dir: unescape(fields[4])}
		if strings.HasPrefix(tail[0], "cgroup") {
			l.all = append(l.all, at)
		}
		switch tail[0] {
		case "cgroup2":
			l.v2 = at
		case "cgroup":
			for option := range strings.SplitSeq(tail[2], ",") {
				if slices.Contains(controllers, option) || option == "devices" {
					l.v1[option] = at
				}
			}
		}
	}
	return l, lines.Err()
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescape(s string) string { return escapes.Replace(s) }

// String names the layout: "none", "v1", "v2" or "hybrid".
func (l *Layout) String() string {
	switch {
	case len(l.v1) > 0 && l.v2.dir != "":
		return "hybrid"
	case len(l.v1) > 0:
		return "v1"
	case l.v2.dir != "":
		return "v2"
	}
	return "none"
}

// Has tells whether the node has a controller in any hierarchy.
func (l *Layout) Has(controller string) bool {
	_, v1 := l.v1[controller]
	return v1 || slices.Contains(l.unified, controller)
}

// Of returns the group that a process is in, or for a hierarchy without the
// process an error.
func (l *Layout) Of(pid int) (*Group, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, err
	}
	g := &Group{v1: map[string]string{}}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("cgroup of process %d: bad line %q", pid, line)
		}
		if fields[0] == "0" && fields[1] == "" && l.v2.dir != "" {
			g.v2 = l.v2.path(fields[2])
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if at, ok := l.v1[controller]; ok && slices.Contains(controllers, controller) {
				g.v1[controller] = at.path(fields[2])
			}
		}
	}
	return g, nil
}

// At returns the group of that name, whether it exists or not.
func (l *Layout) At(name string) *Group {
	g := &Group{name: name, v1: map[string]string{}}
	for _, controller := range controllers {
		if at, ok := l.v1[controller]; ok {
			g.v1[controller] = filepath.Join(at.dir, path.Clean("/"+name))
		}
	}
	if l.v2.dir != "" {
		g.v2 = filepath.Join(l.v2.dir, path.Clean("/"+name))
	}
	return g
}

// Remove takes a cgroup of that name and those below it away in every hierarchy,
// also where others than this package made it. Its processes must be dead; what
// is not there is fine.
func (l *Layout) Remove(ctx context.Context, name string) error {
	if err := l.At(name).ours(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var errs []error
	for _, at := range l.all {
		errs = append(errs, removeTree(ctx, filepath.Join(at.dir, path.Clean("/"+name))))
	}
	return errors.Join(errs...)
}

// Beside returns the name for a new group next to the caller's own one: where
// a process that is not root may have been given the right to make groups.
func (l *Layout) Beside(name string) (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if own, ok := strings.CutPrefix(line, "0::"); ok {
			return path.Join("/", path.Dir(own), name), nil
		}
	}
	return "", errors.New("no unified cgroup hierarchy")
}

// LimitsSwap tells whether a memory limit can include swap: kernels may not
// account for it.
func (l *Layout) LimitsSwap() bool {
	if at, ok := l.v1["memory"]; ok {
		_, err := os.Stat(filepath.Join(at.dir, "memory.memsw.limit_in_bytes"))
		return err == nil
	}
	if l.v2.dir == "" {
		return false
	}
	// The root of the hierarchy has no such file, every group below it has.
	found, err := filepath.Glob(filepath.Join(l.v2.dir, "*", "memory.swap.max"))
	return err == nil && len(found) > 0
}
