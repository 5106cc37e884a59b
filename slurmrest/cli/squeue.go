package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "squeue", About: "list jobs", Flags: squeueFlags, Run: squeue})
}

var squeueFlags = []Flag{
	{Long: "accounts", Short: 'A', Arg: option.Required, Meta: "names", Env: "SQUEUE_ACCOUNT", Help: "jobs of these accounts"},
	{Long: "all", Short: 'a', Env: "SQUEUE_ALL", Help: "hidden partitions too"},
	{Long: "array", Short: 'r', Env: "SQUEUE_ARRAY", Help: "a line for each task of an array"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
	{Long: "expand-patterns", Help: "patterns in file names are always filled in"},
	{Long: "federation", Help: "no federations: no effect"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "format", Help: "columns by letter"},
	{Long: "Format", Short: 'O', Arg: option.Required, Meta: "format", Help: "columns by name"},
	{Long: "noheader", Short: 'h', Help: "no header line"},
	{Long: "helpformat", Help: "list the letters of --format"},
	{Long: "helpFormat", Help: "list the names of --Format"},
	{Long: "helpstate", Help: "list the states"},
	{Long: "hide", Help: "leave hidden partitions out (default)"},
	{Long: "iterate", Short: 'i', Arg: option.Required, Meta: "seconds", Help: "print again at this interval"},
	{Long: "jobs", Short: 'j', Arg: option.Optional, Meta: "ids", Help: "these jobs"},
	{Long: "licenses", Short: 'L', Arg: option.Required, Meta: "names", Env: "SQUEUE_LICENSES", Help: "jobs that ask for these licenses"},
	{Long: "local", Env: "SQUEUE_LOCAL", Help: "no federations: no effect"},
	{Long: "long", Short: 'l', Help: "more columns"},
	{Long: "me", Help: "own jobs"},
	{Long: "notme", Help: "other people's jobs"},
	{Long: "name", Short: 'n', Arg: option.Required, Meta: "names", Env: "SQUEUE_NAMES", Help: "jobs with these names"},
	{Long: "noconvert", Help: "sizes keep their unit"},
	{Long: "nodelist", Short: 'w', Arg: option.Required, Meta: "hosts", Help: "jobs on these nodes"},
	{Long: "only-job-state", Help: "ids and states alone"},
	{Long: "partition", Short: 'p', Arg: option.Required, Meta: "names", Env: "SQUEUE_PARTITION", Help: "jobs in these partitions"},
	{Long: "priority", Short: 'P', Env: "SQUEUE_PRIORITY", Help: "a line for each partition of a waiting job"},
	{Long: "qos", Short: 'q', Arg: option.Required, Meta: "names", Env: "SQUEUE_QOS", Help: "jobs with these QOS"},
	{Long: "reservation", Short: 'R', Arg: option.Required, Meta: "name", Help: "jobs in this reservation"},
	{Long: "running-over", Arg: option.Required, Meta: "time", Help: "jobs that have run longer"},
	{Long: "running-under", Arg: option.Required, Meta: "time", Help: "jobs that have run shorter"},
	{Long: "sibling", Help: "no federations: no effect"},
	{Long: "sort", Short: 'S', Arg: option.Required, Meta: "fields", Env: "SQUEUE_SORT", Help: "order of lines"},
	{Long: "start", Help: "when waiting jobs are expected to start"},
	{Long: "steps", Short: 's', Arg: option.Optional, Meta: "ids", Help: "list steps"},
	{Long: "states", Short: 't', Arg: option.Required, Meta: "states", Env: "SQUEUE_STATES", Help: "jobs in these states, or all"},
	{Long: "user", Short: 'u', Arg: option.Required, Meta: "names", Env: "SQUEUE_USERS", Help: "jobs of these users"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "json", Arg: option.Optional, Meta: "version", Help: "the REST API's answer"},
	{Long: "yaml", Arg: option.Optional, Meta: "version", Help: "the REST API's answer as YAML"},
}

const (
	squeueDefault = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	squeueLong    = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	squeueStart   = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
	squeueState   = "%.18i %.2t"
	squeueSteps   = "%.15i %.8j %.9P %.8u %.9M %N"
)

// jobQuery is what squeue was asked.
type jobQuery struct {
	in     *Input
	ids    []jobRef
	states []string // nil: unfinished; empty: all
	users  map[int64]bool
	not    int64 // user whose jobs to leave out, -1: none
	nodes  map[string]bool
	over   time.Duration
	under  time.Duration
}

func squeue(ctx context.Context, e *Env, in *Input) error {
	switch {
	case in.Given("helpformat"):
		return helpLetters(e, format.JobFields)
	case in.Given("helpFormat"):
		return helpNames(e, format.JobFields)
	case in.Given("helpstate"):
		return helpStates(e)
	case len(in.Args) > 0 && !in.Given("jobs") && !in.Given("steps"):
		return &option.Error{Exit: 1, Lines: []option.Line{
			{Level: option.Err, Text: "Unrecognized option: " + in.Args[0]}, {Level: option.Raw, Text: strings.TrimSpace(usageText("squeue"))},
		}}
	case in.Given("format") && in.Given("long"):
		return fatalf("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
	case in.Given("Format") && in.Given("long"):
		return fatalf("Options -O(--Format) and -l(--long) are mutually exclusive. Please remove one and retry.")
	}
	q := &jobQuery{in: in, not: -1}
	if in.Given("notme") {
		q.not = int64(e.UID)
	}
	if err := q.parse(e); err != nil {
		return err
	}
	every, err := interval(in)
	if err != nil {
		return err
	}
	c, err := e.Client(ctx)
	if err != nil {
		return fail("slurm_load_jobs error: %s", text(err))
	}
	for {
		if err := q.print(ctx, e, c, every > 0); err != nil {
			return err
		}
		if every == 0 {
			return nil
		}
		if err := e.flush(); err != nil {
			return err
		}
		if err := e.Sleep(ctx, every); err != nil {
			return nil //nolint:nilerr // interrupted: that is how this ends
		}
	}
}

func interval(in *Input) (time.Duration, error) {
	if !in.Given("iterate") {
		return 0, nil
	}
	n, err := strconv.ParseUint(in.Str("iterate"), 10, 31)
	if err != nil || n == 0 {
		return 0, failed("--iterate=%s", in.Str("iterate"))
	}
	return time.Duration(n) * time.Second, nil
}

func (q *jobQuery) parse(e *Env) error {
	in := q.in
	ids := in.Str("jobs")
	if in.Given("steps") {
		ids = strings.Trim(ids+","+in.Str("steps"), ",")
	}
	if (in.Given("jobs") || in.Given("steps")) && ids == "" && len(in.Args) > 0 {
		ids = strings.Join(in.Args, ",")
	}
	for _, w := range splitIDs(ids) {
		ref, ok := parseJobRef(w)
		if !ok {
			return failed("Invalid job id: %s", w)
		}
		q.ids = append(q.ids, ref)
	}
	if err := q.parseStates(e); err != nil {
		return err
	}
	if in.Given("user") {
		q.users = map[int64]bool{}
		for _, name := range in.List("user") {
			if id, ok := e.Users.ID(name); ok {
				q.users[id] = true
			} else {
				e.errorf("Invalid user: %s\n", name)
			}
		}
	}
	if in.Given("me") {
		q.users = map[int64]bool{int64(e.UID): true}
	}
	for _, t := range []struct {
		name string
		into *time.Duration
	}{{"running-over", &q.over}, {"running-under", &q.under}} {
		if !in.Given(t.name) {
			continue
		}
		d, err := tres.ParseDuration(in.Str(t.name))
		if err != nil {
			return failed("Invalid time specification for --%s: %s", t.name, in.Str(t.name))
		}
		*t.into = d
	}
	return nil
}

func (q *jobQuery) parseStates(e *Env) error {
	in := q.in
	if !in.Given("states") {
		if in.Given("start") {
			q.states = []string{"PENDING"}
		}
		return nil
	}
	q.states = []string{}
	if strings.EqualFold(in.Str("states"), "all") {
		return nil
	}
	for _, w := range in.List("states") {
		s, ok := format.ParseJobState(w)
		if !ok {
			e.errorf("Invalid job state specified: %s", w)
			e.errorf("Valid job states include: %s\n", stateNames())
			return exit(1)
		}
		q.states = append(q.states, s.Name)
	}
	return nil
}

func stateNames() string {
	var names []string
	for _, s := range format.JobStates {
		names = append(names, strings.ToLower(s.Name))
	}
	return strings.Join(names, ",")
}

// print asks and prints once.
func (q *jobQuery) print(ctx context.Context, e *Env, c *client.Client, dated bool) error {
	in := q.in
	if in.Given("steps") {
		if err := q.checkNodes(ctx, c); err != nil {
			return err
		}
		return q.printSteps(ctx, e, c)
	}
	resp, err := q.load(ctx, e, c)
	if err != nil {
		return err
	}
	if err := q.checkNodes(ctx, c); err != nil {
		return err
	}
	fc := e.format()
	fc.NoConvert = in.Given("noconvert")
	jobs := q.choose(fc, resp.Jobs)
	if in.Given("json") || in.Given("yaml") {
		resp.Jobs = resp.Jobs[:0:0]
		for _, j := range jobs {
			resp.Jobs = append(resp.Jobs, *j.JobInfo)
		}
		return printStructured(e, in, resp)
	}
	if !in.Given("array") {
		jobs = mergeTasks(jobs)
	}
	cols := q.columns(e)
	if err := sortJobs(fc, jobs, q.sortKeys()); err != nil {
		return err
	}
	if (in.Given("long") || dated) && !in.Given("noheader") {
		e.printf("%s\n", fc.Now.In(e.Local).Format(time.ANSIC))
	}
	var b []byte
	if !in.Given("noheader") {
		b = cols.Header(b)
	}
	for i := range jobs {
		b = cols.Line(b, fc, &jobs[i])
		if len(b) > 32<<10 {
			if _, err := e.Stdout.Write(b); err != nil {
				return nil //nolint:nilerr // nobody reads on
			}
			b = b[:0]
		}
	}
	e.Stdout.Write(b) //nolint:errcheck // Main flushes and reports
	return nil
}

func (q *jobQuery) columns(e *Env) format.Columns[format.Job] {
	in := q.in
	spec := squeueDefault
	byName := in.Str("Format")
	switch {
	case in.Given("format"):
		spec = in.Str("format")
	case byName != "":
	case in.Given("long"):
		spec = squeueLong
	case in.Given("only-job-state"):
		spec = squeueState
	case in.Given("start"):
		spec = squeueStart
	case e.Getenv("SQUEUE_FORMAT") != "":
		spec = e.Getenv("SQUEUE_FORMAT")
	case e.Getenv("SQUEUE_FORMAT2") != "":
		byName = e.Getenv("SQUEUE_FORMAT2")
	}
	var cols format.Columns[format.Job]
	var unknown []string
	if byName != "" {
		cols, unknown = format.ByName(format.JobFields, byName)
	} else {
		cols, unknown = format.ByLetter(format.JobFields, spec)
	}
	for _, u := range unknown {
		e.errorf("Invalid job format specification: %s", u)
	}
	return cols
}

// load asks for all jobs, or for one if only one is wanted.
func (q *jobQuery) load(ctx context.Context, e *Env, c *client.Client) (*wire.JobInfoResp, error) {
	if q.in.Given("clusters") {
		if _, err := clusterName(ctx, e, c, q.in.Str("clusters")); err != nil {
			return nil, err
		}
	}
	var resp *wire.JobInfoResp
	var err error
	if len(q.ids) == 1 {
		resp, err = c.Job(ctx, q.ids[0].base())
		if err == nil && len(resp.Jobs) == 0 {
			err = errno.InvalidJobID
		}
	} else {
		resp, err = c.Jobs(ctx, client.JobsQuery{})
	}
	if err != nil {
		return nil, fail("slurm_load_jobs error: %s", text(err))
	}
	return resp, nil
}

// checkNodes refuses names in --nodelist that are no node's.
func (q *jobQuery) checkNodes(ctx context.Context, c *client.Client) error {
	if !q.in.Given("nodelist") || q.nodes != nil {
		return nil
	}
	names, err := hosts(q.in.Str("nodelist"))
	if err != nil {
		return failed("%s", text(err))
	}
	resp, err := c.Nodes(ctx)
	if err != nil {
		return fail("slurm_load_node error: %s", text(err))
	}
	q.nodes = map[string]bool{}
	for _, n := range names {
		if !slices.ContainsFunc(resp.Nodes, func(w wire.Node) bool { return w.Name == n }) {
			return failed("Invalid node name %s", n)
		}
		q.nodes[n] = true
	}
	return nil
}

// choose keeps the jobs that were asked for, one record for each line.
func (q *jobQuery) choose(fc *format.Context, list []wire.JobInfo) []format.Job {
	var out []format.Job
	for i := range list {
		j := format.Job{JobInfo: &list[i]}
		if !q.wants(fc, &j) {
			continue
		}
		tasks := []format.Job{j}
		if waits(j.JobInfo) && (q.in.Given("array") || q.namesTask(&j)) {
			tasks = expandTasks(&j)
		}
		for _, t := range tasks {
			if !q.wantsID(&t) {
				continue
			}
			if q.in.Given("priority") && strings.Contains(t.Partition, ",") && format.BaseState(t.JobState).Name == "PENDING" {
				for _, p := range strings.Split(t.Partition, ",") {
					one := *t.JobInfo
					one.Partition = p
					out = append(out, format.Job{JobInfo: &one})
				}
				continue
			}
			out = append(out, t)
		}
	}
	return out
}

func (q *jobQuery) wantsID(j *format.Job) bool {
	return len(q.ids) == 0 || slices.ContainsFunc(q.ids, func(r jobRef) bool { return r.matches(j.JobInfo) })
}

func (q *jobQuery) wants(fc *format.Context, j *format.Job) bool {
	in := q.in
	switch {
	case q.states == nil && format.Finished(j.JobState) && !slices.Contains(j.JobState, "COMPLETING"):
		return false
	case len(q.states) > 0 && !slices.ContainsFunc(q.states, func(s string) bool {
		return slices.Contains(j.JobState, s) && (s != "COMPLETED" && s != "FAILED" || !slices.Contains(j.JobState, "COMPLETING"))
	}):
		return false
	case q.users != nil && !q.users[j.UserID]:
		return false
	case q.not >= 0 && j.UserID == q.not:
		return false
	case !listed(in, "accounts", j.Account), !listed(in, "name", j.Name), !listed(in, "qos", j.QOS), !listed(in, "reservation", j.ResvName):
		return false
	case in.Given("partition") && !overlap(in.List("partition"), strings.Split(j.Partition, ",")):
		return false
	case in.Given("licenses") && !slices.ContainsFunc(in.List("licenses"), func(l string) bool { return strings.Contains(j.Licenses, l) }):
		return false
	case q.over > 0 && j.Used(fc) < q.over, q.under > 0 && j.Used(fc) > q.under:
		return false
	}
	if q.nodes == nil {
		return true
	}
	names, err := hosts(j.Nodes)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return q.nodes[n] })
}

// listed says whether a value is among those of a filter that may be absent.
func listed(in *Input, long, value string) bool {
	return !in.Given(long) || slices.Contains(in.List(long), value)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}
