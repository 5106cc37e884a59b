package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// lookAgain is how often what cannot be waited for is looked at.
const lookAgain = 100 * time.Millisecond

// watch follows a launched job to its end: it saves and ends it as orders, notices
// and intervals want, and returns how it ended, or why it is lost.
func (r *run) watch(ctx context.Context) (exit attempt.Exit, lost string, err error) {
	if err := r.reportStarted(); err != nil {
		return exit, "", err
	}
	g, gctx := errgroup.WithContext(ctx)
	gone := make(chan struct{})
	g.Go(func() error {
		defer close(gone)
		var err error
		exit, lost, err = r.waitEnd(gctx)
		return err
	})
	g.Go(func() error { return r.policy(gctx, gone) })
	g.Go(func() error { return r.reportSteps(gctx, gone) })
	err = g.Wait()
	return exit, lost, err
}

// reportStarted tells that the script runs, once.
func (r *run) reportStarted() error {
	p := r.read()
	if p.Started {
		r.setPhaseQuietly(phaseRunning)
		return nil
	}
	var st attempt.State
	if found, err := attempt.Read(r.dir, attempt.StateFile, &st); err != nil || !found {
		return err // it never came to run: the end says why
	}
	r.a.activated()
	rep := &agentapi.Report{Event: &agentapi.Report_Started{Started: &agentapi.Started{
		Pid: int32(st.ScriptPid), ImageDigest: p.Digest, DriverVersion: r.a.hardware.GetDriverVersion(),
		Runtime: r.launch.GetRuntime(), RestoredNumber: p.Restored,
	}}}
	if err := r.report(rep); err != nil {
		return err
	}
	r.setPhaseQuietly(phaseRunning)
	return r.save(func(p *progress) { p.Started = true })
}

func (r *run) setPhaseQuietly(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// waitEnd waits for exit.json. A shim that is gone without it leaves the job lost.
func (r *run) waitEnd(ctx context.Context) (exit attempt.Exit, lost string, err error) {
	for {
		found, err := attempt.Read(r.dir, attempt.ExitFile, &exit)
		if err != nil || found {
			return exit, "", err
		}
		pid, err := attempt.Holder(r.dir)
		if err != nil {
			return exit, "", err
		}
		if pid == 0 {
			// It may have ended between the two looks.
			if found, err := attempt.Read(r.dir, attempt.ExitFile, &exit); err != nil || found {
				return exit, "", err
			}
			return r.shimGone(ctx)
		}
		if err := r.shim.Do(ctx, attempt.PathWait, nil, nil); err != nil {
			if err := agentapi.Sleep(ctx, lookAgain); err != nil {
				return exit, "", err
			}
		}
	}
}

// shimGone ends what a dead shim left behind. If the script had ended before, its
// exit status still counts.
func (r *run) shimGone(ctx context.Context) (exit attempt.Exit, lost string, err error) {
	r.log.Warn("shim is gone, ending what it left")
	var backoff agentapi.Backoff
	for {
		exit, lost, err = r.endContainer(ctx)
		if err == nil || ctx.Err() != nil {
			return exit, lost, err
		}
		r.log.Warn("job without a shim is not ended yet", "err", err)
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return exit, "", err
		}
	}
}

func (r *run) endContainer(ctx context.Context) (exit attempt.Exit, lost string, err error) {
	const why = "the job's shim died"
	rt, err := r.a.cfg.Open(ctx, r.launch.GetRuntime())
	if err != nil {
		return exit, "", err
	}
	id := attempt.ContainerID(r.key.Job, r.key.Restart)
	box, err := rt.Load(ctx, id)
	if err != nil {
		return exit, why, rt.Remove(ctx, id)
	}
	if err := box.Kill(ctx); err != nil {
		return exit, "", err
	}
	end, err := box.Wait(ctx)
	if err != nil {
		return exit, "", err
	}
	if err := rt.Remove(ctx, id); err != nil {
		return exit, "", err
	}
	if end.Lost || end.Signal == int(unix.SIGKILL) {
		return exit, why, nil
	}
	return attempt.Exit{Exit: end}, "", nil
}

// reportSteps reports the steps that srun started, from the shim's record.
func (r *run) reportSteps(ctx context.Context, gone <-chan struct{}) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		last := false
		select {
		case <-tick.C:
		case <-gone:
			last = true
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.newSteps(); err != nil || last {
			return err
		}
	}
}

