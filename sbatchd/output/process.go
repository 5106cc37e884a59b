package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// opTime is how long a helper may take for one request, before it is taken for
// dead (a file server that doesn't answer).
const opTime = time.Minute

// stopTime is how long a helper may take to end by itself.
const stopTime = 3 * time.Second

// errHelper: the helper is gone or doesn't answer; a new one may do better.
var errHelper = errors.New("output helper")

// Command makes the command that runs HelperMain as a user.
type Command func(ctx context.Context, c *asuser.Cred) (*exec.Cmd, error)

// Reexec runs this program again with args as the helper.
func Reexec(args ...string) Command {
	return func(ctx context.Context, c *asuser.Cred) (*exec.Cmd, error) {
		// By this name it starts even from a folder that the user can't enter,
		// and after an upgrade replaced the file.
		return asuser.Command(ctx, c, "/proc/self/exe", args...)
	}
}

// process is a running helper. One caller at a time.
type process struct {
	in   *os.File // the helper reads here
	out  *os.File
	w    *bufio.Writer
	r    *bufio.Reader
	kill context.CancelFunc
	gone chan struct{}
}

// startHelper starts a helper that holds lock, an open file description with a
// flock, for as long as it lives. The caller closes lock afterwards.
func startHelper(ctx context.Context, command Command, c asuser.Cred, lock *os.File) (*process, error) {
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	p, err := launchHelper(ctx, command, c, lock)
	if err != nil {
		kill()
		return nil, fmt.Errorf("%w: start: %w", errHelper, err)
	}
	p.kill = kill
	return p, nil
}

func launchHelper(ctx context.Context, command Command, c asuser.Cred, lock *os.File) (*process, error) {
	cmd, err := command(ctx, &c)
	if err != nil {
		return nil, err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = theirIn, theirOut, []*os.File{lock}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p := &process{in: in, out: out, w: bufio.NewWriterSize(in, 64<<10), r: bufio.NewReader(out), gone: make(chan struct{})}
	go func() { // ends with the process: that may be long after its user hung
		_ = cmd.Wait() // how it ended says nothing
		close(p.gone)
	}()
	return p, nil
}

// stop ends the helper: by the end of its input, or at once. One that can't
// die, because its file server hangs, is left to itself; its lock keeps others
// away.
func (p *process) stop(now bool) {
	if now {
		p.kill()
	}
	_ = p.in.Close() // it may be gone already
	late := time.AfterFunc(stopTime, p.kill)
	defer late.Stop()
	select {
	case <-p.gone:
	case <-time.After(2 * stopTime):
	}
	_ = p.out.Close() // read side
	p.kill()
}

// do sends one request and waits for its answer. An error that wraps errHelper
// is about the helper, any other about the user's file.
func (p *process) do(q request) (reply, error) {
	var a reply
	q.Len = len(q.data)
	late := time.AfterFunc(opTime, func() {
		p.kill()
		_ = p.in.Close()  // ends a write that hangs
		_ = p.out.Close() // ends a read that hangs, if the helper can't die
	})
	defer late.Stop()
	err := send(p.w, &q, q.data)
	if err == nil {
		err = receive(p.r, &a)
	}
	if err != nil {
		return a, fmt.Errorf("%w: %s: %w", errHelper, q.Op, err)
	}
	switch {
	case a.Errno != 0:
		return a, fileError{a.Err, syscall.Errno(a.Errno)}
	case a.Err != "":
		return a, errors.New(a.Err)
	}
	return a, nil
}

// fileError is an error from the helper's side: its text and its number.
type fileError struct {
	text string
	no   syscall.Errno
}

func (e fileError) Error() string { return e.text }
func (e fileError) Unwrap() error { return e.no }
