package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbatchd/sbatchd/tests/differential/session"
	"github.com/sbatchd/sbatchd/tests/rig"
)

// Real is the real Slurm.
type Real struct {
	server
	pid string // of the first process of its namespaces
}

// InstallReal installs the real Slurm. It needs the network, so it is done outside
// the world.
func InstallReal(ctx context.Context) error {
	_, err := script(ctx, "install", "sessions")
	return err
}

// StartReal starts it afresh.
func StartReal(ctx context.Context) (*Real, error) {
	if _, err := script(ctx, "down"); err != nil {
		return nil, err
	}
	if _, err := script(ctx, "up", "sessions"); err != nil {
		return nil, err
	}
	pid, err := script(ctx, "pid")
	if err != nil {
		return nil, err
	}
	r := &Real{pid: strings.TrimSpace(pid)}
	r.server = server{url: "http://127.0.0.1:26820", token: func(ctx context.Context, user string) (string, error) {
		token, err := script(ctx, "token", user)
		return strings.TrimSpace(token), err
	}}
	return r, Prepare(ctx, r)
}

// Close stops it.
func (r *Real) Close() error {
	_, err := script(context.Background(), "down")
	return err
}

// script runs a verb of the setup script.
func script(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", append([]string{rig.Source("tests", "setup", "real-slurm.sh")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("real-slurm.sh %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// Host is a path of the real Slurm's tree.
func (r *Real) Host(path string) string {
	return filepath.Join(rig.Source(".cache", "real-slurm"), path)
}

// Run runs a command line among the real Slurm's processes.
func (r *Real) Run(ctx context.Context, c session.Command) (session.Answer, error) {
	id := fmt.Sprint(session.Users[c.User])
	return execute(ctx, c, nil,
		"nsenter", "--target", r.pid, "--mount", "--pid", "--uts", "--root", "--wdns=/", "--setuid", id, "--setgid", id, "--",
		"/bin/sh", "-c", `cd "$0" || exit 125; eval "$1"`, c.Dir, c.Line)
}

// REST asks slurmrestd.
func (r *Real) REST(ctx context.Context, user, method, path, body string) (session.Answer, error) {
	return r.ask(ctx, user, method, path, body)
}

// execute runs a program to its end with a command's environment and input.
func execute(ctx context.Context, c session.Command, as *syscall.Credential, argv ...string) (session.Answer, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environment(c)
	cmd.Stdin = strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A process group of its own, so that what hangs ends as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return session.Answer{}, fmt.Errorf("%s: %w", argv[0], err)
	}
	return session.Answer{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, nil
}
