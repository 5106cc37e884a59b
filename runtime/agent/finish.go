package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/stage"
)

// stageOutTries is how often results are tried to be brought back before the user
// is told that they could not.
const stageOutTries = 8

// finish brings the results back, waits for the output to be safe and takes the
// container and the job's folders away.
func (r *run) finish(ctx context.Context) error {
	if r.read().Finished {
		return nil
	}
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	r.a.jobs.Go(func() error {
		if r.until(wanted, func() bool { return r.dropped }) == nil {
			cancel() // nothing is wanted any more
		}
		return nil
	})
	if err := r.bringBack(wanted); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.shipped(wanted); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.removeContainer(ctx); err != nil {
		return err
	}
	if err := r.closeShared(); err != nil {
		return fmt.Errorf("job %s: %w", r.key, err)
	}
	if err := os.RemoveAll(r.runDir()); err != nil {
		return fmt.Errorf("job %s: %w", r.key, err)
	}
	if err := r.report(&agentapi.Report{Event: &agentapi.Report_Finished{Finished: &agentapi.Finished{}}}); err != nil {
		return err
	}
	r.setPhaseQuietly(phaseEnded)
	return r.save(func(p *progress) { p.Finished = true })
}

// bringBack stages the results out and reports it.
func (r *run) bringBack(ctx context.Context) error {
	p := r.read()
	if p.Staged || p.NeverRan || r.launch.GetWorkDirMode() != agentapi.WorkDir_WORKDIR_SYNC {
		return nil
	}
	var out agentapi.StagedOut
	var backoff agentapi.Backoff
	for try := 1; ; try++ {
		dir, link := r.staging()
		files, bytes, err := stage.Out(ctx, dir, link)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			out.Files, out.Bytes = uint32(files), uint64(bytes)
			break
		}
		r.log.Warn("results are not back yet", "err", err)
		if try == stageOutTries {
			out.Message = err.Error()
			break
		}
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return err
		}
	}
	if err := r.report(&agentapi.Report{Event: &agentapi.Report_StagedOut{StagedOut: &out}}); err != nil {
		return err
	}
	return r.save(func(p *progress) { p.Staged = true })
}

// removeContainer takes away what the shim has not.
func (r *run) removeContainer(ctx context.Context) error {
	var backoff agentapi.Backoff
	for {
		rt, err := r.a.cfg.Open(ctx, r.launch.GetRuntime())
		if err == nil {
			err = rt.Remove(ctx, attempt.ContainerID(r.key.Job, r.key.Restart))
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r.log.Warn("container is not removed yet", "err", err)
		if err := agentapi.Sleep(ctx, backoff.Next()); err != nil {
			return err
		}
	}
}

// remove forgets the attempt: the controller has everything.
func (r *run) remove(ctx context.Context) error {
	// The shim writes its last before it ends; it is given a moment.
	for range 100 {
		if pid, err := attempt.Holder(r.dir); err != nil || pid == 0 {
			break
		}
		if err := agentapi.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if err := r.a.journal.Release(r.key); err != nil {
		return err
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("job %s: %w", r.key, err)
	}
	r.a.forget(r.key)
	r.log.Debug("job is released")
	return nil
}
