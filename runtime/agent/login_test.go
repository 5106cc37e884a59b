package agent

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// TestLogin runs a script as a job with --get-user-env starts it.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/bin/false"} {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			for _, name := range []string{".profile", ".bash_profile"} {
				profile := "echo noise; export PATH=/opt/lab/bin:/usr/bin:/bin LAB='it is' CHOSEN=profile\n"
				if err := os.WriteFile(filepath.Join(home, name), []byte(profile), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := filepath.Join(dir, "job")
			if err := os.WriteFile(script, []byte("#!/bin/sh\nenv\necho \"args=$1|$2\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			a := New(Config{Config: agentapi.Config{Node: "g1", Tag: "tag"}, RunDir: dir}, slog.New(slog.DiscardHandler))
			r := a.newRun(journal.Attempt{Job: 12}, &agentapi.Order{What: &agentapi.Order_Launch{Launch: &agentapi.Launch{
				Env:  []string{"SLURM_GET_USER_ENV=1", "SLURM_EXPORT_ENV=CHOSEN", "CHOSEN=it's mine"},
				User: &agentapi.User{Uid: uint32(os.Getuid()), Name: "alice", Home: home, Shell: shell},
			}}}, dir)
			if err := os.MkdirAll(r.runDir(), 0o755); err != nil {
				t.Fatal(err)
			}
			spec := &attempt.Spec{}
			spec.Run.Env, spec.Run.Argv = r.environment(), []string{script, "a b", "c"}
			if err := r.login(spec); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), spec.Run.Argv[0], spec.Run.Argv[1:]...)
			cmd.Env = spec.Run.Env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := strings.Split(string(out), "\n")
			var got []string
			for _, l := range lines {
				name, _, _ := strings.Cut(l, "=")
				if slices.Contains([]string{"PATH", "LAB", "CHOSEN", "HOME", "SLURM_JOB_ID", "args", "noise"}, name) {
					got = append(got, l)
				}
			}
			slices.Sort(got)
			want := []string{"CHOSEN=it's mine", "HOME=" + home, "LAB=it is", "PATH=/opt/lab/bin:/usr/bin:/bin", "SLURM_JOB_ID=12", "args=a b|c"}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s\n%s", d, out)
			}
		})
	}
}
