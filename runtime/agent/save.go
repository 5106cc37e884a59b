package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
)

// Reasons of a checkpoint, as hooks and manifests say them.
const (
	saveReclaim  = "reclaim"
	savePreempt  = "preempt"
	saveInterval = "interval"
	saveUser     = "user"
)

// saveWithin is how long a save before a kill may take if the order does not say.
const saveWithin = 2 * time.Minute

// keepCheckpoints is how many complete checkpoints of a job stay in the store.
const keepCheckpoints = 3

// policy ends and saves the running job as notices, orders and its interval want.
// It returns once the job has ended and what was to be saved is safe.
func (r *run) policy(ctx context.Context, gone <-chan struct{}) error {
	noticed, killed := r.a.noticed, r.killed
	if p := r.read(); p.Reclaimed && !p.Saved {
		noticed = closed // a notice that an earlier agent did not see through
	}
	var tick <-chan time.Time
	if every := r.launch.GetCheckpoint().GetIntervalS(); every > 0 {
		t := time.NewTicker(time.Duration(every) * time.Second)
		defer t.Stop()
		tick = t.C
	}
	for {
		// A notice goes before everything that happens at the same time.
		select {
		case <-noticed:
		default:
			select {
			case <-noticed:
			case <-gone:
				return nil
			case <-killed:
				killed = nil
				if err := r.endByOrder(ctx, gone); err != nil {
					return err
				}
				continue
			case <-tick:
				stop, cancel := r.untilDisturbed(ctx, gone)
				r.checkpoint(stop, saveInterval, time.Time{})
				cancel()
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		noticed = nil
		if err := r.reclaim(ctx, gone); err != nil {
			return err
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// untilDisturbed ends when something more urgent than a routine save comes up.
func (r *run) untilDisturbed(ctx context.Context, gone <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r.a.jobs.Go(func() error {
		select {
		case <-r.a.noticed:
		case <-r.killed:
		case <-gone:
		case <-ctx.Done():
		}
		cancel()
		return nil
	})
	return ctx, cancel
}

// untilHurry ends when nothing is to be saved any more.
func (r *run) untilHurry(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r.a.jobs.Go(func() error {
		select {
		case <-r.hurry:
		case <-ctx.Done():
		}
		cancel()
		return nil
	})
	return ctx, cancel
}

// reclaim saves the job before the machine goes, and ends it.
func (r *run) reclaim(ctx context.Context, gone <-chan struct{}) error {
	if err := r.save(func(p *progress) { p.Reclaimed = true }); err != nil {
		return err
	}
	deadline, reason := r.a.deadline(), attempt.ReasonReclaimed
	if r.a.isOrphan() {
		reason = attempt.ReasonOrphaned
	}
	r.saveAndEnd(ctx, gone, saveReclaim, deadline, attempt.Kill{Reason: reason})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.save(func(p *progress) { p.Saved = true })
}

// endByOrder carries out the Kill that was noted, with a save before it if it says so.
func (r *run) endByOrder(ctx context.Context, gone <-chan struct{}) error {
	r.mu.Lock()
	k := *r.kill
	r.mu.Unlock()
	if k.Checkpoint && !isOver(gone) {
		within := k.Within
		if within == 0 {
			within = saveWithin
		}
		deadline := r.a.cfg.Now().Add(within)
		if d := r.a.deadline(); d.Before(deadline) {
			deadline = d
		}
		r.saveAndEnd(ctx, gone, savePreempt, deadline, k.Kill)
		return ctx.Err()
	}
	r.end(ctx, gone, k.Kill)
	return ctx.Err()
}

// end tells the shim to end the job until it has. A shim that is gone is waitEnd's.
func (r *run) end(ctx context.Context, gone <-chan struct{}, k attempt.Kill) {
	r.setPhase(phaseEnding)
	for !isOver(gone) && ctx.Err() == nil {
		err := r.shim.Do(ctx, attempt.PathKill, k, nil)
		if err == nil {
			return
		}
		r.log.Debug("shim did not take the kill", "err", err)
		if agentapi.Sleep(ctx, lookAgain) != nil {
			return
		}
	}
}

// saveAndEnd is what a notice does to a job: its hook, or else its signal, then the
// checkpoint directory is saved, then the job is killed. Whatever goes wrong, the job
// ends before the deadline.
func (r *run) saveAndEnd(ctx context.Context, gone <-chan struct{}, reason string, deadline time.Time, k attempt.Kill) {
	r.setPhase(phaseSaving)
	plan := r.launch.GetCheckpoint()
	left := deadline.Sub(r.a.cfg.Now())
	reserve := max(min(left/4, 10*time.Second), 0) // to end the job and ship what it wrote
	saveBy := deadline.Add(-reserve)
	start := r.a.cfg.Now()
	saveCtx, cancel := r.untilHurry(ctx)
	good := true
	if plan.GetHook() != "" {
		good = r.runHook(saveCtx, reason, saveBy)
	} else {
		r.warn(ctx)
		forSave := time.Duration(0)
		if plan.GetDir() != "" {
			forSave = max(left/3, reserve)
		}
		// It may end by itself, having saved; else it is stopped where it is.
		select {
		case <-gone:
		case <-time.After(saveBy.Add(-forSave).Sub(r.a.cfg.Now())):
		case <-saveCtx.Done():
		}
	}
	if good && plan.GetDir() != "" && saveCtx.Err() == nil {
		if !isOver(gone) {
			// Nothing may change under the save, and nothing after it counts.
			if err := r.shim.Do(ctx, attempt.PathFreeze, nil, nil); err != nil {
				r.log.Warn("job is not frozen for its save", "err", err)
			}
		}
		byCtx, done := context.WithDeadline(saveCtx, saveBy)
		r.saveDir(byCtx, reason, start)
		done()
	}
	cancel()
	k.Grace = max(min(deadline.Sub(r.a.cfg.Now())-reserve/2, r.a.graceful()), 0)
	if plan.GetDir() != "" || plan.GetHook() != "" {
		k.Grace = 0 // it has been heard, and its state is the saved one
	}
	r.end(ctx, gone, k)
}

// warn sends the job's --signal, or SIGTERM to everything.
func (r *run) warn(ctx context.Context) {
	sig := attempt.Signal{Number: int(syscall.SIGTERM), Full: true}
	if js := r.launch.GetSignal(); js.GetSignal() != 0 {
		sig = attempt.Signal{Number: int(js.GetSignal()), Batch: js.GetBatchOnly()}
	}
	if err := r.shim.Do(ctx, attempt.PathSignal, sig, nil); err != nil {
		r.log.Warn("job is not warned of its end", "err", err)
	}
}

// checkpoint is a save while the job goes on: its hook, then the directory.
func (r *run) checkpoint(ctx context.Context, reason string, deadline time.Time) {
	start := r.a.cfg.Now()
	if deadline.IsZero() {
		deadline = start.Add(time.Hour)
	}
	if r.launch.GetCheckpoint().GetHook() != "" && !r.runHook(ctx, reason, deadline) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r.saveDir(ctx, reason, start)
}

// checkpointOrder is a Checkpoint order.
func (r *run) checkpointOrder(ctx context.Context, o *agentapi.Checkpoint) error {
	if r.launch.GetCheckpoint().GetDir() == "" {
		return errors.New("the job has no --checkpoint-dir")
	}
	reason := o.GetReason()
	if reason == "" {
		reason = saveUser
	}
	var deadline time.Time
	if ns := o.GetDeadlineUnixNano(); ns > 0 {
		deadline = time.Unix(0, ns)
	}
	r.checkpoint(ctx, reason, deadline)
	return nil
}

// runHook runs the checkpoint hook in the job's container and says whether it
// worked.
func (r *run) runHook(ctx context.Context, reason string, by time.Time) bool {
	left := by.Sub(r.a.cfg.Now())
	hook := attempt.Hook{
		Command: r.launch.GetCheckpoint().GetHook(),
		Timeout: max(left, time.Second),
		Env:     append(r.hookEnv(), "SBATCHD_CHECKPOINT_REASON="+reason, "SBATCHD_CHECKPOINT_SECONDS="+strconv.Itoa(max(int(left.Seconds()), 0))),
	}
	var res attempt.HookResult
	err := r.shim.Do(ctx, attempt.PathHook, hook, &res)
	var why string
	switch {
	case err != nil:
		why = err.Error()
	case res.Gone:
		return true // it ended: what it left is what there is
	case res.TimedOut:
		why = fmt.Sprintf("checkpoint hook did not end within %d s", int(left.Seconds()))
	case res.Message != "":
		why = "checkpoint hook: " + res.Message
	case res.Code != 0 || res.Signal != 0:
		why = fmt.Sprintf("checkpoint hook failed (exit code %d:%d)", res.Code, res.Signal)
	default:
		return true
	}
	r.saveFailed(reason, why)
	return false
}

// hookEnv is what both hooks see.
func (r *run) hookEnv() []string {
	_, inJob := r.checkpointDir()
	return []string{
		fmt.Sprintf("SLURM_JOB_ID=%d", r.key.Job),
		fmt.Sprintf("SLURM_RESTART_COUNT=%d", r.key.Restart),
		"SBATCHD_CHECKPOINT_DIR=" + inJob,
	}
}

// saveDir stores the checkpoint directory as a numbered checkpoint.
func (r *run) saveDir(ctx context.Context, reason string, start time.Time) {
	dir, _ := r.checkpointDir()
	if dir == "" {
		return
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		r.log.Info("nothing to save yet", "reason", reason)
		return
	}
	set, err := r.checkpoints(ctx)
	var m *checkpoint.Manifest
	if err == nil {
		m, err = set.Save(ctx, checkpoint.Spec{
			Restart: r.key.Restart, Reason: reason, Dir: dir, Time: r.a.cfg.Now(), Owner: r.owner(),
		})
	}
	if err != nil {
		r.saveFailed(reason, err.Error())
		return
	}
	r.log.Info("checkpoint saved", "number", m.Number, "reason", reason)
	done := &agentapi.CheckpointDone{
		Number: m.Number, Bytes: uint64(m.Total), Files: uint32(len(m.Files)), ManifestSha256: m.SHA256,
		Seconds: r.a.cfg.Now().Sub(start).Seconds(), Reason: reason,
	}
	if err := r.report(&agentapi.Report{Event: &agentapi.Report_CheckpointDone{CheckpointDone: done}}); err != nil {
		r.log.Error("checkpoint is not reported", "err", err)
	}
	if reason == saveInterval || reason == saveUser {
		if err := set.Prune(ctx, keepCheckpoints); err != nil {
			r.log.Warn("old checkpoints are not removed", "err", err)
		}
	}
}

func (r *run) saveFailed(reason, why string) {
	r.log.Warn("checkpoint failed", "reason", reason, "err", why)
	err := r.report(&agentapi.Report{Event: &agentapi.Report_CheckpointFailed{
		CheckpointFailed: &agentapi.CheckpointFailed{Message: why, Reason: reason},
	}})
	if err != nil {
		r.log.Error("failed checkpoint is not reported", "err", err)
	}
}

// owner is whose rights the job's files are touched with; nil is the agent's own.
func (r *run) owner() *asuser.Cred {
	if os.Geteuid() != 0 {
		return nil
	}
	u := r.launch.GetUser()
	return &asuser.Cred{UID: u.GetUid(), GID: u.GetGid(), Groups: u.GetGroups()}
}

// checkpoints is the job's set in the store that the controller names.
func (r *run) checkpoints(ctx context.Context) (*checkpoint.Set, error) {
	store, cluster, err := r.a.openStore(ctx, r.key)
	if err != nil {
		return nil, err
	}
	return checkpoint.New(store, cluster, r.key.Job, r.log), nil
}

// errNoStore: there is nowhere to save to.
var errNoStore = errors.New("this cluster has no CheckpointStore")

// openStore waits for the controller to have named the store, once.
func (a *Agent) openStore(ctx context.Context, k journal.Attempt) (checkpoint.Store, string, error) {
	a.mu.Lock()
	st := a.store
	a.mu.Unlock()
	if st == nil {
		s, err := a.await(ctx)
		if err != nil {
			return nil, "", err
		}
		st = s.reply.GetStore()
	}
	if st.GetUrl() == "" {
		return nil, "", errNoStore
	}
	loc, err := checkpoint.ParseLocation(st.GetUrl())
	if err != nil {
		return nil, "", err
	}
	if loc.Scheme == "file" {
		return checkpoint.OverLink(a.files(k, agentapi.FileKind_FILE_CHECKPOINT)), a.cfg.Cluster, nil
	}
	s3, err := checkpoint.NewS3(loc.S3, checkpoint.Credentials{
		AccessKey: st.GetAccessKey(), SecretKey: st.GetSecretKey(), SessionToken: st.GetSessionToken(),
	}, a.transport())
	if err != nil {
		return nil, "", err
	}
	return s3, a.cfg.Cluster, nil
}

// transport reaches the world through the node's egress proxy, if it has one.
func (a *Agent) transport() http.RoundTripper {
	if a.cfg.HTTP != nil {
		return a.cfg.HTTP
	}
	return http.DefaultTransport
}

func isOver(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}
