package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
)

// System returns the Env of this process, run as args.
func System(args []string) *Env {
	e := &Env{
		Prog:     filepath.Base(args[0]),
		Args:     args[1:],
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Environ:  os.Environ(),
		UID:      os.Getuid(),
		Local:    time.Local,
		Now:      time.Now,
		Sleep:    sleep,
		ReadFile: os.ReadFile,
		Create:   func(name string) (io.WriteCloser, error) { return os.Create(name) },
		Users:    &hostUsers{},
		Signals:  interrupts,
		Exec:     runHere,
	}
	e.Connect = func(ctx context.Context) (*client.Client, error) { return client.Find(ctx, e.Getenv) }
	e.Dir, _ = os.Getwd()      // an unreachable directory is the controller's to refuse
	e.Host, _ = os.Hostname()  // the same
	e.Umask = syscall.Umask(0) // there is no other way to ask
	syscall.Umask(e.Umask)
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0) // one's own session always exists
	e.SID = int(sid)
	if n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
		e.Nice = 20 - n // the kernel's answer counts from the other side
	}
	e.Limits = limits()
	return e
}

// runHere runs a program on this terminal. Signals of the keyboard reach it by
// itself and are not ours meanwhile.
func runHere(ctx context.Context, argv, environ []string) (int, error) {
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Reset(syscall.SIGINT, syscall.SIGQUIT)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return 0, err
	}
	if ws, ok := ended.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ended.ExitCode(), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// interrupts delivers the signals a user sends from the keyboard or with kill.
func interrupts(ctx context.Context) <-chan int {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT)
	out := make(chan int, 16)
	context.AfterFunc(ctx, func() { signal.Stop(caught); close(caught) })
	go func() { // ends when ctx does
		defer close(out)
		for s := range caught {
			if n, ok := s.(syscall.Signal); ok {
				out <- int(n)
			}
		}
	}()
	return out
}

// limits reads the soft resource limits of the calling shell: Go raises the
// number of open files in its own process, so the parent's is the true one.
func limits() map[string]uint64 {
	out := map[string]uint64{}
	numbers := map[string]int{"CPU": 0, "FSIZE": 1, "DATA": 2, "STACK": 3, "CORE": 4, "RSS": 5, "NPROC": 6, "NOFILE": 7, "MEMLOCK": 8, "AS": 9}
	for name, n := range numbers {
		var r syscall.Rlimit
		if err := syscall.Getrlimit(n, &r); err == nil {
			out[name] = r.Cur
		}
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/limits")
	if err != nil {
		return out
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if rest, ok := bytes.CutPrefix(line, []byte("Max open files")); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				if n, err := strconv.ParseUint(string(f[0]), 10, 64); err == nil {
					out["NOFILE"] = n
				}
			}
		}
	}
	return out
}

// hostUsers asks /etc/passwd and, where that does not know, getent, which also
// sees LDAP and the like.
type hostUsers struct {
	mu    sync.Mutex
	cache map[string]string
}

// getent returns one record of a database by key, empty if there is none.
func (h *hostUsers) getent(database, key string) []string {
	if key == "" || strings.HasPrefix(key, "-") {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := database + " " + key
	line, ok := h.cache[k]
	if !ok {
		out, err := exec.Command("getent", database, key).Output() //nolint:noctx // ends by itself
		if err == nil {
			line = strings.TrimSpace(string(out))
		}
		if h.cache == nil {
			h.cache = map[string]string{}
		}
		h.cache[k] = line
	}
	if line == "" {
		return nil
	}
	return strings.Split(line, ":")
}

func (h *hostUsers) ID(name string) (int64, bool) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int64(n), true
	}
	if u, err := user.Lookup(name); err == nil {
		n, err := strconv.ParseInt(u.Uid, 10, 64)
		return n, err == nil
	}
	if f := h.getent("passwd", name); len(f) > 2 {
		n, err := strconv.ParseInt(f[2], 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (h *hostUsers) Name(id int64) string {
	text := strconv.FormatInt(id, 10)
	if u, err := user.LookupId(text); err == nil {
		return u.Username
	}
	if f := h.getent("passwd", text); len(f) > 0 {
		return f[0]
	}
	return text
}

func (h *hostUsers) GroupID(name string) (int64, bool) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int64(n), true
	}
	if g, err := user.LookupGroup(name); err == nil {
		n, err := strconv.ParseInt(g.Gid, 10, 64)
		return n, err == nil
	}
	if f := h.getent("group", name); len(f) > 2 {
		n, err := strconv.ParseInt(f[2], 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (h *hostUsers) Groups() []string {
	ids, err := os.Getgroups()
	if err != nil {
		return nil
	}
	var out []string
	for _, id := range append(ids, os.Getgid()) {
		text := strconv.Itoa(id)
		if g, err := user.LookupGroupId(text); err == nil {
			out = append(out, g.Name)
		} else if f := h.getent("group", text); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}
