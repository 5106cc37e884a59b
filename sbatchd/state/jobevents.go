package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// JobSubmitted tells that a job was accepted. Its id must be the next one.
type JobSubmitted struct{ Job *job.Job }

func (JobSubmitted) Kind() string                        { return "JobSubmitted" }
func (e JobSubmitted) Subject() (uint32, string, string) { return e.Job.ID.Raw, "", "" }
func (e JobSubmitted) apply(t *tx) error {
	if e.Job.ID.Raw != t.NextJobID {
		return fmt.Errorf("id %d is not the next one (%d)", e.Job.ID.Raw, t.NextJobID)
	}
	t.NextJobID++
	return t.putJob(e.Job)
}

// JobUpdated tells that its owner or an admin changed what a job asks for. Empty fields
// stay as they are.
type JobUpdated struct {
	ID       uint32
	Spec     *job.Spec   `json:",omitempty"`
	Priority *uint32     `json:",omitempty"`
	Reason   *job.Reason `json:",omitempty"`
	Comment  *string     `json:",omitempty"`
	Eligible time.Time   `json:",omitzero"`
	Begin    *time.Time  `json:",omitempty"`
	Note     *string     `json:",omitempty"`
	// Depends is what it waits for from now on; a nil inside is nothing.
	Depends **job.Depends `json:",omitempty"`
	// Fresh forgets past launch failures and reclaims: the job was released.
	Fresh bool `json:",omitempty"`
}

func (JobUpdated) Kind() string                        { return "JobUpdated" }
func (e JobUpdated) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobUpdated) apply(t *tx) error {
	j, err := t.editJob(e.ID)
	if err != nil {
		return err
	}
	if e.Spec != nil {
		if e.Spec.TimeLimit != j.Spec.TimeLimit {
			t.relimit(j, e.Spec.TimeLimit)
		}
		if j.State == job.Pending && e.Spec.Partitions != j.Spec.Partitions {
			j.Partition, _, _ = strings.Cut(e.Spec.Partitions, ",")
		}
		j.Spec = e.Spec
	}
	if e.Priority != nil {
		j.Priority = *e.Priority
	}
	if e.Reason != nil {
		j.Reason, j.Detail = *e.Reason, ""
	}
	if e.Comment != nil {
		j.Comment = *e.Comment
	}
	if e.Note != nil {
		j.SystemNote = *e.Note
	}
	if e.Depends != nil && j.State == job.Pending {
		j.Depends = *e.Depends
	}
	if !e.Eligible.IsZero() {
		j.Eligible = e.Eligible
	}
	if e.Begin != nil {
		j.Begin = *e.Begin
	}
	if e.Fresh {
		j.LaunchFailures, j.Reclaims = 0, 0
	}
	return t.putJob(j)
}

// relimit gives a running job another time limit.
func (t *tx) relimit(j *job.Job, limit uint32) {
	if j.State != job.Running || j.Start.IsZero() {
		return
	}
	j.End = EndOf(j.Start, limit)
	if j.Run != nil && j.Active() && !j.Run.Ordered.IsZero() {
		r := j.Run.Clone()
		r.LimitChanges++
		t.putRun(j, r)
	}
}

// EndOf is when a job that starts at start reaches its limit in minutes; a
// year from start when it has none, as Slurm shows.
func EndOf(start time.Time, limit uint32) time.Time {
	if limit == job.NoLimit {
		return start.AddDate(1, 0, 0)
	}
	return start.Add(time.Duration(limit) * time.Minute)
}

// JobReasoned tells why a pending job waits. Volatile.
type JobReasoned struct {
	ID       uint32
	Reason   job.Reason
	Detail   string
	Eligible time.Time
}

func (JobReasoned) Kind() string                        { return "JobReasoned" }
func (e JobReasoned) Subject() (uint32, string, string) { return e.ID, "", "" }
func (JobReasoned) volatile()                           {}
func (e JobReasoned) apply(t *tx) error {
	j, err := t.editJob(e.ID)
	if err != nil || j.State != job.Pending {
		return err
	}
	j.Reason, j.Detail = e.Reason, e.Detail
	if j.Eligible.IsZero() {
		j.Eligible = e.Eligible
	}
	return t.putJob(j)
}

// JobDepends tells that something a job waits for came about, or never will; what is
// left is nil when it waits no more.
type JobDepends struct {
	ID   uint32
	Left *job.Depends `json:",omitempty"`
	At   time.Time
}

func (JobDepends) Kind() string                        { return "JobDepends" }
func (e JobDepends) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobDepends) apply(t *tx) error {
	j, err := t.editJob(e.ID)
	if err != nil || j.State != job.Pending {
		return err
	}
	if j.Depends = e.Left; e.Left == nil {
		j.Eligible = e.At
	}
	return t.putJob(j)
}

// JobAllocated tells that a job was given nodes, which may still have to boot.
type JobAllocated struct {
	ID        uint32
	Partition string
	Nodes     []job.NodeAlloc
	At        time.Time
	// Parts are what the components get that the job leads: all or none.
	Parts []JobAllocated `json:",omitempty"`
}

