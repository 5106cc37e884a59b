//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// TestPersonalMode: an ordinary user types `sbatchd serve` with no configuration
// and no root, and the commands find it with no setting.
func TestPersonalMode(t *testing.T) {
	r, err := rig.New("personal")
	if err != nil {
		t.Fatal(err)
	}
	u, err := r.User(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Rig: r, t: t, alice: u}
	run := filepath.Join(u.Home, ".run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if r.Root {
		if err := os.Chown(run, int(u.UID), int(u.GID)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"XDG_RUNTIME_DIR=" + run, "XDG_CONFIG_HOME=" + filepath.Join(u.Home, ".config"), "XDG_STATE_HOME=" + filepath.Join(u.Home, ".state")}
	as := func(argv ...string) rig.Result {
		t.Helper()
		result, err := r.Run(t.Context(), rig.Cmd{User: u, Env: env}, argv...)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	// The shell starts it in the background and says its process.
	started := as("sh", "-c", "sbatchd serve >serve.log 2>&1 & echo $!")
	pid, err := strconv.Atoi(strings.TrimSpace(started.Stdout))
	if err != nil {
		t.Fatal(started)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGTERM)
		if left := r.Leaks(context.WithoutCancel(t.Context()), 20*time.Second); len(left) > 0 {
			t.Errorf("left: %s\n%s", strings.Join(left, "\n"), h.read(u, "serve.log"))
			r.Reap()
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	h.eventually(20*time.Second, "the controller", func() (bool, string, error) {
		result := as("scontrol", "ping")
		return result.Code == 0 && strings.Contains(result.Stdout, "UP"), result.String() + h.read(u, "serve.log"), nil
	})
	submitted := as("sbatch", "--parsable", "-A", "anything", "-q", "whatever", "-o", "personal.out", "--wrap", "nvidia-smi || true; hostname; id -un")
	if submitted.Code != 0 {
		t.Fatal(submitted)
	}
	h.eventually(time.Minute, "the job's end", func() (bool, string, error) {
		state := as("squeue", "-h", "-t", "all", "-j", strings.TrimSpace(submitted.Stdout), "-o", "%T %R")
		return strings.HasPrefix(state.Stdout, "COMPLETED"), state.String(), nil
	})
	h.shows(u, "personal.out", u.Name+"\n", 10*time.Second)
	if result := as("sbatch", "--wrap", "true", "-p", "nowhere"); result.Code == 0 {
		t.Errorf("an unknown partition was taken: %v", result)
	}
	if r.Root {
		socket := filepath.Join(run, "sbatchd", "sbatchd.sock")
		bob, err := r.User(t.Context(), "bob")
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.Run(t.Context(), rig.Cmd{User: bob, Env: []string{"SBATCHD_SERVER=unix://" + socket}}, "sbatch", "--wrap", "true")
		if err != nil || result.Code == 0 {
			t.Errorf("bob submits to alice's own controller: %v (%v)", result, err)
		}
	}
	// Idle nodes go back before it is stopped, so that nothing outlives it here.
	h.eventually(2*time.Minute, "the nodes to be given back", func() (bool, string, error) {
		for name := range strings.FieldsSeq(as("sinfo", "-N", "-h", "-o", "%N:%t").Stdout) {
			if node, state, _ := strings.Cut(name, ":"); !strings.HasSuffix(state, "~") {
				as("sburst", "reclaim", node)
				return false, name, nil
			}
		}
		return true, "", nil
	})
}
