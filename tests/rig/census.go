package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"
)

// census is what a rented node could leave on this machine: each kind of thing
// by name.
type census map[string]map[string]bool

// Kinds of things counted.
const (
	kindInterface = "network interface"
	kindNamespace = "network namespace"
	kindCgroup    = "cgroup"
)

// takeCensus counts what the whole machine has of things that carry no name of
// ours: interfaces, named network namespaces, cgroups.
func takeCensus() census {
	c := census{kindInterface: {}, kindNamespace: {}, kindCgroup: {}}
	if links, err := net.Interfaces(); err == nil {
		for _, l := range links {
			c[kindInterface][l.Name] = true
		}
	}
	if names, err := os.ReadDir("/run/netns"); err == nil {
		for _, n := range names {
			c[kindNamespace][n.Name()] = true
		}
	}
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error { //nolint:errcheck // groups come and go while we walk
		if err == nil && d.IsDir() {
			c[kindCgroup][path] = true
		}
		return nil
	})
	return c
}

// Leaks lists what this rig left: processes that belong to it, mounts below its
// folder, interfaces, network namespaces and cgroups that were not there when it
// was made. What the rig itself still runs counts: stop the controller first and
// close services later, or pass their processes as known. It waits up to the
// given time for the list to become empty: kernels free namespaces at leisure.
func (r *Rig) Leaks(ctx context.Context, patience time.Duration, known ...int) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var left []string
	Eventually(ctx, "nothing left", func() (bool, string, error) { //nolint:errcheck // what is left is the answer
		left = r.leaks(known)
		return len(left) == 0, "", nil
	})
	return left
}

func (r *Rig) leaks(known []int) []string {
	var left []string
	for pid, what := range r.processes() {
		if !slices.Contains(known, pid) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, what))
		}
	}
	for _, m := range r.mounts() {
		left = append(left, "mount "+m)
	}
	for kind, names := range takeCensus() {
		for name := range names {
			if !r.before[kind][name] && (kind != kindCgroup || r.ours(name)) {
				left = append(left, kind+" "+name)
			}
		}
	}
	sort.Strings(left)
	return left
}

// machineID is how the local provider's machines are called in a controller's
// log.
var machineID = regexp.MustCompile(`\bid=(\S+)`)

// ours says whether a cgroup that appeared is one of this rig's nodes, or the
// empty parent of them all: other programs of the machine, other rigs too, make
// cgroups.
func (r *Rig) ours(path string) bool {
	if filepath.Base(path) == "sbatchd" {
		inside, err := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
		return err == nil && len(inside) == 0
	}
	logs, _ := filepath.Glob(r.Path("log", "*.log"))       //nolint:errcheck // the pattern is well formed
	more, _ := filepath.Glob(r.Path("home", "*", "*.log")) //nolint:errcheck // likewise
	for _, log := range append(logs, more...) {
		text, err := os.ReadFile(log)
		if err != nil {
			continue // gone meanwhile
		}
		for _, f := range machineID.FindAllStringSubmatch(string(text), -1) {
			r.machines[f[1]] = true
		}
	}
	for id := range r.machines {
		if strings.Contains(path, "/"+id) {
			return true
		}
	}
	return false
}

// processes finds what belongs to this rig: what names its folder in its
// command line, environment, root or working directory. Services started by the
// rig are left out while it runs them.
func (r *Rig) processes() map[int]string {
	found := map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) //nolint:errcheck // another's; then it is not ours
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))         //nolint:errcheck // likewise
		if !bytes.Contains(command, []byte(r.Dir)) && !bytes.Contains(environ, []byte(r.Dir)) && !strings.HasPrefix(cwd, r.Dir) {
			continue
		}
		if parent(dir) == os.Getpid() && r.isService(pid) {
			continue
		}
		found[pid] = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
	}
	return found
}

// parent reads a process's parent from /proc, 0 when it is gone.
func parent(dir string) int {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	var state string
	var ppid int
	// The name is in brackets and may hold anything: read behind the last one.
	if _, err := fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), "%s %d", &state, &ppid); err != nil {
		return 0
	}
	return ppid
}

// mounts lists the mount points below the rig's folder, as this process sees
// them.
func (r *Rig) mounts() []string {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer file.Close()
	var found []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 1 && (f[1] == r.Dir || strings.HasPrefix(f[1], r.Dir+"/")) {
			found = append(found, f[1])
		}
	}
	return found
}

// Reap kills the processes and unmounts what Leaks would list, for a test that
// failed and would spoil the next one.
func (r *Rig) Reap() {
	for pid := range r.processes() {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may be gone
	}
	for _, m := range slices.Backward(r.mounts()) {
		syscall.Unmount(m, syscall.MNT_DETACH) //nolint:errcheck // it may be gone
	}
}

// Processes lists the processes of this rig whose command line holds every one
// of the words, the programs' own names among them.
func (r *Rig) Processes(words ...string) []int {
	var found []int
	for pid, command := range r.processes() {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(command, w) }) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}
