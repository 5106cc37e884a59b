package job

import "time"

// MaxSteps bounds the steps that an attempt keeps in memory and in its row; more
// run, but are not listed (Slurm's MaxStepCount is 40000).
const MaxSteps = 2000

// Step is one srun in a job, as its node reports it.
type Step struct {
	ID       uint32    `json:"id"`
	Name     string    `json:"name,omitempty"`
	Tasks    int       `json:"tasks,omitempty"`
	CPUs     int       `json:"cpus,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"` // zero while it runs
	ExitCode ExitCode  `json:"exit_code,omitzero"`
}

// State is RUNNING, and then follows from how the step ended, as in Slurm: a signal
// counts as a cancel.
func (s Step) State() State { return EndState(s.End, s.ExitCode) }

// EndState is the state of a step, the batch script included, that ended at a time
// with a code; it runs while the time is zero.
func EndState(end time.Time, code ExitCode) State {
	switch {
	case end.IsZero():
		return Running
	case code.Signal != 0:
		return Cancelled
	case code.Status != 0:
		return Failed
	}
	return Completed
}
