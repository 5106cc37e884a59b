package queue

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Cancel ends what a ref means or, with a signal other than 0 and KILL, sends it
// that signal. A job that is over answers errno.AlreadyDone, an array only when all
// of it is.
func (q *Queue) Cancel(ctx context.Context, who auth.Identity, ref job.Ref, signal uint8, batchOnly bool) error {
	return q.Signal(ctx, who, ref, job.Sent{Signal: signal, BatchOnly: batchOnly})
}

// Signal is Cancel with a choice of who gets the signal.
func (q *Queue) Signal(ctx context.Context, who auth.Identity, ref job.Ref, sent job.Sent) error {
	done := false
	err := q.onMembers(ctx, who, ref, "cancel", func(w *work, m member) (err error) {
		switch {
		case m.Follows() && ref.ID != m.Het.Leader, ref.Part != job.AllParts:
			err = errno.NotWholeHetJob
		case m.Follows():
			err = nil // its leader takes it along
		case sent.Signal != 0 && sent.Signal != sigKill:
			err = w.signal(m.Job, sent)
		case m.some.Len() > 0:
			err = w.emit(state.TasksCancelled{Array: m.ID.Raw, Tasks: m.some, At: w.Now, By: who.UID})
		default:
			err = w.cancel(m.Job, who.UID)
		}
		done = done || err == nil
		return err
	})
	if refused, ok := errors.AsType[TaskErrors](err); ok {
		refused = slices.DeleteFunc(refused, func(e TaskError) bool {
			return done && (errors.Is(e.Err, errno.AlreadyDone) || errors.Is(e.Err, errno.InvalidJobID) || errors.Is(e.Err, errno.TransitionStateNoUpdate))
		})
		if len(refused) == 0 {
			return nil
		}
		return refused
	}
	return err
}

const sigKill = 9

func (w *work) signal(j *job.Job, sent job.Sent) error {
	switch {
	case j.State.Final():
		return errno.InvalidJobID // so Slurm calls a job that is over, except to a cancel
	case j.State == job.Pending, j.Flags.Has(job.Completing):
		return errno.TransitionStateNoUpdate
	}
	return w.emit(state.JobSignalled{Attempt: j.Attempt(), Signal: sent.Signal, BatchOnly: sent.BatchOnly, Full: sent.Full})
}

func (w *work) cancel(j *job.Job, by uint32) error {
	switch {
	case j.Flags.Has(job.Completing) && !j.Flags.Has(job.Requeued):
		return nil // it is ending already
	case j.State.Final():
		return errno.AlreadyDone
	case j.State == job.Pending && !j.Flags.Has(job.Completing):
		return w.emit(state.JobEndedPending{ID: j.ID.Raw, At: w.Now, State: job.Cancelled, Reason: j.Reason, By: &by})
	}
	return w.stop(j, job.Stop{Why: job.StopCancel, Final: job.Cancelled, At: w.Now, By: by}, job.ReasonNone)
}

// stop asks for an attempt's end. An attempt that was never ordered is over at
// once.
func (w *work) stop(j *job.Job, s job.Stop, reason job.Reason) error {
	if err := w.emit(state.JobStopping{Attempt: j.Attempt(), Stop: s, Reason: reason}); err != nil {
		return err
	}
	if j.Run != nil && j.Run.Ordered.IsZero() {
		return w.clear(j.Attempt(), w.Now)
	}
	return nil
}

// clear frees an attempt's nodes; a requeued job may start again after delay.
func (w *work) clear(a job.Attempt, begin time.Time) error {
	return w.emit(state.JobCleared{Attempt: a, At: w.Now, Begin: begin})
}

// Hold keeps a pending job from starting, and a running one from starting again.
func (q *Queue) Hold(ctx context.Context, who auth.Identity, ref job.Ref) error {
	return q.onJobs(ctx, who, ref, "hold", func(w *work, j *job.Job) error {
		if j.State.Final() {
			return errno.JobFinished
		}
		reason := job.ReasonHeldUser
		if who.Role == auth.Admin && who.UID != j.UID {
			reason = job.ReasonHeldAdmin
		}
		return w.hold(j, reason)
	})
}

