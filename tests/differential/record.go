package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

// record writes what the real Slurm answered, one archive a command: of sessions that
// both answer alike, without those that let jobs run.
func record(dir string, outcomes []*outcome) error {
	archives := map[string][]session.Transcript{}
	for _, o := range outcomes {
		if o.equal() && !o.again && !slow(o.Session) {
			archives[o.File] = append(archives[o.File], session.Transcript{Name: o.Name, Text: o.real})
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const comment = "What the real Slurm answered, written by go run ./tests/differential -record.\n"
	for _, file := range slices.Sorted(maps.Keys(archives)) {
		list := archives[file]
		slices.SortFunc(list, func(a, b session.Transcript) int { return strings.Compare(a.Name, b.Name) })
		if err := os.WriteFile(filepath.Join(dir, file+".txtar"), []byte(session.Archive(comment, list)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// slow says whether a session lets jobs run, or must be alone: the recorded ones take
// no time to speak of.
func slow(s session.Session) bool {
	return s.Class == session.Alone || slices.ContainsFunc(s.Steps, func(step session.Step) bool {
		return step.Kind == session.Wait || step.Kind == session.ShowFile ||
			strings.HasPrefix(step.Text, "srun") || strings.HasPrefix(step.Text, "salloc")
	})
}
