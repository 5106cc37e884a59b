package execinit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Members finds the living processes of a container that has neither a cgroup
// nor a process namespace of its own: the descendants of its init, whatever
// shares a session with one of them, and whatever carries MarkEnv. The init
// itself, 0 for a dead one, is left out.
func Members(dir string, init int) []int {
	procs := table()
	mark := []byte(MarkEnv + "=" + dir)
	in := map[int]bool{}
	sessions := map[int]bool{}
	self := os.Getpid()
	for pid := range procs {
		if pid == self {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(kv []byte) bool { return bytes.Equal(kv, mark) }) {
			in[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range procs {
			if pid == init || pid == self || in[pid] {
				if in[pid] {
					sessions[p.session] = true
				}
				continue
			}
			if (init != 0 && p.parent == init) || in[p.parent] || sessions[p.session] {
				in[pid], sessions[p.session], grown = true, true, true
			}
		}
	}
	var pids []int
	for pid := range in {
		if pid != init && !procs[pid].zombie {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

type process struct {
	parent, session int
	zombie          bool
}

// table reads every process of this namespace.
func table() map[int]process {
	procs := map[int]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return procs
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readStat(pid); ok {
			procs[pid] = p
		}
	}
	return procs
}

// readStat reads /proc/PID/stat; its second field, in brackets, may hold
// anything.
func readStat(pid int) (process, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 4 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	if err1 != nil || err2 != nil {
		return process{}, false
	}
	return process{parent: parent, session: session, zombie: fields[0] == "Z" || fields[0] == "X"}, true
}

// Used adds up what living processes have used, for where no cgroup counts.
func Used(pids []int) (cpu time.Duration, rss uint64) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture Go runs on
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 22 {
			continue
		}
		// Fields 14 to 17: user and system, own and of waited-for children; 24: pages.
		for _, n := range []int{11, 12, 13, 14} {
			ticks, err := strconv.ParseInt(fields[n], 10, 64)
			if err == nil {
				cpu += time.Duration(ticks) * tick
			}
		}
		if pages, err := strconv.ParseUint(fields[21], 10, 64); err == nil {
			rss += pages * uint64(os.Getpagesize())
		}
	}
	return cpu, rss
}