// hold never makes less of a hold that is there: a user must not turn an
// admin's into one of his own.
func (w *work) hold(j *job.Job, reason job.Reason) error {
	if j.Held() && j.Reason.Held() && reason == job.ReasonHeldUser {
		return nil
	}
	zero := uint32(0)
	return w.emit(state.JobUpdated{ID: j.ID.Raw, Priority: &zero, Reason: &reason})
}

// Release lets a held job start again; an admin's hold only by an admin.
func (q *Queue) Release(ctx context.Context, who auth.Identity, ref job.Ref) error {
	return q.onJobs(ctx, who, ref, "release", func(w *work, j *job.Job) error {
		if j.State.Final() {
			return errno.JobFinished
		}
		if j.Priority != 0 {
			return nil
		}
		if j.Reason == job.ReasonHeldAdmin && !allowed[actRaiseJob][who.Role] {
			return w.deny(who, "release")
		}
		prio, none := priorityOf(j.Spec), job.ReasonNone
		return w.emit(state.JobUpdated{ID: j.ID.Raw, Priority: &prio, Reason: &none, Eligible: w.Now, Fresh: true})
	})
}

// Requeue ends a job's run, or takes a finished one, and puts it back into the
// queue under the same id.
func (q *Queue) Requeue(ctx context.Context, who auth.Identity, ref job.Ref, hold bool) error {
	return q.onJobs(ctx, who, ref, "requeue", func(w *work, j *job.Job) error {
		switch {
		case j.Follows() && ref.ID == j.Het.Leader && ref.Part == job.AllParts:
			return nil // its leader takes it along
		case j.Follows():
			return errno.NotHetJobLeader
		case !j.Spec.Requeue:
			return errno.Disabled
		case j.Flags.Has(job.Completing):
			return errno.TransitionStateNoUpdate
		case j.State == job.Pending:
			return errno.JobPending
		case j.State.Final():
			return w.emit(state.JobRequeuedFinal{ID: j.ID.Raw, Begin: w.Now.Add(w.requeueDelay()), Hold: hold})
		}
		reason := job.ReasonNone
		if hold {
			reason = job.ReasonHeldUser
		}
		return w.stop(j, job.Stop{Why: job.StopRequeue, Final: job.Cancelled, Requeue: true, Hold: hold, At: w.Now, By: who.UID}, reason)
	})
}

// requeueDelay is SchedulerParameters' requeue_delay in seconds. Slurm's own
// default of two minutes waits for a dead node to fall silent; here the fence
// has already made sure of that, so ours is none.
func (w *work) requeueDelay() time.Duration {
	if v, ok := w.Config.SchedulerParameters["requeue_delay"]; ok {
		if d, err := time.ParseDuration(v + "s"); err == nil {
			return d
		}
	}
	return 0
}

// Change is an update of a job; nil fields stay.
type Change struct {
	TimeLimit  *uint32 // minutes
	Partition  *string
	Name       *string
	Comment    *string
	Nice       *int32
	Priority   *uint32
	Begin      *time.Time
	Dependency *string
	Requeue    *bool
	Account    *string
	Features   *string
	NodesMin   *int
	NodesMax   *int
	ReqNodes   *string
	ExcNodes   *string
	Memory     *int64 // per node, MiB
	ArrayLimit *uint32
	// AdminComment and Deadline are an administrator's to change.
	AdminComment *string
	Deadline     *time.Time
	// Output, Error and Input are file patterns, in the work directory if relative.
	Output *string
	Error  *string
	Input  *string
}

