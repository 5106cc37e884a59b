package containerd

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cap"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/held"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// Places of ours inside a container.
const (
	innerInit = "/.sbatchd/exec" // the init's program
	innerDir  = "/.sbatchd/run"  // the container's folder, open to root alone
	innerIO   = "/.sbatchd/io/"  // the script's streams
)

// ociSpec says to runc what the container is, and to the init what runs in it.
func (r *Runtime) ociSpec(ctx context.Context, c *held.Container, spec container.Spec, imageEnv []string) (*oci.Spec, execinit.Config, error) {
	cfg := execinit.Config{
		Argv: spec.Argv, Cwd: spec.Cwd, User: &spec.User, Umask: spec.Umask, Rlimits: spec.Rlimits,
		Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr, StdioAsUser: spec.StdioAsUser, Truncate: spec.Truncate,
		Accounts: true,
		// The init needs it to raise limits and to outlive a lack of memory.
		DropCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
	mounts, err := r.mounts(c, spec, &cfg)
	if err != nil {
		return nil, cfg, err
	}
	layout, err := cgroup.Detect()
	if err != nil {
		return nil, cfg, fmt.Errorf("find cgroups: %w", err)
	}
	opts := []oci.SpecOpts{
		oci.WithProcessArgs(innerInit, "exec", innerDir),
		oci.WithEnv([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2"}),
		oci.WithAddedCapabilities([]string{"CAP_SYS_RESOURCE"}),
		oci.WithDroppedCapabilities(lacking()),
		oci.WithMounts(mounts),
		oci.WithCgroup(r.group(spec)),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.CgroupNamespace}),
		r.adjust(spec, layout),
	}
	if spec.Hostname != "" {
		opts = append(opts, oci.WithHostname(spec.Hostname))
	}
	if spec.NetworkHost {
		opts = append(opts, oci.WithHostNamespace(specs.NetworkNamespace))
	}
	for _, d := range spec.Devices {
		target, access := d.Target, d.Access
		if target == "" {
			target = d.Source
		}
		if access == "" {
			access = "rwm"
		}
		opts = append(opts, oci.WithDevices(d.Source, target, access))
	}
	var added []string
	if len(spec.CDI) > 0 {
		opts = append(opts, r.injectCDI(spec.CDI, &added))
	}
	s, err := oci.GenerateSpec(ctx, nil, &containers.Container{ID: spec.ID}, opts...)
	if err != nil {
		return nil, cfg, container.Failf(container.ErrInfra, "describe container: %w", err)
	}
	cfg.Env = execinit.AddEnv(container.MergeEnv(imageEnv, spec.Env, spec.EnvOverride), added)
	cfg.Env = execinit.AddEnv(cfg.Env, []string{execinit.MarkEnv + "=" + c.Dir()})
	return s, cfg, nil
}

// lacking names the capabilities that this node itself does not have, as in a
// rented container; runc refuses to promise them.
func lacking() []string {
	have, err := cap.Current()
	if err != nil {
		return nil // runc's refusal will say it
	}
	return slices.DeleteFunc(slices.Clone(cap.Known()), func(name string) bool { return slices.Contains(have, name) })
}

// group is the name of the container's cgroup.
func (r *Runtime) group(spec container.Spec) string {
	parent := spec.CgroupParent
	if parent == "" {
		parent = r.cfg.CgroupParent
	}
	return path.Join("/", parent, spec.ID)
}

// adjust sets limits, and takes back defaults made for services rather than
// for jobs: 1024 open files and 64 MB of shared memory.
func (r *Runtime) adjust(spec container.Spec, layout *cgroup.Layout) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.Rlimits = nil
		for i, m := range s.Mounts {
			if m.Destination == "/dev/shm" {
				// Half of the node's memory by the kernel's default, charged
				// to the job's own limit.
				s.Mounts[i].Options = []string{"nosuid", "noexec", "nodev", "mode=1777"}
			}
		}
		if s.Linux.Resources == nil {
			s.Linux.Resources = &specs.LinuxResources{}
		}
		r.limit(spec, layout, s.Linux.Resources)
		return nil
	}
}

