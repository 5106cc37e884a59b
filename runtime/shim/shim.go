// Package shim holds one attempt of a job on its node. It starts the container,
// enforces the time limit and the fence, serves the job's own socket, and writes
// down how it ended. It outlives the agent and needs neither it nor the controller:
// all it is told lies in the attempt's folder (package attempt) or comes over the
// folder's socket.
//
// Decisions:
//   - One goroutine owns the state (loop); requests are functions sent to it. Hooks
//     and steps run beside it, they touch only the container.
//   - Time is CLOCK_BOOTTIME through a timerfd: a machine that slept past its fence
//     deadline freezes the job as soon as it wakes.
//   - The container's own first process keeps the exit status on disk, so a shim
//     that finds its container again (Load) loses nothing. Whether it may go on or
//     the attempt is lost is the agent's to say.
//   - Refused: copying the job's output. A process that can be killed must not
//     stand between a job and its output.
package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Open gives the driver of a runtime (containerd, process).
type Open func(ctx context.Context, runtime string) (container.Runtime, error)

// Config is what a shim needs.
type Config struct {
	Dir   string // the attempt's folder
	Open  Open
	Now   func() time.Time
	Log   *slog.Logger
	Ready func() // called once the script runs; nil for none
}

// Run holds the attempt of a folder until it has ended and exit.json is there. The
// job is not ended by ctx: a cancelled ctx only lets go of it. Running it again on
// a folder that has ended does nothing; on one whose container runs it takes over.
func Run(ctx context.Context, cfg Config) error {
	dir := cfg.Dir
	lock, err := attempt.Lock(dir)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer lock.Close()
	var exit attempt.Exit
	if found, err := attempt.Read(dir, attempt.ExitFile, &exit); err != nil || found {
		return err
	}
	s := &shim{
		dir: dir, now: cfg.Now,
		calls: make(chan func(), 8),
		done:  make(chan struct{}),
		tasks: map[*task]bool{},
	}
	if found, err := attempt.Read(dir, attempt.SpecFile, &s.spec); err != nil || !found {
		return fmt.Errorf("shim of %s: no spec: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	s.log = cfg.Log.With("job", s.spec.Job, "restart", s.spec.Restart)
	if err := s.listen(ctx); err != nil {
		return s.failed(container.Fail(container.ErrInfra, err))
	}
	if err := s.begin(ctx, cfg.Open); err != nil {
		return s.failed(err)
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	return s.hold(ctx)
}

type shim struct {
	dir  string
	spec attempt.Spec
	now  func() time.Time
	log  *slog.Logger

	// Opened before the script starts: its first line may be a squeue.
	commandsAt, jobAt net.Listener
	runtime           container.Runtime
	box               container.Container
	calls             chan func()   // for the loop
	done              chan struct{} // closed when exit.json is there

	state attempt.State // the loop's alone

	mu    sync.Mutex // protects the fields below
	tasks map[*task]bool
}

// begin starts the container, or finds the one an earlier shim started.
func (s *shim) begin(ctx context.Context, open Open) error {
	rt, err := open(ctx, s.spec.Runtime)
	if err != nil {
		return container.Fail(container.ErrInfra, err)
	}
	s.runtime = rt
	started, err := attempt.Read(s.dir, attempt.StateFile, &s.state)
	if err != nil {
		return container.Fail(container.ErrInfra, err)
	}
	box, err := rt.Load(ctx, s.spec.Run.ID)
	if err == nil {
		s.box = box
		return nil
	}
	if !errors.Is(err, container.ErrNotFound) || started {
		return container.Fail(container.ErrInfra, err)
	}
	s.state.TimeLimit = s.spec.TimeLimit
	if s.box, err = rt.Start(ctx, s.spec.Run); err != nil {
		return err
	}
	s.state.Start, s.state.StartBoot = s.now(), attempt.BootTime()
	s.state.ScriptPid = s.box.Pid()
	s.log.Debug("script runs", "pid", s.state.ScriptPid)
	return s.save()
}

// hold serves and watches until the end.
func (s *shim) hold(ctx context.Context) error {
	serveCtx, stop := context.WithCancel(ctx)
	defer stop()
	g, serveCtx := errgroup.WithContext(serveCtx)
	s.serve(serveCtx, g)
	ended := make(chan container.Exit, 1)
	g.Go(func() error {
		exit, err := s.box.Wait(serveCtx)
		if err == nil {
			ended <- exit
		}
		return nil // the wait was given up with the shim
	})
	err := s.loop(serveCtx, ended)
	stop()
	if werr := g.Wait(); err == nil && !errors.Is(werr, context.Canceled) {
		err = werr
	}
	return err
}

// loop owns the state until the job has ended or the shim lets go.
func (s *shim) loop(ctx context.Context, ended <-chan container.Exit) error {
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	defer alarm.close()
	for {
		if err := alarm.set(s.tick(ctx)); err != nil {
			return err
		}
		select {
		case call := <-s.calls:
			call()
		case <-alarm.rang:
		case exit := <-ended:
			return s.end(ctx, exit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end writes the outcome, then takes the container away.
func (s *shim) end(ctx context.Context, exit container.Exit) error {
	e := attempt.Exit{Exit: exit}
	if s.state.Kill != nil {
		e.Reason = s.state.Kill.Reason
	}
	usage, err := s.box.Usage(ctx)
	if err != nil {
		s.log.Warn("usage of the ended job is not known", "err", err)
	}
	e.Usage = usage
	if err := attempt.Write(s.dir, attempt.ExitFile, e, true); err != nil {
		return err
	}
	close(s.done)
	if err := s.box.Delete(ctx); err != nil {
		s.log.Warn("container is not gone yet, the agent removes it", "err", err)
	}
	return nil
}

// failed writes down that the script was never started.
func (s *shim) failed(cause error) error {
	e := attempt.Exit{Failed: attempt.FailedInfra, Message: cause.Error()}
	var start *container.StartError
	switch {
	case errors.As(cause, &start):
		e.Failed, e.Exit = attempt.FailedUser, start.Exit
	case errors.Is(cause, container.ErrUser):
		e.Failed = attempt.FailedUser
	case errors.Is(cause, container.ErrImage):
		e.Failed = attempt.FailedImage
	case errors.Is(cause, container.ErrPin):
		e.Failed = attempt.FailedPin
	}
	s.log.Warn("job did not start", "class", e.Failed, "err", cause)
	return attempt.Write(s.dir, attempt.ExitFile, e, true)
}

// save is not synced: after a crash of the machine there is no job to know about.
func (s *shim) save() error {
	return attempt.Write(s.dir, attempt.StateFile, s.state, false)
}

// saveOrLog is save where there is nothing better to do about a failure: what was
// done stays done, only a later shim would not know it.
func (s *shim) saveOrLog() {
	if err := s.save(); err != nil {
		s.log.Error("shim state is not saved", "err", err)
	}
}

// do runs fn on the loop and waits for it. ErrNotRunning after the job's end.
func (s *shim) do(ctx context.Context, fn func() error) error {
	result := make(chan error, 1)
	select {
	case s.calls <- func() { result <- fn() }:
	case <-s.done:
		return container.ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-s.done:
		return container.ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signalAll sends to every process of the job; one that has ended is no fault.
func (s *shim) signalAll(ctx context.Context, sig syscall.Signal) {
	if err := s.box.Signal(ctx, sig, true); err != nil && !errors.Is(err, container.ErrNotRunning) {
		s.log.Warn("signal not delivered", "signal", int(sig), "err", err)
	}
}

func (s *shim) path(name string) string {
	return filepath.Join(s.dir, name)
}
