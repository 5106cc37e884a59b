package server

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getDBJobs answers GET /slurmdb/V/jobs with the filters of sacct.
func getDBJobs(c *call) {
	query, ok := c.jobQuery(c.r.URL.Query())
	if !ok {
		return
	}
	c.dbJobs(query, c.r.URL.Query())
}

// getDBJob answers GET /slurmdb/V/job/{job_id}.
func getDBJob(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	c.dbJobs(dbQuery{JobQuery: store.JobQuery{IDs: []uint32{t.ID}, Arrays: []uint32{t.ID}}, tasks: []target{t}}, nil)
}

// dbQuery is a query of the store with what it can't select itself.
type dbQuery struct {
	store.JobQuery
	tasks []target // ids with tasks; nil: every record
}

// dbJobs answers the records of a query.
func (c *call) dbJobs(query dbQuery, q url.Values) {
	records, err := c.s.cfg.Controller.Records(c.r.Context(), query.JobQuery)
	if err != nil {
		c.fail(err, "Unable to query accounting", "slurmdb_jobs_get()")
		c.reply(nil)
		return
	}
	if records, err = c.withParts(query, records); err != nil {
		c.fail(err, "Unable to query accounting", "slurmdb_jobs_get()")
		c.reply(nil)
		return
	}
	s := c.s.cfg.Controller.Snapshot()
	private := slices.Contains(s.Config.PrivateData, "jobs")
	records = slices.DeleteFunc(records, func(r store.JobRecord) bool {
		return !c.sees(private, r.Job) || query.tasks != nil &&
			!slices.ContainsFunc(query.tasks, func(t target) bool { return t.match(r.Job) })
	})
	arraysLast(records)
	if len(records) == 0 {
		c.warn("slurmdb_jobs_get() found nothing", "_dump_jobs")
	}
	v := dbViewer{
		jobs: viewer{s: s, group: c.groups()}, now: c.s.cfg.Now(), cluster: s.Config.ClusterName,
		steps: !flagSet(q, "skip_steps"),
	}
	if flagSet(q, "show_batch_script") {
		v.script = c.script
	}
	all := flagSet(q, "show_duplicates")
	c.list("jobs", "job", func(yield func(wire.Value) bool) {
		for _, r := range records {
			for _, a := range attempts(r, all) {
				if !yield(v.job(r.Job, a)) {
					return
				}
			}
		}
	}, nil)
}

// withParts adds the components of heterogeneous jobs that were asked for by id.
func (c *call) withParts(query dbQuery, records []store.JobRecord) ([]store.JobRecord, error) {
	var parts []uint32
	for _, r := range records {
		if r.Job.Leads() && slices.Contains(query.IDs, r.Job.ID.Raw) {
			for i := range r.Job.Het.Count - 1 {
				parts = append(parts, r.Job.ID.Raw+1+uint32(i))
			}
		}
	}
	if parts == nil {
		return records, nil
	}
	q := query.JobQuery
	q.IDs = append(slices.Clone(q.IDs), parts...)
	return c.s.cfg.Controller.Records(c.r.Context(), q)
}

// arraysLast puts the record that bears an array's id behind those of the array's
// other tasks: it is the youngest, for its tasks left it one by one.
func arraysLast(list []store.JobRecord) {
	last := map[uint32]int{} // array -> the highest place of its records
	for i, r := range list {
		last[r.Job.ID.Array] = i
	}
	place := func(i int, r store.JobRecord) int {
		if id := r.Job.ID; id.Array == id.Raw {
			return 2*last[id.Array] + 1
		}
		return 2 * i
	}
	places := make(map[uint32]int, len(list))
	for i, r := range list {
		places[r.Job.ID.Raw] = place(i, r)
	}
	slices.SortStableFunc(list, func(a, b store.JobRecord) int { return places[a.Job.ID.Raw] - places[b.Job.ID.Raw] })
}

