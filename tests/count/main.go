// Command count runs groups of Go tests and says at the end how many ran, how
// many failed and which were skipped and why: a check that never runs is none.
//
//	count [-v] NAME: GO-TEST-ARGS ... [-- NAME: GO-TEST-ARGS ...]
//
// for instance
//
//	count unit: -race ./... -- e2e: -tags e2e ./tests/e2e
//
// Groups run one after the other, all of them even when one fails. What a
// failed test printed is shown in full, what a passed one printed only with -v.
// The exit status is 0 when everything passed, 1 otherwise, 2 on a wrong call.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is main with its world passed in; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbose := false
	if len(args) > 0 && args[0] == "-v" {
		verbose, args = true, args[1:]
	}
	groups, err := parseGroups(args)
	if err != nil {
		fmt.Fprintln(stderr, "count:", err)
		return 2
	}
	reports := make([]*report, 0, len(groups))
	for _, g := range groups {
		r := newReport(g.name, stdout, verbose)
		if err := g.test(ctx, r, stderr); err != nil {
			r.failure(fmt.Sprintf("go test: %v", err))
		}
		reports = append(reports, r)
	}
	if !summary(stdout, reports) {
		return 1
	}
	return 0
}

// group is one go test call.
type group struct {
	name string
	args []string
}

// parseGroups cuts the command line at "--" and takes each part's name off.
func parseGroups(args []string) ([]group, error) {
	var groups []group
	for part := range strings.SplitSeq(strings.Join(args, "\x00"), "\x00--\x00") {
		words := strings.Split(part, "\x00")
		name, ok := strings.CutSuffix(words[0], ":")
		if !ok || name == "" || len(words) < 2 {
			return nil, fmt.Errorf("want NAME: GO-TEST-ARGS, got %q", words)
		}
		groups = append(groups, group{name: name, args: words[1:]})
	}
	return groups, nil
}

// argv is the command line of go. -C, which another module needs, comes first.
func (g group) argv() []string {
	argv, rest := []string{"test"}, g.args
	if len(rest) > 1 && rest[0] == "-C" {
		argv, rest = append(argv, rest[:2]...), rest[2:]
	}
	return append(append(argv, "-json"), rest...)
}

// test runs go test and feeds r. The error says that go test itself could not
// be run; failed tests are in r.
func (g group) test(ctx context.Context, r *report, stderr io.Writer) error {
	fmt.Fprintf(r.out, "== %s: go test %s\n", g.name, strings.Join(g.args, " "))
	cmd := exec.CommandContext(ctx, "go", g.argv()...)
	cmd.Stderr = stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(pipe)
	err = cmd.Wait()
	r.took = time.Since(started)
	if readErr != nil {
		return readErr
	}
	if err != nil && r.ok() {
		return err // it failed and no test did: a wrong flag, a package that is not there
	}
	return nil
}
