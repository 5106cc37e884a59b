// Package containerdtest gives tests a real containerd of their own, and an
// image to run in it.
package containerdtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/sbatchd/sbatchd/runtime/container/containerd"
	"github.com/sbatchd/sbatchd/runtime/image/build"
)

// Namespace is where the tests' containers and images are.
const Namespace = "sbatchd-test"

// Daemon is a running containerd that can be killed and started again.
type Daemon struct {
	containerd.Daemon
	ctx context.Context

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

// Start starts a containerd for the test, or skips the test where that cannot
// be.
func Start(t *testing.T) *Daemon {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP containerd: not root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIP containerd: %s is not installed", program)
		}
	}
	dir, err := os.MkdirTemp("", "ctd-") //nolint:usetesting // a socket needs a short name
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Daemon{Daemon: containerd.Daemon{Dir: filepath.Join(dir, "lib"), State: filepath.Join(dir, "run")}, ctx: ctx}
	t.Cleanup(func() {
		d.Kill()
		cancel()
		if mounts := d.Mounts(t); len(mounts) > 0 {
			t.Errorf("mounts left: %q", mounts)
		}
		if t.Failed() {
			t.Logf("containerd said:\n%s", d.log.Bytes())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	d.Restart(t)
	return d
}

// Restart starts the daemon, killing one that runs, and returns when it serves.
func (d *Daemon) Restart(t *testing.T) {
	t.Helper()
	if err := d.Spawn(); err != nil {
		t.Fatal(err)
	}
	c := d.Client(t)
	deadline, cancel := context.WithTimeout(d.ctx, 30*time.Second)
	defer cancel()
	for {
		if ok, err := c.IsServing(deadline); ok && err == nil {
			return
		}
		select {
		case <-deadline.Done():
			t.Fatalf("containerd does not serve:\n%s", d.log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Spawn starts the daemon, killing one that runs, and waits for nothing.
func (d *Daemon) Spawn() error {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	cmd, err := d.Command(d.ctx)
	if err != nil {
		return err
	}
	cmd.Stderr = &d.log
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd = cmd
	return nil
}

// Kill kills the daemon as kill -9 does; the containers' shims live on.
func (d *Daemon) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // dead already is as good
	_ = d.cmd.Wait()         // says that it was killed
	d.cmd = nil
}

// Client is a connection that the test closes.
func (d *Daemon) Client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(d.Address(), client.WithDefaultNamespace(Namespace), client.WithTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the daemon may be gone
	return c
}

// Image builds an image of busybox and puts it into the daemon. The name it
// returns is pinned.
func (d *Daemon) Image(t *testing.T, snapshotter string) string {
	t.Helper()
	img := Busybox(t, build.Config{Env: []string{"PATH=/bin", "IMAGE=mine", "SHADE=image", "SLURM_JOB_ID=image"}})
	name := "sbatchd.test/busybox@" + img.Digest.String()
	var layout bytes.Buffer
	if err := img.WriteTar(&layout, name); err != nil {
		t.Fatal(err)
	}
	ctx := namespaces.WithNamespace(t.Context(), Namespace)
	c := d.Client(t)
	images, err := c.Import(ctx, &layout)
	if err != nil {
		t.Fatalf("import image: %v", err)
	}
	if len(images) != 1 || images[0].Name != name {
		t.Fatalf("imported %+v, want %s", images, name)
	}
	if err := client.NewImage(c, images[0]).Unpack(ctx, snapshotter); err != nil {
		t.Fatalf("unpack image: %v", err)
	}
	return name
}

// Busybox builds an image of this machine's static busybox.
func Busybox(t *testing.T, cfg build.Config) *build.Image {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "busybox", "--list").Output()
	if err != nil {
		t.Skip("SKIP image: busybox-static is not installed")
	}
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	img, err := build.Build(build.Busybox(program, strings.Fields(string(out))), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Mounts lists what is mounted below the daemon's folders.
func (d *Daemon) Mounts(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var mounts []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.Contains(line, " "+filepath.Dir(d.State)+"/") {
			mounts = append(mounts, line)
		}
	}
	return mounts
}

// Shims lists the pids of the daemon's containerd-shim processes.
func (d *Daemon) Shims(t *testing.T) []int {
	t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, list := range lists {
		cmdline, err := os.ReadFile(list)
		if err != nil || !strings.Contains(string(cmdline), "containerd-shim") || !strings.Contains(string(cmdline), d.Address()) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(list, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