// flagSet reports whether a query has a flag; its bare name counts.
func flagSet(q url.Values, name string) bool {
	v, ok := q[name]
	return ok && (len(v) == 0 || v[0] == "" || truth(v[0]))
}

// script reads a job's batch script, if the caller may.
func (c *call) script(j *job.Job) string {
	if !c.may(j) {
		return ""
	}
	text, err := c.s.cfg.Controller.Blob(c.r.Context(), j.Spec.ScriptHash)
	if err != nil {
		c.s.cfg.Log.Warn("script not readable", "job", j.ID.Raw, "err", err)
	}
	return string(text)
}

// jobQuery reads the filters; where one can't be read the answer is given.
func (c *call) jobQuery(q url.Values) (dbQuery, bool) {
	var out dbQuery
	list := func(name string) []string {
		return slices.DeleteFunc(strings.Split(strings.Join(q[name], ","), ","), func(s string) bool { return s == "" })
	}
	bad := func(name, text string) (dbQuery, bool) {
		c.fail(errno.DataConvFailed, text, "#/"+name+"/")
		c.queryFailed()
		return out, false
	}
	out.Accounts, out.Names, out.Partitions = list("account"), list("job_name"), list("partition")
	for _, u := range list("users") {
		if uid, err := strconv.ParseUint(u, 10, 32); err == nil {
			out.UIDs = append(out.UIDs, uint32(uid))
		} else {
			out.Users = append(out.Users, u)
		}
	}
	for _, text := range list("state") {
		st, ok := job.ParseState(text)
		if !ok {
			return bad("state", "Unknown job state "+text)
		}
		out.States = append(out.States, st)
	}
	for _, text := range list("step") {
		id, _, _ := strings.Cut(text, ".")
		t, ok := parseTarget(id)
		if !ok {
			return bad("step", "Unable to parse job id "+text)
		}
		out.IDs, out.Arrays, out.tasks = append(out.IDs, t.ID), append(out.Arrays, t.ID), append(out.tasks, t)
	}
	if nodes := list("node"); len(nodes) > 0 {
		names, err := hostlist.Parse(strings.Join(nodes, ","))
		if err != nil {
			return bad("node", err.Error())
		}
		out.Nodes = names
	}
	for name, to := range map[string]*time.Time{"start_time": &out.Since, "end_time": &out.Until} {
		text := q.Get(name)
		when, err := timestamp(text)
		if err != nil {
			if when, err = tres.ParsePastTime(text, c.s.cfg.Now()); err != nil {
				return bad(name, "Parsing of "+text+" for timestamp failed")
			}
		}
		*to = when
	}
	// States without a time mean the present, as with sacct.
	if len(out.States) > 0 && out.Since.IsZero() && out.Until.IsZero() && out.IDs == nil {
		out.Since = c.s.cfg.Now()
	}
	return out, true
}

// attempt is one record of accounting: a run, or a job that has none yet.
type attempt struct {
	run     *job.Run
	restart uint32
	last    bool
}

// attempts lists a job's records, oldest first: all runs, or the newest alone.
func attempts(r store.JobRecord, all bool) []attempt {
	var list []attempt
	for _, run := range r.Runs {
		list = append(list, attempt{run: run, restart: run.Restart})
	}
	if n := len(list); n == 0 || list[n-1].restart != r.Job.Restarts {
		list = append(list, attempt{restart: r.Job.Restarts})
	}
	list[len(list)-1].last = true
	if !all {
		list = list[len(list)-1:]
	}
	return list
}

// dbViewer turns jobs and their attempts into records of accounting.
type dbViewer struct {
	jobs    viewer
	now     time.Time
	cluster string
	steps   bool
	script  func(*job.Job) string // nil: left out
	info    wire.DBJob
}

