//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// TestOwnMachine: a machine of the site's own joins with what `sbatchd join` prints,
// runs jobs, and comes back after a restart of either side. A token is one machine's.
func TestOwnMachine(t *testing.T) {
	h := open(t, site{slurm: "NodeName=mine CPUs=1 RealMemory=200\nPartitionName=main Nodes=mine Default=YES MaxTime=1:00:00\n", runtime: "process"})
	print := func() string {
		return h.must(h.root(), "sbatchd", "join", "--config", h.ctl.Config, "--runtime", "process", "mine")
	}
	first := print()
	agent, err := h.Agent("first", first)
	if err != nil {
		t.Fatal(err)
	}
	runs := func(text string) {
		t.Helper()
		id := h.sbatch(h.alice, "-o", "x.out", "--wrap", "echo "+text+" on $SLURM_JOB_NODELIST")
		h.ended(id, "COMPLETED", time.Minute)
		h.shows(h.alice, "x.out", text+" on mine\n", 10*time.Second)
	}
	runs("first job")

	h.ctl.Kill()
	if err := h.ctl.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	runs("after a restart")

	// Somebody else with the same token, before its end, is refused.
	thief, err := h.Agent("thief", first)
	if err != nil {
		t.Fatal(err)
	}
	h.eventually(30*time.Second, "the thief to be refused", func() (bool, string, error) {
		log := h.ctl.LogTail(50)
		return strings.Contains(log, "another key has used it"), log, nil
	})
	if err := thief.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	runs("beside the thief")

	// The machine was installed again: its new token takes the node over.
	if err := agent.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	again, err := h.Agent("again", print())
	if err != nil {
		t.Fatal(err)
	}
	runs("after a reinstallation")
	if err := again.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}

	for node, want := range map[string]string{"yours": "there is no NodeName=yours", "p": "p is a pool: its machines join by themselves"} {
		if r := h.run(h.root(), "sbatchd", "join", "--config", h.ctl.Config, node); r.Code != 1 || !strings.Contains(r.Stderr, want) {
			t.Errorf("join %s: %v, want %q", node, r, want)
		}
	}
}
