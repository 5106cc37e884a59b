// Package rig sets up a private sbatchd with real parts around it: an image
// registry, an S3 server, an SSH server, ordinary users, a controller with a
// configuration of its own, all below one temporary folder and on loopback
// ports the kernel chose. The demo, the end-to-end tests and the benchmarks
// stand on it.
//
// Whatever a Rig starts or makes, Close stops and removes, last made first, and
// Leaks tells what is left on the machine that was not there before.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rig is one private set-up. Its methods may be called from one goroutine at a
// time, save As, which may run in several.
type Rig struct {
	Dir  string // everything is below it; 0755, so that users reach their homes
	Bin  string // folder with the built programs
	Root bool   // whether this process may have nodes with namespaces, and users

	before   census
	machines map[string]bool // ids of the local machines seen in a controller's log

	mu      sync.Mutex
	cleanup []func() error
	running []*Daemon
}

// New makes the folder and counts what is on the machine. Programs are taken
// from bin/ at the top of the source tree, or from SBATCHD_BIN.
func New(name string) (*Rig, error) {
	bin := os.Getenv("SBATCHD_BIN")
	if bin == "" {
		bin = filepath.Join(top(), "bin")
	}
	if _, err := os.Stat(filepath.Join(bin, "sbatchd")); err != nil {
		return nil, fmt.Errorf("rig: no programs in %s (make build): %w", bin, err)
	}
	// Not below TMPDIR: unix sockets live here and their paths are short.
	dir, err := os.MkdirTemp("/tmp", "sb-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	r := &Rig{Dir: dir, Bin: bin, Root: os.Geteuid() == 0, machines: map[string]bool{}}
	r.before = takeCensus()
	return r, nil
}

// top is the top of the source tree this package was built from.
func top() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Source returns a path below the source tree.
func Source(elem ...string) string { return filepath.Join(append([]string{top()}, elem...)...) }

// Defer has f called by Close, before all that was deferred earlier.
func (r *Rig) Defer(f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanup = append(r.cleanup, f)
}

// Close stops and removes everything. SBATCHD_KEEP=1 keeps the folder to look
// at.
func (r *Rig) Close() error {
	r.mu.Lock()
	todo := r.cleanup
	r.cleanup = nil
	r.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(todo) {
		errs = append(errs, f())
	}
	if os.Getenv("SBATCHD_KEEP") == "" {
		errs = append(errs, os.RemoveAll(r.Dir))
	}
	return errors.Join(errs...)
}

// Path returns a path below the rig's folder.
func (r *Rig) Path(elem ...string) string {
	return filepath.Join(append([]string{r.Dir}, elem...)...)
}

// mkdir makes a folder below the rig's and returns its path.
func (r *Rig) mkdir(perm os.FileMode, elem ...string) (string, error) {
	path := r.Path(elem...)
	if err := os.MkdirAll(path, perm); err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	return path, nil
}

// FreePort asks the kernel for a loopback port that nobody holds now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, answered at once
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Eventually asks f until it says yes, or ctx ends, or f fails. The error names
// what was waited for and the last thing f said.
func Eventually(ctx context.Context, what string, f func() (done bool, state string, err error)) error {
	pause := 5 * time.Millisecond
	for {
		done, state, err := f()
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last seen: %s", what, context.Cause(ctx), state)
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

// waitPort waits until something listens on a loopback port.
func waitPort(ctx context.Context, what string, port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return Eventually(ctx, what, func() (bool, string, error) {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false, err.Error(), nil //nolint:nilerr // not yet
		}
		return true, "", conn.Close()
	})
}

// tail returns the last lines of a file, for error messages.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
