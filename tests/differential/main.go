// Command differential runs one list of sessions on the real Slurm and on sbatchd
// and prints how alike they are. `make differential` runs it; it needs root.
//
//	differential                        all sessions
//	differential -run GLOB              those whose name matches, with what was typed and answered
//	differential -list                  names only, and how many there are of each command
//	differential -record                also write what the real Slurm answered to tests/golden
//	differential -once                  run nothing a second time, which takes less long while much differs
//	differential -j N                   so many at once (4)
//
// Sessions are in tests/differential/sessions; package session explains how they
// are written and what makes two runs comparable. expected.txt names those that are
// meant to differ, with the reason. All differences are written to
// .cache/differential/differences.txt. A session that differs is run once more
// at the end: a slow moment is no difference.
//
// The last line is
//
//	score: P% (N of M equal, K explained)
//
// where explained ones are not among the N, and P is 100 N/M. The exit status is 0
// when all others are equal, 1 when some differ without a reason, 2 when it could
// not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/tests/differential/session"
	"github.com/sbatchd/sbatchd/tests/differential/site"
	"github.com/sbatchd/sbatchd/tests/rig"
)

// options are the command line.
type options struct {
	run    string
	list   bool
	record bool
	once   bool
	at     int
}

func main() {
	var o options
	flag.StringVar(&o.run, "run", "", "only sessions whose name matches this `glob`")
	flag.BoolVar(&o.list, "list", false, "print the names of the sessions")
	flag.BoolVar(&o.record, "record", false, "write what the real Slurm answered to tests/golden")
	flag.BoolVar(&o.once, "once", false, "run nothing a second time")
	flag.IntVar(&o.at, "j", 4, "so many `sessions` at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := differential(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
	}
	os.Exit(status)
}

// differential is main with its world passed in; it returns the exit status.
func differential(ctx context.Context, o options, out io.Writer) (int, error) {
	const failed = 2
	all, err := session.Load(rig.Source("tests", "differential", "sessions"))
	if err != nil {
		return failed, err
	}
	if o.run != "" {
		all = matching(all, o.run)
	}
	if o.list {
		census(out, all)
		return 0, nil
	}
	why, err := loadExpected(rig.Source("tests", "differential", "expected.txt"))
	if err != nil {
		return failed, err
	}
	if os.Geteuid() != 0 {
		return failed, fmt.Errorf("it needs root: namespaces and users")
	}
	began := time.Now()
	if !site.Inside() {
		if err := site.InstallReal(ctx); err != nil {
			return failed, err
		}
	}
	bin := os.Getenv("SBATCHD_BIN")
	if bin == "" {
		bin = rig.Source("bin")
	}
	if err := site.Enter(bin); err != nil {
		return failed, err
	}
	outcomes, err := onBoth(ctx, all, o)
	// Of a run that was stopped, what there is helps too; it has no score.
	ran := slices.DeleteFunc(slices.Clone(outcomes), func(o *outcome) bool { return !o.ran })
	r := newReport(ran, why)
	if err := errors.Join(err, r.write(rig.Source(".cache", "differential"))); err != nil {
		return failed, err
	}
	if o.record {
		if err := record(rig.Source("tests", "golden", "testdata"), outcomes); err != nil {
			return failed, err
		}
	}
	if o.run != "" {
		for _, oc := range outcomes {
			fmt.Fprintf(out, "=== %s\n%s", oc.Name, oc.real)
		}
	}
	r.print(out, time.Since(began))
	if len(r.differ) > 0 {
		return 1, nil
	}
	return 0, nil
}

// matching are those whose names match.
func matching(all []session.Session, glob string) []session.Session {
	return slices.DeleteFunc(all, func(s session.Session) bool { return !match(glob, s.Name) })
}

// match is filepath.Match for which "/" is a letter like others.
func match(glob, name string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, err := filepath.Match(flat.Replace(glob), flat.Replace(name))
	return err == nil && ok
}
