// Package container is the contract between the shim, which holds one attempt
// of a job on a node, and the drivers that run the attempt: containerd for an
// image, process for none.
//
// A container is one PID 1 of ours (package execinit), the job's script below
// it, and whatever hooks and steps are started later beside the script. The
// streams of the script are files that it opened itself, so no process stands
// between the job and its output. Everything a driver knows about a container
// is on disk: a driver that was killed finds it again by Load, and whatever
// single process is killed, the outcome is either the true exit status or an
// Exit that says Lost, with every process of the container dead.
//
// This package must not start processes or talk to a daemon.
package container

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Runtime starts containers and finds them again. All methods may be called
// from several goroutines; one process at a time uses one state folder.
type Runtime interface {
	// Start creates the container and returns once the script runs, or once it
	// has failed to (an unstartable script is an Exit, see StartError). A
	// failed Start leaves nothing behind. The error is one of the classes
	// ErrImage, ErrPin, ErrInfra, ErrUser, or ErrExists for an ID in use. It
	// never touches the network: the image must already be on the node.
	Start(ctx context.Context, spec Spec) (Container, error)

	// Load finds a container that an earlier process started, running, ended
	// or lost. ErrNotFound when nothing of that ID is known. A container whose
	// start was interrupted is returned as lost.
	Load(ctx context.Context, id string) (Container, error)

	// List returns the IDs of every container with a trace on this node.
	List(ctx context.Context) ([]string, error)

	// Remove kills whatever is left of a container and takes away its
	// processes, cgroups, mounts and files. Removing what is not there is
	// success.
	Remove(ctx context.Context, id string) error
}

// Container is one started attempt.
type Container interface {
	ID() string

	// Pid is the script's process as seen from the caller, 0 when it has ended
	// or cannot be told.
	Pid() int

	// Signal sends sig to the script's own process, or with all to every
	// process in the container. Signalling an ended container is
	// ErrNotRunning. A frozen container gets its signals when thawed.
	Signal(ctx context.Context, sig syscall.Signal, all bool) error

	// Kill ends every process with SIGKILL, frozen or not, and returns when
	// they are dead. Wait then tells the script's own status if it had ended
	// before, else signal 9. Killing an ended container is success.
	Kill(ctx context.Context) error

	// Freeze stops every process without its noticing, Thaw lets them go on.
	// Both are idempotent.
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error

	// Wait returns the script's end; all other processes of the container are
	// dead by then. It may be called any number of times, from several
	// goroutines, before and after the end, and needs no daemon to be alive.
	// The error is about the waiting (a cancelled ctx), never about the job.
	Wait(ctx context.Context) (Exit, error)

	// Exec starts a hook or a step beside the script, in the same namespaces
	// and limits. ErrNotRunning after the script's end.
	Exec(ctx context.Context, spec ExecSpec) (Process, error)

	// Usage tells what the container has used so far, also after its end until
	// Delete.
	Usage(ctx context.Context) (Usage, error)

	// Delete is Runtime.Remove of this container.
	Delete(ctx context.Context) error
}

// Process is a hook or step started by Exec. When the caller dies the process
// goes on until the container ends; it cannot be found again.
type Process interface {
	// Pid is the process as seen inside the container.
	Pid() int
	Signal(ctx context.Context, sig syscall.Signal) error
	// Wait returns the end of the process; Lost when the container ended
	// without telling it.
	Wait(ctx context.Context) (Exit, error)
}

// Spec says what to run. Paths are on the node unless said otherwise.
type Spec struct {
	ID     string // unique per attempt, such as "job-12.0": letters, digits, '.', '_' and '-'
	Image  string // reference with digest of an image already on the node; "" in the process driver
	Labels map[string]string

	Argv []string // Argv[0] is a path in the container, or a name looked up in the PATH of Env
	Env  []string // NAME=value; in the containerd driver merged with the image's by MergeEnv
	// EnvOverride are names whose value here beats the image's.
	EnvOverride []string
	Cwd         string // in the container; when missing the script runs in /tmp and its stderr says so
	User        User
	Umask       uint32
	Rlimits     []Rlimit

	// Stdin, Stdout and Stderr are opened when the script starts, the outputs
	// with O_APPEND|O_CREATE. Empty is /dev/null, except that an empty Stderr
	// goes where Stdout goes; equal paths are one open file. Without
	// StdioAsUser they are files of the node: made by the driver, given to the
	// user, shown to the container one by one. With it they are the user's own
	// files (a shared work directory): opened with the user's rights at that
	// path as seen in the container.
	Stdin, Stdout, Stderr string
	StdioAsUser           bool
	Truncate              bool // empty the outputs first (--open-mode=truncate)

	Mounts      []Mount  // the process driver ignores those whose Source is their Target
	CPUs        float64  // limit in CPUs, 0 for none
	MemoryMiB   int64    // limit, raised to MinMemoryMiB; 0 for none
	CPUSet      string   // such as "0-3,8", "" for all
	Devices     []Device // beyond the usual /dev/null and its like
	CDI         []string // fully qualified CDI devices, such as "nvidia.com/gpu=GPU-..."
	Hostname    string   // "" keeps the node's
	NetworkHost bool     // false gives an empty network namespace (containerd driver only)
	// CgroupParent is the cgroup below which the container gets its own, as an
	// absolute path in each hierarchy; "" for the driver's.
	CgroupParent string
}

// MinMemoryMiB is the least memory limit a container gets, Slurm's
// MinRAMSpace.
const MinMemoryMiB = 30

// User is who the script runs as. The zero User is root; a driver that is not
// root runs everything as itself and refuses another UID.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Name     string   // its line in the container's /etc/passwd; "" for none
	Group    string   // name of GID
	Home     string
	Shell    string // "" for /bin/sh
}

// Rlimit is one resource limit of the script; the hard limit is raised to
// Soft if need be and otherwise left.
type Rlimit struct {
	Resource int // unix.RLIMIT_*
	Soft     uint64
}

// Mount shows a file or folder of the node in the container. A missing Source
// is an ErrInfra.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Device is a device node given to the container.
type Device struct {
	Source string // on the node
	Target string // in the container, "" for Source
	Access string // of "rwm", "" for "rwm"
}

// Exit is how a script, hook or step ended.
type Exit struct {
	Code   int // exit status, 0 when a signal ended it
	Signal int // signal that ended it, or 0
	// OOM is true when the kernel killed any process of the container for its
	// memory limit, whatever the script's own status.
	OOM bool
	// Lost is true when the end was not seen: the container's init was killed
	// or the node restarted. Code and Signal mean nothing then. Every process
	// is dead.
	Lost    bool
	Reason  string        // for a lost container, what is known about it
	At      time.Time     // wall time of the end, zero when lost
	Elapsed time.Duration // from start to end, by a clock that nobody sets
}

// ExecSpec is a hook or a step.
type ExecSpec struct {
	Argv []string
	Env  []string // added to the script's, a later NAME wins
	Cwd  string   // "" for the script's
	// User is who runs it, nil for the job's user.
	User *User
	// Stdin, Stdout and Stderr become the process's own; the caller keeps and
	// closes its copies. Nil is /dev/null for Stdin and, for the outputs, the
	// script's own stream.
	Stdin, Stdout, Stderr *os.File
}

// Usage is what a container has used.
type Usage struct {
	CPU         time.Duration // user and system, all processes, ended ones too
	RSSBytes    uint64        // anonymous memory now
	MaxRSSBytes uint64        // most memory charged at one time
}
