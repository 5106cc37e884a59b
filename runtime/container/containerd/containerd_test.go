package containerd_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/containerd"
	"github.com/sbatchd/sbatchd/runtime/container/containerd/containerdtest"
	"github.com/sbatchd/sbatchd/runtime/container/containertest"
)

// node is one containerd with a driver's configuration.
type node struct {
	*containerdtest.Daemon
	cfg   containerd.Config
	image string
}

func newNode(t *testing.T) *node {
	t.Helper()
	d := containerdtest.Start(t)
	state, err := os.MkdirTemp("", "ctd-state-") //nolint:usetesting // its name must be short and its parents open
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Daemon: d, cfg: containerd.Config{
		Address: d.Address(), Namespace: containerdtest.Namespace, State: state,
		Init: containertest.Init(t), CgroupParent: fmt.Sprintf("/sbatchd-ctd-%d-%s", os.Getpid(), filepath.Base(state)),
	}}
	t.Cleanup(func() {
		layout, err := cgroup.Detect()
		if err == nil {
			err = layout.Remove(context.Background(), n.cfg.CgroupParent)
		}
		if err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	n.image = d.Image(t, n.runtime(t).Snapshotter())
	return n
}

// runtime opens the driver.
func (n *node) runtime(t *testing.T) *containerd.Runtime {
	t.Helper()
	r, err := containerd.New(t.Context(), n.cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // the daemon may be gone
	return r
}

// left finds what containers have left on the node.
func (n *node) left(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{
		n.cfg.State + "/*", "/sys/fs/cgroup/*" + n.cfg.CgroupParent + "/*/", "/sys/fs/cgroup" + n.cfg.CgroupParent + "/*/",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	for _, pid := range n.Shims(t) {
		found = append(found, fmt.Sprintf("shim %d", pid))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	made, err := n.Client(t).ContainerService().List(containerdNamespace(ctx))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range made {
		found = append(found, "container "+c.ID)
	}
	return append(found, n.Mounts(t)...)
}

func TestContainerd(t *testing.T) {
	n := newNode(t)
	containertest.Run(t, containertest.Driver{
		New:   func(t *testing.T) container.Runtime { return n.runtime(t) },
		Image: n.image, Users: true, Memory: true,
		Left: n.left,
	})
}
