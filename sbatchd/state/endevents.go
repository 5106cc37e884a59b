package state

import (
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// finish is the first half of every end: as in Slurm the job shows its final
// state (or PENDING, to be requeued) plus COMPLETING until its processes,
// output and files are accounted for.
func finish(j *job.Job, final job.State, reason job.Reason, at time.Time, requeue bool) {
	j.Flags = j.Flags&^job.Configuring | job.Completing
	j.Reason, j.Detail = reason, ""
	if requeue {
		j.State, j.Flags = job.Pending, j.Flags|job.Requeued
		return
	}
	j.State, j.Flags, j.End = final, j.Flags&^job.Requeued, at
}

// JobStopping tells that somebody asked for the attempt's end; the nodes are told next.
type JobStopping struct {
	Attempt job.Attempt
	Stop    job.Stop
	Reason  job.Reason `json:",omitempty"`
}

func (JobStopping) Kind() string                        { return "JobStopping" }
func (e JobStopping) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobStopping) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	// An attempt that is already ending keeps its end; only a wish not to
	// requeue still counts.
	if !j.Flags.Has(job.Completing) || j.Flags.Has(job.Requeued) && !e.Stop.Requeue {
		stop := e.Stop
		j.Stop = &stop
		if stop.Why == job.StopCancel {
			j.CancelledBy = &stop.By
		}
		finish(j, stop.Final, e.Reason, stop.At, stop.Requeue)
		if stop.Hold {
			j.Priority = 0
		}
		if r.Ended.IsZero() {
			j.Flags |= job.Stopping
			r.State, r.Reason = stop.Final, e.Reason
		}
	}
	t.putRun(j, r)
	return t.putJob(j)
}

// JobEnded tells that the script is over, or could never start. Output and files may
// still be on their way.
type JobEnded struct {
	Attempt  job.Attempt
	At       time.Time
	State    job.State
	Reason   job.Reason   `json:",omitempty"`
	Detail   string       `json:",omitempty"`
	ExitCode job.ExitCode `json:",omitzero"`
	OOM      bool         `json:",omitempty"`
	Usage    job.Usage    `json:",omitzero"`
	// Requeue: the job goes back to the queue once the attempt is cleared;
	// with Hold it then waits for a release.
	Requeue bool `json:",omitempty"`
	Hold    bool `json:",omitempty"`
	// LaunchFailure: the system's fault before the script ran (MaxBatchRequeue counts).
	LaunchFailure bool `json:",omitempty"`
	// Reclaim: lost to the provider or a dead node (--max-restarts counts).
	Reclaim bool `json:",omitempty"`
}

func (JobEnded) Kind() string                        { return "JobEnded" }
func (e JobEnded) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobEnded) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Ended, r.ExitCode, r.OOM, r.Usage = e.At, e.ExitCode, e.OOM, e.Usage
	r.State, r.Reason = e.State, e.Reason
	j.Flags &^= job.Stopping
	switch {
	case !j.Flags.Has(job.Completing), e.Requeue && j.Stop == nil:
		finish(j, e.State, e.Reason, e.At, e.Requeue)
		j.Detail = e.Detail
	case j.Stop != nil:
		r.State = j.Stop.Final
	}
	switch {
	case j.Flags.Has(job.Requeued):
	case j.State == job.NodeFail:
		j.ExitCode = job.ExitCode{Status: 1}
	default:
		j.ExitCode = e.ExitCode
	}
	if e.Hold && j.Flags.Has(job.Requeued) && j.Stop == nil {
		j.Priority, j.SystemNote = 0, e.Detail
	}
	if e.LaunchFailure {
		j.LaunchFailures++
	}
	if e.Reclaim {
		j.Reclaims++
	}
	t.putRun(j, r)
	return t.putJob(j)
}

// JobCleared tells that nothing of the attempt is left anywhere: its processes are gone
// or fenced, its output and results are acknowledged or given up. The nodes
// are free, and a requeued job waits again from Begin on.
type JobCleared struct {
	Attempt job.Attempt
	At      time.Time
	Begin   time.Time `json:",omitzero"`
}

