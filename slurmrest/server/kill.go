package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// deleteJob answers DELETE /job/{job_id}: cancel, or send a signal.
func deleteJob(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	query := c.r.URL.Query()
	resp := wire.KillJobResp{}
	signal := uint8(0)
	if name := query.Get("signal"); name != "" {
		if signal, ok = parseSignal(name); !ok {
			// Slurm counts this as a success that did nothing.
			c.errors = append(c.errors, wire.Error{
				Description: "Unknown signal (null)", Error: errno.Success.Error(), Source: "#/signal/",
			})
			c.reply(c.statusOf(resp.Status))
			return
		}
	}
	sent := job.Sent{Signal: signal, BatchOnly: c.flagged("BATCH_JOB"), Full: c.flagged("FULL_JOB")}
	resp.Status = c.kill([]target{t}, nil, sent)
	c.reply(c.statusOf(resp.Status))
}

// statusOf lists the refusals of one job's kill; before v0.0.42 they are errors.
func (c *call) statusOf(list []wire.KillJobsRespJob) func(b []byte) []byte {
	if c.v.Since(42) {
		return statusOf(list)
	}
	for _, r := range list {
		c.fail(errno.Errno(r.Error.Code), "Failure to signal job "+r.StepID, "slurm_kill_job2()")
	}
	return nil
}

func statusOf(list []wire.KillJobsRespJob) func(b []byte) []byte {
	return func(b []byte) []byte {
		b = append(b, `"status":[`...)
		for i := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.Append(b, &list[i])
		}
		return append(b, ']', ',')
	}
}

// kill ends or signals the jobs that targets mean and filter takes; refusals
// come back one for each job.
func (c *call) kill(targets []target, filter func(*job.Job) bool, sent job.Sent) []wire.KillJobsRespJob {
	s := c.s.cfg.Controller.Snapshot()
	var refused []wire.KillJobsRespJob
	for _, t := range targets {
		var id wire.Num
		if found := t.find(s); len(found) > 0 {
			if filter != nil && !slices.ContainsFunc(found, filter) {
				continue
			}
			id = wire.N(t.ID)
		}
		if err := c.s.cfg.Controller.Signal(c.r.Context(), c.who, t.Ref, sent); err != nil {
			refused = append(refused, refusal(err, t.text, id))
		}
	}
	return refused
}

func refusal(err error, text string, id wire.Num) wire.KillJobsRespJob {
	e := numberOf(err)
	return wire.KillJobsRespJob{
		Error:  wire.KillJobsRespJobError{Code: int64(e), Message: e.Error(), String: e.Error()},
		StepID: text, JobID: id,
	}
}

// deleteJobs answers DELETE /jobs: cancel what matches a filter.
func deleteJobs(c *call) {
	var m wire.KillJobsMsg
	if !c.read(&m) {
		return
	}
	signal := uint8(0)
	if m.Signal != "" {
		var ok bool
		if signal, ok = parseSignal(m.Signal); !ok {
			c.fail(errno.DataConvFailed, "Unknown signal "+m.Signal, "#/signal/")
			c.reply(nil)
			return
		}
	}
	filter, filtered, err := c.filter(&m)
	if err != nil {
		c.refuse(err, "", "")
		return
	}
	if !filtered && len(m.Jobs) == 0 {
		c.fail(errno.SignalJobsInvalid, "", "slurm_kill_jobs()")
		c.reply(nil)
		return
	}
	var targets []target
	var refused []wire.KillJobsRespJob
	for _, text := range m.Jobs {
		if t, ok := parseTarget(text); ok {
			targets = append(targets, t)
		} else {
			refused = append(refused, refusal(errno.InvalidJobID, text, wire.Num{}))
		}
	}
	if len(m.Jobs) == 0 {
		for j := range c.s.cfg.Controller.Snapshot().Jobs() {
			if !j.State.Final() && filter(j) {
				t := target{text: j.ID.String(), Ref: job.RefTo(j.ID.Raw)}
				if j.ID.Array != 0 {
					t.Ref = job.Ref{ID: j.ID.Array, Tasks: tasksOf(j), Part: job.AllParts}
				}
				targets = append(targets, t)
			}
		}
	}
	sent := job.Sent{Signal: signal, BatchOnly: slices.Contains(m.Flags, "BATCH_JOB"), Full: slices.Contains(m.Flags, "FULL_JOB")}
	refused = append(refused, c.kill(targets, filter, sent)...)
	c.reply(statusOf(refused))
}

