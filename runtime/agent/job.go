package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Phases of an attempt, as the controller sees them.
const (
	phasePulling   = "pulling"
	phaseStaging   = "staging"
	phaseRestoring = "restoring"
	phaseStarting  = "starting"
	phaseRunning   = "running"
	phaseSaving    = "saving"
	phaseEnding    = "ending"
	phaseEnded     = "ended"
)

const (
	progressFile = "progress.json"
	killFile     = "kill.json"
)

// progress is how far an attempt got. Each field is set after its step.
type progress struct {
	Launched bool `json:"launched"` // a shim may have been started
	Started  bool `json:"started"`  // Started is reported
	Over     bool `json:"over"`     // its end is reported
	Staged   bool `json:"staged"`   // results are brought back, or given up
	Finished bool `json:"finished"`

	Reclaimed bool   `json:"reclaimed,omitempty"` // a notice came before its end
	Saved     bool   `json:"saved,omitempty"`     // the reclaim's checkpoint is dealt with
	Digest    string `json:"digest,omitempty"`
	Restored  int32  `json:"restored,omitempty"` // number of the checkpoint it resumes from
	Steps     int    `json:"steps,omitempty"`    // lines of StepsFile that are reported
	NeverRan  bool   `json:"neverRan,omitempty"`
}

// killIntent is a Kill order, kept until the job has ended.
type killIntent struct {
	Kill       attempt.Kill  `json:"kill"`
	Checkpoint bool          `json:"checkpoint"` // save first
	Within     time.Duration `json:"within"`     // for that
	ByAgent    bool          `json:"byAgent"`
}

// run is one attempt on this node.
type run struct {
	a      *Agent
	key    journal.Attempt
	order  *agentapi.Order
	launch *agentapi.Launch
	dir    string
	log    *slog.Logger
	shim   *attempt.Client
	out    []*stream
	inbox  chan *agentapi.Order
	killed chan struct{} // closed when kill is set
	hurry  chan struct{} // closed when nothing is to be saved any more
	reboot bool          // the machine was started anew since: nothing of it runs

	mu       sync.Mutex // protects the fields below
	phase    string
	progress progress
	kill     *killIntent
	release  bool
	dropped  bool // nothing of it is wanted any more
	wake     chan struct{}
}

func (a *Agent) newRun(k journal.Attempt, o *agentapi.Order, dir string) *run {
	r := &run{
		a: a, key: k, order: o, launch: o.GetLaunch(), dir: dir,
		log:  a.log.With("job", k.Job, "restart", k.Restart),
		shim: attempt.NewClient(dir), inbox: make(chan *agentapi.Order, 256),
		killed: make(chan struct{}), hurry: make(chan struct{}), wake: make(chan struct{}),
		phase: phasePulling,
	}
	r.out = r.newStreams()
	return r
}

// run takes the attempt from wherever it is to its end. It fails only when the
// agent's own disk does.
func (r *run) run(ctx context.Context) error {
	if _, err := attempt.Read(r.dir, progressFile, &r.progress); err != nil {
		r.log.Error("progress of the job is lost, starting over from its folder", "err", err)
	}
	var intent killIntent
	if found, err := attempt.Read(r.dir, killFile, &intent); err == nil && found {
		r.kill = &intent
		close(r.killed)
		if !intent.Checkpoint && !intent.ByAgent {
			close(r.hurry)
		}
	}
	jobCtx, over := context.WithCancel(ctx)
	defer over()
	g, gctx := errgroup.WithContext(jobCtx)
	g.Go(func() error { return r.orders(gctx) })
	for _, s := range r.out {
		g.Go(func() error { return s.ship(gctx) })
	}
	g.Go(func() error {
		defer over()
		return r.steps(gctx)
	})
	err := g.Wait()
	if ctx.Err() != nil {
		return nil // the agent ends, the job goes on
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("job %s: %w", r.key, err)
	}
	return nil
}

// steps is the life of the attempt.
func (r *run) steps(ctx context.Context) error {
	switch p := r.read(); {
	case p.Over:
	case r.reboot:
		if err := r.afterReboot(); err != nil {
			return err
		}
	default:
		if err := r.toTheEnd(ctx, p); err != nil {
			return err
		}
	}
	if err := r.finish(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, func() bool { return r.release || r.dropped }); err != nil {
		return err
	}
	return r.remove(ctx)
}

