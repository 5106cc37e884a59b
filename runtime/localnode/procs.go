package localnode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// proc is one process of a moment: a reused id has another start time.
type proc struct {
	pid   int
	start uint64 // clock ticks since boot
}

// Processes lists the ids of the living processes of a machine: those that
// carry its mark, and everything below them. The caller's own process is never
// among them.
func Processes(tag string) ([]int, error) {
	procs, err := processes(tag)
	pids := make([]int, len(procs))
	for i, p := range procs {
		pids[i] = p.pid
	}
	return pids, err
}

func processes(tag string) ([]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	mark := []byte(Mark + "=" + tag)
	parent, start, ours := map[int]int{}, map[int]uint64{}, map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		state, ppid, since, err := stat(pid)
		if err != nil || state == 'Z' || state == 'X' {
			continue // gone meanwhile, or only waits to be reaped
		}
		parent[pid], start[pid] = ppid, since
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			ours[pid] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for pid, ppid := range parent {
			if ours[ppid] && !ours[pid] {
				ours[pid], changed = true, true
			}
		}
	}
	delete(ours, os.Getpid())
	procs := make([]proc, 0, len(ours))
	for pid := range ours {
		procs = append(procs, proc{pid, start[pid]})
	}
	slices.SortFunc(procs, func(a, b proc) int { return cmp.Compare(a.pid, b.pid) })
	return procs, nil
}

// stat reads a process's state letter, parent and start time.
func stat(pid int) (state byte, ppid int, start uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	i := bytes.LastIndexByte(data, ')') // the name before it may hold anything
	fields := strings.Fields(string(data[i+1:]))
	if i < 0 || len(fields) < 20 {
		return 0, 0, 0, fmt.Errorf("/proc/%d/stat: cannot read it", pid)
	}
	if ppid, err = strconv.Atoi(fields[1]); err == nil {
		start, err = strconv.ParseUint(fields[19], 10, 64)
	}
	return fields[0][0], ppid, start, err
}

// Kill kills every process of a machine and waits until none is left or ctx
// ends. All are stopped before the first is killed: one that is killed while
// another still forks would leave a child with neither mark nor parent.
func Kill(ctx context.Context, tag string) error {
	stopped := map[proc]bool{}
	const patience = 50 // rounds in which new ones may turn up
	for round, wait := 0, time.Millisecond; ; round++ {
		procs, err := processes(tag)
		if err != nil {
			return err
		}
		if len(procs) == 0 {
			return nil
		}
		fresh := false
		for _, p := range procs {
			if !stopped[p] {
				stopped[p], fresh = true, true
				if err := p.signal(unix.SIGSTOP); err != nil {
					return fmt.Errorf("stop process %d of %s: %w", p.pid, tag, err)
				}
			}
		}
		if fresh && round < patience {
			continue
		}
		for _, p := range procs {
			if err := p.signal(unix.SIGKILL); err != nil {
				return fmt.Errorf("kill process %d of %s: %w", p.pid, tag, err)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%d processes of %s are still there: %w", len(procs), tag, ctx.Err())
		case <-timer.C:
		}
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// signal reaches exactly this process: the pidfd pins it while its start time
// is compared, so that a reused id is never hit. One that is gone is no error.
func (p proc) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if errors.Is(err, unix.ENOSYS) {
		return ignoreGone(unix.Kill(p.pid, s))
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) // nothing written
	if _, _, start, err := stat(p.pid); err != nil || start != p.start {
		return nil //nolint:nilerr // it ended meanwhile
	}
	return ignoreGone(unix.PidfdSendSignal(fd, s, nil, 0))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Stop ends a machine at once, as a cloud takes it away: its forwarder is
// killed and, with it, its pid 1. It does not wait.
func Stop(dir string) error {
	var p process
	if alive, err := Alive(dir); err != nil || !alive {
		return err
	}
	if err := readJSON(filepath.Join(dir, ForwardFile), &p); err != nil {
		return nil //nolint:nilerr // it is only just starting; Sweep finds it by its mark
	}
	return proc{p.PID, p.Start}.signal(unix.SIGKILL)
}

// Sweep removes what a machine leaves: processes, control groups, mounts and
// its folder. It kills what still runs. When it returns nil, nothing is left.
func Sweep(ctx context.Context, dir string) error {
	m, err := Load(dir)
	if errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	if m.Isolated {
		// With its pid 1 the kernel kills all the rest. Without namespaces it is
		// the other way round: pid 1 is what holds stray children together.
		if err := Stop(dir); err != nil {
			return err
		}
	}
	if err := Kill(ctx, m.Tag); err != nil {
		return err
	}
	if err := awaitUnlocked(ctx, dir); err != nil {
		return err
	}
	if err := removeGroups(ctx, m.CgroupParent); err != nil {
		return err
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// awaitUnlocked waits until nobody holds the machine's lock.
func awaitUnlocked(ctx context.Context, dir string) error {
	for {
		alive, err := Alive(dir)
		if err != nil || !alive {
			return err
		}
		timer := time.NewTimer(2 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("machine in %s still runs: %w", dir, ctx.Err())
		case <-timer.C:
		}
	}
}

// removeGroups removes a control group and those below it in every hierarchy.
func removeGroups(ctx context.Context, parent string) error {
	if parent == "" || parent == "/" {
		return nil
	}
	var tops []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, err := filepath.Glob(filepath.Join(pattern, parent))
		if err != nil {
			return err
		}
		tops = append(tops, found...)
	}
	for _, top := range tops {
		if err := removeGroup(ctx, top); err != nil {
			return err
		}
	}
	return nil
}

func removeGroup(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove group %s: %w", dir, err)
		}
		// The kernel takes a moment to let go of the last dead process.
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("remove group %s: %w", dir, err)
		case <-timer.C:
		}
	}
}

// unmountBelow detaches what may be mounted below a folder here, so that its
// removal never reaches through a mount into what is not the machine's.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(points) {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

func mountsBelow(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 {
			if p := unescape.Replace(f[4]); strings.HasPrefix(p, real+"/") {
				points = append(points, p)
			}
		}
	}
	return points, nil
}
