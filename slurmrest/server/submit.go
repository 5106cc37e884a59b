package server

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// submitSource is where Slurm finds the errors of a submission.
const submitSource = "slurm_submit_batch_job()"

// maxKey bounds an idempotency key, which is stored for a day.
const maxKey = 128

// submitJob answers POST /job/submit.
func submitJob(c *call) {
	var req wire.JobSubmitReq
	if !c.read(&req) {
		return
	}
	descs, kind := c.components(&req)
	if descs == nil {
		c.reply(nil)
		return
	}
	in, err := c.submission(&req, descs)
	if err == nil {
		err = c.actAs(&descs[0])
	}
	if err != nil {
		c.refuse(err, "Batch job submission failed", submitSource)
		return
	}
	if in.IdempotencyKey = c.r.Header.Get(wire.IdempotencyHeader); len(in.IdempotencyKey) > maxKey {
		c.fail(errno.RESTBadRequest, "Idempotency key is too long", "")
		c.reply(nil)
		return
	}
	in.Digest = c.digest
	out, err := c.s.cfg.Controller.Submit(c.r.Context(), c.who, in)
	if err != nil {
		description := "Batch job submission failed"
		if in.IdempotencyKey != "" && errors.Is(err, errno.RESTInvalidQuery) {
			description = "The idempotency key belongs to another submission"
		}
		c.fail(err, description, submitSource)
		c.reply(nil)
		return
	}
	if why := condition(in, out); why != nil {
		c.warn(kind+" submission resulted in non-zero return code: "+why.Error(), sourceOf(kind))
		c.warn(why.Error(), submitSource)
	}
	message := ""
	if in.TestOnly {
		message = plan(out)
	}
	c.reply(func(b []byte) []byte {
		b = append(b, `"job_id":`...)
		b = strconv.AppendUint(b, uint64(out.ID.Shown()), 10)
		b = append(b, `,"step_id":"batch","job_submit_user_msg":`...)
		b = append(wire.AppendString(b, message), ',')
		if !c.v.Since(42) {
			b = appendResult(b, out.ID.Shown(), message)
		}
		return b
	})
}

// appendResult appends what a submission answers a second time before v0.0.42.
func appendResult(b []byte, id uint32, message string) []byte {
	b = strconv.AppendUint(append(b, `"result":{"job_id":`...), uint64(id), 10)
	b = wire.AppendString(append(b, `,"step_id":"batch","error_code":0,"error":"No error","job_submit_user_msg":`...), message)
	return append(b, '}', ',')
}

// sourceOf is where Slurm finds what it says of a job's kind of submission.
func sourceOf(kind string) string {
	if kind == "HetJob" {
		return "slurm_submit_batch_het_job()"
	}
	return submitSource
}

// components finds the descriptions of a submission, one for each component of a
// heterogeneous job. nil: the answer's errors say what is wrong.
func (c *call) components(req *wire.JobSubmitReq) (list []wire.JobDescMsg, kind string) {
	query := func(description string) ([]wire.JobDescMsg, string) {
		c.fail(errno.RESTInvalidQuery, description, "_job_post")
		return nil, ""
	}
	script := req.Script != "" || req.Job != nil && req.Job.Script != "" || len(req.Jobs) > 0 && req.Jobs[0].Script != ""
	switch {
	case !script:
		return query(`Populated "script" field is required for job submission`)
	case req.Job != nil && len(req.Jobs) > 0:
		return query(`Specify only one "job" or "jobs" fields but never both`)
	case req.Job != nil:
		return []wire.JobDescMsg{*req.Job}, "Job"
	case len(req.Jobs) > 0:
		return req.Jobs, "HetJob"
	}
	return query(`Specifying either "job" or "jobs" fields are required to submit job`)
}

// submission translates the descriptions: the first is the job's own, the others
// are its further components.
func (c *call) submission(req *wire.JobSubmitReq, descs []wire.JobDescMsg) (queue.Submission, error) {
	var in queue.Submission
	burst, err := parseBurst(req.Sbatchd, len(descs))
	if err != nil {
		return in, err
	}
	requeue := c.s.cfg.Controller.Snapshot().Config.JobRequeue
	for i := range descs {
		desc := &descs[i]
		for _, name := range []string{"container_type", "cores_per_socket", "memory_update_delay", "memory_update_margin"} {
			if desc.Given(name) && c.v.Lacks("job_desc_msg", name) {
				c.warn(fmt.Sprintf("Ignoring unknown field %q in DATA_PARSER_JOB_DESC_MSG", name), "#/job/"+name+"/")
			}
		}
		one, err := describe(desc, req.Script, burst[i], requeue)
		if err != nil {
			return in, err
		}
		if i == 0 {
			in = one
		} else {
			in.Parts = append(in.Parts, one)
		}
	}
	return in, nil
}

// actAs lets an administrator submit for another user and nobody else.
func (c *call) actAs(desc *wire.JobDescMsg) error {
	if desc.UserID == "" || desc.UserID == c.who.User || desc.UserID == strconv.FormatUint(uint64(c.who.UID), 10) {
		return nil
	}
	if c.who.Role != auth.Admin || c.s.cfg.Users == nil {
		return errno.UserIDMissing
	}
	ctx := c.r.Context()
	account, err := c.s.cfg.Users.ByName(ctx, desc.UserID)
	if uid, bad := strconv.ParseUint(desc.UserID, 10, 32); bad == nil {
		account, err = c.s.cfg.Users.ByUID(ctx, uint32(uid))
	}
	if errors.Is(err, auth.ErrUnknownUser) {
		return errno.UserIDMissing
	}
	if err != nil {
		return err
	}
	c.who.User, c.who.UID, c.who.GID, c.who.Groups = account.Name, account.UID, account.GID, account.Groups
	return nil
}

// refuse answers a request whose fields can't be used.
func (c *call) refuse(err error, description, source string) {
	if f, ok := errors.AsType[*fault](err); ok {
		description, source = f.description, f.source
	}
	c.fail(err, description, source)
	c.reply(nil)
}

// condition is why an accepted job doesn't start now; nil: it may. That its time
// limit is beyond its partition's Slurm doesn't tell.
func condition(in queue.Submission, out queue.Submitted) error {
	switch {
	case out.Warning != nil && !errors.Is(out.Warning, errno.InvalidTimeLimit):
		return out.Warning
	case in.Hold, in.Priority != nil && *in.Priority == 0:
		return errno.JobHeld
	}
	return nil
}

// plan is what sbatch --test-only prints.
func plan(out queue.Submitted) string {
	names, cpus := make([]string, len(out.Nodes)), 0
	for i, n := range out.Nodes {
		names[i] = n.Node
		cpus += n.CPUs
	}
	return fmt.Sprintf("Job %d to start at %s using %d processors on nodes %s in partition %s",
		out.ID.Shown(), tres.FormatTime(out.Start.Local()), cpus, hostlist.Compress(names), out.Partition)
}
