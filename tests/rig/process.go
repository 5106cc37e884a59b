package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Daemon is one started program. Its output is in Log.
type Daemon struct {
	Log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it was waited for
}

// Pid is the program's process.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Ended is closed when the program has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.done }

// Kill ends the program with SIGKILL and waits for it.
func (d *Daemon) Kill() {
	d.cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
	<-d.done
}

// Stop asks with SIGTERM and kills after the grace. Stopping what has ended is
// nothing.
func (d *Daemon) Stop(grace time.Duration) error {
	d.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended by itself
	select {
	case <-d.done:
		return nil
	case <-time.After(grace):
		d.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", filepath.Base(d.cmd.Path), grace)
	}
}

// daemon starts a program in the background, its output appended to
// log/NAME.log below the rig's folder. Nothing is deferred: the caller decides
// how it ends.
func (r *Rig) daemon(name string, env []string, argv ...string) (*Daemon, error) {
	dir, err := r.mkdir(0o755, "log")
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives the call
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = r.Dir
	cmd.Stdout, cmd.Stderr = out, out
	// A session of its own: a ^C at the demo reaches us, and we stop it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d := &Daemon{Log: log, cmd: cmd, done: make(chan struct{})}
	r.mu.Lock()
	r.running = append(r.running, d)
	r.mu.Unlock()
	go func() {
		cmd.Wait() //nolint:errcheck // how it ended is in its log
		close(d.done)
	}()
	return d, nil
}

// Agent starts the agent of one of the site's own machines, which is this one, with
// the configuration that `sbatchd join` printed. Close ends it.
func (r *Rig) Agent(name, config string) (*Daemon, error) {
	state, err := r.mkdir(0o711, "agent-"+name)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(state, "agent.json"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	return r.daemon("agent-"+name, nil, filepath.Join(r.Bin, "sbatchd-node"), "agent", "--state", state)
}

// isService says whether a process is one the rig started and still runs.
func (r *Rig) isService(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.running {
		if d.Pid() == pid {
			select {
			case <-d.done:
			default:
				return true
			}
		}
	}
	return false
}

// find looks a program up in PATH and where Debian keeps daemons.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", Source(".cache", "tools")} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// run runs a program to its end and returns an error with its output when it
// fails.
func run(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(argv[0]), err, out)
	}
	return nil
}
