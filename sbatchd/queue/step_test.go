package queue_test

import (
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

func TestSteps(t *testing.T) {
	h := newHouse(t, newMemory())
	id := h.submit(submission())
	a := h.run(id)
	for range 2 { // a node repeats what it isn't sure was heard
		h.must(h.StepStarted(t.Context(), a, job.Step{ID: 0, Name: "hostname", Tasks: 2}))
	}
	h.must(h.StepStarted(t.Context(), a, job.Step{ID: 1, Name: "train", Tasks: 1}))
	for range 2 {
		h.must(h.StepEnded(t.Context(), a, 0, job.ExitCode{Status: 3}))
	}
	h.must(h.StepEnded(t.Context(), a, 7, job.ExitCode{}))
	j, ok := h.Snapshot().Job(id)
	if !ok {
		t.Fatal("the job is gone")
	}
	steps := j.Run.Steps
	if len(steps) != 2 || steps[0].State() != job.Failed || steps[1].State() != job.Running || steps[0].Tasks != 2 {
		t.Errorf("%+v", steps)
	}
}
