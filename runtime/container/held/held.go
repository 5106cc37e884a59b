// Package held is the outside of a container's init (package execinit): what
// every driver needs to start one, to wait for it, to signal, freeze and kill
// what is below it, and to find it again. A driver adds only how the init comes
// to be and what else must be cleaned up.
//
// Everything is read from the container's folder each time, so a Container is
// as good after a restart as before. It must not talk to a daemon. The kernel must
// be Linux 5.4 or newer (pidfd).
package held

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// Files of ours in the folder of a container, beside execinit's.
const (
	groupFile  = "cgroup.json"
	killedFile = "killed.json" // we killed it: no Result then means signal 9
	frozenFile = "frozen"      // stopped by signals, for want of a freezer
)

// Container is one container by its folder. It implements container.Container
// but for Delete.
type Container struct {
	id, dir string
}

// New returns the container of that folder, which may be in any state.
func New(id, dir string) *Container { return &Container{id: id, dir: dir} }

// ID is the container's.
func (c *Container) ID() string { return c.id }

// Dir is the container's folder on the node.
func (c *Container) Dir() string { return c.dir }

// SetGroup remembers a cgroup that holds this container's processes and no
// others.
func (c *Container) SetGroup(g *cgroup.Group) error {
	return execinit.WriteFile(c.dir, groupFile, g)
}

// Group is the container's own cgroup, nil for none.
func (c *Container) Group() *cgroup.Group {
	var g cgroup.Group
	if execinit.ReadFile(c.dir, groupFile, &g) != nil {
		return nil
	}
	return &g
}

// Holder is the living init, as the caller's namespace numbers it.
func (c *Container) Holder() (pid int, alive bool, err error) {
	f, err := os.OpenFile(filepath.Join(c.dir, execinit.LockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close() // nothing was written
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, false, fmt.Errorf("look at lock: %w", err)
	}
	return int(lock.Pid), lock.Type != unix.F_UNLCK, nil
}

// Abandon makes sure that an init that has not started yet never will. It is
// true when the init is not running now, and then it stays so.
func (c *Container) Abandon() (bool, error) {
	f, err := os.OpenFile(filepath.Join(c.dir, execinit.LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close() // gives the lock back
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(filepath.Join(c.dir, execinit.GoneFile), nil, 0o600)
}

// AwaitStart returns when the script runs or has ended; else it says why
// neither will happen. The init is process pid, 0 for one that is dead.
func (c *Container) AwaitStart(ctx context.Context, pid int) error {
	w, err := newWatch(c.dir)
	if err != nil {
		return err
	}
	defer w.close()
	fd, dead := -1, pid <= 0
	if !dead {
		fd, err = unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			defer unix.Close(fd)
		case errors.Is(err, unix.ESRCH):
			dead = true
		default:
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
	}
	for {
		var r execinit.Result
		switch err := execinit.ReadFile(c.dir, execinit.ExitFile, &r); {
		case err == nil:
			return failure(r)
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
		if _, err := os.Lstat(filepath.Join(c.dir, execinit.RunFile)); err == nil {
			return nil
		}
		if dead {
			return container.Failf(container.ErrInfra, "the container's init died before the script started")
		}
		if dead, err = w.wait(ctx, fd); err != nil {
			return err
		}
	}
}

func failure(r execinit.Result) error {
	switch {
	case r.Failure == nil:
		return nil
	case r.Failure.User:
		return &container.StartError{
			Exit:    container.Exit{Code: r.Code, Signal: r.Signal, At: r.At},
			Message: r.Failure.Message,
		}
	}
	return container.Failf(container.ErrInfra, "start script: %s", r.Failure.Message)
}

// Wait implements container.Container.
func (c *Container) Wait(ctx context.Context) (container.Exit, error) {
	if err := c.awaitDeath(ctx); err != nil {
		return container.Exit{}, err
	}
	// PID 1 of a namespace is dead only after all others are. Elsewhere, who
	// kills the init leaves the rest behind.
	if err := c.sweep(ctx); err != nil {
		return container.Exit{}, err
	}
	var used cgroup.Usage
	if g := c.Group(); g != nil {
		var err error
		if used, err = g.Usage(); err != nil {
			used = cgroup.Usage{} // the group may be gone already; the init has counted too
		}
	}
	var r execinit.Result
	err := execinit.ReadFile(c.dir, execinit.ExitFile, &r)
	switch {
	case err == nil && r.Failure == nil:
		return container.Exit{Code: r.Code, Signal: r.Signal, OOM: r.OOM || used.OOMKills > 0, At: r.At, Elapsed: r.Elapsed}, nil
	case err == nil:
		return container.Exit{Code: r.Code, Signal: r.Signal, At: r.At, Lost: !r.Failure.User, Reason: r.Failure.Message}, nil
	case !errors.Is(err, os.ErrNotExist):
		return container.Exit{}, err
	}
	var killed container.Exit
	if err := execinit.ReadFile(c.dir, killedFile, &killed); err == nil {
		killed.OOM = used.OOMKills > 0
		return killed, nil
	}
	reason := "the container's init was killed"
	if used.OOMKills > 0 {
		reason += ", perhaps for the memory limit"
	}
	return container.Exit{Lost: true, OOM: used.OOMKills > 0, Reason: reason}, nil
}

// awaitDeath returns when the init is dead, for good.
func (c *Container) awaitDeath(ctx context.Context) error {
	for {
		pid, alive, err := c.Holder()
		if err != nil {
			return err
		}
		if !alive {
			gone, err := c.Abandon()
			if err != nil || gone {
				return err
			}
			continue // it started just now
		}
		if pid <= 0 { // an Abandon elsewhere has it for a moment
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		if err := awaitExit(ctx, pid); err != nil {
			return err
		}
	}
}

// Pid implements container.Container.
func (c *Container) Pid() int {
	init, alive, err := c.Holder()
	var run execinit.Running
	if err != nil || !alive || execinit.ReadFile(c.dir, execinit.RunFile, &run) != nil {
		return 0
	}
	return childOf(init, run.Pid)
}

// childOf finds the child of a process by the pid it has in its own namespace.
func childOf(parent, inner int) int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return 0
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			status, err := os.ReadFile(filepath.Join("/proc", field, "status"))
			if err != nil {
				continue
			}
			for line := range strings.SplitSeq(string(status), "\n") {
				if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
					chain := strings.Fields(pids)
					if len(chain) > 0 && chain[len(chain)-1] == strconv.Itoa(inner) {
						pid, _ := strconv.Atoi(field) // a number of the kernel's
						return pid
					}
				}
			}
		}
	}
	return 0
}

// Signal implements container.Container.
func (c *Container) Signal(ctx context.Context, sig syscall.Signal, all bool) error {
	init, alive, err := c.Holder()
	if err != nil {
		return err
	}
	if !alive {
		return fmt.Errorf("signal %s: %w", c.id, container.ErrNotRunning)
	}
	if all {
		pids, err := c.members(init)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("signal process %d: %w", pid, err)
			}
		}
		return ctx.Err()
	}
	pid := c.Pid()
	if pid == 0 {
		return fmt.Errorf("signal %s: %w", c.id, container.ErrNotRunning)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("signal %s: %w", c.id, container.ErrNotRunning)
	}
	defer unix.Close(fd)
	if c.Pid() != pid { // the number went to somebody else meanwhile
		return fmt.Errorf("signal %s: %w", c.id, container.ErrNotRunning)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// members are the processes of the container but its init.
func (c *Container) members(init int) ([]int, error) {
	if g := c.Group(); g != nil {
		pids, err := g.Procs()
		return slices.DeleteFunc(pids, func(pid int) bool { return pid == init }), err
	}
	if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init)); err == nil && init != 0 {
		if own, err := os.Readlink("/proc/self/ns/pid"); err == nil && own != ns {
			return inNamespace(ns, init)
		}
	}
	return execinit.Members(c.dir, init), nil
}

