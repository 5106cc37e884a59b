// Package execinit is the first process of every container, `sbatchd-node exec
// DIR`: it opens the job's output files, becomes the user, runs the script,
// reaps what the script leaves behind and writes down how it ended. Its folder
// DIR is all the outside needs to know about it (package held).
//
// Decisions. It stays beside the script instead of becoming it: PID 1 of a
// namespace ignores signals it has no handler for, which a job's TERM must not
// be. It switches users on one thread (Linux credentials belong to threads), so
// no second exec costs a start-up. Hooks and steps are its children too, asked
// for over a socket, so they work while containerd is dead. The record lock on
// DIR/lock is its sign of life: the kernel drops it with the process and
// tells the holder's pid, so no stale pid is ever trusted.
package execinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Files in the folder of a container. Each appears whole, by a rename.
const (
	ConfigFile = "init.json" // Config; the init removes it once read, for it may hold secrets
	LockFile   = "lock"      // record lock of the living init
	GoneFile   = "gone"      // an init that starts and finds it must not go on
	RunFile    = "run.json"  // Running, once the script runs
	ExitFile   = "exit.json" // Result
	SocketFile = "ctl.sock"  // takes Request
	spareFile  = "exit.tmp"  // blocks set aside so that a full disk cannot lose the Result
)

// MarkEnv names the folder of the container in the environment of each of its
// processes.
const MarkEnv = "SBATCHD_ATTEMPT"

// NoNamespaceStatus is the exit status of an init that could not set its
// namespaces up; nothing was started and it may be tried without.
const NoNamespaceStatus = 77

// Config is what the init does. Paths are as the init sees them.
type Config struct {
	Argv, Env   []string
	Cwd         string
	User        *container.User // nil stays who it is
	Umask       uint32
	Rlimits     []container.Rlimit
	DropCaps    []uintptr // taken from the script, for one that runs as root
	Stdin       string
	Stdout      string
	Stderr      string
	StdioAsUser bool
	Truncate    bool

	Join       []string // cgroup.procs files to enter by
	OOMFile    string   // its oom_kill line counts processes killed for memory
	Namespaces bool     // it is in new ones: mount /proc and Mounts, set Hostname
	Mounts     []container.Mount
	Hostname   string
	Accounts   bool // name User in the /etc/passwd and /etc/group of the container
}

// Running says that the script was started.
type Running struct {
	Pid    int  // of the script, in the init's namespace
	Own    bool // the init is PID 1 of its namespace: its end is everybody's
	Start  time.Time
	Uptime time.Duration // CLOCK_BOOTTIME at the start
}

// Result is how it ended.
type Result struct {
	Code, Signal int
	OOM          bool
	At           time.Time
	Elapsed      time.Duration
	CPU          time.Duration // of the script and those it waited for
	MaxRSSBytes  uint64        // of the largest of them

	// Failure is set when the script was never started.
	Failure *Failure
}

// Failure is why the script was not started.
type Failure struct {
	User    bool // the job's own fault, else the node's
	Message string
}

// Request asks for a process beside the script. Its stdin, stdout and stderr
// come as file descriptors in the same message, in this order.
type Request struct {
	Argv, Env                      []string
	Cwd                            string
	User                           *container.User
	HasStdin, HasStdout, HasStderr bool
}

// Reply answers on the connection of a Request: first Pid or Error, then, when
// the process has ended, Exit.
type Reply struct {
	Pid   int
	Error string
	Exit  *Result
}

// Order is what may be sent on the connection of a Request afterwards.
type Order struct{ Signal int }

// Boottime is CLOCK_BOOTTIME: it goes on in suspend and nobody sets it.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every kernel since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// WriteFile makes a JSON file of the folder appear whole.
func WriteFile(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, name+".new")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// ReadFile reads a JSON file of the folder; os.ErrNotExist when there is none.
func ReadFile(dir, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// spare sets blocks aside for the Result.
func spare(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, spareFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(make([]byte, spareSize)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

const spareSize = 4096

// finish writes the Result into the spare blocks and puts it in place, safe
// against a crash of the machine.
func finish(dir string, f *os.File, r Result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(text) < spareSize {
		// JSON may end in blanks.
		text = append(text, make([]byte, spareSize-len(text))...)
		for i := range text {
			if text[i] == 0 {
				text[i] = ' '
			}
		}
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, ExitFile)); err != nil {
		return err
	}
	return atomicfile.Sync(dir)
}