// afterReboot reports what became of a job whose machine was started anew.
func (r *run) afterReboot() error {
	var exit attempt.Exit
	found, err := attempt.Read(r.dir, attempt.ExitFile, &exit)
	if err != nil || !found {
		return r.reportEnd(attempt.Exit{}, "the node was restarted")
	}
	return r.reportEnd(exit, "")
}

// toTheEnd prepares, starts and watches the job and reports its end.
func (r *run) toTheEnd(ctx context.Context, p progress) error {
	if !p.Launched {
		err := r.prepare(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return r.neverRan(err)
		}
		if err := r.save(func(p *progress) { p.Launched = true }); err != nil {
			return err
		}
	}
	if err := r.ensureShim(ctx); err != nil {
		return err
	}
	exit, lost, err := r.watch(ctx)
	if err != nil {
		return err
	}
	return r.reportEnd(exit, lost)
}

// neverRan reports a job that failed, or was ended, before its script ran.
func (r *run) neverRan(cause error) error {
	r.mu.Lock()
	kill := r.kill
	r.mu.Unlock()
	if kill != nil {
		r.log.Info("job ended before it started")
		e := &agentapi.Exited{Signal: int32(syscall.SIGTERM)}
		e.Reason, e.KillReason = exitReason(kill.Kill.Reason)
		e.Notice = r.read().Reclaimed
		if err := r.report(&agentapi.Report{Event: &agentapi.Report_Exited{Exited: e}}); err != nil {
			return err
		}
	} else {
		r.log.Warn("job did not start", "err", cause)
		f := &agentapi.LaunchFailed{Class: failClass(cause), Message: cause.Error()}
		if err := r.report(&agentapi.Report{Event: &agentapi.Report_LaunchFailed{LaunchFailed: f}}); err != nil {
			return err
		}
	}
	return r.save(func(p *progress) { p.Over, p.NeverRan = true, true })
}

func failClass(err error) agentapi.FailClass {
	switch {
	case errors.Is(err, errDriver):
		return agentapi.FailClass_FAIL_DRIVER
	case errors.Is(err, container.ErrPin):
		return agentapi.FailClass_FAIL_PIN
	case errors.Is(err, container.ErrImage):
		return agentapi.FailClass_FAIL_IMAGE
	case errors.Is(err, container.ErrUser):
		return agentapi.FailClass_FAIL_USER
	}
	return agentapi.FailClass_FAIL_INFRA
}

// ensureShim has a shim hold the job, unless one does or did.
func (r *run) ensureShim(ctx context.Context) error {
	pid, err := attempt.Holder(r.dir)
	if err != nil || pid != 0 || r.hasEnded() {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.dir, attempt.LockFile)); err == nil {
		return nil // one was here and is gone: watch sees that
	}
	r.setPhase(phaseStarting)
	ready, err := r.a.cfg.StartShim(r.dir)
	if err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) hasEnded() bool {
	_, err := os.Stat(filepath.Join(r.dir, attempt.ExitFile))
	return err == nil
}

// reportEnd tells the controller how the attempt ended.
func (r *run) reportEnd(exit attempt.Exit, lost string) error {
	p := r.read()
	var report agentapi.Report
	switch {
	case lost != "" || exit.Lost:
		if lost == "" {
			lost = exit.Exit.Reason
		}
		r.log.Warn("job is lost", "why", lost)
		report.Event = &agentapi.Report_Lost{Lost: &agentapi.Lost{Message: lost}}
	case exit.Failed != "":
		r.log.Warn("job did not start", "class", exit.Failed, "err", exit.Message)
		f := &agentapi.LaunchFailed{Message: exit.Message, Code: int32(exit.Code), Signal: int32(exit.Signal)}
		f.Class = map[string]agentapi.FailClass{
			attempt.FailedImage: agentapi.FailClass_FAIL_IMAGE,
			attempt.FailedPin:   agentapi.FailClass_FAIL_PIN,
			attempt.FailedUser:  agentapi.FailClass_FAIL_USER,
		}[exit.Failed] // else 0: the node's fault
		report.Event = &agentapi.Report_LaunchFailed{LaunchFailed: f}
	default:
		e := &agentapi.Exited{
			Code: int32(exit.Code), Signal: int32(exit.Signal), Oom: exit.OOM, Notice: p.Reclaimed,
			Usage: &agentapi.Usage{
				UserUs: uint64(exit.Usage.CPU.Microseconds()), MaxRssKib: exit.Usage.MaxRSSBytes >> 10,
				ElapsedMs: uint64(exit.Elapsed.Milliseconds()),
			},
			Streams: r.sizes(),
		}
		r.mu.Lock()
		if k := r.kill; exit.Reason == "" && k != nil && k.Checkpoint {
			exit.Reason = k.Kill.Reason // it ended on the warning, before the kill itself
		}
		r.mu.Unlock()
		e.Reason, e.KillReason = exitReason(exit.Reason)
		if p.Reclaimed && e.Reason == agentapi.ExitReason_EXIT_SCRIPT {
			e.Reason = agentapi.ExitReason_EXIT_RECLAIMED
		}
		r.log.Info("job ended", "code", exit.Code, "signal", exit.Signal, "reason", e.Reason.String())
		report.Event = &agentapi.Report_Exited{Exited: e}
	}
	if err := r.report(&report); err != nil {
		return err
	}
	r.setPhase(phaseEnding)
	return r.save(func(p *progress) { p.Over, p.NeverRan = true, exit.Failed != "" })
}