func inNamespace(ns string, init int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == init {
			continue
		}
		if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && its == ns {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Kill implements container.Container.
func (c *Container) Kill(ctx context.Context) error {
	init, alive, err := c.Holder()
	if err != nil {
		return err
	}
	if alive {
		if err := c.noteKilled(); err != nil {
			return err
		}
		if g := c.Group(); g != nil && c.frozen() {
			// While it is frozen nothing of it runs before its SIGKILL.
			if err := g.Kill(ctx); err != nil {
				return err
			}
		} else if c.Pid() != 0 {
			// The script first: its init then tells the usage, and dies by itself.
			if c.Signal(ctx, unix.SIGKILL, false) == nil {
				brief, cancel := context.WithTimeout(ctx, time.Second)
				err := awaitExit(brief, init)
				cancel()
				if err != nil && ctx.Err() != nil {
					return err
				}
			}
		}
		if err := c.killInit(ctx); err != nil {
			return err
		}
	}
	if err := c.awaitDeath(ctx); err != nil {
		return err
	}
	return c.sweep(ctx)
}

// killInit kills what is left: the init, then all it held.
func (c *Container) killInit(ctx context.Context) error {
	pid, alive, err := c.Holder()
	if err != nil || !alive || pid <= 0 {
		return err
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		defer unix.Close(fd)
		if again, alive, err := c.Holder(); err == nil && alive && again == pid {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill init %d: %w", pid, err)
			}
		}
	}
	return c.Thaw(ctx)
}

// noteKilled remembers that the end is our doing.
func (c *Container) noteKilled() error {
	e := container.Exit{Signal: int(unix.SIGKILL), At: time.Now()}
	var run execinit.Running
	if execinit.ReadFile(c.dir, execinit.RunFile, &run) == nil {
		e.Elapsed = max(0, execinit.Boottime()-run.Uptime)
	}
	return execinit.WriteFile(c.dir, killedFile, e)
}

// sweep kills whatever a dead init left behind.
func (c *Container) sweep(ctx context.Context) error {
	if g := c.Group(); g != nil {
		return g.Kill(ctx)
	}
	var run execinit.Running
	if err := execinit.ReadFile(c.dir, execinit.RunFile, &run); err == nil && run.Own {
		return nil // the kernel has done it
	}
	for {
		pids := execinit.Members(c.dir, 0)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill %d processes: %w", len(pids), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