// Update changes what a job asks for.
func (q *Queue) Update(ctx context.Context, who auth.Identity, ref job.Ref, c Change) error {
	return q.onJobs(ctx, who, ref, "update", func(w *work, j *job.Job) error {
		if j.State.Final() {
			return errno.JobFinished
		}
		if c.ArrayLimit != nil && (j.Array == nil || ref.ID != j.ID.Array || ref.Tasks.Len() > 0) {
			return errno.NotSupported
		}
		up := state.JobUpdated{ID: j.ID.Raw, Comment: c.Comment}
		spec := *j.Spec
		if err := w.changeSpec(who, j, &spec, c, &up); err != nil {
			return err
		}
		if c.Priority != nil {
			switch {
			case *c.Priority == 0 || who.Role == auth.Admin:
			default:
				err := w.deny(who, "update priority")
				if j.Held() {
					return errno.JobHeld // what Slurm says first
				}
				return err
			}
			switch held := j.Held() && j.Reason.Held(); {
			case *c.Priority != 0:
				up.Priority = c.Priority
				if held {
					none := job.ReasonNone
					up.Reason = &none
				}
			case !held:
				r := job.ReasonHeldUser
				up.Priority, up.Reason = c.Priority, &r
			}
		}
		up.Spec = &spec
		if err := w.emit(up); err != nil || c.ArrayLimit == nil || w.TaskLimit(j) == *c.ArrayLimit {
			return err
		}
		return w.emit(state.ArrayLimited{Array: j.ID.Shown(), Limit: *c.ArrayLimit})
	})
}

func (w *work) changeSpec(who auth.Identity, j *job.Job, s *job.Spec, c Change, up *state.JobUpdated) error {
	if c.TimeLimit != nil {
		if *c.TimeLimit > s.TimeLimit && who.Role != auth.Admin {
			if j.State != job.Pending {
				return w.deny(who, "raise time limit")
			}
		}
		s.TimeLimit, s.TimeSet = *c.TimeLimit, true
	}
	if c.AdminComment != nil || c.Deadline != nil {
		if who.Role != auth.Admin {
			return w.deny(who, "update admin comment or deadline")
		}
		set(&s.Deadline, c.Deadline)
		if c.AdminComment != nil {
			stored := maps.Clone(s.Stored)
			if stored == nil {
				stored = map[string]string{}
			}
			stored["admin_comment"] = *c.AdminComment
			s.Stored = stored
		}
	}
	set(&s.Name, c.Name)
	set(&s.Dependency, c.Dependency)
	set(&s.Requeue, c.Requeue)
	if c.Nice != nil {
		if *c.Nice < 0 && who.Role != auth.Admin {
			return errno.InvalidNice
		}
		s.Nice = *c.Nice
		if !j.Held() {
			p := priorityOf(s)
			up.Priority = &p
		}
	}
	if c.Dependency != nil {
		d, err := scheduler.ReadDepends(w.State, s.Dependency, j.ID.Raw)
		if err != nil {
			return err
		}
		up.Depends = &d
	}
	pendingOnly := c.Partition != nil || c.Features != nil || c.NodesMin != nil || c.NodesMax != nil ||
		c.ReqNodes != nil || c.ExcNodes != nil || c.Memory != nil || c.Begin != nil ||
		c.Output != nil || c.Error != nil || c.Input != nil
	if !pendingOnly {
		return nil
	}
	switch {
	case j.State == job.Pending:
	case c.NodesMin != nil || c.NodesMax != nil:
		return errno.NotSupported // a job that runs is not resized
	default:
		return errno.JobNotPending
	}
	set(&s.Partitions, c.Partition)
	set(&s.Constraint, c.Features)
	for to, from := range map[*string]*string{&s.Output: c.Output, &s.Error: c.Error, &s.Input: c.Input} {
		set(to, from)
		if from != nil && !path.IsAbs(*from) && s.WorkDir != "" {
			*to = path.Join(s.WorkDir, *from)
		}
	}
	set(&s.NodesMin, c.NodesMin)
	set(&s.NodesMax, c.NodesMax)
	set(&s.ReqNodes, c.ReqNodes)
	set(&s.ExcNodes, c.ExcNodes)
	if c.Memory != nil {
		s.MemPerNode, s.MemPerCPU, s.MemSet = *c.Memory, 0, true
	}
	if c.Begin != nil {
		s.Begin, up.Begin = *c.Begin, c.Begin
	}
	parts, err := w.partitions(auth.Identity{User: j.User, UID: j.UID, GID: j.GID, Groups: j.Groups, Role: auth.User}, s.Partitions)
	if err != nil {
		return err
	}
	if c.Partition != nil {
		s.Partitions = names(parts)
	}
	return w.feasible(s, parts)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
