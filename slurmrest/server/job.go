package server

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getJobs answers GET /jobs.
func getJobs(c *call) {
	s := c.s.cfg.Controller.Snapshot()
	if !c.since() {
		return
	}
	c.list("jobs", "job_info", c.jobs(s, func(*job.Job) bool { return true }), c.now("last_backfill", "last_update"))
}

// since reads update_time, which must be a number.
func (c *call) since() bool {
	text := c.r.URL.Query().Get("update_time")
	if _, err := timestamp(text); err != nil {
		c.fail(errno.DataConvFailed, "Parsing of "+text+" for timestamp failed", "#/update_time/")
		c.queryFailed()
		return false
	}
	return true
}

// timestamp reads a time of a query: seconds, with or without "uts".
func timestamp(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "uts"), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return unix(n), nil
}

// queryFailed answers what Slurm adds to a query it can't read.
func (c *call) queryFailed() {
	c.fail(errno.RESTInvalidQuery, "Rejecting request. Failure parsing query parameters", "op_handler_jobs")
	c.reply(nil)
}

// jobs are the records of the jobs the caller may see and that match.
func (c *call) jobs(s *state.State, match func(*job.Job) bool) iter.Seq[wire.Value] {
	private := slices.Contains(s.Config.PrivateData, "jobs")
	v := viewer{s: s, group: c.groups()}
	return func(yield func(wire.Value) bool) {
		for j := range s.Jobs() {
			if c.sees(private, j) && match(j) && !yield(v.job(j)) {
				return
			}
		}
	}
}

// groups names groups, asking once for each.
func (c *call) groups() func(gid uint32) string {
	known := map[uint32]string{}
	return func(gid uint32) string {
		name, ok := known[gid]
		if !ok {
			name = strconv.FormatUint(uint64(gid), 10)
			if c.s.cfg.Users != nil {
				name = c.s.cfg.Users.GroupName(c.r.Context(), gid)
			}
			known[gid] = name
		}
		return name
	}
}

// getJobsState answers GET /jobs/state, the cheap poll.
func getJobsState(c *call) {
	s := c.s.cfg.Controller.Snapshot()
	var want []target
	if q := c.r.URL.Query().Get("job_id"); q != "" {
		want = []target{}
		for text := range strings.SplitSeq(q, ",") {
			if t, ok := parseTarget(text); ok {
				want = append(want, t)
			}
		}
	}
	private := slices.Contains(s.Config.PrivateData, "jobs")
	c.reply(func(b []byte) []byte {
		b = append(b, `"jobs":[`...)
		first := true
		for j := range s.Jobs() {
			if !c.sees(private, j) || want != nil && !slices.ContainsFunc(want, func(t target) bool { return t.match(j) }) {
				continue
			}
			for id := range shownIDs(j) {
				if !first {
					b = append(b, ',')
				}
				first = false
				b = append(b, `{"job_id":`...)
				b = wire.AppendString(b, id)
				b = append(b, `,"state":[`...)
				for i, name := range stateNames(j) {
					if i > 0 {
						b = append(b, ',')
					}
					b = wire.AppendString(b, name)
				}
				b = append(b, ']', '}')
			}
		}
		return append(b, ']', ',')
	})
}

// shownIDs are the ids of a job; of a record for waiting tasks each task's.
func shownIDs(j *job.Job) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !j.Waiting() {
			yield(j.ID.String())
			return
		}
		for n := range j.Tasks.All() {
			if !yield(job.ID{Raw: j.ID.Raw, Array: j.ID.Array, Task: n}.String()) {
				return
			}
		}
	}
}

// getJob answers GET /job/{job_id}: all records of an array, also where one task is
// named, as Slurm does.
func getJob(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	if t.Tasks.Len() > 0 {
		c.warn("Job array Ids are not currently supported for job searches. Showing all jobs in array instead.", "_handle_job_get")
		t.Ref = job.RefTo(t.ID)
	}
	s := c.s.cfg.Controller.Snapshot()
	private := slices.Contains(s.Config.PrivateData, "jobs")
	found := slices.DeleteFunc(t.find(s), func(j *job.Job) bool { return !c.sees(private, j) })
	tail := c.now("last_backfill", "last_update")
	if len(found) == 0 {
		c.fail(errno.InvalidJobID, "Unable to query JobId="+t.text, "slurm_load_job()")
		c.reply(func(b []byte) []byte { return tail(append(b, `"jobs":[],`...)) })
		return
	}
	v := viewer{s: s, group: c.groups()}
	c.list("jobs", "job_info", func(yield func(wire.Value) bool) {
		for _, j := range found {
			if !yield(v.job(j)) {
				return
			}
		}
	}, tail)
}

const updateSource = "slurm_update_job2()"

