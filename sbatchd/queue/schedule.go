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
	d := scheduler.Plan(s, q.now())
	if len(d.Starts)+len(d.Reasons) == 0 {
		return nil
	}
	err := q.internal(ctx, "scheduler", func(w *work) error {
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

// start does one decision, or leaves it when the state has moved on: the next
// pass sees the job again.
func (w *work) start(d scheduler.Start) {
	before := w.point()
	err := func() error {
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
		if d.Task != job.NoTask {
			own, err := w.split(d.Job, d.Task)
			if err != nil {
				return err
			}
			d.Job = own.ID.Raw
		}
		return w.emit(state.JobAllocated{ID: d.Job, Partition: d.Partition, Nodes: d.Nodes, At: w.Now})
	}()
	if err != nil {
		w.back(before)
		w.q.log.Debug("decision dropped", "job", d.Job, "err", err)
	}
}
