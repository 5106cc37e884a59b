package job

import "strings"

// State is a job's base state, in Slurm's numbering (REST and sacct show its
// name, squeue's %t its short code).
type State uint8

// Base states (Slurm's job_states, reference: squeue(1) JOB STATE CODES).
const (
	Pending State = iota
	Running
	Suspended
	Completed
	Cancelled
	Failed
	Timeout
	NodeFail
	Preempted
	BootFail
	Deadline
	OutOfMemory
	numStates
)

var stateNames = [numStates]string{
	"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED",
	"TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
}

var stateCodes = [numStates]string{
	"PD", "R", "S", "CD", "CA", "F", "TO", "NF", "PR", "BF", "DL", "OOM",
}

// String is the long name, for instance PENDING.
func (s State) String() string {
	if s >= numStates {
		return "UNKNOWN"
	}
	return stateNames[s]
}

// Code is the short name, for instance PD.
func (s State) Code() string {
	if s >= numStates {
		return "?"
	}
	return stateCodes[s]
}

// Final says whether a job in this state has ended.
func (s State) Final() bool { return s > Suspended }

// ParseState reads a long or short name in any case.
func ParseState(text string) (State, bool) {
	up := strings.ToUpper(text)
	for s := range numStates {
		if stateNames[s] == up || stateCodes[s] == up {
			return s, true
		}
	}
	if up == "CANCELED" {
		return Cancelled, true
	}
	return 0, false
}

// States lists every base state in order.
func States() []State {
	all := make([]State, numStates)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// Flags refine a base state.
type Flags uint16

// State flags. Completing: the job's processes, output or files are not all
// accounted for yet. Configuring: its nodes boot, pull or stage. Requeued: it
// goes back to the queue once Completing is over. Stopping: the controller has
// asked the nodes to end the attempt.
const (
	Completing Flags = 1 << iota
	Configuring
	Requeued
	Stopping
)

// Has says whether all flags of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names lists the flags Slurm shows, in Slurm's order.
func (f Flags) Names() []string {
	var out []string
	if f.Has(Configuring) {
		out = append(out, "CONFIGURING")
	}
	if f.Has(Completing) {
		out = append(out, "COMPLETING")
	}
	if f.Has(Requeued) {
		out = append(out, "REQUEUED")
	}
	return out
}

// ShownState is the long name squeue prints for state and flags: a job that is
// completing shows COMPLETING, one whose nodes boot CONFIGURING.
func (j *Job) ShownState() string {
	switch {
	case j.Flags.Has(Completing):
		return "COMPLETING"
	case j.State == Running && j.Flags.Has(Configuring):
		return "CONFIGURING"
	}
	return j.State.String()
}

// ShownCode is the short form of ShownState.
func (j *Job) ShownCode() string {
	switch {
	case j.Flags.Has(Completing):
		return "CG"
	case j.State == Running && j.Flags.Has(Configuring):
		return "CF"
	}
	return j.State.Code()
}
