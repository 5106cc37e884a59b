// Package containerd is the container driver for jobs with an image. The agent
// pulls the image first (package image); the shim then starts and holds the
// container through here. It speaks to containerd 1.6 and newer, with runc, on
// cgroups of any version, without systemd.
//
// containerd is needed to start a container and to take it away, and for
// nothing in between: the script's output, its end, signals, hooks and freezing
// go by the container's init and the kernel. So containerd may die and come
// back at any moment; calls that need it wait for it as long as their context
// allows.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/held"
	"github.com/sbatchd/sbatchd/runtime/container/patience"
	"github.com/sbatchd/sbatchd/runtime/execinit"
	"github.com/sbatchd/sbatchd/runtime/execinit/payload"
)

// Config says where containerd is and where the driver keeps things.
type Config struct {
	Address      string   // containerd's socket
	Namespace    string   // "" for "sbatchd"
	Snapshotter  string   // "" finds the best: overlayfs, else native
	State        string   // folder of the containers' folders, this driver's alone
	Init         string   // static program that runs execinit.Main as "exec DIR"; "" for the small init, else this program
	CgroupParent string   // "" for /sbatchd
	CDIDirs      []string // nil for /etc/cdi and /var/run/cdi
	RuncState    string   // runc's folder, on a file system that a restart empties; "" beside the socket
}

// Runtime implements container.Runtime.
type Runtime struct {
	cfg    Config
	client *client.Client
	log    *slog.Logger
}

const (
	runcRuntime = "io.containerd.runc.v2"
	callTimeout = 30 * time.Second // of one attempt at what takes a second
)

// New connects to containerd, which need not be up yet unless the snapshotter
// must be found.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Runtime, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = "sbatchd"
	}
	if cfg.CgroupParent == "" {
		cfg.CgroupParent = "/sbatchd"
	}
	var err error
	if cfg.RuncState == "" {
		// runc's own default is one for the whole machine.
		cfg.RuncState = filepath.Join(filepath.Dir(cfg.Address), "runc")
	}
	if cfg.State, err = filepath.Abs(cfg.State); err != nil {
		return nil, err
	}
	if err := held.OpenState(cfg.State); err != nil {
		return nil, err
	}
	if cfg.Init == "" {
		command, err := payload.Command(cfg.State)
		if err != nil {
			return nil, err
		}
		cfg.Init = command[0]
	}
	r := &Runtime{cfg: cfg, log: log}
	if r.client, err = client.New(cfg.Address,
		client.WithDefaultNamespace(cfg.Namespace),
		client.WithDefaultRuntime(runcRuntime),
		client.WithTimeout(10*time.Second)); err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", cfg.Address, err)
	}
	if r.cfg.Snapshotter == "" {
		if r.cfg.Snapshotter, err = r.findSnapshotter(ctx); err != nil {
			return nil, errors.Join(err, r.client.Close())
		}
	}
	return r, nil
}

// Close ends the connection; containers go on.
func (r *Runtime) Close() error { return r.client.Close() }

// Client is the connection to containerd, for package image.
func (r *Runtime) Client() *client.Client { return r.client }

// Snapshotter is the one in use, for package image.
func (r *Runtime) Snapshotter() string { return r.cfg.Snapshotter }

// ns puts containerd's namespace into a context.
func (r *Runtime) ns(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, r.cfg.Namespace)
}

// findSnapshotter prefers overlayfs, which containerd may have found unable to
// work on its folder; native copies instead, slowly but anywhere.
func (r *Runtime) findSnapshotter(ctx context.Context) (string, error) {
	ctx = r.ns(ctx)
	var name string
	err := patience.Do(ctx, callTimeout, r.log, func(ctx context.Context) error {
		found, err := r.client.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
		if err != nil {
			return err
		}
		working := map[string]bool{}
		for _, p := range found.Plugins {
			working[p.ID] = p.InitErr == nil
		}
		for _, name = range []string{"overlayfs", "native"} {
			if working[name] {
				return nil
			}
		}
		return errors.New("containerd has neither the overlayfs nor the native snapshotter")
	})
	if err != nil {
		return "", fmt.Errorf("find snapshotter: %w", err)
	}
	return name, nil
}

// Container implements container.Container.
type Container struct {
	*held.Container
	r *Runtime
}

func (r *Runtime) open(id string) *Container {
	return &Container{held.New(id, filepath.Join(r.cfg.State, id)), r}
}

// Start implements container.Runtime.
func (r *Runtime) Start(ctx context.Context, spec container.Spec) (container.Container, error) {
	if err := held.Check(spec); err != nil {
		return nil, err
	}
	if spec.Image == "" {
		return nil, container.Failf(container.ErrUser, "container %s: no image", spec.ID)
	}
	ctx = r.ns(ctx)
	c := r.open(spec.ID)
	if err := held.MakeDir(c.Dir()); err != nil {
		return nil, err
	}
	err := patience.Do(ctx, callTimeout, r.log, func(ctx context.Context) error { return r.start(ctx, c, spec) })
	if err == nil {
		return c, nil
	}
	// A minute for the cleaning even if the caller has no patience left.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if cleanErr := c.Delete(clean); cleanErr != nil {
		err = errors.Join(err, cleanErr)
	}
	for _, class := range []error{container.ErrUser, container.ErrImage, container.ErrPin, container.ErrInfra} {
		if errors.Is(err, class) {
			return nil, fmt.Errorf("start %s: %w", spec.ID, err)
		}
	}
	return nil, container.Failf(container.ErrInfra, "start %s: %w", spec.ID, err)
}

