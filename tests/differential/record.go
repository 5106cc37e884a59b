package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

// What is recorded is bounded, so that it is read and run in a minute: so many rows of
// one table, in the order of their names, and no transcript that is longer.
const (
	recordRows  = 12
	recordBytes = 6 << 10
)

// record writes what the real Slurm answered, one archive a command: of sessions that
// both answer alike, without those that let jobs run.
func record(dir string, outcomes []*outcome) error {
	archives, rows := map[string][]session.Transcript{}, map[string]int{}
	for _, o := range slices.SortedFunc(slices.Values(outcomes), byName) {
		if !o.equal() || o.again || slow(o.Session) || len(o.real) > recordBytes || rows[o.Table] == recordRows {
			continue
		}
		if o.Table != "" {
			rows[o.Table]++
		}
		archives[o.File] = append(archives[o.File], session.Transcript{Name: o.Name, Text: o.real})
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const comment = "What the real Slurm answered, written by go run ./tests/differential -record.\n"
	for _, file := range slices.Sorted(maps.Keys(archives)) {
		if err := os.WriteFile(filepath.Join(dir, file+".txtar"), []byte(session.Archive(comment, archives[file])), 0o644); err != nil {
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
