//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWorkdirSync: the submit directory goes to the node and results come back;
// nothing else of the submit host is seen there.
func TestWorkdirSync(t *testing.T) {
	for _, runtime := range []string{"process", "containerd"} {
		t.Run(runtime, func(t *testing.T) {
			h := open(t, site{runtime: runtime, workdir: "sync"})
			secret := h.Path("only-here")
			if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			h.script(h.alice, "data.txt", "forty two\n")
			h.script(h.alice, "job.sh", `#!/bin/sh
#SBATCH -o sync.out
cat data.txt
pwd
[ -e `+secret+` ] && echo "sees the submit host"
mkdir -p results && tr a-z A-Z <data.txt >results/upper.txt
`)
			id := h.sbatch(h.alice, "job.sh")
			h.ended(id, "COMPLETED", time.Minute)
			h.shows(h.alice, "sync.out", "forty two\n", 10*time.Second)
			if diff := cmp.Diff("forty two\n"+h.alice.Home+"\n", h.read(h.alice, "sync.out")); diff != "" {
				t.Error(diff)
			}
			h.shows(h.alice, "results/upper.txt", "FORTY TWO\n", 10*time.Second)
			if info, err := os.Stat(filepath.Join(h.alice.Home, "results", "upper.txt")); err != nil || !ownedBy(info, h.alice) {
				t.Errorf("the result is not alice's: %v %v", info, err)
			}
		})
	}
}

// TestWorkdirShared: the node sees the submit directory itself, at its own path,
// and nothing beside it.
func TestWorkdirShared(t *testing.T) {
	for _, runtime := range []string{"process", "containerd"} {
		t.Run(runtime, func(t *testing.T) {
			h := open(t, site{runtime: runtime, workdir: "shared"})
			h.script(h.alice, "data.txt", "forty two\n")
			id := h.sbatch(h.alice, "-o", "shared.out", "--wrap",
				"cat data.txt; pwd; echo here >made.txt; ls -d "+h.Path("store")+" "+h.bob.Home+" 2>/dev/null && echo sees more; sleep 60")
			h.started(id, time.Minute)
			h.shows(h.alice, "shared.out", h.alice.Home+"\n", 15*time.Second)
			h.shows(h.alice, "made.txt", "here\n", 5*time.Second)
			// The node writes the file itself: nothing of it is in the controller's spool.
			if spooled, err := filepath.Glob(filepath.Join(h.ctl.State, "spool", id+".*")); err != nil || len(spooled) > 0 {
				t.Errorf("spooled: %v %v", spooled, err)
			}
			if log := h.must(h.alice, "sburst", "logs", id); !strings.Contains(log, h.alice.Home) {
				t.Errorf("sburst logs: %q", log)
			}
			h.must(h.alice, "scancel", id)
			h.ended(id, "CANCELLED", 30*time.Second)
			if got := h.read(h.alice, "shared.out"); strings.Contains(got, "sees more") {
				t.Errorf("the node sees more than the submit directory: %q", got)
			}
		})
	}
}

// TestIsolation: a node has no route to the controller's host, and nodes of a
// pool reach each other.
func TestIsolation(t *testing.T) {
	h := open(t, site{runtime: "process"})
	port := h.ctl.URL[strings.LastIndexByte(h.ctl.URL, ':')+1:]
	one := h.sbatch(h.alice, "-N1", "--exclusive", "-o", "one.out", "--wrap",
		"hostname; (echo >/dev/tcp/127.0.0.1/"+port+") 2>/dev/null && echo reaches the controller; sleep 15 | busybox nc -l -p 7777 -w 20")
	h.started(one, time.Minute)
	h.shows(h.alice, "one.out", "p-", 15*time.Second)
	first := strings.TrimSpace(h.read(h.alice, "one.out"))
	two := h.sbatch(h.alice, "-N1", "--exclusive", "-x", first, "-o", "two.out", "--wrap",
		"echo hello from $(hostname) | busybox nc -w 5 "+first+" 7777 && echo sent")
	h.ended(two, "COMPLETED", time.Minute)
	h.shows(h.alice, "one.out", "hello from p-", 15*time.Second)
	if got := h.read(h.alice, "one.out"); strings.Contains(got, "reaches the controller") {
		t.Errorf("a node reaches the controller's loopback: %q", got)
	}
}