// filter reads the filters of a kill; filtered is false where there are none.
func (c *call) filter(m *wire.KillJobsMsg) (filter func(*job.Job) bool, filtered bool, err error) {
	var tests []func(*job.Job) bool
	is := func(want string, field func(*job.Job) string) {
		if want != "" {
			tests = append(tests, func(j *job.Job) bool { return slices.Contains(strings.Split(want, ","), field(j)) })
		}
	}
	is(m.Account, func(j *job.Job) string { return j.Account })
	is(m.JobName, func(j *job.Job) string { return j.Spec.Name })
	is(m.Partition, func(j *job.Job) string { return partitionOf(j) })
	is(m.QOS, func(j *job.Job) string { return j.QOS })
	is(m.Reservation, func(j *job.Job) string { return j.Spec.Reservation })
	is(m.UserName, func(j *job.Job) string { return j.User })
	is(m.Wckey, func(j *job.Job) string { return j.Spec.WCKey })
	if m.UserID != "" {
		want := m.UserID
		tests = append(tests, func(j *job.Job) bool {
			return j.User == want || strconv.FormatUint(uint64(j.UID), 10) == want
		})
	}
	if len(m.JobState) > 0 {
		states := m.JobState
		tests = append(tests, func(j *job.Job) bool {
			return slices.ContainsFunc(stateNames(j), func(s string) bool { return slices.Contains(states, s) })
		})
	}
	if len(m.Nodes) > 0 {
		names, err := hostlist.Parse(strings.Join(m.Nodes, ","))
		if err != nil {
			return nil, false, &fault{errno.InvalidNodeName, err.Error(), "#/nodes/"}
		}
		tests = append(tests, func(j *job.Job) bool {
			return j.Run != nil && j.Active() && slices.ContainsFunc(j.Run.NodeNames(), func(n string) bool { return slices.Contains(names, n) })
		})
	}
	return func(j *job.Job) bool {
		for _, test := range tests {
			if !test(j) {
				return false
			}
		}
		return true
	}, len(tests) > 0, nil
}

// requeueJob answers GET /job/{job_id}/requeue, which changes something indeed.
func requeueJob(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	q := c.r.URL.Query()
	hold := truth(q.Get("Hold")) || truth(q.Get("SpecialExit"))
	rows := c.requeue(t, hold)
	c.reply(func(b []byte) []byte { return append(appendRows(append(b, `"status":`...), rows), ',') })
}

// requeueJobs answers POST /jobs/requeue.
func requeueJobs(c *call) {
	var m wire.JobsRequeueQuery
	if !c.read(&m) {
		return
	}
	hold := slices.Contains(m.Flags, "Hold") || slices.Contains(m.Flags, "SpecialExit")
	c.reply(func(b []byte) []byte {
		b = append(b, `"status":[`...)
		for i, text := range m.Jobs {
			if i > 0 {
				b = append(b, ',')
			}
			t, ok := parseTarget(text)
			if !ok {
				b = appendRows(b, []wire.JobArrayResponseMsgEntry{row(0, text, errno.InvalidJobID)})
				continue
			}
			b = appendRows(b, c.requeue(t, hold))
		}
		return append(b, ']', ',')
	})
}

func (c *call) requeue(t target, hold bool) []wire.JobArrayResponseMsgEntry {
	id := uint32(0)
	if len(t.find(c.s.cfg.Controller.Snapshot())) > 0 {
		id = t.ID
	}
	err := c.s.cfg.Controller.Requeue(c.r.Context(), c.who, t.Ref, hold)
	if rows := taskRows(err); rows != nil {
		return rows
	}
	return []wire.JobArrayResponseMsgEntry{row(id, t.text, err)}
}

// tasksOf are the indexes a record of an array stands for.
func tasksOf(j *job.Job) job.TaskSet {
	if j.Tasks.Len() > 0 {
		return j.Tasks
	}
	return job.RefTask(j.ID.Array, j.ID.Task).Tasks
}

func row(id uint32, text string, err error) wire.JobArrayResponseMsgEntry {
	e := errno.Success
	if err != nil {
		e = numberOf(err)
	}
	r := wire.JobArrayResponseMsgEntry{JobID: int64(id), StepID: text, ErrorCode: int64(e), Error: e.Error()}
	if e != errno.Success && !errors.Is(err, e) {
		r.Why = e.Error()
	}
	return r
}

func appendRows(b []byte, rows []wire.JobArrayResponseMsgEntry) []byte {
	b = append(b, '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Append(b, &rows[i])
	}
	return append(b, ']')
}

// truth reads a boolean of a query; a bare name is true in Slurm.
func truth(s string) bool {
	switch strings.ToLower(s) {
	case "true", "yes", "1", "on":
		return true
	}
	return false
}
