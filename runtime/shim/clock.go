package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// alarm rings at a time on CLOCK_BOOTTIME.
type alarm struct {
	fd   int
	file *os.File
	rang chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	a := &alarm{fd: fd, file: os.NewFile(uintptr(fd), "timer"), rang: make(chan struct{}, 1)}
	go a.read()
	return a, nil
}

// read ends when the file is closed.
func (a *alarm) read() {
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return
		}
		select {
		case a.rang <- struct{}{}:
		default:
		}
	}
}

// set rings at a time, at once when it is past; 0 never.
func (a *alarm) set(at time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

func (a *alarm) close() { a.file.Close() }

// tick does what is due and says when something is due next, 0 for never.
func (s *shim) tick(ctx context.Context) time.Duration {
	now := attempt.BootTime()
	var next time.Duration
	at := func(t time.Duration, do func()) {
		if t <= now {
			do()
		} else if next == 0 || t < next {
			next = t
		}
	}
	if s.state.Kill != nil {
		at(s.state.KillBoot, func() {
			if err := s.box.Kill(ctx); err != nil {
				s.log.Warn("job is not dead yet", "err", err)
				next = now + time.Second
			}
		})
		return next
	}
	if s.spec.Fence > 0 && !s.state.Frozen {
		at(s.lease()+s.spec.Fence, func() { s.freeze(ctx) })
	}
	limit := s.state.TimeLimit
	if limit == 0 || s.state.Suspended {
		return next
	}
	over := s.state.StartBoot + s.state.SuspendSum + limit
	if sig := s.spec.Signal; sig.Number != 0 && !s.state.Signalled && !s.state.Frozen {
		at(over-sig.Before, func() { s.userSignal(ctx) })
	}
	at(over, func() {
		s.kill(ctx, attempt.Kill{Reason: attempt.ReasonTimeLimit, Grace: s.spec.KillWait})
		next = s.state.KillBoot
	})
	return next
}

// lease is when the last answered renewal was sent. A lease that cannot be read
// counts from the job's start.
func (s *shim) lease() time.Duration {
	data, err := os.ReadFile(s.spec.LeaseFile)
	if err != nil {
		return s.state.StartBoot
	}
	var l attempt.Lease
	if err := unmarshal(data, &l); err != nil {
		return s.state.StartBoot
	}
	return max(l.SentBoot, s.state.StartBoot)
}

// freeze stops the job at the fence deadline: the controller may have started it
// elsewhere.
func (s *shim) freeze(ctx context.Context) {
	if err := s.box.Freeze(ctx); err != nil {
		// A job that can't be stopped must not go on: it may run twice.
		s.log.Error("fence: job cannot be frozen and is killed", "err", err)
		s.kill(ctx, attempt.Kill{Reason: attempt.ReasonNodeFail})
		return
	}
	s.log.Info("fence: job is frozen until the controller is back")
	s.state.Frozen = true
	s.saveOrLog()
}

func (s *shim) thaw(ctx context.Context) error {
	if !s.state.Frozen {
		return nil
	}
	if !s.state.Suspended {
		if err := s.box.Thaw(ctx); err != nil {
			return err
		}
	}
	s.state.Frozen = false
	s.saveOrLog()
	return nil
}

func (s *shim) suspend(ctx context.Context) error {
	if s.state.Suspended {
		return nil
	}
	if err := s.box.Freeze(ctx); err != nil {
		return err
	}
	s.state.Suspended, s.state.SuspendBoot = true, attempt.BootTime()
	return s.save()
}

func (s *shim) resume(ctx context.Context) error {
	if !s.state.Suspended {
		return nil
	}
	if !s.state.Frozen {
		if err := s.box.Thaw(ctx); err != nil {
			return err
		}
	}
	s.state.Suspended = false
	s.state.SuspendSum += attempt.BootTime() - s.state.SuspendBoot
	return s.save()
}

// userSignal sends the job's --signal, once.
func (s *shim) userSignal(ctx context.Context) {
	sig := s.spec.Signal
	s.state.Signalled = true
	s.saveOrLog()
	s.signalAll(ctx, syscall.SIGCONT)
	s.signal(ctx, attempt.Signal{Number: sig.Number, Batch: sig.BatchOnly})
}

// signal delivers as scancel does: to the script's shell alone, to everything, or
// to the steps.
func (s *shim) signal(ctx context.Context, sig attempt.Signal) {
	number := syscall.Signal(sig.Number)
	switch {
	case sig.Full:
		s.signalAll(ctx, number)
	case sig.Batch:
		if err := s.box.Signal(ctx, number, false); err != nil && !errors.Is(err, container.ErrNotRunning) {
			s.log.Warn("signal not delivered", "signal", sig.Number, "err", err)
		}
	default:
		s.signalTasks(ctx, number)
	}
}

// kill begins the end: the line, SIGTERM, and SIGKILL after the grace. A second
// kill can only make it sooner; its reason is not taken.
func (s *shim) kill(ctx context.Context, k attempt.Kill) {
	deadline := attempt.BootTime() + k.Grace
	if s.state.Kill != nil {
		s.state.KillBoot = min(s.state.KillBoot, deadline)
		s.saveOrLog()
		return
	}
	if s.state.Frozen || s.state.Suspended {
		deadline = 0 // it could not hear a SIGTERM
	}
	s.state.Kill, s.state.KillBoot = &k, deadline
	s.saveOrLog()
	if !k.Quiet {
		s.note(k)
	}
	if deadline == 0 || k.Grace <= 0 {
		return
	}
	if k.Reason == attempt.ReasonTimeLimit || k.Reason == attempt.ReasonPreempt {
		s.signalTasks(ctx, syscall.SIGTERM)
	}
	s.signalAll(ctx, syscall.SIGCONT)
	s.signalAll(ctx, syscall.SIGTERM)
}

// due are the words of Slurm's line for each reason.
var due = map[string]string{
	attempt.ReasonTimeLimit: " DUE TO TIME LIMIT",
	attempt.ReasonReclaimed: " DUE TO PREEMPTION",
	attempt.ReasonPreempt:   " DUE TO PREEMPTION",
	attempt.ReasonRequeue:   " DUE TO JOB REQUEUE",
	attempt.ReasonNodeFail:  " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
	attempt.ReasonOrphaned:  " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
	attempt.ReasonCancel:    " DUE to SIGNAL Terminated",
}

// note writes the line about the end into the job's stderr.
func (s *shim) note(k attempt.Kill) {
	line := k.Notice
	if line == "" {
		now := s.now()
		line = fmt.Sprintf("[%s] error: *** JOB %d ON %s CANCELLED AT %s%s ***", now.Format("2006-01-02T15:04:05.000"),
			s.spec.Job, s.spec.Node, now.Format("2006-01-02T15:04:05"), due[k.Reason])
	}
	if s.spec.Notes == "" {
		return
	}
	var owner *asuser.Cred
	if u := s.spec.Run.User; s.spec.NotesAsUser {
		owner = &asuser.Cred{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	err := asuser.Do(owner, func() error {
		f, err := os.OpenFile(s.spec.Notes, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line + "\n")
		return errors.Join(err, f.Close())
	})
	if err != nil {
		s.log.Warn("the job's stderr did not take a line", "err", err)
	}
}
