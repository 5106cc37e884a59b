package execinit

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/cgroup"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Main runs the init of the container whose folder is args[0] and returns its
// exit status. It must be called before the program starts other goroutines
// that fork.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: exec DIR")
		return 2
	}
	// It allocates little and must not grow within somebody's memory limit, nor
	// map memory while the script's limits are briefly its own.
	debug.SetGCPercent(400)
	runtime.LockOSThread() // the main thread keeps its credentials
	i := &initProcess{dir: args[0], waiting: map[int]chan Result{}}
	var cfg Config
	if err := i.prepare(&cfg); err != nil {
		if errors.Is(err, errNamespace) {
			return NoNamespaceStatus
		}
		return i.fail(err)
	}
	return i.run(cfg)
}

var (
	errGone      = errors.New("this container was given up before it started")
	errNamespace = errors.New("no namespaces")
)

// initProcess is the running init.
type initProcess struct {
	dir    string
	spare  *os.File
	lock   *os.File
	oomAdj string // what processes of the job get; the init itself is spared
	joined string // cgroup file that counts kills for memory

	stdout, stderr *os.File // of the script, for hooks

	mu      sync.Mutex // held over fork and registration, so that no end is missed
	waiting map[int]chan Result
}

// fail reports why there is no script.
func (i *initProcess) fail(err error) int {
	if i.lock == nil || errors.Is(err, errGone) {
		return 1 // the folder is not this process's to write to
	}
	var start *container.StartError
	r := Result{At: time.Now(), Failure: &Failure{User: errors.As(err, &start), Message: err.Error()}}
	if start != nil {
		r.Code, r.Signal = start.Exit.Code, start.Exit.Signal
	}
	if i.spare == nil {
		if i.spare, err = spare(i.dir); err != nil {
			return 1
		}
	}
	if finish(i.dir, i.spare, r) != nil {
		return 1
	}
	return 1
}

// prepare takes the folder and sets up what surrounds the script.
func (i *initProcess) prepare(cfg *Config) error {
	lock, err := os.OpenFile(filepath.Join(i.dir, LockFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	i.lock = lock
	if _, err := os.Lstat(filepath.Join(i.dir, GoneFile)); err == nil {
		return errGone
	}
	if err := ReadFile(i.dir, ConfigFile, cfg); err != nil {
		return err
	}
	if cfg.Namespaces {
		if err := mountAll(cfg.Mounts); err != nil {
			return err
		}
		if cfg.Hostname != "" {
			if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
				return fmt.Errorf("set host name: %w", err)
			}
		}
	}
	if cfg.Accounts && cfg.User != nil {
		if err := addAccounts(*cfg.User); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(i.dir, ConfigFile)); err != nil {
		return err
	}
	if i.spare, err = spare(i.dir); err != nil {
		return err
	}
	for _, file := range cfg.Join {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	i.joined = cfg.OOMFile
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become subreaper: %w", err)
		}
	}
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err == nil {
		i.oomAdj = strings.TrimSpace(string(text))
	}
	// Caught and dropped, not ignored: a child would inherit ignoring.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ)
	return nil
}

// mountAll gives the new namespaces their own /proc and the asked-for mounts,
// without showing any of it to the node.
func mountAll(mounts []container.Mount) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return errNamespace
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return errNamespace
	}
	for _, m := range mounts {
		if err := unix.Mount(m.Source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.Source, m.Target, err)
		}
		if m.ReadOnly {
			if err := unix.Mount("", m.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				return fmt.Errorf("mount %s read-only: %w", m.Target, err)
			}
		}
	}
	return nil
}

// run starts the script, serves hooks and steps beside it, and tells its end.
func (i *initProcess) run(cfg Config) int {
	listener, err := listen(i.dir)
	if err != nil {
		return i.fail(err)
	}
	started, uptime := time.Now(), Boottime()
	pid, done, err := i.startScript(cfg)
	if err != nil {
		return i.fail(err)
	}
	own := os.Getpid() == 1
	if pid != 0 {
		if err := WriteFile(i.dir, RunFile, Running{Pid: pid, Own: own, Start: started, Uptime: uptime}); err != nil {
			// Nobody would know that it runs.
			i.killRest(own)
			return i.fail(err)
		}
		go i.serve(listener, cfg)
		go i.reap()
	}
	r := <-done
	r.At, r.Elapsed = time.Now(), Boottime()-uptime
	r.OOM = i.oomKills() > 0
	if err := finish(i.dir, i.spare, r); err != nil {
		r.Code = 1 // the outside sees a lost container
	}
	i.killRest(own)
	if r.Signal != 0 {
		return 128 + r.Signal
	}
	return r.Code
}

// reap waits for every child, the adopted ones too.
func (i *initProcess) reap() {
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &used)
		if err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return // no children: the script's end has been sent
		}
		i.mu.Lock()
		done, ok := i.waiting[pid]
		delete(i.waiting, pid)
		i.mu.Unlock()
		if ok {
			done <- result(status, used)
		}
	}
}

func result(status unix.WaitStatus, used unix.Rusage) Result {
	r := Result{
		CPU:         time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		MaxRSSBytes: uint64(used.Maxrss) << 10,
	}
	if status.Signaled() {
		r.Signal = int(status.Signal())
	} else {
		r.Code = status.ExitStatus()
	}
	return r
}

// oomKills counts the processes of this container killed for its memory limit.
func (i *initProcess) oomKills() uint64 {
	var most uint64
	for _, file := range []string{
		i.joined,
		"/sys/fs/cgroup/memory.events", // the container's own view, version 2
		"/sys/fs/cgroup/memory/memory.oom_control", // and 1
	} {
		if file == "" || (os.Getpid() != 1 && file != i.joined) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := cgroup.Keyed(string(text), "oom_kill"); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// killRest ends what the script left running. PID 1 need not: the kernel does
// it when it exits.
func (i *initProcess) killRest(own bool) {
	if own {
		return
	}
	for {
		pids := Members(i.dir, os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // gone already is fine
		}
		time.Sleep(2 * time.Millisecond)
	}
}
