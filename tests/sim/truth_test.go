package sim_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// truth is what really happens on the machines, whatever the controller
// believes.
type truth struct {
	mu      sync.Mutex
	running map[uint32]running // by job: the script that runs now
	used    map[job.Attempt]time.Duration
	faults  []string
}

type running struct {
	attempt job.Attempt
	machine string
}

func newTruth() *truth {
	return &truth{running: map[uint32]running{}, used: map[job.Attempt]time.Duration{}}
}

// begin says that an attempt's script runs on a machine from now on, because it
// started or was thawed.
func (t *truth) begin(a job.Attempt, machine string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, is := t.running[a.Job]; is && (r.machine != machine || r.attempt != a) {
		t.faults = append(t.faults, fmt.Sprintf("job %d runs twice: %s on %s and %s on %s", a.Job, r.attempt, r.machine, a, machine))
	}
	t.running[a.Job] = running{a, machine}
}

// end says that it does not run any more: it ended, was frozen, or its machine
// is gone.
func (t *truth) end(a job.Attempt, machine string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[a.Job] == (running{a, machine}) {
		delete(t.running, a.Job)
	}
}

// spent records what an attempt's script used in all, once it has exited.
func (t *truth) spent(a job.Attempt, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, had := t.used[a]; had && old != d {
		t.faults = append(t.faults, fmt.Sprintf("attempt %s exited twice", a))
	}
	t.used[a] = d
}

func (t *truth) wrong(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// found takes the faults found so far.
func (t *truth) found() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults
}
