// Package attempt is the folder of one run of a job on its node: the files that
// the agent and the shim tell each other with, and the client of the shim's
// socket. The agent writes the spec and reads the rest, the shim writes the rest;
// neither needs the other alive.
//
// Everything of one attempt lies here until the controller releases it:
//
//	spec.json   Spec, from the agent, before the shim is started
//	state.json  State, from the shim, whenever it changes
//	exit.json   Exit, from the shim, once: the attempt is over
//	shim.lock   record lock of the living shim
//	shim.sock   its commands, shim.log its log
//	steps.jsonl Step records, appended
//	out, err    what the job wrote
//
// This package starts nothing and decides nothing.
package attempt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Names in the folder.
const (
	SpecFile   = "spec.json"
	StateFile  = "state.json"
	ExitFile   = "exit.json"
	LockFile   = "shim.lock"
	SocketFile = "shim.sock"
	LogFile    = "shim.log"
	StepsFile  = "steps.jsonl"
	OutFile    = "out"
	ErrFile    = "err"
)

// Spec is what the shim is to hold. Durations are nanoseconds in JSON.
type Spec struct {
	Job     uint32         `json:"job"`
	Restart uint32         `json:"restart"`
	Node    string         `json:"node"`
	Runtime string         `json:"runtime"` // containerd, process
	Run     container.Spec `json:"run"`

	TimeLimit time.Duration `json:"timeLimit,omitempty"` // 0: none
	Signal    JobSignal     `json:"signal,omitzero"`
	KillWait  time.Duration `json:"killWait"`

	// Fence freezes the job this long after the lease's renewal was sent; 0 never.
	Fence     time.Duration `json:"fence,omitempty"`
	LeaseFile string        `json:"leaseFile,omitempty"` // of the agent, see Lease

	// Notes is the file that Slurm's own lines go to (time limit, cancel), ""
	// for none. NotesAsUser is a file of the user's: touched with the job's rights.
	Notes       string `json:"notes,omitempty"`
	NotesAsUser bool   `json:"notesAsUser,omitempty"`

	// JobSocket is served for the job: steps here, REST passed on to AgentSocket.
	// Empty for none.
	JobSocket   string   `json:"jobSocket,omitempty"`
	AgentSocket string   `json:"agentSocket,omitempty"`
	CPUs        int      `json:"cpus"`
	StepEnv     []string `json:"stepEnv,omitempty"` // of steps, beside the job's
}

// JobSignal is the --signal of a job.
type JobSignal struct {
	Number    int           `json:"number,omitempty"` // 0: none asked for
	Before    time.Duration `json:"before,omitempty"` // the time limit
	BatchOnly bool          `json:"batchOnly,omitempty"`
}

// State is what the shim knows now.
type State struct {
	ScriptPid int           `json:"scriptPid"`
	Start     time.Time     `json:"start"`     // wall time of the script's start
	StartBoot time.Duration `json:"startBoot"` // the same on CLOCK_BOOTTIME
	TimeLimit time.Duration `json:"timeLimit,omitempty"`

	Frozen      bool          `json:"frozen,omitempty"`    // by the fence
	Suspended   bool          `json:"suspended,omitempty"` // by an order
	SuspendBoot time.Duration `json:"suspendBoot,omitempty"`
	SuspendSum  time.Duration `json:"suspendSum,omitempty"` // of earlier suspends
	Signalled   bool          `json:"signalled,omitempty"`  // --signal was sent
	Kill        *Kill         `json:"kill,omitempty"`
	KillBoot    time.Duration `json:"killBoot,omitempty"` // when SIGKILL comes
	NextStep    uint32        `json:"nextStep,omitempty"`
}

// Reasons why an attempt was ended. The empty reason is its own end.
const (
	ReasonTimeLimit = "time_limit"
	ReasonReclaimed = "reclaimed"
	ReasonOrphaned  = "orphaned"
	ReasonCancel    = "cancel"
	ReasonRequeue   = "requeue"
	ReasonPreempt   = "preempt"
	ReasonNodeFail  = "node_fail"
)

// Kill ends an attempt: SIGTERM, then SIGKILL after the grace.
type Kill struct {
	Reason string        `json:"reason"`
	Notice string        `json:"notice,omitempty"` // line for the job's stderr; "" is Slurm's own for the reason
	Quiet  bool          `json:"quiet,omitempty"`  // no line at all
	Grace  time.Duration `json:"grace"`
}

// Exit is how the attempt ended; after it nothing of it runs.
type Exit struct {
	container.Exit
	Reason string          `json:"reason,omitempty"`
	Usage  container.Usage `json:"usage"`
	// Failed is set when the script was never started: the class of the failure.
	Failed  string `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
}

// Classes of Exit.Failed.
const (
	FailedImage = "image"
	FailedPin   = "pin"
	FailedInfra = "infra"
	FailedUser  = "user"
)

// Step is one line of StepsFile.
type Step struct {
	ID     uint32    `json:"id"`
	Name   string    `json:"name"`
	NTasks int       `json:"ntasks"`
	At     time.Time `json:"at"`
	Ended  bool      `json:"ended"` // a start, or an end with the fields below
	Code   int       `json:"code,omitempty"`
	Signal int       `json:"signal,omitempty"`
	// ElapsedMS is the step's run time by a clock that nobody sets.
	ElapsedMS int64 `json:"elapsedMs,omitempty"`
}

// Lease is the agent's file with the last renewal that the controller answered.
type Lease struct {
	SentBoot time.Duration `json:"sentBoot"` // CLOCK_BOOTTIME when it was sent
}

// BootTime is CLOCK_BOOTTIME: it goes on in suspend and nobody sets it.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every kernel since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// Write puts v in place as a JSON file of mode 0600, whole or not at all. With
// durable it is on disk, under its name, when Write returns.
func Write(dir, name string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return WriteBytes(dir, name, data, durable)
}

// WriteBytes is Write of a file that is not JSON.
func WriteBytes(dir, name string, data []byte, durable bool) error {
	write := atomicfile.Write
	if durable {
		write = atomicfile.WriteDurable
	}
	if err := write(filepath.Join(dir, name), data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Read reads a JSON file of the folder; found is false when there is none.
func Read(dir, name string, v any) (found bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

// Lock takes the shim's lock of a folder and keeps it until the process ends. It
// fails when another process has it.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return nil, errors.Join(fmt.Errorf("another shim holds %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Holder is the pid of the shim that holds a folder, 0 for none. The kernel drops
// the lock with the process, so the answer is never stale.
func Holder(dir string) (int, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk); err != nil {
		return 0, err
	}
	if lk.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(lk.Pid), nil
}

// ContainerID is the name of an attempt's container.
func ContainerID(job, restart uint32) string {
	return fmt.Sprintf("job-%d.%d", job, restart)
}
