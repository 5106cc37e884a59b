//go:build e2e

// Package golden_test holds sbatchd to what the real Slurm answered when
// `go run ./tests/differential -record` last ran: the same sessions, without the
// real Slurm. Only those are recorded that both answered alike and that let no job
// run, so a difference here is something that worked and was broken.
package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbatchd/sbatchd/tests/differential/session"
	"github.com/sbatchd/sbatchd/tests/differential/site"
	"github.com/sbatchd/sbatchd/tests/rig"
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		bin := os.Getenv("SBATCHD_BIN")
		if bin == "" {
			bin = rig.Source("bin")
		}
		if err := site.Enter(bin); err != nil {
			fmt.Fprintln(os.Stderr, "golden:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestGolden(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and users")
	}
	list, err := session.Load(rig.Source("tests", "differential", "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]session.Session{}
	for _, s := range list {
		byName[s.Name] = s
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded sessions in testdata (%v)", err)
	}
	ours, err := site.StartOurs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := site.Prepare(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	for _, class := range []session.Class{session.Quiet, session.Together} {
		t.Run(class.String(), func(t *testing.T) {
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range session.ReadArchive(string(text)) {
					s, known := byName[want.Name]
					if !known {
						t.Errorf("%s: %s is recorded, and no session any more: record again", file, want.Name)
					}
					if !known || s.Class != class {
						continue
					}
					t.Run(s.Name, func(t *testing.T) {
						t.Parallel()
						got, err := s.Run(t.Context(), ours)
						if err != nil {
							t.Fatal(err)
						}
						if diff := session.Diff(want.Text, got); diff != "" {
							t.Errorf("- is the real Slurm, + is sbatchd:\n%s", diff)
						}
					})
				}
			}
		})
	}
}