// postJob answers POST /job/{job_id}: an update, hold and release among them.
func postJob(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	var d wire.JobDescMsg
	if !c.read(&d) {
		return
	}
	results := func(b []byte) []byte {
		if !c.v.Since(42) {
			b = append(wire.AppendString(append(b, `"job_id":`...), t.text), `,"step_id":"","job_submit_user_msg":"",`...)
		}
		return append(b, `"results":null,`...)
	}
	if t.Tasks.Len() > 0 && !c.own {
		c.fail(errno.RESTInvalidQuery, "Rejecting request. Submit job update against Array Job's JobID instead of array task id.", "_job_post_update")
		c.reply(results)
		return
	}
	if err := c.update(t.Ref, &d); err != nil {
		description, source := "Job update requested failed", updateSource
		if f, ok := errors.AsType[*fault](err); ok {
			description, source = f.description, f.source
		}
		c.fail(err, description, source)
		if rows := taskRows(err); rows != nil {
			results = func(b []byte) []byte { return append(appendRows(append(b, `"results":`...), rows), ',') }
		}
	}
	c.reply(results)
}

// taskRows are the refusals of a command on an array; nil for another error.
func taskRows(err error) []wire.JobArrayResponseMsgEntry {
	refused, _ := errors.AsType[queue.TaskErrors](err)
	var rows []wire.JobArrayResponseMsgEntry
	for _, e := range refused {
		rows = append(rows, row(e.Array, e.Name(), e.Err))
	}
	return rows
}

// changeable are the fields that an update may give; others are refused, since
// a change that isn't made must not look as if it were.
var changeable = []string{
	"admin_comment", "deadline", "standard_error", "standard_input", "standard_output",
	"account", "begin_time", "comment", "constraints", "dependency", "excluded_nodes", "hold", "job_id", "maximum_nodes",
	"array", "memory_per_node", "minimum_nodes", "name", "nice", "nodes", "partition", "priority", "requeue", "required_nodes", "time_limit",
}

// update turns the given fields into commands.
func (c *call) update(ref job.Ref, d *wire.JobDescMsg) error {
	for _, field := range d.GivenFields() {
		if !slices.Contains(changeable, field) {
			return &fault{errno.NotSupported, fmt.Sprintf("Field %q can not be changed", field), "#/" + field + "/"}
		}
	}
	q, ctx := c.s.cfg.Controller, c.r.Context()
	change, any, err := changeOf(d)
	if err != nil {
		return err
	}
	if any {
		if err := q.Update(ctx, c.who, ref, change); err != nil {
			return err
		}
	}
	switch {
	case d.Hold != nil && *d.Hold:
		return q.Hold(ctx, c.who, ref)
	case d.Hold != nil:
		return q.Release(ctx, c.who, ref)
	}
	return nil
}

// changeOf reads what an update changes; any is false where nothing does.
func changeOf(d *wire.JobDescMsg) (ch queue.Change, any bool, err error) {
	set := func(field string) bool {
		if d.Given(field) {
			any = true
			return true
		}
		return false
	}
	str := func(field string, v string, to **string) {
		if set(field) {
			*to = &v
		}
	}
	str("partition", d.Partition, &ch.Partition)
	str("name", d.Name, &ch.Name)
	str("comment", d.Comment, &ch.Comment)
	str("dependency", d.Dependency, &ch.Dependency)
	str("account", d.Account, &ch.Account)
	str("constraints", d.Constraints, &ch.Features)
	str("admin_comment", d.AdminComment, &ch.AdminComment)
	str("standard_output", d.StandardOutput, &ch.Output)
	str("standard_error", d.StandardError, &ch.Error)
	str("standard_input", d.StandardInput, &ch.Input)
	if set("deadline") {
		ch.Deadline = new(unix(given(d.Deadline, 0)))
	}
	if set("required_nodes") {
		ch.ReqNodes = new(strings.Join(d.RequiredNodes, ","))
	}
	if set("excluded_nodes") {
		ch.ExcNodes = new(strings.Join(d.ExcludedNodes, ","))
	}
	if d.TimeLimit.Given() && set("time_limit") {
		limit := uint32(job.NoLimit)
		if !d.TimeLimit.Infinite {
			limit = uint32(clamp(d.TimeLimit.Number))
		}
		ch.TimeLimit = &limit
	}
	if d.Priority.Given() && set("priority") {
		ch.Priority = new(uint32(clamp(d.Priority.Number)))
	}
	if d.BeginTime.Given() && set("begin_time") {
		ch.Begin = new(unix(d.BeginTime.Number))
	}
	if d.MemoryPerNode.Given() && set("memory_per_node") {
		ch.Memory = new(d.MemoryPerNode.Number)
	}
	if limit, ok := strings.CutPrefix(d.Array, "%"); ok && set("array") {
		n, err := strconv.ParseUint(limit, 10, 31)
		if err != nil {
			return ch, any, errno.InvalidArray
		}
		ch.ArrayLimit = new(uint32(n))
	}
	if set("nice") {
		ch.Nice = new(int32(given(d.Nice, 0)))
	}
	if set("requeue") {
		ch.Requeue = d.Requeue
	}
	if set("nodes") || set("minimum_nodes") || set("maximum_nodes") {
		least, most, err := nodeCount(d)
		if err != nil {
			return ch, any, err
		}
		ch.NodesMin, ch.NodesMax = &least, &most
	}
	return ch, any, nil
}
