package execinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// launch is one process to start, as the user.
type launch struct {
	argv, env []string
	cwd       string
	user      *container.User
	umask     uint32
	rlimits   []container.Rlimit
	dropCaps  []uintptr
	stdio     func() ([3]*os.File, error) // opens the streams with the user's rights
}

// startScript starts the job's script. A script that cannot be executed is a
// done that already holds its Result and pid 0.
func (i *initProcess) startScript(cfg Config) (pid int, done chan Result, err error) {
	streams, err := openIf(cfg, !cfg.StdioAsUser)
	if err != nil {
		return 0, nil, err
	}
	l := launch{
		argv: cfg.Argv, env: cfg.Env, cwd: cfg.Cwd, user: cfg.User,
		umask: cfg.Umask, rlimits: cfg.Rlimits, dropCaps: cfg.DropCaps,
		stdio: func() ([3]*os.File, error) {
			if cfg.StdioAsUser {
				if streams, err = openIf(cfg, true); err != nil {
					return streams, err
				}
			}
			i.stdout, i.stderr = streams[1], streams[2]
			return streams, nil
		},
	}
	return i.spawn(l)
}

// spawn starts a process on a thread of its own, whose user, umask and folder
// it changes and which then dies.
func (i *initProcess) spawn(l launch) (pid int, done chan Result, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		pid, done, err = i.spawnHere(l)
	}()
	<-finished
	if pid != 0 {
		i.waiting[pid] = done
	}
	return pid, done, err
}

func (i *initProcess) spawnHere(l launch) (int, chan Result, error) {
	done := make(chan Result, 1)
	if err := become(l); err != nil {
		return 0, nil, err
	}
	streams, err := l.stdio()
	if err != nil {
		return 0, nil, err
	}
	stderr := streams[2]
	if !enterFolder(l.cwd, stderr) {
		done <- Result{Code: 1}
		return 0, done, nil
	}
	path, err := lookPath(l.argv[0], l.env)
	if err == nil {
		var pid int
		if pid, err = i.fork(path, l, streams); err == nil {
			return pid, done, nil
		}
	} else {
		path = l.argv[0]
	}
	complain(stderr, "%s", execError(path, err))
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.ENOENT
	}
	done <- Result{Code: int(errno)}
	return 0, done, nil
}

// enterFolder changes to the script's folder, or as Slurm does to /tmp.
func enterFolder(dir string, stderr *os.File) bool {
	err := unix.Chdir(dir)
	if err == nil {
		return true
	}
	complain(stderr, "couldn't chdir to `%s': %s: going to /tmp instead", dir, text(err))
	if unix.Chdir("/tmp") == nil {
		return true
	}
	complain(stderr, "couldn't chdir to /tmp either. dying.")
	return false
}