// start makes one attempt. After one that was cut off by containerd's death it
// is called again, and must not run the script twice.
func (r *Runtime) start(ctx context.Context, c *Container, spec container.Spec) error {
	if started, err := c.alreadyStarted(ctx); started || err != nil {
		return err
	}
	if err := r.forget(ctx, spec.ID); err != nil {
		return err
	}
	img, err := r.image(ctx, spec.Image)
	if err != nil {
		return err
	}
	config, err := img.Spec(ctx)
	if err != nil {
		return fmt.Errorf("read image configuration: %w", err)
	}
	s, cfg, err := r.ociSpec(ctx, c.Container, spec, config.Config.Env)
	if err != nil {
		return err
	}
	layout, err := cgroup.Detect()
	if err != nil {
		return err
	}
	if err := c.SetGroup(layout.At(r.group(spec))); err != nil {
		return err
	}
	if err := c.Prepare(cfg); err != nil {
		return err
	}
	return r.create(ctx, c, spec, img, s)
}

func (r *Runtime) create(ctx context.Context, c *Container, spec container.Spec, img client.Image, s *oci.Spec) error {
	// Until the container refers to the snapshot, only a lease holds it.
	leased, done, err := r.client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // it expires by itself
	made, err := r.client.NewContainer(leased, spec.ID,
		client.WithImage(img),
		client.WithSnapshotter(r.cfg.Snapshotter),
		client.WithNewSnapshot(spec.ID, img),
		client.WithRuntime(runcRuntime, &options.Options{Root: r.cfg.RuncState}),
		client.WithContainerLabels(spec.Labels),
		client.WithSpec(s))
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	task, err := made.NewTask(ctx, cio.NullIO)
	if errdefs.IsAlreadyExists(err) || err != nil && strings.Contains(err.Error(), "failed to start shim: mkdir") {
		return fmt.Errorf("%w: %w", patience.ErrAgain, err)
	}
	if err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	if err := task.Start(ctx); err != nil {
		return fmt.Errorf("start task: %w", err)
	}
	return c.AwaitStart(ctx, int(task.Pid()))
}

// image finds the image on the node; it is the one its name says.
func (r *Runtime) image(ctx context.Context, name string) (client.Image, error) {
	img, err := r.client.GetImage(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, container.Failf(container.ErrImage, "image %s is not on this node", name)
	}
	if err != nil {
		return nil, fmt.Errorf("find image %s: %w", name, err)
	}
	have := img.Target().Digest
	if want := pinned(name); want != have {
		return nil, container.Failf(container.ErrPin, "image %s is pinned but the node has %s", name, have)
	}
	ready, err := img.IsUnpacked(ctx, r.cfg.Snapshotter)
	if err != nil {
		return nil, fmt.Errorf("look at image %s: %w", name, err)
	}
	if !ready {
		return nil, container.Failf(container.ErrImage, "image %s is not unpacked for %s", name, r.cfg.Snapshotter)
	}
	return img, nil
}

// pinned is the digest in an image's name, "" for none.
func pinned(name string) digest.Digest {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '@' {
			return digest.Digest(name[i+1:])
		}
	}
	return ""
}

// alreadyStarted tells whether an attempt that was cut off did start the
// script after all.
func (c *Container) alreadyStarted(ctx context.Context) (bool, error) {
	pid, alive, err := c.Holder()
	if err != nil {
		return false, err
	}
	if alive {
		return true, c.AwaitStart(ctx, pid)
	}
	for _, file := range []string{execinit.RunFile, execinit.ExitFile} {
		if _, err := os.Lstat(filepath.Join(c.Dir(), file)); err == nil {
			return true, c.AwaitStart(ctx, pid)
		}
	}
	return false, nil
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

// Delete implements container.Container. The folder goes last, so that a
// deletion that was cut off can be repeated.
func (c *Container) Delete(ctx context.Context) error {
	if _, err := os.Stat(c.Dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	ctx = c.r.ns(ctx)
	if err := c.Kill(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	err := patience.Do(ctx, callTimeout, c.r.log, func(ctx context.Context) error { return c.r.forget(ctx, c.ID()) })
	if err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	if err := c.removeGroup(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	if err := c.Remove(); err != nil {
		return fmt.Errorf("delete %s: %w", c.ID(), err)
	}
	return nil
}

// removeGroup takes the cgroup away where runc did not live to do it: also in
// the hierarchies that only runc uses.
func (c *Container) removeGroup(ctx context.Context) error {
	g := c.Group()
	if g == nil {
		return nil
	}
	layout, err := cgroup.Detect()
	if err != nil {
		return err
	}
	return layout.Remove(ctx, g.Name())
}