func (r *run) newSteps() error {
	f, err := os.Open(filepath.Join(r.dir, attempt.StepsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	done := r.read().Steps
	for n := 1; lines.Scan(); n++ {
		if n <= done {
			continue
		}
		var s attempt.Step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil // a line being written
		}
		rep := &agentapi.Report{Key: &agentapi.Key{Job: r.key.Job, Restart: r.key.Restart, Step: s.ID}}
		if s.Ended {
			rep.Event = &agentapi.Report_Exited{Exited: &agentapi.Exited{
				Code: int32(s.Code), Signal: int32(s.Signal), Usage: &agentapi.Usage{ElapsedMs: uint64(s.ElapsedMS)},
			}}
		} else {
			rep.Event = &agentapi.Report_Started{Started: &agentapi.Started{StepName: s.Name, Ntasks: uint32(s.NTasks)}}
		}
		if err := r.report(rep); err != nil {
			return err
		}
		if err := r.save(func(p *progress) { p.Steps = n }); err != nil {
			return err
		}
	}
	return lines.Err()
}

// take queues an order for the attempt.
func (r *run) take(o *agentapi.Order) error {
	if k := o.GetKill(); k != nil {
		// Not behind a slow order.
		if err := r.takeKill(killOf(k)); err != nil {
			return fmt.Errorf("job %s: %w", r.key, err)
		}
		r.a.ack(o, "")
		return nil
	}
	if n := o.GetNotice(); n != nil {
		if err := r.a.takeNotice(&notice{deadline: time.Unix(0, n.GetDeadlineUnixNano())}); err != nil {
			return fmt.Errorf("job %s: %w", r.key, err)
		}
		r.a.ack(o, "")
		return nil
	}
	select {
	case r.inbox <- o:
		return nil
	default:
		return fmt.Errorf("job %s: too many orders wait", r.key)
	}
}

func killOf(k *agentapi.Kill) killIntent {
	reason := map[agentapi.KillReason]string{
		agentapi.KillReason_KILL_CANCEL:     attempt.ReasonCancel,
		agentapi.KillReason_KILL_TIME_LIMIT: attempt.ReasonTimeLimit,
		agentapi.KillReason_KILL_REQUEUE:    attempt.ReasonRequeue,
		agentapi.KillReason_KILL_PREEMPT:    attempt.ReasonPreempt,
		agentapi.KillReason_KILL_NODE_FAIL:  attempt.ReasonNodeFail,
	}[k.GetReason()]
	return killIntent{
		Kill:       attempt.Kill{Reason: reason, Notice: k.GetNotice(), Grace: time.Duration(k.GetGraceS()) * time.Second},
		Checkpoint: k.GetCheckpoint(), Within: time.Duration(k.GetCheckpointSeconds()) * time.Second,
	}
}

// takeKill notes that the job is to be ended, so that a restarted agent knows too.
// The first one stands, but one that wants nothing saved cuts a save short.
func (r *run) takeKill(k killIntent) error {
	r.mu.Lock()
	known := r.kill != nil
	if !k.Checkpoint && !k.ByAgent && !isOver(r.hurry) {
		close(r.hurry)
	}
	r.mu.Unlock()
	if known {
		return nil
	}
	if k.Kill.Grace == 0 {
		k.Kill.Grace = r.a.graceful()
	}
	if err := attempt.Write(r.dir, killFile, k, true); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kill == nil {
		r.kill = &k
		close(r.killed)
	}
	return nil
}

func (a *Agent) graceful() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killWait
}

// orders carries out what was queued, one by one.
func (r *run) orders(ctx context.Context) error {
	for {
		select {
		case o := <-r.inbox:
			if r.a.journal.WasDone(o.GetId()) {
				r.a.ack(o, "")
				continue
			}
			err := r.carryOut(ctx, o)
			switch {
			case errors.Is(err, attempt.ErrNoShim):
				r.a.ack(o, "the job is not running")
			case err != nil:
				r.log.Warn("order is not done", "order", o.GetId(), "err", err)
				r.a.ack(o, err.Error())
			default:
				r.a.ack(o, "")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *run) carryOut(ctx context.Context, o *agentapi.Order) error {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch w := o.GetWhat().(type) {
	case *agentapi.Order_Signal:
		return r.shim.Do(callCtx, attempt.PathSignal, attempt.Signal{
			Number: int(w.Signal.GetSignal()), Batch: w.Signal.GetBatch(), Full: w.Signal.GetFull(),
		}, nil)
	case *agentapi.Order_Suspend:
		return r.shim.Do(callCtx, attempt.PathSuspend, nil, nil)
	case *agentapi.Order_Resume:
		return r.shim.Do(callCtx, attempt.PathResume, nil, nil)
	case *agentapi.Order_SetTimeLimit:
		limit := time.Duration(w.SetTimeLimit.GetTimeLimitS()) * time.Second
		return r.shim.Do(callCtx, attempt.PathLimit, attempt.Limit{TimeLimit: limit}, nil)
	case *agentapi.Order_Checkpoint:
		return r.checkpointOrder(ctx, w.Checkpoint)
	case *agentapi.Order_Release:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.release = true
		r.signalWake()
		return nil
	}
	return fmt.Errorf("order %T is not known to this agent", o.GetWhat())
}

// verdict is the controller's word about an attempt after a new link.
func (r *run) verdict(v agentapi.Verdict_Action) {
	switch v {
	case agentapi.Verdict_KEEP, agentapi.Verdict_THAW:
		r.a.jobs.Go(func() error {
			ctx, cancel := context.WithTimeout(r.a.jobsCtx, callTimeout)
			defer cancel()
			if err := r.shim.Do(ctx, attempt.PathThaw, nil, nil); err != nil && !errors.Is(err, attempt.ErrNoShim) {
				r.log.Warn("job is not thawed", "err", err)
			}
			return nil
		})
	case agentapi.Verdict_KILL:
		if err := r.takeKill(killIntent{Kill: attempt.Kill{Reason: attempt.ReasonNodeFail}}); err != nil {
			r.log.Error("kill is not noted", "err", err)
		}
	case agentapi.Verdict_FORGET:
		if err := r.takeKill(killIntent{Kill: attempt.Kill{Reason: attempt.ReasonNodeFail, Quiet: true, Grace: time.Nanosecond}}); err != nil {
			r.log.Error("kill is not noted", "err", err)
		}
		r.mu.Lock()
		r.dropped = true
		r.signalWake()
		r.mu.Unlock()
	}
}
