package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

// expected are the sessions that are meant to differ.
type expected []struct{ glob, why string }

// loadExpected reads lines "GLOB: reason"; # begins a comment.
func loadExpected(file string) (expected, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var e expected
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		glob, why, ok := strings.Cut(line, ": ")
		if _, err := filepath.Match(glob, ""); err != nil || !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s: want GLOB: reason, got %q", file, line)
		}
		e = append(e, struct{ glob, why string }{glob, strings.TrimSpace(why)})
	}
	return e, nil
}

// reason is why a session differs, or empty.
func (e expected) reason(name string) string {
	for _, x := range e {
		if match(x.glob, name) {
			return x.why
		}
	}
	return ""
}

// report sorts the outcomes.
type report struct {
	all       []*outcome
	equal     []*outcome
	explained []*outcome
	differ    []*outcome
	why       expected
}

func newReport(outcomes []*outcome, why expected) *report {
	r := &report{all: slices.SortedFunc(slices.Values(outcomes), byName), why: why}
	for _, o := range r.all {
		switch {
		case o.equal():
			r.equal = append(r.equal, o)
		case why.reason(o.Name) != "":
			r.explained = append(r.explained, o)
		default:
			r.differ = append(r.differ, o)
		}
	}
	return r
}

func byName(a, b *outcome) int { return strings.Compare(a.Name, b.Name) }

// score is the last line.
func (r *report) score() string {
	return fmt.Sprintf("score: %.1f%% (%d of %d equal, %d explained)",
		100*float64(len(r.equal))/float64(max(len(r.all), 1)), len(r.equal), len(r.all), len(r.explained))
}

// shortDiff is how many lines of a difference are printed; the file has all.
const shortDiff = 12

// print tells of the differences in short, and the score.
func (r *report) print(out io.Writer, took time.Duration) {
	for _, o := range r.differ {
		lines := strings.SplitAfter(session.Diff(o.real, o.ours), "\n")
		fmt.Fprintf(out, "--- %s\n%s", o.Name, strings.Join(lines[:min(len(lines), shortDiff)], ""))
		if len(lines) > shortDiff+1 {
			fmt.Fprintf(out, "  ... %d more lines\n", len(lines)-shortDiff-1)
		}
	}
	for _, o := range r.explained {
		fmt.Fprintf(out, "explained: %s: %s\n", o.Name, r.why.reason(o.Name))
	}
	for _, o := range r.equal {
		if r.why.reason(o.Name) != "" {
			fmt.Fprintf(out, "no longer different: %s: take it out of expected.txt if its whole line is\n", o.Name)
		}
		if o.again {
			fmt.Fprintf(out, "equal only when run again: %s\n", o.Name)
		}
	}
	r.table(out)
	fmt.Fprintf(out, "in %s; all differences: .cache/differential/differences.txt\n", took.Round(time.Second))
	if 20*len(r.explained) > len(r.all) {
		fmt.Fprintf(out, "too many are explained: at most 5%%, %d, may be\n", len(r.all)/20)
	}
	fmt.Fprintln(out, r.score())
}

// table is one line a command.
func (r *report) table(out io.Writer) {
	equal, all := map[string]int{}, map[string]int{}
	for _, o := range r.all {
		all[o.File]++
	}
	for _, o := range r.equal {
		equal[o.File]++
	}
	for _, file := range slices.SortedFunc(maps.Keys(all), strings.Compare) {
		fmt.Fprintf(out, "%-12s %3d of %3d equal\n", file, equal[file], all[file])
	}
}

// write puts all differences, and all transcripts, into a folder.
func (r *report) write(dir string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n\"-\" is the real Slurm, \"+\" is sbatchd.\n\n", r.score())
	r.table(&b)
	for _, o := range slices.Concat(r.differ, r.explained) {
		fmt.Fprintf(&b, "\n--- %s\n", o.Name)
		if why := r.why.reason(o.Name); why != "" {
			fmt.Fprintf(&b, "explained: %s\n", why)
		}
		b.WriteString(session.Diff(o.real, o.ours))
	}
	var real, ours strings.Builder
	for _, o := range r.all {
		fmt.Fprintf(&real, "=== %s\n%s\n", o.Name, o.real)
		fmt.Fprintf(&ours, "=== %s\n%s\n", o.Name, o.ours)
	}
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "differences.txt"), []byte(b.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "real.txt"), []byte(real.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "ours.txt"), []byte(ours.String()), 0o644))
}

// census prints the names and how many there are of each file.
func census(out io.Writer, all []session.Session) {
	count := map[string]int{}
	for _, s := range all {
		fmt.Fprintln(out, s.Name)
		count[s.File]++
	}
	for _, file := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, "%-12s %3d\n", file, count[file])
	}
	fmt.Fprintf(out, "%d sessions\n", len(all))
}
