package state

import (
	"iter"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// The components of a heterogeneous job have records of their own with ids in a
// row. The first leads: its script is the job's, and the others hold their nodes
// exactly as long as it does, so that they start, end and wait again together.

// Parts walks the components that follow a leader.
func (s *State) Parts(j *job.Job) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		if !j.Leads() {
			return
		}
		for i := range j.Het.Count - 1 {
			if p, ok := s.jobs.Get(j.ID.Raw + 1 + uint32(i)); ok && !yield(p) {
				return
			}
		}
	}
}

// Leader is the component that leads a job's, or the job itself.
func (s *State) Leader(j *job.Job) *job.Job {
	if j.Follows() {
		if l, ok := s.jobs.Get(j.Het.Leader); ok {
			return l
		}
	}
	return j
}

// lead makes the components of a job follow what became of their leader.
func (t *tx) lead(l *job.Job) error {
	for p := range t.Parts(l) {
		c := p.Clone()
		c.State, c.Flags, c.Stop, c.Restarts, c.ExitCode = l.State, l.Flags, l.Stop, l.Restarts, l.ExitCode
		c.Reason, c.Detail, c.Priority, c.CancelledBy = l.Reason, l.Detail, l.Priority, l.CancelledBy
		c.Eligible, c.Begin, c.Start, c.End, c.Depends = l.Eligible, l.Begin, l.Start, l.End, l.Depends
		if l.Run != nil && c.Run != nil && l.Run.Restart == c.Run.Restart {
			r := c.Run.Clone()
			r.Start, r.Ended, r.Free = l.Run.Start, l.Run.Ended, l.Run.Free
			r.State, r.Reason, r.ExitCode = l.Run.State, l.Run.Reason, l.Run.ExitCode
			t.putRun(c, r)
		}
		if err := t.putJob(c); err != nil {
			return err
		}
	}
	return nil
}