func exitReason(reason string) (agentapi.ExitReason, agentapi.KillReason) {
	switch reason {
	case "":
		return agentapi.ExitReason_EXIT_SCRIPT, 0
	case attempt.ReasonTimeLimit:
		return agentapi.ExitReason_EXIT_TIME_LIMIT, agentapi.KillReason_KILL_TIME_LIMIT
	case attempt.ReasonReclaimed:
		return agentapi.ExitReason_EXIT_RECLAIMED, agentapi.KillReason_KILL_PREEMPT
	case attempt.ReasonOrphaned:
		return agentapi.ExitReason_EXIT_ORPHANED, agentapi.KillReason_KILL_NODE_FAIL
	case attempt.ReasonRequeue:
		return agentapi.ExitReason_EXIT_KILLED, agentapi.KillReason_KILL_REQUEUE
	case attempt.ReasonPreempt:
		return agentapi.ExitReason_EXIT_KILLED, agentapi.KillReason_KILL_PREEMPT
	case attempt.ReasonNodeFail:
		return agentapi.ExitReason_EXIT_KILLED, agentapi.KillReason_KILL_NODE_FAIL
	}
	return agentapi.ExitReason_EXIT_KILLED, agentapi.KillReason_KILL_CANCEL
}

// report is Agent.report about the batch step of this attempt.
func (r *run) report(rep *agentapi.Report) error {
	if rep.Key == nil {
		rep.Key = r.reportKey()
	}
	return r.a.report(rep)
}

// setPhase changes the phase and tells it. That is worth no disk write and no
// repetition: the next Hello says it too.
func (r *run) setPhase(phase string) {
	r.mu.Lock()
	changed := r.phase != phase
	r.phase = phase
	r.mu.Unlock()
	if s := r.a.current(); changed && s != nil {
		s.send(reportMessage(&agentapi.Report{
			Key: r.reportKey(), TimeUnixNano: r.a.cfg.Now().UnixNano(),
			Event: &agentapi.Report_Progress{Progress: &agentapi.Progress{Phase: phase}},
		}))
	}
}

func (r *run) reportKey() *agentapi.Key {
	return &agentapi.Key{Job: r.key.Job, Restart: r.key.Restart, Step: agentapi.BatchStep, Epoch: r.a.journal.Epoch()}
}

func (r *run) read() progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// save changes the progress and writes it down.
func (r *run) save(change func(*progress)) error {
	r.mu.Lock()
	change(&r.progress)
	p := r.progress
	r.mu.Unlock()
	if err := attempt.Write(r.dir, progressFile, p, false); err != nil {
		return fmt.Errorf("job %s: %w", r.key, err)
	}
	return nil
}

// signalWake lets until look again. The lock is held.
func (r *run) signalWake() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// until waits for a condition of the fields under the lock.
func (r *run) until(ctx context.Context, cond func() bool) error {
	for {
		r.mu.Lock()
		ok, wake := cond(), r.wake
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// status is the attempt as Hello tells it.
func (r *run) status() *agentapi.Running {
	var st attempt.State
	// Without a state the job has not started: neither frozen nor held.
	_, err := attempt.Read(r.dir, attempt.StateFile, &st)
	pid, herr := attempt.Holder(r.dir)
	if err != nil || herr != nil {
		r.log.Warn("state of the job is not known", "err", errors.Join(err, herr))
	}
	r.mu.Lock()
	phase := r.phase
	if r.progress.Finished {
		phase = phaseEnded
	}
	r.mu.Unlock()
	return &agentapi.Running{
		Attempt: r.key.Proto(), Phase: phase, ShimAlive: pid != 0,
		Frozen: st.Frozen || st.Suspended, Streams: r.sizes(),
	}
}
