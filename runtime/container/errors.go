package container

import (
	"errors"
	"fmt"
)

// The classes of a failed Start say whose fault it was; test with errors.Is.
var (
	// ErrImage: the image is not on the node, cannot be unpacked or is not for
	// this machine.
	ErrImage = errors.New("image error")
	// ErrPin: what is there is not what was pinned (digest, driver version).
	ErrPin = errors.New("pin does not match")
	// ErrInfra: the node's fault; another node may do.
	ErrInfra = errors.New("node error")
	// ErrUser: the job's own fault; it fails the same way on every node.
	ErrUser = errors.New("job error")
)

// Conditions that callers branch on.
var (
	ErrExists     = errors.New("container already exists")
	ErrNotFound   = errors.New("no such container")
	ErrNotRunning = errors.New("container is not running")
)

// Fail wraps err in a class: errors.Is finds both. It returns nil for nil.
func Fail(class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

// Failf is Fail of a formatted message, which may wrap with %w.
func Failf(class error, format string, args ...any) error {
	return Fail(class, fmt.Errorf(format, args...))
}

type classed struct{ class, err error }

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }

// StartError is an ErrUser: the job's files could not be opened, so its script
// was never run. Slurm fails such a job with exit code 0:53. A script that
// could be opened but not executed is no StartError: it ends by itself with the
// error number as its exit code and a line on its stderr, as with Slurm.
type StartError struct {
	Exit    Exit   // what to record for the job
	Message string // in Slurm's words
}

func (e *StartError) Error() string { return e.Message }

// Is reports the class of every StartError.
func (e *StartError) Is(target error) bool { return target == ErrUser }