// job fills in the record; it is valid until the next call.
func (v *dbViewer) job(j *job.Job, a attempt) *wire.DBJob {
	s := j.Spec
	size := v.jobs.size(j)
	start, end, state, code := times(j, a)
	v.info = wire.DBJob{
		Account: j.Account, Cluster: v.cluster, Constraints: s.Constraint, DerivedExitCode: derived(a.run),
		Array:       wire.DBJobArray{JobID: int64(j.ID.Array)},
		Association: wire.AssocShort{Account: j.Account, Cluster: v.cluster, User: j.User},
		Comment:     wire.DBJobComment{Job: j.Comment, Administrator: s.Stored["admin_comment"], System: j.SystemNote},
		Exclusive:   "NO", Oversubscribe: "NO", ExitCode: exitCode(code.Status, code.Signal), Extra: s.Stored["extra"],
		Flags: []string{}, Group: v.jobs.group(j.GID), Hold: j.Priority == 0, JobID: int64(j.ID.Raw), Licenses: s.Licenses,
		Name: s.Name, Nodes: "None assigned", Partition: partitionOf(j), Priority: wire.N(j.Priority), QOS: j.QOS,
		Required:    wire.DBJobRequired{CPUs: int64(size.cpus)},
		Reservation: wire.DBJobReservation{Name: s.Reservation, Requested: s.Reservation}, RestartCnt: int64(a.restart),
		State: wire.DBJobState{Current: []string{state}, Reason: j.Reason.String()}, SubmitLine: s.SubmitLine,
		Stderr: s.Error, Stdin: cmp.Or(s.Input, "/dev/null"), Stdout: s.Output,
		StderrExpanded: expand(s.Error, j), StdinExpanded: cmp.Or(expand(s.Input, j), "/dev/null"), StdoutExpanded: expand(s.Output, j),
		Time: wire.DBJobTime{
			Elapsed: int64(v.elapsed(start, end).Seconds()), Eligible: seconds(j.Eligible), End: seconds(end), Limit: minutes(s.TimeLimit),
			Start: seconds(start), Submission: seconds(j.Submit),
		},
		User: j.User, WorkingDirectory: s.WorkDir, Wckey: wire.WckeyTagStruct{Wckey: s.WCKey},
		TRES: wire.DBJobTRES{Requested: tresList(size.requested)},
	}
	if a.last && state == job.Cancelled.String() {
		v.info.KillRequestUser = canceller(j)
	}
	if s.Exclusive {
		v.info.Exclusive = "NODE"
	}
	if s.Oversubscribe {
		v.info.Oversubscribe = "YES"
	}
	if j.ID.Task != job.NoTask {
		v.info.Array.TaskID = wire.N(j.ID.Task)
	}
	if h := j.Het; h != nil {
		v.info.Het = wire.DBJobHet{JobID: int64(h.Leader), JobOffset: wire.N(h.Offset)}
	}
	v.info.Array.Task = tasksText(v.jobs.s, j)
	v.info.Array.Limits.Max.Running.Tasks = int64(v.jobs.s.TaskLimit(j))
	v.jobs.memory(s)
	v.info.Required.MemoryPerCPU, v.info.Required.MemoryPerNode = v.jobs.info.MemoryPerCPU, v.jobs.info.MemoryPerNode
	if !start.IsZero() && !j.Eligible.IsZero() {
		v.info.Time.Planned = wire.N(int64(max(0, start.Sub(j.Eligible)).Seconds()))
	}
	if v.script != nil {
		v.info.Script = v.script(j)
	}
	v.run(j, a, start, end)
	return &v.info
}

// derived is the worst end of an attempt's sruns.
func derived(r *job.Run) wire.ProcessExitCodeVerbose {
	var worst job.ExitCode
	if r != nil {
		for _, s := range r.Steps {
			if int(s.ExitCode.Status)+128*int(s.ExitCode.Signal) > int(worst.Status)+128*int(worst.Signal) {
				worst = s.ExitCode
			}
		}
	}
	return exitCode(worst.Status, worst.Signal)
}

