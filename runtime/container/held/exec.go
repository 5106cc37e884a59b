package held

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// Exec implements container.Container.
func (c *Container) Exec(ctx context.Context, spec container.ExecSpec) (container.Process, error) {
	if len(spec.Argv) == 0 {
		return nil, container.Failf(container.ErrUser, "exec in %s: no program", c.id)
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("exec in %s: %w", c.id, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := execinit.Request{
		Argv: spec.Argv, Env: spec.Env, Cwd: spec.Cwd, User: spec.User,
		HasStdin: spec.Stdin != nil, HasStdout: spec.Stdout != nil, HasStderr: spec.Stderr != nil,
	}
	var files []*os.File
	for _, f := range []*os.File{spec.Stdin, spec.Stdout, spec.Stderr} {
		if f != nil {
			files = append(files, f)
		}
	}
	var reply execinit.Reply
	err = execinit.Send(conn, req, files...)
	if err == nil {
		_, err = execinit.Receive(conn, &reply)
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("%w (%w)", container.ErrNotRunning, err)
	case reply.Error != "":
		err = container.Failf(container.ErrInfra, "%s", reply.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("exec in %s: %w", c.id, err), conn.Close())
	}
	return &process{c: c, conn: conn, pid: reply.Pid}, nil
}

// dial reaches the init. It goes by the open folder: the name of a socket is
// short, that of a folder need not be.
func (c *Container) dial(ctx context.Context) (*net.UnixConn, error) {
	_, alive, err := c.Holder()
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, container.ErrNotRunning
	}
	d, err := os.Open(c.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() // a folder
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", fmt.Sprint(d.Fd()), execinit.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", container.ErrNotRunning, err)
	}
	return conn.(*net.UnixConn), nil
}

// process is a hook or step. The init tells its end over conn, which nobody
// but the goroutine in Wait reads.
type process struct {
	c    *Container
	conn *net.UnixConn
	pid  int

	waiting sync.Mutex // held while reading the end
	ended   *container.Exit
}

func (p *process) Pid() int { return p.pid }

func (p *process) Signal(_ context.Context, sig syscall.Signal) error {
	if err := execinit.Send(p.conn, execinit.Order{Signal: int(sig)}); err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, container.ErrNotRunning)
	}
	return nil
}

func (p *process) Wait(ctx context.Context) (container.Exit, error) {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	if p.ended != nil {
		return *p.ended, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = p.conn.SetReadDeadline(time.Time{}) // for the next Wait
		}
	}()
	var reply execinit.Reply
	_, err := execinit.Receive(p.conn, &reply)
	if err != nil && ctx.Err() != nil {
		return container.Exit{}, ctx.Err()
	}
	e := container.Exit{Lost: true, Reason: "the container ended"}
	if err == nil && reply.Exit != nil {
		e = container.Exit{Code: reply.Exit.Code, Signal: reply.Exit.Signal}
	}
	p.ended = &e
	return e, p.conn.Close()
}
