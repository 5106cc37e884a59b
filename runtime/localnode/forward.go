package localnode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// ForwardMain is `sbatchd-node forward --dir D`: it starts the machine of a
// folder and returns once that runs, 0, or prints why it does not, 1. Starting
// a running machine is success. With --machine it is the machine itself.
func ForwardMain(args []string) int {
	flags := flag.NewFlagSet("forward", flag.ContinueOnError)
	dir := flags.String("dir", "", "the machine's folder")
	machine := flags.Bool("machine", false, "be the machine; descriptor 3 takes the report")
	if err := flags.Parse(args); err != nil || *dir == "" {
		fmt.Fprintln(os.Stderr, "usage: sbatchd-node forward --dir DIR")
		return 2
	}
	if !*machine {
		if err := launch(*dir); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	report := os.NewFile(3, "report")
	if err := runMachine(*dir, report); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		fmt.Fprintln(report, err) // too late to matter once it said ok
		return 1
	}
	return 0
}

// launch starts the machine as a process that outlives this one and its
// session, and waits for its first word.
func launch(dir string) error {
	m, err := Load(dir)
	if err != nil {
		return err
	}
	console, err := os.OpenFile(filepath.Join(dir, ConsoleFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer console.Close() // the child has its own
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() // read only
	cmd := exec.CommandContext(context.Background(), m.Binary, "forward", "--machine", "--dir", dir)
	cmd.Env = environment(m)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close() // the child's end is what counts
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case line == "ok":
		return nil
	case line != "":
		return errors.New(line)
	case errors.Is(err, io.EOF):
		return errors.New("the machine ended without a word")
	default:
		return err
	}
}

// environment is what a machine's processes start with: never the
// controller's own variables.
func environment(m Machine) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		Mark + "=" + m.Tag,
	}
	keep := []string{"LANG", "LC_ALL", "TZ", "GOCOVERDIR"}
	if m.Isolated {
		env = append(env, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh")
	} else {
		keep = append(keep, "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
	}
	for _, name := range keep {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// host is the running machine.
type host struct {
	dir      string
	m        Machine
	log      *slog.Logger
	children *children
	init     int // process id
	slirp    int
}

// runMachine is the machine: it ends when its init does.
func runMachine(dir string, report io.WriteCloser) error {
	runtime.LockOSThread() // children die with this thread, which is never let go
	m, err := Load(dir)
	if err != nil {
		return err
	}
	mine, err := lock(dir)
	if err != nil {
		return err
	}
	if !mine {
		if err := awaitReady(dir); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(report, "ok"); err != nil {
			return err
		}
		return report.Close()
	}
	h := &host{
		dir: dir, m: m, children: newChildren(),
		log: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("instance", m.Tag),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	_, _, start, err := stat(os.Getpid())
	if err != nil {
		return err
	}
	self := process{PID: os.Getpid(), Start: start}
	if err := writeJSON(filepath.Join(dir, ForwardFile), self); err != nil {
		return err
	}
	go h.children.reap()
	if err := h.boot(ctx, self); err != nil {
		h.end()
		return err
	}
	if _, err := fmt.Fprintln(report, "ok"); err != nil {
		h.log.Info("nobody waits for the machine any more", "err", err)
	}
	report.Close() // said all
	h.log.Info("machine runs", "node", m.Node, "pool", m.Pool)
	err = h.watch(ctx)
	h.end()
	return err
}

// awaitReady waits until the machine that another process runs has booted.
func awaitReady(dir string) error {
	for {
		alive, err := Alive(dir)
		switch {
		case err != nil:
			return err
		case exists(filepath.Join(dir, DeletedFile)):
			return errors.New("the machine is being deleted")
		case !alive:
			return errors.New("the machine has ended")
		case exists(filepath.Join(dir, ReadyFile)):
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// boot starts the sockets, init and the network, and waits until init has
// started the agent.
func (h *host) boot(ctx context.Context, self process) error {
	var netns func() (string, error)
	if h.m.Isolated {
		netns = func() (string, error) {
			if h.init == 0 {
				return "", errors.New("node has no network yet")
			}
			return fmt.Sprintf("/proc/%d/ns/net", h.init), nil
		}
	}
	if err := h.serveSockets(ctx, netns); err != nil {
		return err
	}
	ready, readyW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close() // read only
	goOn, goOnW, err := os.Pipe()
	if err != nil {
		return err
	}
	held = append(held, goOnW) // init ends when it closes
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close() // nothing written
	attr := &syscall.SysProcAttr{Setsid: true}
	if h.m.Isolated {
		attr.Pdeathsig = syscall.SIGKILL
		attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET
	}
	h.init, err = h.children.start([]string{h.m.Binary, "init", "--dir", h.dir}, os.Environ(), "/",
		[]*os.File{null, os.Stdout, os.Stderr, readyW, goOn}, attr)
	readyW.Close() // init's end is what counts
	goOn.Close()
	if err != nil {
		return err
	}
	if h.m.Isolated {
		if err := h.network(self); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	if _, err := goOnW.Write([]byte("go\n")); err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	line, err := bufio.NewReader(ready).ReadString('\n')
	if line = strings.TrimSpace(line); line != "ok" {
		if line == "" {
			return fmt.Errorf("init ended at once: %w", err)
		}
		return errors.New(line)
	}
	return nil
}

// watch waits for the end of init, whoever brings it about: init itself, the
// market, the auto-release time or a signal.
func (h *host) watch(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := newDeadline(h)
	for {
		select {
		case <-ctx.Done():
			h.log.Info("machine ends: signal")
			return nil
		case e := <-h.children.exits:
			switch e.pid {
			case h.init:
				h.init = 0
				h.log.Info("machine ends: its init has ended", "status", int(e.status))
				return nil
			case h.slirp:
				h.slirp = 0
				h.log.Warn("the node has no way to the internet any more: slirp4netns has ended", "status", int(e.status))
			}
		case <-tick.C:
			h.trimConsole()
			why, err := deadline.check(time.Now())
			if err != nil {
				h.log.Warn("look at the market", "err", err)
			}
			if why != "" {
				h.log.Info("machine ends: " + why)
				return nil
			}
		}
	}
}

// mostConsole is how large the console file may grow.
const mostConsole = 8 << 20

// trimConsole empties the console when it is full: everyone writes at its end.
func (h *host) trimConsole() {
	path := filepath.Join(h.dir, ConsoleFile)
	if fi, err := os.Stat(path); err != nil || fi.Size() < mostConsole {
		return
	}
	if err := os.Truncate(path, 0); err != nil {
		h.log.Warn("trim console", "err", err)
	}
}

// end kills what is left of the machine. Its folder stays for the provider.
func (h *host) end() {
	for _, pid := range []int{h.init, h.slirp} {
		if pid != 0 && h.m.Isolated {
			if err := ignoreGone(unix.Kill(pid, unix.SIGKILL)); err != nil {
				h.log.Error("kill", "err", err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := Kill(ctx, h.m.Tag); err != nil {
		h.log.Error("machine left processes", "err", err)
	}
}

// deadline is when the machine is taken away.
type deadline struct {
	h       *host
	booted  time.Time
	spent   map[string]bool
	chosen  time.Time // of the reclaim; zero is none
	notice  time.Time
	release time.Time
}

func newDeadline(h *host) *deadline {
	return &deadline{h: h, booted: time.Now(), spent: map[string]bool{}}
}

// check announces a reclaim that is due and says why the machine ends now, or
// "".
func (d *deadline) check(now time.Time) (string, error) {
	var r struct{ At time.Time }
	err := readJSON(filepath.Join(d.h.dir, ReleaseFile), &r)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err == nil && !r.At.IsZero() && now.After(r.At) {
		return "auto-release", nil
	}
	if !d.chosen.IsZero() {
		if !now.Before(d.chosen) {
			return "reclaimed by the market", nil
		}
		return "", nil
	}
	for _, rule := range d.h.m.Reclaims {
		at, ok := d.due(rule)
		if !ok || d.spent[rule.Rule] || now.Before(at.Add(-rule.Notice)) {
			continue
		}
		hit, err := countHit(d.h.m.CountFile, rule)
		if err != nil {
			return "", err
		}
		if !hit {
			d.spent[rule.Rule] = true
			continue
		}
		if rule.Notice > 0 && at.Sub(now) < rule.Notice/2 {
			at = now.Add(rule.Notice) // announced late: the notice is still given in full
		}
		d.chosen = at
		if rule.Notice <= 0 {
			return d.check(now)
		}
		d.h.log.Info("the market announces a reclaim", "at", at)
		return "", writeJSON(filepath.Join(d.h.dir, NoticeFile), agentapi.Notice{At: at, NoticeSeconds: rule.Notice.Seconds()})
	}
	return "", nil
}

// due says when a rule takes this machine, if that is known yet.
func (d *deadline) due(r Reclaim) (time.Time, bool) {
	switch {
	case r.After > 0:
		return d.booted.Add(r.After), true
	case r.AfterJob > 0:
		fi, err := os.Stat(filepath.Join(d.h.dir, ActiveFile))
		if err != nil {
			return time.Time{}, false
		}
		return fi.ModTime().Add(r.AfterJob), true
	case !r.At.IsZero():
		return r.At, d.booted.Before(r.At)
	default:
		return time.Time{}, false
	}
}

// countHit books one hit of a rule; false means it has had all its hits.
func countHit(path string, r Reclaim) (bool, error) {
	if r.Times <= 0 || path == "" {
		return true, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close() // synced below
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return false, err
	}
	counts := map[string]int{}
	if err := json.NewDecoder(f).Decode(&counts); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if counts[r.Rule] >= r.Times {
		return false, nil
	}
	counts[r.Rule]++
	data, err := json.Marshal(counts)
	if err != nil {
		return false, err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return false, err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return false, err
	}
	return true, f.Sync()
}