// limit sets the limits that this node can enforce, as runc fails on others.
func (r *Runtime) limit(spec container.Spec, layout *cgroup.Layout, res *specs.LinuxResources) {
	can := func(controller string) bool {
		if !layout.Has(controller) {
			r.log.Warn("limit not enforced on this node", "limit", controller)
			return false
		}
		return true
	}
	if limit := held.Memory(spec); limit > 0 && can("memory") {
		res.Memory = &specs.LinuxMemory{Limit: &limit}
		if layout.LimitsSwap() {
			res.Memory.Swap = &limit
		}
	}
	res.CPU = &specs.LinuxCPU{}
	if spec.CPUSet != "" && can("cpuset") {
		res.CPU.Cpus = spec.CPUSet
	}
	if spec.CPUs > 0 && can("cpu") {
		quota, period := cgroup.CPUQuota(spec.CPUs), uint64(cgroup.CPUPeriod)
		res.CPU.Quota, res.CPU.Period = &quota, &period
	}
}

// injectCDI adds devices by their CDI names, and tells which variables they
// come with.
func (r *Runtime) injectCDI(devices []string, env *[]string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		var opts []cdi.Option
		if len(r.cfg.CDIDirs) > 0 {
			opts = append(opts, cdi.WithSpecDirs(r.cfg.CDIDirs...))
		}
		cache, err := cdi.NewCache(append(opts, cdi.WithAutoRefresh(false))...)
		if err != nil {
			return err
		}
		before := len(s.Process.Env)
		if missing, err := cache.InjectDevices(s, devices...); err != nil {
			return fmt.Errorf("devices %v: %w", missing, err)
		}
		if len(s.Process.Env) > before {
			*env = s.Process.Env[before:]
		}
		return nil
	}
}

// mounts are what the container sees of the node.
func (r *Runtime) mounts(c *held.Container, spec container.Spec, cfg *execinit.Config) ([]specs.Mount, error) {
	bind := func(source, target string, options ...string) specs.Mount {
		return specs.Mount{Type: "bind", Source: source, Destination: target, Options: append([]string{"rbind"}, options...)}
	}
	tmp := filepath.Join(c.Dir(), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	mounts := []specs.Mount{
		{Type: "cgroup", Source: "cgroup", Destination: "/sys/fs/cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		bind(r.cfg.Init, innerInit, "ro"),
		bind(c.Dir(), innerDir, "rw"),
		bind(tmp, "/tmp", "rw", "nosuid", "nodev"),
	}
	if spec.NetworkHost {
		for _, file := range []string{"/etc/resolv.conf", "/etc/hosts"} {
			if _, err := os.Stat(file); err == nil {
				mounts = append(mounts, bind(file, file, "ro"))
			}
		}
	}
	for _, m := range spec.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, bind(m.Source, m.Target, mode))
	}
	if spec.StdioAsUser {
		return mounts, nil
	}
	shown := map[string]string{}
	for _, stream := range []struct {
		name, mode string
		path       *string
	}{{"stdin", "ro", &cfg.Stdin}, {"stdout", "rw", &cfg.Stdout}, {"stderr", "rw", &cfg.Stderr}} {
		file := *stream.path
		if file == "" || strings.HasPrefix(file, "/dev/") {
			continue
		}
		if inner, ok := shown[file]; ok && stream.mode == "rw" {
			*stream.path = inner
			continue
		}
		if stream.mode == "rw" {
			if err := held.GiveFile(file, spec.User); err != nil {
				return nil, err
			}
		} else if _, err := os.Stat(file); err != nil {
			return nil, container.Failf(container.ErrInfra, "stdin: %w", err)
		}
		*stream.path = innerIO + stream.name
		shown[file] = *stream.path
		mounts = append(mounts, bind(file, *stream.path, stream.mode))
	}
	return mounts, nil
}