func (JobCleared) Kind() string                        { return "JobCleared" }
func (e JobCleared) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobCleared) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Free = e.At
	if r.Ended.IsZero() {
		r.Ended = e.At
	}
	requeued, hold := j.Flags.Has(job.Requeued), j.Stop != nil && j.Stop.Hold
	j.Flags, j.Stop = 0, nil
	if requeued {
		if hold {
			j.Detail = requeuedHeld
		}
		if !r.Ordered.IsZero() {
			j.Restarts++
		}
		j.Start, j.End, j.Begin, j.Eligible = time.Time{}, time.Time{}, e.Begin, e.Begin
		if !j.Reason.Held() {
			j.Reason = job.ReasonBeginTime
		}
	}
	t.putRun(j, r)
	if err := t.putJob(j); err != nil {
		return err
	}
	for _, a := range r.Nodes {
		n, err := t.editNode(a.Node)
		if err != nil {
			continue // the node left the config meanwhile
		}
		n.LastBusy = e.At
		t.putNode(n)
	}
	return nil
}

// JobEndedPending tells that a job that never ran (again) is over: cancelled, past its
// deadline, or given up.
type JobEndedPending struct {
	ID       uint32
	At       time.Time
	State    job.State
	Reason   job.Reason   `json:",omitempty"`
	Detail   string       `json:",omitempty"`
	ExitCode job.ExitCode `json:",omitzero"`
	By       *uint32      `json:",omitempty"` // who cancelled it
}

func (JobEndedPending) Kind() string                        { return "JobEnded" }
func (e JobEndedPending) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobEndedPending) apply(t *tx) error {
	j, err := t.editJob(e.ID)
	if err != nil {
		return err
	}
	j.State, j.Reason, j.Detail, j.ExitCode, j.CancelledBy = e.State, e.Reason, e.Detail, e.ExitCode, e.By
	j.Start, j.End = e.At, e.At
	return t.putJob(j)
}

// requeuedHeld is what Slurm shows in the place of the reason.
const requeuedHeld = "job requeued in held state"

// JobRequeuedFinal tells that a finished job goes back to the queue.
type JobRequeuedFinal struct {
	ID    uint32
	Begin time.Time
	Hold  bool
}

func (JobRequeuedFinal) Kind() string                        { return "JobRequeued" }
func (e JobRequeuedFinal) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobRequeuedFinal) apply(t *tx) error {
	j, err := t.editJob(e.ID)
	if err != nil {
		return err
	}
	j.State, j.Flags, j.Stop = job.Pending, 0, nil
	j.Reason, j.Detail, j.ExitCode = job.ReasonBeginTime, "", job.ExitCode{}
	if j.Run != nil && j.Run.Restart == j.Restarts && !j.Run.Ordered.IsZero() {
		j.Restarts++
	}
	j.Start, j.End, j.Begin, j.Eligible = time.Time{}, time.Time{}, e.Begin, e.Begin
	if e.Hold || j.Priority == 0 { // also one that was held when it ended
		j.Priority, j.Reason = 0, job.ReasonHeldUser
	}
	if e.Hold {
		j.Detail = requeuedHeld
	}
	return t.putJob(j)
}

// JobNoticed tells that the provider announced that it takes the node away.
type JobNoticed struct {
	Attempt  job.Attempt
	Deadline time.Time
	// Asked: by an admin, not by the provider; the agent has to be told.
	Asked bool `json:",omitempty"`
}

func (JobNoticed) Kind() string                        { return "JobNoticed" }
func (e JobNoticed) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobNoticed) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Notice, r.NoticeAsked = e.Deadline, e.Asked
	t.putRun(j, r)
	return t.putJob(j)
}

// CheckpointSaved tells that a checkpoint is complete in the store.
type CheckpointSaved struct {
	Attempt    job.Attempt
	Checkpoint job.Checkpoint
}

func (CheckpointSaved) Kind() string                        { return "CheckpointSaved" }
func (e CheckpointSaved) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e CheckpointSaved) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	if e.Checkpoint.Number > j.Checkpoint.Number {
		j.Checkpoint = e.Checkpoint
	}
	r.Saved = e.Checkpoint
	t.putRun(j, r)
	return t.putJob(j)
}

// JobForgotten tells that a job ended MinJobAge ago and leaves memory; its rows stay for
// accounting.
type JobForgotten struct{ ID uint32 }

func (JobForgotten) Kind() string                        { return "JobForgotten" }
func (e JobForgotten) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobForgotten) apply(t *tx) error {
	j, ok := t.jobs.Get(e.ID)
	if !ok || !j.State.Final() || j.Active() {
		return nil
	}
	t.jobs.Delete(e.ID)
	t.index(j, nil)
	t.ch.Forget = append(t.ch.Forget, e.ID)
	return nil
}
