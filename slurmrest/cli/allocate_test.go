package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// allocated is the job of the next submission.
func allocated(state string) wire.JobInfo {
	j := running()
	j.JobID, j.JobState = 41006, []string{state}
	return j
}

func TestSalloc(t *testing.T) {
	t.Parallel()
	ctl := &controller{play: func(c *controller, _ *wire.JobSubmitReq) { c.jobs = []wire.JobInfo{allocated("RUNNING")} }}
	s := newSession(t, ctl)
	var argv, environ []string
	s.exec = func(a, e []string) (int, error) { argv, environ = a, e; return 3, nil }
	s.env = []string{"SLURM_JOB_ID=7", "SLURM_CONF=/etc/c"}
	s.expect("", "salloc: Granted job allocation 41006\nsalloc: Nodes node01 are ready for job\nsalloc: Relinquishing job allocation 41006\n", 3,
		"salloc", "-n", "2", "train", "-x")
	if strings.Join(argv, " ") != "train -x" {
		t.Errorf("ran %q", argv)
	}
	for _, want := range []string{"SLURM_JOB_ID=41006", "SLURM_JOB_NODELIST=node01", "SLURM_NTASKS=2", "SLURM_CONF=/etc/c", "SLURM_JOB_PARTITION=main"} {
		if !slices.Contains(environ, want) {
			t.Errorf("%s is not in %q", want, environ)
		}
	}
	if slices.Contains(environ, "SLURM_JOB_ID=7") {
		t.Error("the command sees two jobs")
	}
	if got := ctl.calls[len(ctl.calls)-1]; got != "DELETE /slurm/v0.0.45/job/41006?flags=BATCH_JOB&signal=USR1" {
		t.Errorf("let go by %s", got)
	}
	ctl.refuse = errno.InvalidAccount
	s.expect("", "salloc: error: Job submit/allocate failed: Invalid account or account/partition combination specified\n", 1, "salloc", "true")
}

func TestSrunJob(t *testing.T) {
	t.Parallel()
	var script, stdin string
	ctl := &controller{play: func(c *controller, req *wire.JobSubmitReq) {
		script = req.Script
		in, err := os.ReadFile(req.Job.StandardInput)
		if err != nil {
			t.Error(err)
		}
		stdin = string(in)
		for path, text := range map[string]string{req.Job.StandardOutput: "hello\n", req.Job.StandardError: "srun: error: node01: task 0: Exited with exit code 5\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		j := allocated("FAILED")
		j.ExitCode.ReturnCode = wire.N(5)
		c.jobs = []wire.JobInfo{j}
	}}
	s := newSession(t, ctl)
	s.stdin = "typed"
	s.expect("hello\n", "srun: error: node01: task 0: Exited with exit code 5\n", 5, "srun", "-l", "sh", "-c", "it's")
	if want := "#!/bin/sh\nexec srun '-l' 'sh' '-c' 'it'\\''s'\n"; script != want || stdin != "typed" {
		t.Errorf("script %q, want %q; input %q", script, want, stdin)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, ".srun-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	s.expect("", "srun: error: Unable to allocate resources: --pty: Requested operation not supported on this system\n", 1, "srun", "--pty", "bash")
	ctl.refuse = errno.InvalidAccount
	s.expect("", "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified\n", 1, "srun", "true")
}
