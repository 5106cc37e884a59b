package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// allocation is a job that srun or salloc made for itself.
type allocation struct {
	e  *Env
	c  *client.Client
	id int64
}

// lookEvery is how often the job is looked at while its command waits for it.
const lookEvery = 100 * time.Millisecond

// allocate submits a job for srun or salloc. change sets what a batch job has and
// its options don't say.
func allocate(ctx context.Context, e *Env, v *option.Values, s script, change func(*wire.JobDescMsg)) (*allocation, error) {
	what := "Unable to allocate resources: %s"
	if v.Tool == option.Salloc {
		what = "Job submit/allocate failed: %s"
	}
	c, err := e.Client(ctx)
	if err != nil {
		return nil, withExitError(e, failed(what, text(err)))
	}
	if err := checkCluster(ctx, e, c, v); err != nil {
		return nil, err
	}
	values := []*option.Values{v}
	req, err := submission(e, values, s)
	if err != nil {
		return nil, err
	}
	change(req.Job)
	resp, err := c.Submit(ctx, req)
	if err != nil {
		return nil, withExitError(e, refusedJob(ctx, e, c, values, err))
	}
	for _, l := range strings.Split(resp.JobSubmitUserMsg, "\n") {
		if l != "" {
			e.infof("%s", l)
		}
	}
	return &allocation{e: e, c: c, id: resp.JobID}, nil
}

// job is the job as it stands; nil once the controller has forgotten it.
func (a *allocation) job(ctx context.Context) (*wire.JobInfo, error) {
	resp, err := a.c.Job(ctx, fmt.Sprint(a.id))
	if err != nil {
		return nil, err
	}
	if len(resp.Jobs) == 0 {
		return nil, nil //nolint:nilnil // no job is a value here
	}
	return &resp.Jobs[0], nil
}

// over says whether nothing of a job runs any more and its output is complete.
func over(j *wire.JobInfo) bool {
	return j == nil || format.Finished(j.JobState) && !slices.Contains(j.JobState, "COMPLETING")
}

// begun waits until the job has its nodes, or has ended, and says that it waits. A
// signal while it waits cancels it.
func (a *allocation) begun(ctx context.Context, signals <-chan int, pending string) (*wire.JobInfo, error) {
	said := false
	for {
		j, err := a.job(ctx)
		switch {
		case err != nil:
			return nil, failed("Unable to confirm allocation for job %d: %s", a.id, text(err))
		case j == nil || format.Finished(j.JobState):
			return j, nil
		case format.BaseState(j.JobState).Name == "RUNNING" && !slices.Contains(j.JobState, "CONFIGURING"):
			if said {
				a.e.infof("job %d has been allocated resources", a.id)
			}
			return j, nil
		}
		if !said && format.BaseState(j.JobState).Name == "PENDING" {
			said = true
			if pending != "" {
				a.e.infof(pending, a.id)
			}
			a.e.infof("job %d queued and waiting for resources", a.id)
		}
		select {
		case <-signals:
			a.cancel(ctx)
			a.e.infof("Job allocation %d has been revoked.", a.id)
			return nil, exit(1)
		default:
		}
		if err := a.e.Sleep(ctx, lookEvery); err != nil {
			a.cancel(context.WithoutCancel(ctx))
			return nil, exit(1)
		}
	}
}

// cancel ends the job; one that has ended is no fault.
func (a *allocation) cancel(ctx context.Context) { a.signal(ctx, "") }

// signal sends a signal to the job: best effort, for it may have ended.
func (a *allocation) signal(ctx context.Context, signal string, flags ...string) {
	if _, err := a.c.Kill(ctx, fmt.Sprint(a.id), signal, flags...); err != nil {
		a.e.errorf("Unable to signal job %d: %s", a.id, text(err))
	}
}
