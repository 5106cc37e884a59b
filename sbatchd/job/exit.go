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
