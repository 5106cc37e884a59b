package queue

import (
	"context"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// Schedule plans on its own goroutine: over the newest snapshot whenever
// something changed, and once a second for what time alone makes possible. The
// owner checks every decision again.
func (q *Queue) Schedule(ctx context.Context) error {
	changed, stop := q.Watch()
	defer stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	planned := uint64(0)
	for {
		s := q.Snapshot()
		if s.Version != planned {
			planned = s.Version
			if err := q.pass(ctx, s); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
			planned = 0
		}
	}
}

func (q *Queue) pass(ctx context.Context, s *state.State) error {
	start := time.Now()
	d := scheduler.Plan(s, q.now())
	q.stats.pass(s.PendingCount(), time.Since(start))
	if len(d.Starts)+len(d.Reasons)+len(d.Depends)+len(d.Dead) == 0 {
		return nil
	}
	err := q.internal(ctx, "scheduler", func(w *work) error {
		for _, dep := range d.Depends {
			// Not if the owner changed it since.
			was, _ := s.Job(dep.Job)
			if j, ok := w.Job(dep.Job); !ok || was.Depends != j.Depends {
				continue
			}
			if err := w.emit(state.JobDepends{ID: dep.Job, Left: dep.Left, At: w.Now}); err != nil {
				return err
			}
		}
		for _, r := range d.Reasons {
			j, ok := w.Job(r.Job)
			if !ok || j.State != job.Pending || j.Reason.Held() != r.Reason.Held() {
				continue
			}
			e := state.JobReasoned{ID: r.Job, Reason: r.Reason, Detail: r.Detail}
			if !j.Begin.After(w.Now) && r.Reason != job.ReasonDependency && r.Reason != job.ReasonNeverSatisfied {
				e.Eligible = w.Now
			}
			if err := w.emit(e); err != nil {
				return err
			}
		}
		for _, dead := range d.Dead {
			if err := w.bury(dead); err != nil {
				return err
			}
		}
		for _, start := range d.Starts {
			w.start(start)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the house is being stopped
	}
	return err
}

// bury cancels a job, or tasks of an array, that waits for what can't come about.
func (w *work) bury(d scheduler.Dead) error {
	j, ok := w.Job(d.Job)
	switch {
	case !ok || j.State != job.Pending || j.Depends == nil:
		return nil
	case d.Tasks.Len() < j.Tasks.Len():
		return w.emit(state.TasksCancelled{Array: d.Job, Tasks: d.Tasks, At: w.Now, By: j.UID})
	}
	return w.emit(state.JobEndedPending{ID: d.Job, At: w.Now, State: job.Cancelled, Reason: job.ReasonNeverSatisfied})
}

// start does one decision, or leaves it when the state has moved on: the next
// pass sees the job again.
func (w *work) start(d scheduler.Start) {
	before := w.point()
	err := func() error {
		if err := w.wake(d); err != nil {
			return err
		}
		if d.Task != job.NoTask {
			own, err := w.split(d.Job, d.Task)
			if err != nil {
				return err
			}
			d.Job = own.ID.Raw
		}
		e := state.JobAllocated{ID: d.Job, Partition: d.Partition, Nodes: d.Nodes, At: w.Now}
		for _, part := range d.Parts {
			e.Parts = append(e.Parts, state.JobAllocated{ID: part.Job, Partition: part.Partition, Nodes: part.Nodes, At: w.Now})
		}
		return w.emit(e)
	}()
	if err != nil {
		w.back(before)
		w.q.log.Debug("decision dropped", "job", d.Job, "err", err)
	}
}

// wake resumes the nodes of a decision that are powered down.
func (w *work) wake(d scheduler.Start) error {
	for _, a := range d.Nodes {
		n, ok := w.Node(a.Node)
		if !ok {
			return state.ErrUnknown
		}
		if n.Flags.Has(node.PoweredDown) {
			if err := w.resume(n); err != nil {
				return err
			}
		}
	}
	for _, part := range d.Parts {
		if err := w.wake(part); err != nil {
			return err
		}
	}
	return nil
}
