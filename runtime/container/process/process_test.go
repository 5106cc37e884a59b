package process_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/containertest"
	"github.com/sbatchd/sbatchd/runtime/container/process"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// asUser is set in the copy of this test that runs without root.
const asUser = "SBATCHD_TEST_AS_USER"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "exec":
		os.Exit(execinit.Main(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "start":
		os.Exit(startAndHang(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

func config(state string) process.Config {
	return process.Config{State: state, CgroupParent: fmt.Sprintf("/sbatchd-test-%d", os.Getpid())}
}

func driver(t *testing.T, cfg process.Config) containertest.Driver {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	t.Cleanup(func() {
		if layout, err := cgroup.Detect(); err == nil && os.Geteuid() == 0 {
			if err := layout.At(cfg.CgroupParent).Remove(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return containertest.Driver{
		New: func(t *testing.T) container.Runtime {
			r, err := process.New(cfg, log)
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		Users:  os.Geteuid() == 0,
		Memory: os.Geteuid() == 0 && !cfg.NoCgroups,
		Left:   func(t *testing.T) []string { return left(t, cfg) },
	}
}

// left finds what containers of this configuration have left.
func left(t *testing.T, cfg process.Config) []string {
	t.Helper()
	found, err := filepath.Glob(cfg.State + "/*")
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(name string) bool { return strings.HasPrefix(filepath.Base(name), ".init-") })
	for _, pattern := range []string{"/sys/fs/cgroup/*" + cfg.CgroupParent + "/*/", "/sys/fs/cgroup" + cfg.CgroupParent + "/*/"} {
		groups, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, groups...)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, environ := range environs {
		text, err := os.ReadFile(environ)
		if err == nil && strings.Contains(string(text), execinit.MarkEnv+"="+cfg.State) {
			found = append(found, environ)
		}
	}
	return found
}

func TestProcess(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv(asUser) == "" {
		t.Skip("SKIP process driver as root: not root")
	}
	containertest.Run(t, driver(t, config(t.TempDir())))
}

func TestProcessWithoutNamespaces(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.NoNamespaces = true
	containertest.Run(t, driver(t, cfg))
}

func TestProcessWithoutAnything(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.NoNamespaces, cfg.NoCgroups = true, true
	containertest.Run(t, driver(t, cfg))
}

// TestProcessAsUser runs TestProcess in a copy of this program that is not
// root.
func TestProcessAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP process driver as another user: needs root to become one")
	}
	dir, err := os.MkdirTemp("/tmp", "sbatchd-as-user-") //nolint:usetesting // another user must get into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
		program, "-test.run=^TestProcess$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asUser+"=1", "TMPDIR="+dir, "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestProcess/Lost") {
		t.Fatalf("%v\n%s", err, out)
	}
}
