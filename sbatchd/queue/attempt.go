package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// The methods below take what nodes report about attempts. Each may be
// repeated: a report about an attempt that is not the present one, or that is
// known already, changes nothing and is no error, so that it can be
// acknowledged.

// report runs do on the present attempt of a job, if a is it.
func (q *Queue) report(ctx context.Context, a job.Attempt, do func(*work, *job.Job) error) error {
	return q.internal(ctx, "launch", func(w *work) error {
		j, ok := w.Job(a.Job)
		if !ok || j.Run == nil || j.Run.Attempt != a || !j.Active() {
			return nil
		}
		return do(w, j)
	})
}

// Ordered commits that an attempt's launch order is about to be sent. It says
// no when the attempt must not start any more.
func (q *Queue) Ordered(ctx context.Context, a job.Attempt, hosts []job.Host) (ok bool, err error) {
	err = q.report(ctx, a, func(w *work, j *job.Job) error {
		if ok = !j.Flags.Has(job.Completing); !ok || !j.Run.Ordered.IsZero() {
			return nil
		}
		if ok = w.standing(j.Run, hosts); !ok {
			return nil
		}
		return w.emit(state.JobOrdered{Attempt: a, At: w.Now, Hosts: hosts})
	})
	return ok, err
}

// standing says whether a run's nodes are still the machines that its order was
// made for, and there to take it.
func (w *work) standing(r *job.Run, hosts []job.Host) bool {
	for i, a := range r.Nodes {
		n, ok := w.Node(a.Node)
		if !ok || !n.Up() || n.Flags.Has(node.Reclaimed) {
			return false
		}
		if len(hosts) > 0 && (len(hosts) != len(r.Nodes) || hosts[i].Node != n.Name || n.Pool != "" && hosts[i].Instance != n.Instance) {
			return false
		}
	}
	return true
}

// Progress is the agent's word for what it does before the script runs.
func (q *Queue) Progress(ctx context.Context, a job.Attempt, phase string) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if j.Run.Phase == phase {
			return nil
		}
		return w.emit(state.JobProgress{Attempt: a, Phase: phase})
	})
}

// Started says that the script runs.
func (q *Queue) Started(ctx context.Context, a job.Attempt, digest, driver string, restored uint32) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if !j.Run.Start.IsZero() {
			return nil
		}
		return w.emit(state.JobStarted{Attempt: a, At: w.Now, ImageDigest: digest, Driver: driver, Restored: restored})
	})
}

// StepStarted says that an srun in the job runs its tasks.
func (q *Queue) StepStarted(ctx context.Context, a job.Attempt, s job.Step) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if slices.ContainsFunc(j.Run.Steps, func(have job.Step) bool { return have.ID == s.ID }) {
			return nil
		}
		s.Start = w.Now
		if len(j.Run.Nodes) > 0 && s.CPUs == 0 {
			s.CPUs = j.Run.Nodes[0].CPUs // all there are, as Slurm without --exact
		}
		return w.emit(state.StepChanged{Attempt: a, Step: s})
	})
}

// StepEnded says how a step ended.
func (q *Queue) StepEnded(ctx context.Context, a job.Attempt, id uint32, code job.ExitCode) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		at := slices.IndexFunc(j.Run.Steps, func(s job.Step) bool { return s.ID == id })
		if at < 0 || !j.Run.Steps[at].End.IsZero() {
			return nil
		}
		s := j.Run.Steps[at]
		s.End, s.ExitCode = w.Now, code
		return w.emit(state.StepChanged{Attempt: a, Step: s})
	})
}

// Ended says that the script is over; output and files may still be on their way.
func (q *Queue) Ended(ctx context.Context, a job.Attempt, x job.Exit) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if !j.Run.Ended.IsZero() {
			return nil
		}
		e := state.JobEnded{Attempt: a, At: w.Now, ExitCode: x.Code, OOM: x.OOM, Usage: x.Usage}
		switch {
		case x.Reason == job.ExitReclaimed, !j.Run.Notice.IsZero() && j.Stop == nil:
			w.lost(j, &e, job.Preempted)
		case x.Reason == job.ExitTimeLimit:
			e.State, e.Reason, e.ExitCode = job.Timeout, job.ReasonTimeLimit, job.ExitCode{}
		case x.OOM:
			e.State, e.Reason, e.ExitCode = job.OutOfMemory, job.ReasonOutOfMemory, job.ExitCode{Signal: 125}
		case x.Code.OK():
			e.State = job.Completed
		case x.Code.Signal != 0:
			e.State = job.Failed
			e.Reason = job.Reason(fmt.Sprintf("RaisedSignal:%d(%s)", x.Code.Signal, signalText(x.Code.Signal)))
		default:
			e.State, e.Reason = job.Failed, job.ReasonNonZeroExit
		}
		return w.emit(e)
	})
}

