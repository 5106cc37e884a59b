// Package process is the container driver for jobs without an image: the
// script runs on the node itself, held by an init of ours, in a cgroup and, as
// root, a process namespace of its own where the node allows them. The shim
// uses it for Runtime=process. It needs no daemon and no image.
//
// Without root or without namespaces the container is found by descent and by
// an environment mark instead; a script of the same user could hide from that,
// but only from its own user's wish to end it.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/held"
	"github.com/sbatchd/sbatchd/runtime/execinit"
	"github.com/sbatchd/sbatchd/runtime/execinit/payload"
)

// Config says where the driver keeps things.
type Config struct {
	State        string   // folder of the containers' folders, this driver's alone
	Init         []string // starts execinit.Main with one more argument; nil for the small init, else this program
	CgroupParent string   // "" for /sbatchd
	NoNamespaces bool     // as if the node allowed none
	NoCgroups    bool     // as if the node allowed none
}

// Runtime implements container.Runtime.
type Runtime struct {
	cfg Config
	log *slog.Logger
}

// New makes the state folder if need be.
func New(cfg Config, log *slog.Logger) (*Runtime, error) {
	state, err := filepath.Abs(cfg.State)
	if err != nil {
		return nil, err
	}
	cfg.State = state
	if cfg.CgroupParent == "" {
		cfg.CgroupParent = "/sbatchd"
	}
	if err := held.OpenState(cfg.State); err != nil {
		return nil, err
	}
	if len(cfg.Init) == 0 {
		if cfg.Init, err = payload.Command(cfg.State); err != nil {
			return nil, err
		}
	}
	return &Runtime{cfg: cfg, log: log}, nil
}

// Container implements container.Container.
type Container struct {
	*held.Container
}

func (r *Runtime) open(id string) *Container {
	return &Container{held.New(id, filepath.Join(r.cfg.State, id))}
}

// Start implements container.Runtime.
func (r *Runtime) Start(ctx context.Context, spec container.Spec) (container.Container, error) {
	if err := held.Check(spec); err != nil {
		return nil, err
	}
	if spec.Image != "" {
		return nil, container.Failf(container.ErrInfra, "container %s: images need the containerd runtime", spec.ID)
	}
	c := r.open(spec.ID)
	if err := held.MakeDir(c.Dir()); err != nil {
		return nil, err
	}
	err := r.start(ctx, c, spec)
	if err == nil {
		return c, nil
	}
	if cleanErr := c.Delete(context.WithoutCancel(ctx)); cleanErr != nil {
		err = errors.Join(err, cleanErr)
	}
	if !errors.Is(err, container.ErrUser) && !errors.Is(err, container.ErrInfra) {
		err = container.Fail(container.ErrInfra, err)
	}
	return nil, fmt.Errorf("start %s: %w", spec.ID, err)
}

func (r *Runtime) start(ctx context.Context, c *Container, spec container.Spec) error {
	cfg := execinit.Config{
		Argv: spec.Argv, Env: append(slices.Clone(spec.Env), execinit.MarkEnv+"="+c.Dir()),
		Cwd: spec.Cwd, Umask: spec.Umask, Rlimits: spec.Rlimits,
		Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr,
		StdioAsUser: spec.StdioAsUser, Truncate: spec.Truncate,
		Hostname: spec.Hostname,
	}
	switch uid := os.Geteuid(); {
	case uid == 0:
		cfg.User = &spec.User
	case int(spec.User.UID) != uid:
		return container.Failf(container.ErrInfra, "run as uid %d: this agent is uid %d and not root", spec.User.UID, uid)
	}
	if !spec.StdioAsUser {
		for _, file := range []string{spec.Stdout, spec.Stderr} {
			if file == "" {
				continue
			}
			if err := held.GiveFile(file, spec.User); err != nil {
				return err
			}
		}
	}
	for _, m := range spec.Mounts {
		if m.Source != m.Target || m.ReadOnly {
			cfg.Mounts = append(cfg.Mounts, m)
		}
	}
	if err := r.limit(c, spec, &cfg); err != nil {
		return err
	}
	if os.Geteuid() == 0 && !r.cfg.NoNamespaces {
		flags := uintptr(unix.CLONE_NEWPID | unix.CLONE_NEWNS)
		if spec.Hostname != "" {
			flags |= unix.CLONE_NEWUTS
		}
		cfg.Namespaces = true
		err := r.launch(ctx, c, cfg, flags)
		if !errors.Is(err, errNoNamespaces) {
			return err
		}
		r.log.Warn("no process namespace on this node", "err", err)
	}
	if len(cfg.Mounts) > 0 {
		return container.Failf(container.ErrInfra, "mount %s on %s: not allowed on this node", cfg.Mounts[0].Source, cfg.Mounts[0].Target)
	}
	cfg.Namespaces, cfg.Hostname = false, ""
	return r.launch(ctx, c, cfg, 0)
}

