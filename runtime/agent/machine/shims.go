package machine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// ReadyFD is the descriptor a shim writes one byte to once its job's script runs.
const ReadyFD = 3

// Shims starts shim processes. One is always kept waiting, for the start of a process
// is most of the time between an order and the script's first line.
type Shims struct {
	Program string // sbatchd-node
	State   string // folder of the node, for who looks at its processes
	Log     *slog.Logger

	mu    sync.Mutex // protects the fields below
	spare *spare
}

// spare is a shim that does not know its job yet. It ends with this process unless it
// was given one.
type spare struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready *os.File
}

// Warm starts a shim ahead of its job.
func (s *Shims) Warm() {
	sp, err := s.spawn()
	if err != nil {
		s.Log.Warn("no shim waits for the next job", "err", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare == nil {
		s.spare = sp
		return
	}
	sp.in.Close() // it ends by that
}

// Start has a shim hold the folder. The channel is closed once the script runs or the
// shim has ended.
func (s *Shims) Start(dir string) (<-chan struct{}, error) {
	s.mu.Lock()
	sp := s.spare
	s.spare = nil
	s.mu.Unlock()
	if sp == nil || sp.tell(dir) != nil {
		var err error
		if sp, err = s.spawn(); err != nil {
			return nil, err
		}
		if err := sp.tell(dir); err != nil {
			return nil, fmt.Errorf("shim took no job: %w", err)
		}
	}
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		var b [1]byte
		_, _ = sp.ready.Read(b[:]) // a byte or its end: both are news
		sp.ready.Close()
		go s.Warm()
	}()
	return ready, nil
}

func (sp *spare) tell(dir string) error {
	_, err := io.WriteString(sp.in, dir+"\n")
	if cerr := sp.in.Close(); err == nil {
		err = cerr
	}
	return err
}

// spawn starts a shim that waits for its folder on its standard input.
func (s *Shims) spawn() (*spare, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd := exec.CommandContext(context.Background(), s.Program, "shim", "--wait", "--state", s.State) // it outlives us
	cmd.ExtraFiles = []*os.File{w}                                                                    // ReadyFD
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start shim: %w", err)
	}
	go cmd.Wait() //nolint:errcheck // only to reap it: how a job ended is in its folder
	return &spare{cmd: cmd, in: in, ready: r}, nil
}

// ShimLog opens the log of a folder's shim.
func ShimLog(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, attempt.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}