// lost fills an end that was not the job's doing: it goes back to the queue if
// it may, with its run recorded in state final.
func (w *work) lost(j *job.Job, e *state.JobEnded, final job.State) {
	e.State, e.Reclaim = final, true
	e.Requeue = j.Spec.Requeue && (j.Stop == nil || j.Stop.Requeue)
	limit := defaultMaxRestarts
	if j.Spec.Burst != nil && j.Spec.Burst.MaxRestarts > 0 {
		limit = j.Spec.Burst.MaxRestarts
	}
	if e.Requeue && j.Reclaims+1 > limit {
		e.Hold, e.Reason = true, job.ReasonMaxRequeue
		e.Detail = fmt.Sprintf("reclaimed %d times, --max-restarts=%d", j.Reclaims+1, limit)
	}
	if !e.Requeue && final == job.NodeFail {
		e.Reason, e.ExitCode = job.ReasonNodeDown, job.ExitCode{Status: 1} // what workflow engines look for
	}
}

// defaultMaxRestarts is --max-restarts when not given: its highest value.
const defaultMaxRestarts = 128

// LaunchFailed says that the script never ran.
func (q *Queue) LaunchFailed(ctx context.Context, a job.Attempt, f job.LaunchFailure) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if !j.Run.Ended.IsZero() {
			return nil
		}
		e := state.JobEnded{
			Attempt: a, At: w.Now, State: job.Failed, Reason: job.ReasonLaunchFailure,
			Detail: f.Message, ExitCode: f.Code,
		}
		if !j.Run.Notice.IsZero() {
			w.lost(j, &e, job.Preempted)
			return w.emit(e)
		}
		switch f.Class {
		case job.FaultInfra, job.FaultImage:
			// Not the user's fault: again, elsewhere, until MaxBatchRequeue.
			e.State, e.Reason, e.Requeue, e.LaunchFailure = job.BootFail, job.ReasonNone, true, true
			if j.LaunchFailures+1 > w.Config.MaxBatchRequeue {
				e.Hold, e.Reason = true, job.ReasonMaxRequeue
				e.Detail = fmt.Sprintf("could not be launched %d times in a row, last: %s", j.LaunchFailures+1, f.Message)
			}
			if err := w.avoid(j.Run.Nodes[0].Node, "launch failed: "+f.Message); err != nil {
				return err
			}
		default:
			if f.Code.OK() {
				e.ExitCode = job.ExitCode{Status: 1}
			}
		}
		return w.emit(e)
	})
}

// Lost says that the attempt's processes are gone and how they ended is unknown. What
// they printed still comes, then Finished.
func (q *Queue) Lost(ctx context.Context, a job.Attempt, message string) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if !j.Run.Ended.IsZero() {
			return nil
		}
		e := state.JobEnded{Attempt: a, At: w.Now, Detail: message}
		w.lost(j, &e, w.lostAs(j, job.NodeFail))
		return w.emit(e)
	})
}

// Vanished says that nothing at all is left of the attempt on its node.
func (q *Queue) Vanished(ctx context.Context, a job.Attempt, message string) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		return w.loseAttempt(j, job.NodeFail, message)
	})
}

// lostAs is the state of a lost run: after a notice it was preempted.
func (w *work) lostAs(j *job.Job, final job.State) job.State {
	if !j.Run.Notice.IsZero() {
		return job.Preempted
	}
	return final
}

// loseAttempt ends and clears an attempt whose node or shim is gone. A script
// that had ended, but whose output or results had not all arrived, counts as
// lost too.
func (w *work) loseAttempt(j *job.Job, final job.State, message string) error {
	a := j.Attempt()
	if j.Run.Ended.IsZero() || j.Stop == nil && !j.Flags.Has(job.Requeued) && j.Spec.Requeue {
		e := state.JobEnded{Attempt: a, At: w.Now, Detail: message}
		w.lost(j, &e, w.lostAs(j, final))
		if err := w.emit(e); err != nil {
			return err
		}
	}
	return w.clear(a, w.again(j))
}

// again is when a requeued job may start: at once after a reclaim, later and
// later after launch failures in a row.
func (w *work) again(j *job.Job) time.Time {
	d := w.requeueDelay()
	if n := j.LaunchFailures; n > 0 {
		d = max(d, min(time.Duration(1<<min(n, 8))*time.Second, 5*time.Minute))
	}
	return w.Now.Add(d)
}

// Finished says that the agent has nothing left of the attempt, and everything it sent
// is acknowledged.
func (q *Queue) Finished(ctx context.Context, a job.Attempt) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if !j.Flags.Has(job.Completing) {
			return w.loseAttempt(j, job.NodeFail, "the node has nothing of it left and did not say how it ended")
		}
		return w.clear(a, w.again(j))
	})
}

// Checkpointed says that a checkpoint is complete in the store.
func (q *Queue) Checkpointed(ctx context.Context, a job.Attempt, c job.Checkpoint) error {
	return q.report(ctx, a, func(w *work, j *job.Job) error {
		if c.Number <= j.Run.Saved.Number {
			return nil
		}
		c.Restart, c.Time = a.Restart, w.Now
		return w.emit(state.CheckpointSaved{Attempt: a, Checkpoint: c})
	})
}

// Note adds a remark of ours to a job (a user's file could not be written, ...).
func (q *Queue) Note(ctx context.Context, id uint32, text string) error {
	return q.internal(ctx, "output", func(w *work) error {
		j, ok := w.Job(id)
		if !ok || j.SystemNote == text {
			return nil
		}
		return w.emit(state.JobUpdated{ID: id, Note: &text})
	})
}
