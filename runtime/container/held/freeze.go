package held

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// Freeze implements container.Container: by the cgroup freezer, or else by
// SIGSTOP until no process is left to stop.
func (c *Container) Freeze(ctx context.Context) error {
	init, alive, err := c.Holder()
	if err != nil {
		return err
	}
	if !alive {
		return fmt.Errorf("freeze %s: %w", c.id, container.ErrNotRunning)
	}
	if g := c.Group(); g != nil && g.CanFreeze() {
		return g.Freeze(ctx)
	}
	if err := os.WriteFile(filepath.Join(c.dir, frozenFile), nil, 0o600); err != nil {
		return err
	}
	stopped := map[int]bool{}
	for {
		pids, err := c.members(init)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(pids, func(pid int) bool { return stopped[pid] })
		if len(fresh) == 0 {
			return nil
		}
		for _, pid := range fresh {
			stopped[pid] = true
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop process %d: %w", pid, err)
			}
		}
		select { // let a fork that was under way show
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Thaw implements container.Container.
func (c *Container) Thaw(_ context.Context) error {
	if g := c.Group(); g != nil && g.CanFreeze() {
		return g.Thaw()
	}
	mark := filepath.Join(c.dir, frozenFile)
	if _, err := os.Lstat(mark); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	init, _, err := c.Holder()
	if err != nil {
		return err
	}
	pids, err := c.members(init)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("continue process %d: %w", pid, err)
		}
	}
	return os.Remove(mark)
}

func (c *Container) frozen() bool {
	if g := c.Group(); g != nil && g.CanFreeze() {
		frozen, err := g.Frozen()
		return err == nil && frozen
	}
	return false // SIGSTOP does not hold SIGKILL back
}

// Usage implements container.Container.
func (c *Container) Usage(_ context.Context) (container.Usage, error) {
	var u cgroup.Usage
	if g := c.Group(); g != nil && g.Exists() {
		var err error
		if u, err = g.Usage(); err != nil {
			return container.Usage{}, err
		}
	}
	usage := container.Usage{CPU: u.CPU, RSSBytes: u.RSS, MaxRSSBytes: u.MaxBytes}
	// What the init saw, where no cgroup counts.
	var r execinit.Result
	if execinit.ReadFile(c.dir, execinit.ExitFile, &r) == nil {
		usage.CPU = max(usage.CPU, r.CPU)
		if usage.MaxRSSBytes == 0 {
			usage.MaxRSSBytes = r.MaxRSSBytes
		}
		return usage, nil
	}
	if u.CPU == 0 || u.MaxBytes == 0 {
		init, alive, err := c.Holder()
		if err != nil || !alive {
			return usage, err
		}
		pids, err := c.members(init)
		if err != nil {
			return usage, err
		}
		cpu, rss := execinit.Used(pids)
		usage.CPU = max(usage.CPU, cpu)
		usage.RSSBytes = max(usage.RSSBytes, rss)
		usage.MaxRSSBytes = max(usage.MaxRSSBytes, rss)
	}
	return usage, nil
}
