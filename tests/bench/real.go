package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// realSlurm is Debian's Slurm, set up by tests/setup/real-slurm.sh.
type realSlurm struct{ tree string }

func newReal(ctx context.Context) (system, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("it needs root")
	}
	r := realSlurm{tree: rig.Source(".cache", "real-slurm")}
	if _, err := r.script(ctx, "up"); err != nil {
		return nil, err
	}
	return r, nil
}

// script runs a verb of the setup script and returns what it prints.
func (r realSlurm) script(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", append([]string{rig.Source("tests", "setup", "real-slurm.sh")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("real-slurm.sh %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (r realSlurm) Fresh(ctx context.Context) error {
	if _, err := r.script(ctx, "down"); err != nil {
		return err
	}
	_, err := r.script(ctx, "up")
	return err
}

func (r realSlurm) REST(ctx context.Context) (endpoint, error) {
	token, err := r.script(ctx, "token")
	return endpoint{url: "http://127.0.0.1:26820", version: "v0.0.44", user: "alice", token: token, dir: "/tmp"}, err
}

func (r realSlurm) Version(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/squeue", "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.tree}
	cmd.Dir = "/"
	begin := time.Now()
	err := cmd.Run()
	return time.Since(begin), err
}

func (r realSlurm) FirstLine(ctx context.Context) (time.Duration, time.Duration, error) {
	// Its clock starts inside, so that entering the namespaces does not count.
	const inside = `rm -f first; date +%s%N; sbatch -Q -o first --wrap 'date +%s%N'; date +%s%N
		until [ -s first ]; do sleep 0.005; done; cat first`
	out, err := r.script(ctx, "run", "sh", "-c", inside)
	if err != nil {
		return 0, 0, err
	}
	return between(out)
}

func (r realSlurm) RSS(ctx context.Context) (int64, error) {
	pid, err := r.script(ctx, "pid", "slurmctld")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0, fmt.Errorf("slurmctld's process: %w", err)
	}
	return residentBytes(n)
}

func (r realSlurm) Close() error {
	_, err := r.script(context.Background(), "down")
	return err
}

// between reads three points in time, in nanoseconds: sbatch typed, sbatch done,
// first line; other words are left out.
func between(out string) (sbatch, line time.Duration, err error) {
	var at []int64
	for word := range strings.FieldsSeq(out) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && len(word) > 15 {
			at = append(at, n)
		}
	}
	if len(at) != 3 {
		return 0, 0, fmt.Errorf("want three points in time, got %q", out)
	}
	return time.Duration(at[1] - at[0]), time.Duration(at[2] - at[0]), nil
}

// residentBytes reads a process's resident memory from /proc.
func residentBytes(pid int) (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib * 1024, nil
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}
