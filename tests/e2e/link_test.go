//go:build e2e

package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAgentLink runs the same job over both directions of the agent link: the
// agent dials the controller, or the controller opens SSH to the node's sshd.
func TestAgentLink(t *testing.T) {
	for _, link := range []string{"dial", "ssh"} {
		t.Run(link, func(t *testing.T) {
			h := open(t, site{runtime: "process", pool: "AgentLink=" + link})
			h.script(h.alice, "job.sh", counting)
			id := h.sbatch(h.alice, "job.sh")
			h.started(id, time.Minute)
			h.shows(h.alice, "count-"+id+".out", "line 3\n", 20*time.Second)
			// A restarted controller finds the node and loses nothing.
			h.ctl.Kill()
			if err := h.ctl.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if job := h.ended(id, "COMPLETED", time.Minute); job["Restarts"] != "0" {
				t.Errorf("Restarts=%s: a restarted controller harms no job", job["Restarts"])
			}
			h.shows(h.alice, "count-"+id+".out", "end\n", 10*time.Second)
			runs(t, h.read(h.alice, "count-"+id+".out"))
		})
	}
}

// TestRelay: commands work inside a job, through the agent's socket, as the
// job's user and never as an administrator.
func TestRelay(t *testing.T) {
	for _, runtime := range []string{"process", "containerd"} {
		t.Run(runtime, func(t *testing.T) {
			h := open(t, site{runtime: runtime})
			other := h.sbatch(h.bob, "--hold", "-o", "bob.out", "--wrap", "true")
			h.script(h.alice, "job.sh", `#!/bin/bash
#SBATCH -o relay.out -n 2
echo "me $SLURM_JOB_ID $(squeue -h -j $SLURM_JOB_ID -o '%u %T')"
scontrol show job $SLURM_JOB_ID | grep -c JobId=
scancel `+other+` 2>&1 | grep -o 'Access/permission denied'
srun -n 2 sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS'
sbatch --parsable --hold -o inner.out --wrap true
`)
			id := h.sbatch(h.alice, "job.sh")
			h.ended(id, "COMPLETED", time.Minute)
			h.shows(h.alice, "relay.out", "task 1 of 2", 10*time.Second)
			got := h.read(h.alice, "relay.out")
			for _, want := range []string{"me " + id + " alice RUNNING\n", "\n1\n", "Access/permission denied\n", "task 0 of 2\n", "task 1 of 2\n"} {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in:\n%s", want, got)
				}
			}
			lines := strings.Fields(got)
			if inner := h.job(lines[len(lines)-1]); !strings.HasPrefix(inner["UserId"], "alice(") {
				t.Errorf("the job submitted from the job is %s's", inner["UserId"])
			}
			if job := h.job(other); job["JobState"] != "PENDING" {
				t.Errorf("bob's job is %s", job["JobState"])
			}
		})
	}
}

// TestLimits: memory and CPUs a job asked for are what it has.
func TestLimits(t *testing.T) {
	for _, runtime := range []string{"process", "containerd"} {
		t.Run(runtime, func(t *testing.T) {
			h := open(t, site{runtime: runtime})
			id := h.sbatch(h.alice, "--mem=40M", "-o", filepath.Join(h.alice.Home, "mem.out"), "--wrap",
				"echo begin; x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo survived")
			job := h.job(id)
			h.eventually(time.Minute, "the job to end", func() (bool, string, error) {
				job = h.job(id)
				return job["JobState"] == "OUT_OF_MEMORY" || job["JobState"] == "FAILED" || job["JobState"] == "COMPLETED", job["JobState"], nil
			})
			if job["JobState"] != "OUT_OF_MEMORY" {
				t.Errorf("it is %s (%s), want OUT_OF_MEMORY: %q", job["JobState"], job["ExitCode"], h.read(h.alice, "mem.out"))
			}
			limit := h.sbatch(h.alice, "-t", "0:01", "-o", "time.out", "--wrap", "sleep 300")
			_ = limit
			h.must(h.alice, "scancel", limit)
		})
	}
}
