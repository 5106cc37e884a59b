package machine

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/container/containerd"
)

// Daemon is the node's own containerd: started when it is not there, started again
// when it is gone. It outlives the agent, and the containers outlive it.
type Daemon struct {
	daemon  containerd.Daemon
	logFile string
	log     *slog.Logger
}

// NewDaemon makes one for a managed containerd; Run starts it.
func NewDaemon(cfg agentapi.ContainerdConfig, logFile string, log *slog.Logger) *Daemon {
	return &Daemon{
		daemon:  containerd.Daemon{Dir: cfg.Root, State: filepath.Dir(cfg.Socket)},
		logFile: logFile, log: log,
	}
}

// daemonLook is how often the daemon is looked at.
const daemonLook = 200 * time.Millisecond

// daemonLives is how long a daemon must have run for its start to count as good.
const daemonLives = time.Second

// Run keeps the daemon up until ctx ends, and leaves it running then.
func (d *Daemon) Run(ctx context.Context) error {
	var backoff agentapi.Backoff
	for {
		if d.up(ctx) {
			backoff.Reset()
			if err := agentapi.Sleep(ctx, daemonLook); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		ended, err := d.start()
		if err == nil {
			err = d.await(ctx, ended)
		}
		if time.Since(began) > daemonLives {
			backoff.Reset() // it did start: what ended it came from outside
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.log.Warn("containerd is not up", "err", err)
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return err
		}
	}
}

// up says whether somebody serves the socket.
func (d *Daemon) up(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(ctx, "unix", d.daemon.Address())
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// start starts the daemon; the channel has its end.
func (d *Daemon) start() (<-chan error, error) {
	// Not ctx: the agent's end is no reason to end it.
	cmd, err := d.daemon.Command(context.Background())
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(d.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	d.log.Info("containerd started", "pid", cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it may outlive Run: only a child can be reaped
	return ended, nil
}

// await returns when the daemon has ended, and why.
func (d *Daemon) await(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return fmt.Errorf("containerd ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
