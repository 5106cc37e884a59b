package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// gpuSpec is a CDI specification with one pretended GPU.
const gpuSpec = `{
	"cdiVersion": "0.6.0", "kind": "sbatchd.test/gpu",
	"devices": [{"name": "GPU-1", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu1", "hostPath": "/dev/zero"}]}}],
	"containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [{"hostPath": "/etc/hostname", "containerPath": "/usr/lib/driver", "options": ["ro", "bind"]}]}
}`

// TestDevices gives a container devices, directly and by CDI, and nothing else.
func TestDevices(t *testing.T) {
	n := newNode(t)
	n.cfg.CDIDirs = []string{t.TempDir()}
	if err := os.WriteFile(filepath.Join(n.cfg.CDIDirs[0], "gpu.json"), []byte(gpuSpec), 0o600); err != nil {
		t.Fatal(err)
	}
	r := n.runtime(t)
	spec := n.spec(t, "job-1.0", `head -c 2 /dev/gpu1 | od -An -tx1; head -c 1 /dev/renamed | wc -c; ls /dev/kmsg /dev/fuse 2>&1 | grep -c 'No such'
		[ -s /usr/lib/driver ] && echo driver; echo $NVIDIA_VISIBLE_DEVICES`)
	spec.User = container.User{}
	spec.CDI = []string{"sbatchd.test/gpu=GPU-1"}
	spec.Devices = []container.Device{{Source: "/dev/urandom", Target: "/dev/renamed", Access: "r"}}
	spec.Env = append(spec.Env, "NVIDIA_VISIBLE_DEVICES=all")
	c, err := r.Start(within(t, time.Minute), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(within(t, time.Minute)); err != nil || e.Code != 0 {
		t.Errorf("exit %+v, %v", e, err)
	}
	out, err := os.ReadFile(spec.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if want := " 00 00\n1\n2\ndriver\nvoid\n"; string(out) != want {
		t.Errorf("output:\n%swant:\n%s", out, want)
	}
	if err := c.Delete(within(t, time.Minute)); err != nil {
		t.Error(err)
	}

	spec = n.spec(t, "job-2.0", "true")
	spec.CDI = []string{"sbatchd.test/gpu=GPU-2"}
	if _, err := r.Start(within(t, time.Minute), spec); !errors.Is(err, container.ErrInfra) {
		t.Errorf("a device that is not there: %v", err)
	}
	wantNothingLeft(t, n)
}
