package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"
)

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail, in place of Package
	Test       string
	Output     string
	Elapsed    float64 // seconds

	FailedBuild string // of a package's fail: the build that failed, reported by itself
}

// skip is one test that did not run, and why.
type skip struct{ test, reason string }

// report counts the tests of one group while they run.
type report struct {
	name           string
	out            io.Writer
	verbose        bool
	took           time.Duration
	passed, failed int
	skipped        []skip
	broken         []string            // packages that did not build, died or timed out; calls that failed
	printed        map[string][]string // output of tests still running, by package and test
	tests          map[string]int      // tests seen in a package so far
	failedIn       map[string]bool     // packages with a failed test
}

func newReport(name string, out io.Writer, verbose bool) *report {
	return &report{
		name: name, out: out, verbose: verbose,
		printed: map[string][]string{}, tests: map[string]int{}, failedIn: map[string]bool{},
	}
}

// ok says whether nothing failed so far.
func (r *report) ok() bool { return r.failed == 0 && len(r.broken) == 0 }

// failure records what is not a test's own failure.
func (r *report) failure(what string) {
	r.broken = append(r.broken, what)
	fmt.Fprintln(r.out, what)
}

// read takes go test's events until the stream ends. Lines that are not events
// are printed as they are.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				fmt.Fprint(r.out, string(line))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read go test's output: %w", err)
		}
	}
}

// add takes one event.
func (r *report) add(e event) {
	if e.Test == "" {
		r.addPackage(e)
		return
	}
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		r.printed[key] = append(r.printed[key], e.Output)
		return
	case "pass":
		r.passed++
	case "skip":
		r.skipped = append(r.skipped, skip{test: shortPackage(e.Package) + " " + e.Test, reason: reason(r.printed[key])})
	case "fail":
		r.failed++
		r.failedIn[e.Package] = true
		fmt.Fprintf(r.out, "--- FAIL %s %s (%.1fs)\n%s", e.Package, e.Test, e.Elapsed, strings.Join(r.printed[key], ""))
	default:
		return
	}
	r.tests[e.Package]++
	if r.verbose && e.Action != "fail" {
		fmt.Fprint(r.out, strings.Join(r.printed[key], ""))
	} else if e.Elapsed >= 1 && e.Action == "pass" && !strings.Contains(e.Test, "/") {
		fmt.Fprintf(r.out, "    %s %s %.1fs\n", shortPackage(e.Package), e.Test, e.Elapsed)
	}
	delete(r.printed, key)
}

// addPackage takes an event of a whole package.
func (r *report) addPackage(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failure(fmt.Sprintf("--- FAIL %s does not build", e.ImportPath))
	case "output":
		r.printed[e.Package] = append(r.printed[e.Package], e.Output)
	case "fail":
		if !r.failedIn[e.Package] && e.FailedBuild == "" { // no test of it failed: it died, or ran out of time, or did not build
			r.failure(fmt.Sprintf("--- FAIL %s\n%s%s", e.Package, strings.Join(r.printed[e.Package], ""), r.unfinished(e.Package)))
		}
		delete(r.printed, e.Package)
	case "pass":
		if n := r.tests[e.Package]; n > 0 {
			fmt.Fprintf(r.out, "ok  %-44s %4d tests %6.1fs\n", shortPackage(e.Package), n, e.Elapsed)
		}
		delete(r.printed, e.Package)
	}
}

// unfinished returns what tests of a package printed that never came to an end.
func (r *report) unfinished(pkg string) string {
	var b strings.Builder
	for key, lines := range r.printed {
		if p, test, ok := strings.Cut(key, "\x00"); ok && p == pkg {
			fmt.Fprintf(&b, "    was running: %s\n%s", test, strings.Join(lines, ""))
		}
	}
	return b.String()
}

// reason finds the text given to t.Skip in what a test printed: the last line
// of the form "    file.go:12: text".
func reason(printed []string) string {
	for _, text := range slices.Backward(printed) {
		line := strings.TrimSpace(text)
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, position, ok := strings.Cut(line, ".go:"); ok {
			if _, given, ok := strings.Cut(position, ": "); ok {
				return given
			}
		}
		if line != "" {
			return line
		}
	}
	return "no reason given"
}

// shortPackage leaves the module's own path out.
func shortPackage(path string) string {
	return strings.TrimPrefix(path, "github.com/sbatchd/sbatchd/")
}

// summary prints the counts of all groups and says whether everything passed.
// Its last line has the form that CI systems read.
func summary(out io.Writer, reports []*report) bool {
	fmt.Fprintln(out, "== summary")
	var passed, failed int
	var skipped []skip
	for _, r := range reports {
		bad := r.failed + len(r.broken)
		fmt.Fprintf(out, "%s: ran %d tests, %d failed, %d skipped, in %s\n",
			r.name, r.passed+r.failed, bad, len(r.skipped), r.took.Round(time.Second))
		passed, failed = passed+r.passed, failed+bad
		skipped = append(skipped, r.skipped...)
	}
	sort.SliceStable(skipped, func(i, j int) bool { return skipped[i].reason < skipped[j].reason })
	for _, s := range skipped {
		fmt.Fprintf(out, "skipped: %s: %s\n", s.test, s.reason)
	}
	fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	return failed == 0
}
