package job

import "fmt"

// ExitCode is how a script ended: Status is its exit status 0..255, Signal the
// signal that ended it (0 for none). Printed as Slurm prints it, status:signal.
type ExitCode struct {
	Status uint8 `json:"status,omitempty"`
	Signal uint8 `json:"signal,omitempty"`
}

// String prints status:signal, for instance 1:0.
func (e ExitCode) String() string { return fmt.Sprintf("%d:%d", e.Status, e.Signal) }

// OK says whether the script ended by itself with status 0.
func (e ExitCode) OK() bool { return e == ExitCode{} }

// Exit is how an attempt's script ended, as its agent saw it.
type Exit struct {
	Code   ExitCode
	OOM    bool
	Reason string // one of the ExitX constants
	Usage  Usage
}

// Reasons of an Exit.
const (
	ExitScript    = "script"     // by itself
	ExitTimeLimit = "time_limit" // its time was over
	ExitKilled    = "killed"     // by an order
	ExitReclaimed = "reclaimed"  // its node was taken; any end after the notice counts so
	ExitOrphaned  = "orphaned"   // the agent lost the controller for OrphanTimeout
)

// LaunchFailure says why an attempt could not start, and whose fault it was.
type LaunchFailure struct {
	Class   string // one of the FaultX constants
	Message string // one sentence for the user
	Code    ExitCode
}

// Classes of a LaunchFailure. Only an infra or image fault may go away on
// another node.
const (
	FaultInfra  = "infra"
	FaultImage  = "image"
	FaultPin    = "pin"
	FaultDriver = "driver"
	FaultUser   = "user"
)
