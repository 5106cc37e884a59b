package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// training is what the output file of train.sbatch says happened.
type training struct {
	runs      []epochs // one a start of the script, in order
	resumedAt int      // epoch the second run began after; 0 is none
	done      bool
}

// epochs are the first and last epoch that one run printed.
type epochs struct{ first, last int }

var (
	epochLine   = regexp.MustCompile(`^epoch (\d+) loss ([0-9.]+) accuracy ([0-9.]+)$`)
	resumedLine = regexp.MustCompile(`^resumed at epoch (\d+) \(restart (\d+)\)$`)
	savedLine   = regexp.MustCompile(`^saved epoch (\d+) on (USR1|TERM)$`)
	doneLine    = regexp.MustCompile(`^done: (\d+) epochs, `)
	// What Slurm writes into the output of a job that it takes off its node.
	takenLine = regexp.MustCompile(`^\[\S+\] error: \*\*\* JOB \d+ ON \S+ CANCELLED AT \S+ DUE TO PREEMPTION \*\*\*$`)
)

// readOutput reads the output file and checks that no line of a run is missing,
// doubled or torn: each run's epochs follow one another, and what an epoch cost
// in a second run is what it cost in the first.
func readOutput(text string) (training, error) {
	var t training
	if !strings.HasSuffix(text, "\n") {
		return t, errors.New("the last line is torn")
	}
	losses := map[int]string{}
	t.runs = append(t.runs, epochs{})
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		run := &t.runs[len(t.runs)-1]
		if f := epochLine.FindStringSubmatch(line); f != nil {
			epoch, _ := strconv.Atoi(f[1]) //nolint:errcheck // digits
			want := run.last + 1
			if run.first == 0 {
				run.first = epoch
				if want = 1; len(t.runs) > 1 {
					want = t.resumedAt + 1
				}
			}
			if epoch != want {
				return t, fmt.Errorf("line %d: epoch %d where epoch %d belongs: a line is lost or doubled", n+1, epoch, want)
			}
			if before, ok := losses[epoch]; ok && before != f[2] {
				return t, fmt.Errorf("line %d: epoch %d has loss %s now and had %s: it did not resume from what was saved", n+1, epoch, f[2], before)
			}
			losses[epoch] = f[2]
			run.last = epoch
		} else if f := resumedLine.FindStringSubmatch(line); f != nil {
			t.resumedAt, _ = strconv.Atoi(f[1]) //nolint:errcheck // digits
			if t.resumedAt > run.last {
				return t, fmt.Errorf("line %d: resumed at epoch %d, but epoch %d is the last one printed: lines are lost", n+1, t.resumedAt, run.last)
			}
			t.runs = append(t.runs, epochs{})
		} else if doneLine.MatchString(line) {
			if t.done {
				return t, fmt.Errorf("line %d: done twice", n+1)
			}
			t.done = true
		} else if !savedLine.MatchString(line) && !takenLine.MatchString(line) {
			return t, fmt.Errorf("line %d: unexpected: %q", n+1, line)
		}
	}
	if !t.done {
		return t, errors.New("the training did not come to its end")
	}
	return t, nil
}
