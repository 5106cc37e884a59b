package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// TestMachineRestarted makes the agent believe that its machine was started anew: the
// job is lost and is not started again.
func TestMachineRestarted(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(80, 0)
	n.launch(a, "echo once; sleep 60", nil)
	n.c.started(a)
	n.c.written(a, "out", "once\n")
	if err := os.WriteFile(filepath.Join(n.state, "boot.json"), []byte(`"another"`), 0o600); err != nil {
		t.Fatal(err)
	}
	n.killAgent()
	event(n.c, a, "job lost", func(r *agentapi.Report) (bool, bool) { return true, r.GetLost() != nil })
	n.c.finished(a)
	n.release(a)
	if out := n.c.output(a, "out"); out != "once\n" {
		t.Errorf("output %q", out)
	}
}

// TestOrphan loses the controller for good: the job is saved and ended, and the
// machine ends itself.
func TestOrphan(t *testing.T) {
	t.Parallel()
	off := ""
	n := newNode(t, func(c *agentapi.Config) {
		off = filepath.Join(filepath.Dir(c.NoticeFile), "poweroff")
		c.OrphanSeconds, c.PoweroffFile = 2, off
	})
	a := agentapi.NewAttempt(81, 0)
	n.launch(a, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done", nil)
	n.c.written(a, "out", "ready")
	n.c.down()
	eventually(t, "machine off", func() bool { _, err := os.Stat(off); return err == nil })
	// It was not only cut off: what the controller would have learned is kept.
	n.c.up()
	if e := n.c.exited(a); e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED {
		t.Errorf("exit: %v", e)
	}
	n.c.written(a, "out", "bye\n")
}