func (JobAllocated) Kind() string                        { return "JobAllocated" }
func (e JobAllocated) Subject() (uint32, string, string) { return e.ID, "", "" }
func (e JobAllocated) apply(t *tx) error {
	for _, part := range e.Parts {
		if err := part.apply(t); err != nil {
			return err
		}
	}
	j, err := t.editJob(e.ID)
	if err != nil {
		return err
	}
	if j.State != job.Pending || j.Flags.Has(job.Completing) || j.Held() {
		return fmt.Errorf("job %d is not waiting", e.ID)
	}
	if j.Leads() && len(e.Parts) != j.Het.Count-1 {
		return fmt.Errorf("job %d: %d of %d components", e.ID, len(e.Parts)+1, j.Het.Count)
	}
	for _, a := range e.Nodes {
		if err := t.fits(a); err != nil {
			return fmt.Errorf("job %d: %w", e.ID, err)
		}
	}
	j.State, j.Flags, j.Depends = job.Running, job.Configuring, nil
	j.Reason, j.Detail, j.Stop = job.ReasonNone, "", nil
	j.Partition, j.Start, j.End = e.Partition, e.At, EndOf(e.At, j.Spec.TimeLimit)
	j.ExitCode = job.ExitCode{}
	t.putRun(j, &job.Run{
		Attempt: job.Attempt{Job: j.ID.Raw, Restart: j.Restarts}, Partition: e.Partition,
		Nodes: e.Nodes, Alloc: e.At, State: job.Running,
	})
	return t.putJob(j)
}

// JobFitted tells that the machine behind a node is not what it was taken for, and a job
// that waits for it holds another part of it.
type JobFitted struct {
	Attempt job.Attempt
	Nodes   []job.NodeAlloc
}

func (JobFitted) Kind() string                        { return "JobFitted" }
func (e JobFitted) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobFitted) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	if !r.Ordered.IsZero() {
		return fmt.Errorf("attempt %s has its order", e.Attempt)
	}
	r.Nodes = e.Nodes
	t.putRun(j, r)
	return t.putJob(j)
}

// fits is the last check that no node is given more than it has.
func (t *tx) fits(a job.NodeAlloc) error {
	n, ok := t.nodes.Get(a.Node)
	if !ok {
		return fmt.Errorf("node %s is unknown", a.Node)
	}
	if !n.Schedulable() {
		return fmt.Errorf("node %s takes no jobs", a.Node)
	}
	if n.UsedCPUs+a.CPUs > n.CPUs || n.UsedMiB+a.MemoryMiB > n.MemoryMiB {
		return fmt.Errorf("node %s would be oversubscribed", a.Node)
	}
	for name, devices := range a.Gres {
		for _, d := range devices {
			if n.UsedGres[name]&(1<<d) != 0 || d >= n.GresCount(name, "") {
				return fmt.Errorf("node %s: %s %d is taken", a.Node, name, d)
			}
		}
	}
	return nil
}

// JobOrdered tells that the launch order is about to be sent; from here on the attempt
// may run.
type JobOrdered struct {
	Attempt job.Attempt
	At      time.Time
	Hosts   []job.Host
}

func (JobOrdered) Kind() string                        { return "JobOrdered" }
func (e JobOrdered) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobOrdered) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Ordered, r.Hosts, r.Limit = e.At, e.Hosts, j.Spec.TimeLimit
	t.putRun(j, r)
	return t.putJob(j)
}

// StepChanged tells that a step of an attempt began or ended: Step is its newest
// record.
type StepChanged struct {
	Attempt job.Attempt
	Step    job.Step
}

func (StepChanged) Kind() string                        { return "StepChanged" }
func (e StepChanged) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e StepChanged) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(r.Steps, func(s job.Step) bool { return s.ID == e.Step.ID })
	switch {
	case at >= 0:
		r.Steps = slices.Clone(r.Steps)
		r.Steps[at] = e.Step
	case len(r.Steps) < job.MaxSteps:
		r.Steps = append(slices.Clip(r.Steps), e.Step)
	}
	t.putRun(j, r)
	return t.putJob(j)
}

// JobProgress is the agent's word for what it does before the script runs. Volatile.
type JobProgress struct {
	Attempt job.Attempt
	Phase   string
}

func (JobProgress) Kind() string                        { return "JobProgress" }
func (e JobProgress) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (JobProgress) volatile()                           {}
func (e JobProgress) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Phase = e.Phase
	j.Run = r
	return t.putJob(j)
}

// JobStarted tells that the script began.
type JobStarted struct {
	Attempt     job.Attempt
	At          time.Time
	ImageDigest string `json:",omitempty"`
	Driver      string `json:",omitempty"`
	Restored    uint32 `json:",omitempty"`
}

func (JobStarted) Kind() string                        { return "JobStarted" }
func (e JobStarted) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobStarted) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Start, r.Restored, r.Phase = e.At, e.Restored, ""
	if len(r.Hosts) > 0 {
		r.Hosts = append([]job.Host(nil), r.Hosts...)
		r.Hosts[0].ImageDigest = e.ImageDigest
		if e.Driver != "" {
			r.Hosts[0].Driver = e.Driver
		}
	}
	if j.State == job.Running {
		j.Flags &^= job.Configuring
		j.Start, j.End = e.At, EndOf(e.At, j.Spec.TimeLimit)
		j.LaunchFailures = 0
	}
	t.putRun(j, r)
	return t.putJob(j)
}

// JobSignalled tells that a signal is to be sent to a running attempt; its place in the
// run's list is the order's key, so that it is sent once.
type JobSignalled struct {
	Attempt   job.Attempt
	Signal    uint8
	BatchOnly bool
	Full      bool `json:",omitempty"`
}

func (JobSignalled) Kind() string                        { return "JobSignalled" }
func (e JobSignalled) Subject() (uint32, string, string) { return e.Attempt.Job, "", "" }
func (e JobSignalled) apply(t *tx) error {
	j, r, err := t.editRun(e.Attempt)
	if err != nil {
		return err
	}
	r.Signals = append(append([]job.Sent(nil), r.Signals...), job.Sent{Signal: e.Signal, BatchOnly: e.BatchOnly, Full: e.Full})
	t.putRun(j, r)
	return t.putJob(j)
}