// canceller names who cancelled a job: the owner and root by name, others by
// number, which is what sacct prints.
func canceller(j *job.Job) string {
	switch by := j.CancelledBy; {
	case by == nil:
		return ""
	case *by == j.UID:
		return j.User
	case *by == 0:
		return "root"
	default:
		return strconv.FormatUint(uint64(*by), 10)
	}
}

// times says when an attempt ran and how it ended.
func times(j *job.Job, a attempt) (start, end time.Time, state string, code job.ExitCode) {
	if a.run == nil {
		return j.Start, j.End, j.State.String(), j.ExitCode
	}
	r := a.run
	start, end = r.Start, r.Ended
	if start.IsZero() {
		start = r.Alloc
	}
	switch {
	case !a.last && r.State == job.Cancelled, !a.last && !r.State.Final():
		return start, end, "REQUEUED", job.ExitCode{}
	case !a.last && r.State == job.NodeFail:
		return start, end, r.State.String(), job.ExitCode{Status: 1}
	case a.last && j.State != job.Pending:
		state, code = j.State.String(), j.ExitCode
		if j.State == job.Cancelled { // accounting has heard of the end before the script's
			code = job.ExitCode{}
		}
		if j.State.Final() && end.IsZero() {
			end = j.End
		}
		return start, end, state, code
	default:
		state = r.State.String()
	}
	return start, end, state, r.ExitCode
}

