package job

import (
	"fmt"
	"slices"
	"strings"
)

// The life of a job. Every arrow is a row of the table below; nothing else may
// happen.
//
//	submit -> PENDING -> RUNNING(+CONFIGURING) -> RUNNING -> final(+COMPLETING) -> final
//	             ^  |         |                    |   ^          |
//	             |  |         |                    v   |          |
//	             |  |         |                 SUSPENDED         |
//	             |  +---------------> CANCELLED DEADLINE FAILED   |
//	             |            BOOT_FAIL                           |
//	             +---- requeue: PENDING(+COMPLETING+REQUEUED) <---+
var legal = map[State][]State{
	Pending:   {Running, Cancelled, Failed, Deadline, BootFail},
	Running:   {Pending, Suspended, Completed, Cancelled, Failed, Timeout, NodeFail, Preempted, BootFail, Deadline, OutOfMemory},
	Suspended: {Pending, Running, Cancelled, Failed, Timeout, NodeFail, Preempted, Deadline},
}

// Legal says whether a job may move from one base state to another. A final
// state may only go back to PENDING (requeue of a finished job).
func Legal(from, to State) bool {
	if from.Final() {
		return to == Pending
	}
	return slices.Contains(legal[from], to)
}

// TransitionError is an illegal move: a broken program, never a user's fault.
type TransitionError struct {
	Job      uint32
	From, To State
}

// Error names the job and both states.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("job %d: illegal transition %s -> %s", e.Job, e.From, e.To)
}

// Matrix prints the table, one row a state: x where the move is legal.
func Matrix() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", "from \\ to")
	for _, to := range States() {
		fmt.Fprintf(&b, " %-3s", to.Code())
	}
	b.WriteByte('\n')
	for _, from := range States() {
		fmt.Fprintf(&b, "%-14s", from)
		for _, to := range States() {
			mark := "."
			if Legal(from, to) {
				mark = "x"
			}
			fmt.Fprintf(&b, " %-3s", mark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
