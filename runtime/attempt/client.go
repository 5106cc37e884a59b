package attempt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Paths of the shim's socket; all take POST with a JSON body.
const (
	PathSignal  = "/signal"  // Signal
	PathKill    = "/kill"    // Kill
	PathThaw    = "/thaw"    // ends a fence's freeze
	PathSuspend = "/suspend" // and Resume
	PathResume  = "/resume"
	PathLimit   = "/limit" // Limit
	PathHook    = "/hook"  // Hook -> HookResult
	PathFreeze  = "/freeze"
	PathWait    = "/wait" // answers when exit.json is there
)

// Headers of a request that the shim passes on from the job to the agent.
const (
	HeaderAttempt = "X-Sbatchd-Attempt" // <job>.<restart>
	HeaderUID     = "X-Sbatchd-Uid"     // of the process that asked
	HeaderGID     = "X-Sbatchd-Gid"
)

// Signal is one signal for the job.
type Signal struct {
	Number int  `json:"number"`
	Batch  bool `json:"batch"` // the script's shell alone
	Full   bool `json:"full"`  // everything; neither: the steps
}

// Limit is a new time limit, from the start; 0 for none.
type Limit struct {
	TimeLimit time.Duration `json:"timeLimit"`
}

// Hook is a command line to run in the job's container as the job's user. Its
// output goes where the job's goes.
type Hook struct {
	Command string        `json:"command"`
	Env     []string      `json:"env"`
	Timeout time.Duration `json:"timeout"` // then SIGKILL; 0: none
}

// HookResult is how a hook ended.
type HookResult struct {
	Code     int    `json:"code"`
	Signal   int    `json:"signal"`
	TimedOut bool   `json:"timedOut"`
	Gone     bool   `json:"gone"` // the script had ended: there was nothing to run it in
	Message  string `json:"message,omitempty"`
}

// ErrNoShim says that nobody serves the folder's socket.
var ErrNoShim = errors.New("the job's shim is gone")

// Client speaks to the shim of one folder.
type Client struct{ http *http.Client }

// NewClient makes a client; it opens nothing.
func NewClient(dir string) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return DialUnix(ctx, filepath.Join(dir, SocketFile))
		},
		DisableKeepAlives: true,
	}}}
}

// Do posts a command. in may be nil; out is filled from the answer unless nil.
// ErrNoShim when there is no shim (any more).
func (c *Client) Do(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("shim %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shim"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("shim %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ErrNoShim, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoShim, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("shim %s: %s", path, bytes.TrimSpace(data))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("shim %s: %w", path, err)
	}
	return nil
}

// maxSocketPath is the longest path a socket address holds on Linux.
const maxSocketPath = 107

// DialUnix dials a unix socket of any path length.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", short)
}

// ListenUnix listens on a unix socket of any path length with the given mode. A
// file of that name is replaced: the caller knows that it is its own.
func ListenUnix(ctx context.Context, path string, mode os.FileMode) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the name may be another's by then
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// shorten gives a name of the same socket that fits an address: through an open
// descriptor of its folder. done closes that.
func shorten(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	return short, func() { dir.Close() }, nil
}
