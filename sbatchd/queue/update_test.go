package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		name    string
		running bool
		change  queue.Change
		want    error
		check   func(*job.Job) bool
	}{
		{"partition", false, queue.Change{Partition: new("ws")}, nil, func(j *job.Job) bool { return j.Spec.Partitions == "ws" && j.Partition == "ws" }},
		{"unknown partition", false, queue.Change{Partition: new("nope")}, errno.InvalidPartition, func(j *job.Job) bool { return j.Partition == "main" }},
		{"infeasible", false, queue.Change{Memory: new(int64(99999))}, errno.RequestedNodeConfigUnavailable, func(j *job.Job) bool { return j.Spec.MemPerNode == 0 }},
		{"unknown dependency", false, queue.Change{Dependency: new("afterok:999")}, errno.Dependency, func(j *job.Job) bool { return j.Spec.Dependency == "" }},
		{"own negative nice", false, queue.Change{Nice: new(int32(-5))}, errno.InvalidNice, func(j *job.Job) bool { return j.Spec.Nice == 0 }},
		{"comment", true, queue.Change{Comment: new("hi")}, nil, func(j *job.Job) bool { return j.Comment == "hi" }},
		{"shorter limit while running", true, queue.Change{TimeLimit: new(uint32(5))}, nil, func(j *job.Job) bool {
			return j.End.Equal(j.Start.Add(5*time.Minute)) && j.Run.LimitChanges == 1
		}},
		{"longer limit while running", true, queue.Change{TimeLimit: new(uint32(30))}, errno.AccessDenied, func(j *job.Job) bool { return j.Spec.TimeLimit == 10 }},
		{"own deadline", false, queue.Change{Deadline: new(time.Unix(1, 0))}, errno.AccessDenied, func(j *job.Job) bool { return j.Spec.Deadline.IsZero() }},
		{"own admin comment", false, queue.Change{AdminComment: new("x")}, errno.AccessDenied, func(j *job.Job) bool { return j.Spec.Stored["admin_comment"] == "" }},
		{"output", false, queue.Change{Output: new("x.out")}, nil, func(j *job.Job) bool { return strings.HasSuffix(j.Spec.Output, "x.out") }},
		{"output while running", true, queue.Change{Output: new("/x")}, errno.JobNotPending, func(j *job.Job) bool { return j.Spec.Output != "/x" }},
		{"partition while running", true, queue.Change{Partition: new("ws")}, errno.JobNotPending, func(j *job.Job) bool { return j.Partition == "main" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, longConf, func(h *house) {
				id := h.submit(in(func(s *queue.Submission) { s.Hold = !c.running }))
				if c.running {
					h.run(id)
				}
				if err := h.Update(h.t.Context(), alice, job.RefTo(id), c.change); !errors.Is(err, c.want) {
					h.t.Errorf("got %v, want %v", err, c.want)
				}
				if j := h.job(id); !c.check(j) {
					h.t.Errorf("job %+v spec %+v run %+v", j, j.Spec, j.Run)
				}
			})
		})
	}
}

// TestUpdateAfterADependencyIsForgotten: the check of a dependency is for its
// change alone.
func TestUpdateAfterADependencyIsForgotten(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		first := h.submit(submission())
		a := h.run(first)
		second := h.submit(in(func(s *queue.Submission) { s.Spec.Dependency, s.Hold = "afterok:1", true }))
		h.must(h.Ended(h.t.Context(), a, job.Exit{}))
		h.must(h.Finished(h.t.Context(), a))
		h.pass(10*time.Minute, "spot-1")
		h.must(h.Update(h.t.Context(), alice, job.RefTo(second), queue.Change{Comment: new("x")}))
	})
}

func TestAdminsPriorityEndsAHold(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Hold = true }))
		h.must(h.Update(h.t.Context(), root, job.RefTo(id), queue.Change{Priority: new(uint32(9))}))
		h.until(id, "allocated", allocated)
	})
}

func TestOwnPriorityOfAHeldJob(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Hold = true }))
		if err := h.Update(h.t.Context(), alice, job.RefTo(id), queue.Change{Priority: new(uint32(9))}); !errors.Is(err, errno.JobHeld) {
			h.t.Errorf("%v", err)
		}
	})
}

func TestRequeueFinished(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		if err := h.Requeue(h.t.Context(), bob, job.RefTo(id), false); !errors.Is(err, errno.AccessDenied) {
			h.t.Errorf("bob: %v", err)
		}
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Status: 2}}))
		if err := h.Requeue(h.t.Context(), alice, job.RefTo(id), false); !errors.Is(err, errno.TransitionStateNoUpdate) {
			h.t.Errorf("while completing: %v", err)
		}
		h.must(h.Finished(h.t.Context(), a))
		h.must(h.Requeue(h.t.Context(), alice, job.RefTo(id), true))
		h.want(id, "PENDING", job.ReasonHeldUser)
		h.must(h.Release(h.t.Context(), alice, job.RefTo(id)))
		again := h.run(id)
		if again.Restart != 1 || h.job(id).ExitCode != (job.ExitCode{}) {
			h.t.Errorf("attempt %s, job %+v", again, h.job(id))
		}
		if r := h.m.runOf(a); r.State != job.Failed || r.ExitCode.Status != 2 {
			h.t.Errorf("first run is now %+v", r)
		}
	})
}

// TestRequeueOfAJobCancelledWhileHeld: it waits for a release, and says so.
func TestRequeueOfAJobCancelledWhileHeld(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Hold = true }))
		h.must(h.Cancel(h.t.Context(), alice, job.RefTo(id), 0, false))
		h.must(h.Requeue(h.t.Context(), alice, job.RefTo(id), false))
		h.pass(2 * time.Second)
		h.want(id, "PENDING", job.ReasonHeldUser)
		if j := h.job(id); j.Restarts != 0 {
			h.t.Errorf("%d restarts of a job that never ran", j.Restarts)
		}
	})
}

func TestCancelOfARequeuedRun(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		h.must(h.Requeue(h.t.Context(), alice, job.RefTo(id), false))
		h.want(id, "COMPLETING", job.ReasonNone)
		h.must(h.Cancel(h.t.Context(), alice, job.RefTo(id), 0, false))
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Signal: 15}, Reason: job.ExitKilled}))
		h.must(h.Finished(h.t.Context(), a))
		if j := h.job(id); j.State != job.Cancelled || j.Active() {
			h.t.Errorf("%s", j.ShownState())
		}
	})
}