func (v *dbViewer) elapsed(start, end time.Time) time.Duration {
	switch {
	case start.IsZero():
		return 0
	case end.IsZero() || end.After(v.now):
		end = v.now
	}
	return max(0, end.Sub(start))
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// run adds what an attempt was given and used, and its steps.
func (v *dbViewer) run(j *job.Job, a attempt, start, end time.Time) {
	r, i := a.run, &v.info
	if r == nil || len(r.Nodes) == 0 {
		return
	}
	names := r.NodeNames()
	i.Nodes, i.AllocationNodes, i.Partition = hostlist.Compress(names), int64(len(names)), r.Partition
	i.Flags = []string{"STARTED_ON_SCHEDULE", "START_RECEIVED"}
	held := allocated(r)
	withEnergy := held.Clone()
	i.TRES.Allocated = tresList(withEnergy)
	at := slices.IndexFunc(i.TRES.Allocated, func(t wire.TRES) bool { return t.Type == tres.Node })
	i.TRES.Allocated = slices.Insert(i.TRES.Allocated, max(0, at), wire.TRES{Type: tres.Energy, ID: 3, Count: -2})
	user, system := split(r.Usage.UserUs), split(r.Usage.SystemUs)
	total := split(r.Usage.UserUs + r.Usage.SystemUs)
	i.Time.User = wire.DBJobTimeUser{Seconds: user[0], Microseconds: user[1]}
	i.Time.System = wire.DBJobTimeSystem{Seconds: system[0], Microseconds: system[1]}
	i.Time.Total = wire.DBJobTimeTotal{Seconds: total[0], Microseconds: total[1]}
	if v.steps && !r.Start.IsZero() {
		delete(held, tres.Billing)
		v.batchStep(j, r, start, end, held)
		for _, s := range r.Steps {
			v.numberedStep(j, r, s, held)
		}
	}
}

// batchStep adds the batch script, with what the whole attempt used.
func (v *dbViewer) batchStep(j *job.Job, r *job.Run, start, end time.Time, held tres.TRES) {
	code := r.ExitCode
	if r.State == job.Timeout && !r.Ended.IsZero() {
		code = job.ExitCode{Signal: sigTerm}
	}
	state := job.EndState(r.Ended, code)
	if r.OOM {
		state = job.OutOfMemory
	}
	step := v.step(fmt.Sprintf("%d.batch", j.ID.Raw), "batch", 1, r, held)
	step.State, step.ExitCode = []string{state.String()}, exitCode(code.Status, code.Signal)
	t := &step.Time
	t.Elapsed, t.Start, t.End = int64(v.elapsed(start, end).Seconds()), wire.N(seconds(start)), wire.N(seconds(end))
	user, system, total := split(r.Usage.UserUs), split(r.Usage.SystemUs), split(r.Usage.UserUs+r.Usage.SystemUs)
	t.User = wire.DBStepTimeUser{Seconds: user[0], Microseconds: user[1]}
	t.System = wire.DBStepTimeSystem{Seconds: system[0], Microseconds: system[1]}
	t.Total = wire.DBStepTimeTotal{Seconds: total[0], Microseconds: total[1]}
	if rss := r.Usage.MaxRSSKiB; rss > 0 {
		// Bytes, as sacct's MaxRSS has them.
		step.TRES.Requested.Max = []wire.TRES{{Type: tres.Mem, ID: 2, Count: rss * 1024}}
	}
	v.info.Steps = append(v.info.Steps, step)
}

// sigTerm ends a script whose time is over; its step shows it.
const sigTerm = 15

// numberedStep adds an srun. One that was running when its job ended has ended too.
func (v *dbViewer) numberedStep(j *job.Job, r *job.Run, s job.Step, held tres.TRES) {
	if s.End.IsZero() && !r.Ended.IsZero() {
		s.End, s.ExitCode = r.Ended, job.ExitCode{Signal: sigTerm}
	}
	own := held.Clone()
	own[tres.CPU] = uint64(s.CPUs)
	step := v.step(fmt.Sprintf("%d.%d", j.ID.Raw, s.ID), s.Name, s.Tasks, r, own)
	step.State, step.ExitCode = []string{s.State().String()}, exitCode(s.ExitCode.Status, s.ExitCode.Signal)
	step.Task.Distribution = "Cyclic"
	t := &step.Time
	t.Elapsed, t.Start, t.End = int64(v.elapsed(s.Start, s.End).Seconds()), wire.N(seconds(s.Start)), wire.N(seconds(s.End))
	v.info.Steps = append(v.info.Steps, step)
}

// step is what all steps of an attempt on its one node share.
func (v *dbViewer) step(id, name string, tasks int, r *job.Run, held tres.TRES) wire.DBStep {
	node := r.Nodes[0].Node
	return wire.DBStep{
		Nodes: wire.DBStepNodes{Count: 1, Range: node, List: []string{node}}, Tasks: wire.DBStepTasks{Count: int64(tasks)},
		Step: wire.DBStepStep{ID: id, Name: name}, Task: wire.DBStepTask{Distribution: "Unknown"},
		CPU:        wire.DBStepCPU{Governor: "0", RequestedFrequency: wire.DBStepCPURequestedFrequency{Min: zero, Max: zero}},
		Statistics: wire.DBStepStatistics{Energy: wire.DBStepStatisticsEnergy{Consumed: zero}},
		TRES:       wire.DBStepTRES{Allocated: tresList(held)},
	}
}

// split divides microseconds into seconds and the rest.
func split(us int64) [2]int64 { return [2]int64{us / 1e6, us % 1e6} }

// tresIDs are Slurm's numbers; GRES get theirs when accounting first sees them.
var tresIDs = map[string]int64{tres.CPU: 1, tres.Mem: 2, tres.Energy: 3, tres.Node: 4, tres.Billing: 5, tres.GPU: 1001}

// tresList is a set as accounting shows it.
func tresList(t tres.TRES) []wire.TRES {
	list := make([]wire.TRES, 0, len(t))
	for _, name := range t.Names() {
		typ, rest, _ := strings.Cut(name, "/")
		id, ok := tresIDs[name]
		if !ok {
			id = 1002
		}
		list = append(list, wire.TRES{Type: typ, Name: rest, ID: id, Count: int64(t[name])})
	}
	return list
}