// become changes this thread into the user. Raw system calls: those of package
// syscall change every thread.
func become(l launch) error {
	// Its own folder and umask.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	unix.Umask(int(l.umask))
	for _, c := range l.dropCaps {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	u := l.user
	if u == nil {
		return nil
	}
	var first unsafe.Pointer
	if len(u.Groups) > 0 {
		first = unsafe.Pointer(&u.Groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("set groups %v: %w", u.Groups, errno)
	}
	gid, uid := uintptr(u.GID), uintptr(u.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("set gid %d: %w", gid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("set uid %d: %w", uid, errno)
	}
	return nil
}

// fork executes the program. The limits are set for the moment of the fork,
// which is the only way to hand them down without a second exec; only soft
// limits are lowered, so that they can be raised again.
func (i *initProcess) fork(path string, l launch, streams [3]*os.File) (pid int, err error) {
	for _, r := range l.rlimits {
		var old unix.Rlimit
		if err := unix.Getrlimit(r.Resource, &old); err != nil {
			return 0, err
		}
		limit := unix.Rlimit{Cur: r.Soft, Max: max(old.Max, r.Soft)}
		if unix.Setrlimit(r.Resource, &limit) != nil {
			limit = unix.Rlimit{Cur: min(r.Soft, old.Max), Max: old.Max}
			if err := unix.Setrlimit(r.Resource, &limit); err != nil {
				return 0, err
			}
		}
		defer func() {
			old.Max = max(old.Max, limit.Max)
			_ = unix.Setrlimit(r.Resource, &old) // raising a soft limit cannot fail
		}()
	}
	i.adjustOOM(i.oomAdj)
	defer i.adjustOOM("-900")
	attr := &syscall.ProcAttr{
		Env:   l.env,
		Files: []uintptr{streams[0].Fd(), streams[1].Fd(), streams[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	for range 50 {
		pid, err = syscall.ForkExec(path, l.argv, attr)
		// Another process that forked while the script was being written holds
		// it open until its exec.
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	runtime.KeepAlive(streams)
	return pid, err
}

// adjustOOM keeps the kernel from killing the init for what its job used. It
// is a comfort: where it is not allowed, nothing is lost but that.
func (i *initProcess) adjustOOM(score string) {
	if i.oomAdj != "" {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0)
	}
}

// openIf opens the script's streams if it is the moment to.
func openIf(cfg Config, now bool) (streams [3]*os.File, err error) {
	if !now {
		return streams, nil
	}
	open := func(what, path string, flags int) (*os.File, error) {
		f, err := os.OpenFile(path, flags, 0o666)
		if errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0 { // its folder, as Slurm does since 24.11
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				f, err = os.OpenFile(path, flags, 0o666)
			}
		}
		if err != nil {
			return nil, &container.StartError{
				Exit:    container.Exit{Signal: 53},
				Message: fmt.Sprintf("Could not open %s file %s: %s", what, path, text(err)),
			}
		}
		return f, nil
	}
	flags := os.O_WRONLY | os.O_APPEND | os.O_CREATE
	if cfg.Truncate {
		flags |= os.O_TRUNC
	}
	null := func(path string) string {
		if path == "" {
			return os.DevNull
		}
		return path
	}
	if streams[0], err = open("stdin", null(cfg.Stdin), os.O_RDONLY); err != nil {
		return streams, err
	}
	if streams[1], err = open("stdout", null(cfg.Stdout), flags); err != nil {
		return streams, err
	}
	if cfg.Stderr == "" || cfg.Stderr == cfg.Stdout {
		streams[2] = streams[1]
		return streams, nil
	}
	streams[2], err = open("stderr", cfg.Stderr, flags)
	return streams, err
}

// lookPath finds a program without a slash in the PATH of env, as execvp does.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
			break
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		full := filepath.Join(dir, name)
		if d, err := os.Stat(full); err == nil && !d.IsDir() && unix.Access(full, unix.X_OK) == nil {
			return full, nil
		}
	}
	return "", &exec.Error{Name: name, Err: syscall.ENOENT}
}

// execError says in Slurm's words why a script could not be executed.
func execError(path string, err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno == syscall.ENOENT {
		if f, openErr := os.Open(path); openErr == nil {
			defer f.Close() // read only
			line := make([]byte, 256)
			n, _ := f.Read(line) // an unreadable start is no interpreter line
			if interpreter, ok := strings.CutPrefix(string(line[:n]), "#!"); ok {
				interpreter, _, _ = strings.Cut(interpreter, "\n")
				return fmt.Sprintf("execve(): bad interpreter(%s): %s", strings.TrimSpace(interpreter), text(err))
			}
		}
	}
	return fmt.Sprintf("execve(): %s: %s", path, text(err))
}

// complain writes a line to the job's stderr, as slurmstepd does since 26.05. If it
// cannot be written there is nobody left to tell.
func complain(f *os.File, format string, args ...any) {
	_, _ = fmt.Fprintf(f, time.Now().Format("[2006-01-02T15:04:05.000]")+" error: "+format+"\n", args...)
}

// text is the C library's text of a system error.
func text(err error) string {
	var errno syscall.Errno
	var path *fs.PathError
	switch {
	case errors.As(err, &errno):
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:]
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}
