package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Limits are what a group may use; zero values are no limit.
type Limits struct {
	CPUs        float64 // CPUs worth of time
	MemoryBytes int64   // swap is not given on top
	CPUSet      string  // such as "0-3"
}

const cpuPeriod = 100_000 // microseconds, the kernel's default

// CPUQuota is the time, in microseconds of each period of CPUPeriod, that so
// many CPUs are: at least the kernel's least, 1000.
func CPUQuota(cpus float64) int64 { return max(1000, int64(cpus*cpuPeriod)) }

// CPUPeriod is the period of CPUQuota in microseconds.
const CPUPeriod = cpuPeriod

// Create makes the group with its limits, in every hierarchy that can be
// written. It fails if it can be made in none. Missing lists the limits that
// the node cannot enforce, in words, for the log.
func (l *Layout) Create(name string, limits Limits) (g *Group, missing []string, err error) {
	g = l.At(name)
	if err := g.ours(); err != nil {
		return nil, nil, err
	}
	var errs []error
	made := map[string]bool{}
	for controller, dir := range g.v1 {
		if err := makeV1(l.v1[controller].dir, dir, controller == "cpuset"); err != nil {
			errs = append(errs, err)
			delete(g.v1, controller)
			continue
		}
		made[dir] = true
	}
	if g.v2 != "" {
		if err := l.makeV2(g.v2); err != nil {
			errs = append(errs, err)
			g.v2 = ""
		} else {
			made[g.v2] = true
		}
	}
	if len(made) == 0 {
		return nil, nil, fmt.Errorf("create cgroup %s: %w", name, cmp.Or(errors.Join(errs[:min(1, len(errs))]...), errors.New("no hierarchy")))
	}
	if err := g.limit("cpu", limits.CPUs > 0, func(dir string, v1 bool) error {
		quota := CPUQuota(limits.CPUs)
		if !v1 {
			return write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d %d", quota, cpuPeriod))
		}
		return errors.Join(
			write(filepath.Join(dir, "cpu.cfs_period_us"), strconv.Itoa(cpuPeriod)),
			write(filepath.Join(dir, "cpu.cfs_quota_us"), strconv.FormatInt(quota, 10)))
	}); err != nil {
		missing = append(missing, "CPU time: "+err.Error())
	}
	if err := g.limit("memory", limits.MemoryBytes > 0, func(dir string, v1 bool) error {
		n := strconv.FormatInt(limits.MemoryBytes, 10)
		if !v1 {
			// Without swap accounting the second file is not there.
			return errors.Join(write(filepath.Join(dir, "memory.max"), n),
				ignoreGone(write(filepath.Join(dir, "memory.swap.max"), "0")))
		}
		return errors.Join(write(filepath.Join(dir, "memory.limit_in_bytes"), n),
			ignoreGone(write(filepath.Join(dir, "memory.memsw.limit_in_bytes"), n)))
	}); err != nil {
		missing = append(missing, "memory: "+err.Error())
	}
	if err := g.limit("cpuset", limits.CPUSet != "", func(dir string, _ bool) error {
		return write(filepath.Join(dir, "cpuset.cpus"), limits.CPUSet)
	}); err != nil {
		missing = append(missing, "CPU set: "+err.Error())
	}
	return g, missing, nil
}

func (g *Group) limit(controller string, wanted bool, set func(dir string, v1 bool) error) error {
	if !wanted {
		return nil
	}
	dir, v1 := g.dir(controller)
	if dir == "" {
		return errors.New("no " + controller + " cgroup")
	}
	return set(dir, v1)
}

// makeV1 makes dir and what lies between it and the mount. A new cpuset starts
// without CPUs and takes no process until it has some.
func makeV1(mount, dir string, cpuset bool) error {
	for _, d := range between(mount, dir) {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if !cpuset {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			own, err := os.ReadFile(filepath.Join(d, file))
			if err != nil {
				return err
			}
			if strings.TrimSpace(string(own)) != "" {
				continue
			}
			parent, err := os.ReadFile(filepath.Join(filepath.Dir(d), file))
			if err != nil {
				return err
			}
			if err := write(filepath.Join(d, file), strings.TrimSpace(string(parent))); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeV2 makes dir and hands the controllers down to it. What cannot be handed
// down shows when its limit is written.
func (l *Layout) makeV2(dir string) error {
	for _, d := range between(l.v2.dir, dir) {
		l.delegate(filepath.Dir(d))
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// delegate switches the controllers on for the children of a directory. In a
// container the root of the hierarchy has processes, which forbids it: they are
// moved into a leaf first.
func (l *Layout) delegate(dir string) {
	for _, controller := range l.unified {
		if !slices.Contains(controllers, controller) {
			continue
		}
		file := filepath.Join(dir, "cgroup.subtree_control")
		err := write(file, "+"+controller)
		if errors.Is(err, syscall.EBUSY) && dir == l.v2.dir && evacuate(dir) == nil {
			err = write(file, "+"+controller)
		}
		_ = err // the limit's own file is missing then, and says so
	}
}

func evacuate(dir string) error {
	leaf := filepath.Join(dir, "sbatchd-host")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(text)) {
		if err := write(filepath.Join(leaf, "cgroup.procs"), pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// between lists the directories below mount down to dir, outermost first.
func between(mount, dir string) []string {
	var dirs []string
	for d := dir; d != mount && len(d) > len(mount); d = filepath.Dir(d) {
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}