// limit makes the cgroup. A node without any is no error: the job runs
// without limits, and the log says so.
func (r *Runtime) limit(c *Container, spec container.Spec, cfg *execinit.Config) error {
	if r.cfg.NoCgroups {
		return nil
	}
	layout, err := cgroup.Detect()
	if err != nil {
		return fmt.Errorf("find cgroups: %w", err)
	}
	parent := spec.CgroupParent
	if parent == "" {
		parent = r.cfg.CgroupParent
	}
	name := path.Join(parent, spec.ID)
	if os.Geteuid() != 0 {
		if name, err = layout.Beside("sbatchd-" + spec.ID); err != nil {
			r.log.Warn("job runs without limits", "err", err)
			return nil
		}
	}
	// Remembered first, so that a killed driver leaves nothing unknown.
	if err := c.SetGroup(layout.At(name)); err != nil {
		return err
	}
	g, missing, err := layout.Create(name, cgroup.Limits{CPUs: spec.CPUs, MemoryBytes: held.Memory(spec), CPUSet: spec.CPUSet})
	if err != nil {
		r.log.Warn("job runs without limits", "err", err)
		return c.ClearGroup()
	}
	for _, limit := range missing {
		r.log.Warn("limit not enforced on this node", "limit", limit)
	}
	cfg.Join, cfg.OOMFile = g.JoinFiles(), g.OOMFile()
	return c.SetGroup(g)
}

var errNoNamespaces = errors.New("namespaces are not allowed")

// launch starts the init and returns when the script runs.
func (r *Runtime) launch(ctx context.Context, c *Container, cfg execinit.Config, flags uintptr) error {
	if err := c.Prepare(cfg); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close() // nothing is written
	p, err := os.StartProcess(r.cfg.Init[0], append(slices.Clone(r.cfg.Init), c.Dir()), &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2"}, // set, or Go looks for its cgroup first
		Files: []*os.File{null, null, null},
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: flags},
	})
	if err != nil {
		if flags != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL)) {
			return fmt.Errorf("%w: %w", errNoNamespaces, err)
		}
		return fmt.Errorf("start init: %w", err)
	}
	pid := p.Pid
	if err := p.Release(); err != nil {
		return err
	}
	entered := make(chan struct{})
	go func() {
		defer close(entered)
		enter(cfg.Join, pid)
	}()
	err = c.AwaitStart(ctx, pid)
	<-entered
	if err == nil {
		return nil
	}
	var status unix.WaitStatus
	if got, waitErr := unix.Wait4(pid, &status, unix.WNOHANG, nil); waitErr == nil && got == pid &&
		status.Exited() && status.ExitStatus() == execinit.NoNamespaceStatus {
		return errNoNamespaces
	}
	return err
}

// enter puts a process into its cgroup while it starts. It would do so itself,
// and does if this fails; but a first move makes the kernel wait for all CPUs,
// some ten milliseconds, and that wait can as well pass meanwhile.
func enter(files []string, pid int) {
	for _, file := range files {
		_ = os.WriteFile(file, []byte(strconv.Itoa(pid)), 0) // see above
	}
}

// Load implements container.Runtime.
func (r *Runtime) Load(_ context.Context, id string) (container.Container, error) {
	c := r.open(id)
	if _, err := os.Stat(c.Dir()); err != nil || !held.ValidID(id) {
		return nil, fmt.Errorf("load %s: %w", id, container.ErrNotFound)
	}
	return c, nil
}

// List implements container.Runtime.
func (r *Runtime) List(_ context.Context) ([]string, error) {
	return held.IDs(r.cfg.State)
}

// Remove implements container.Runtime.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if !held.ValidID(id) {
		return nil
	}
	return r.open(id).Delete(ctx)
}

// Wait implements container.Container.
func (c *Container) Wait(ctx context.Context) (container.Exit, error) {
	pid, alive, err := c.Holder()
	if err != nil {
		return container.Exit{}, err
	}
	e, err := c.Container.Wait(ctx)
	if err == nil && alive {
		c.reap(pid)
	}
	return e, err
}

// reap takes the dead init off the process table if it was this process's
// child; if not, somebody else does.
func (c *Container) reap(pid int) {
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// Kill implements container.Container.
func (c *Container) Kill(ctx context.Context) error {
	pid, alive, err := c.Holder()
	if err != nil {
		return err
	}
	err = c.Container.Kill(ctx)
	if err == nil && alive {
		c.reap(pid)
	}
	return err
}

// Delete implements container.Container. The folder goes last.
func (c *Container) Delete(ctx context.Context) error {
	if _, err := os.Stat(c.Dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := c.Kill(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	if g := c.Group(); g != nil {
		if err := g.Remove(ctx); err != nil {
			return fmt.Errorf("delete %s: %w", c.ID(), err)
		}
	}
	if err := c.Remove(); err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	return nil
}
