package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sacct", About: "accounting of jobs", Brief: 'U', Flags: sacctFlags, Run: sacct})
}

var sacctFlags = []Flag{
	{Long: "accounts", Short: 'A', Arg: option.Required, Meta: "names", Join: true, Help: "jobs of these accounts"},
	{Long: "array", Help: "a line for each task of an array"},
	{Long: "allclusters", Short: 'L', Help: "one cluster: no effect"},
	{Long: "allocations", Short: 'X', Help: "jobs without their steps"},
	{Long: "allusers", Short: 'a', Help: "jobs of all users"},
	{Long: "associations", Short: 'x', Arg: option.Required, Meta: "ids", Help: "jobs of these associations"},
	{Long: "batch-script", Short: 'B', Help: "print the batch script"},
	{Long: "brief", Short: 'b', Help: "id, state and exit code"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
	{Long: "completion", Short: 'c', Help: "the columns of job completion records"},
	{Long: "constraints", Short: 'C', Arg: option.Required, Meta: "list", Help: "jobs with these constraints"},
	{Long: "delimiter", Arg: option.Required, Meta: "text", Help: "between fields, with -p and -P"},
	{Long: "duplicates", Short: 'D', Help: "every run of a requeued job"},
	{Long: "endtime", Short: 'E', Arg: option.Required, Meta: "time", Help: "end of the time looked at"},
	{Long: "env-vars", Help: "print the job's environment: no effect"},
	{Long: "expand-patterns", Help: "patterns in file names are filled in"},
	{Long: "federation", Env: "SACCT_FEDERATION", Help: "no federations: no effect"},
	{Long: "file", Short: 'f', Arg: option.Required, Meta: "file", Help: "no files: no effect"},
	{Long: "flags", Short: 'F', Arg: option.Required, Meta: "flags", Help: "jobs with these flags"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "fields", Env: "SACCT_FORMAT", Help: "columns"},
	{Long: "fields", Arg: option.Required, Meta: "fields", Help: "the same"},
	{Long: "gid", Short: 'g', Arg: option.Required, Meta: "groups", Help: "jobs of these groups"},
	{Long: "group", Arg: option.Required, Meta: "groups", Help: "the same"},
	{Long: "helpformat", Short: 'e', Help: "list the columns"},
	{Long: "helpreason", Help: "list the reasons"},
	{Long: "helpstate", Help: "list the states"},
	{Long: "jobs", Short: 'j', Arg: option.Required, Meta: "ids", Join: true, Help: "these jobs and steps"},
	{Long: "json", Arg: option.Optional, Meta: "version", Help: "the REST API's answer"},
	{Long: "yaml", Arg: option.Optional, Meta: "version", Help: "the REST API's answer as YAML"},
	{Long: "timelimit-min", Short: 'k', Arg: option.Required, Meta: "time", Help: "jobs with at least this limit"},
	{Long: "timelimit-max", Short: 'K', Arg: option.Required, Meta: "time", Help: "jobs with at most this limit"},
	{Long: "local", Env: "SACCT_LOCAL", Help: "no federations: no effect"},
	{Long: "long", Short: 'l', Help: "many columns"},
	{Long: "name", Arg: option.Required, Meta: "names", Help: "jobs with these names"},
	{Long: "ncpus", Short: 'I', Arg: option.Required, Meta: "range", Help: "jobs with so many CPUs"},
	{Long: "nnodes", Short: 'i', Arg: option.Required, Meta: "range", Help: "jobs with so many nodes"},
	{Long: "noconvert", Help: "sizes keep their unit"},
	{Long: "nodelist", Short: 'N', Arg: option.Required, Meta: "hosts", Help: "jobs on these nodes"},
	{Long: "noheader", Short: 'n', Help: "no header"},
	{Long: "parsable", Short: 'p', Help: "| after each field"},
	{Long: "parsable2", Short: 'P', Help: "| between fields"},
	{Long: "qos", Short: 'q', Arg: option.Required, Meta: "names", Help: "jobs with these QOS"},
	{Long: "reason", Short: 'R', Arg: option.Required, Meta: "reasons", Help: "jobs that did not start for these reasons"},
	{Long: "partition", Short: 'r', Arg: option.Required, Meta: "names", Help: "jobs in these partitions"},
	{Long: "starttime", Short: 'S', Arg: option.Required, Meta: "time", Help: "start of the time looked at"},
	{Long: "state", Short: 's', Arg: option.Required, Meta: "states", Help: "jobs in these states"},
	{Long: "truncate", Short: 'T', Help: "times outside the time looked at are cut"},
	{Long: "user", Short: 'u', Arg: option.Required, Meta: "names", Join: true, Help: "jobs of these users"},
	{Long: "uid", Arg: option.Required, Meta: "names", Help: "the same"},
	{Long: "units", Arg: option.Required, Meta: "KMGTP", Help: "unit of sizes"},
	{Long: "use-local-uid", Help: "numbers of users from this host"},
	{Long: "wckeys", Short: 'W', Arg: option.Required, Meta: "keys", Help: "jobs with these keys"},
	{Long: "whole-hetjob", Arg: option.Optional, Meta: "yes|no", Help: "all components of a het job"},
	{Long: "verbose", Short: 'v', Help: "say more"},
}

const (
	sacctDefault    = "jobid,jobname,partition,account,alloccpus,state,exitcode"
	sacctBrief      = "jobid,state,exitcode"
	sacctCompletion = "jobid,uid,jobname,partition,nnodes,nodelist,state,end"
	sacctLong       = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask," +
		"averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state," +
		"exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode," +
		"maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave," +
		"tresusageinmax,tresusageoutmax"
)

func sacct(ctx context.Context, e *Env, in *Input) error {
	switch {
	case in.Given("helpformat"):
		e.printf("%s", format.FieldNames(format.AcctFields))
		return nil
	case in.Given("helpstate"):
		for _, s := range format.JobStates[:format.BaseStates] {
			e.printf("%s\n", s.Name)
		}
		return nil
	case len(in.Args) > 0:
		return failed("Unrecognized option: %s", in.Args[0])
	}
	table, err := sacctTable(in)
	if err != nil {
		return err
	}
	query, err := sacctQuery(e, in)
	if err != nil {
		return err
	}
	c, err := e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	if in.Given("clusters") && in.Str("clusters") != "all" {
		if _, err := clusterName(ctx, e, c, in.Str("clusters")); err != nil {
			return err
		}
	}
	resp, err := c.DBJobs(ctx, query)
	if err != nil {
		return failed("%s", text(err))
	}
	refs, err := sacctRefs(in)
	if err != nil {
		return err
	}
	keep := sacctFilter(in)
	resp.Jobs = slices.DeleteFunc(resp.Jobs, func(j wire.DBJob) bool { return !keep(&j) })
	switch {
	case in.Given("json"), in.Given("yaml"):
		return printStructured(e, in, resp)
	case in.Given("batch-script"):
		return printScripts(e, resp)
	}
	return printAcct(e, in, table, resp, refs)
}

func sacctTable(in *Input) (format.Table[format.Acct], error) {
	spec := sacctDefault
	switch {
	case in.Given("fields"):
		spec = in.Str("fields")
	case in.Count("format") > 0:
		spec = in.Str("format")
	case in.Given("brief"):
		spec = sacctBrief
	case in.Given("completion"):
		spec = sacctCompletion
	case in.Given("long"):
		spec = sacctLong
	case in.Given("format"):
		spec = in.Str("format")
	}
	table, bad := format.ParseTable(format.AcctFields, spec)
	if bad != "" {
		return table, failed("Invalid field requested: %q", bad)
	}
	table.Parsable = in.Given("parsable") || in.Given("parsable2")
	table.NoTrail = in.Given("parsable2")
	table.Delimiter = in.Str("delimiter")
	return table, nil
}

// sacctQuery translates options into the API's filters.
func sacctQuery(e *Env, in *Input) (url.Values, error) {
	q := url.Values{}
	now := e.Now()
	var start, end time.Time
	for _, t := range []struct {
		long string
		into *time.Time
	}{{"starttime", &start}, {"endtime", &end}} {
		if !in.Given(t.long) {
			continue
		}
		at, err := tres.ParsePastTime(in.Str(t.long), now)
		if err != nil {
			return nil, &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Raw, Text: err.Error()}}}
		}
		*t.into = at
	}
	if end.IsZero() {
		end = now
	}
	if start.IsZero() {
		switch {
		case in.Given("jobs"):
			start = time.Unix(0, 0)
		case in.Given("state"):
			start = end
		default:
			y, m, d := now.In(e.Local).Date()
			start = time.Date(y, m, d, 0, 0, 0, 0, e.Local)
		}
	}
	if start.After(end) {
		return nil, failed("Start time (%s) requested is after end time (%s).", tres.FormatTime(start.In(e.Local)), tres.FormatTime(end.In(e.Local)))
	}
	if !in.Given("jobs") || in.Given("starttime") {
		q.Set("start_time", itoa(start.Unix()))
	}
	if in.Given("endtime") {
		q.Set("end_time", itoa(end.Unix()))
	}
	if err := sacctUsers(e, in, q); err != nil {
		return nil, err
	}
	states, err := sacctStates(in)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ param, value string }{
		{"state", states}, {"account", in.Str("accounts")}, {"job_name", in.Str("name")}, {"partition", in.Str("partition")},
		{"node", in.Str("nodelist")}, {"step", strings.Join(splitIDs(in.Str("jobs")), ",")},
	} {
		if f.value != "" {
			q.Set(f.param, f.value)
		}
	}
	if in.Given("duplicates") {
		q.Set("show_duplicates", "true")
	}
	if in.Given("allocations") {
		q.Set("skip_steps", "true")
	}
	if in.Given("batch-script") {
		q.Set("show_batch_script", "true")
	}
	return q, nil
}

func sacctUsers(e *Env, in *Input, q url.Values) error {
	names := append(in.List("user"), in.List("uid")...)
	var ids []string
	for _, n := range names {
		id, ok := e.Users.ID(n)
		if !ok {
			return failed("Invalid user id: %s", n)
		}
		ids = append(ids, itoa(id))
	}
	switch {
	case len(ids) > 0:
		q.Set("users", strings.Join(ids, ","))
	case !in.Given("allusers") && !in.Given("jobs") && e.UID != 0:
		q.Set("users", itoa(int64(e.UID)))
	}
	return nil
}

func sacctStates(in *Input) (string, error) {
	var names []string
	for _, w := range in.List("state") {
		s, ok := format.ParseJobState(w)
		if !ok {
			return "", fatalf("unrecognized job state value '%s'", w)
		}
		i := slices.Index(format.JobStates, s)
		if i >= format.BaseStates && s.Name != "REQUEUED" && s.Name != "RESIZING" && s.Name != "REVOKED" {
			return "", fatalf("job state %s is not supported / accounted", s.Name)
		}
		names = append(names, s.Name)
	}
	return strings.Join(names, ","), nil
}

// sacctRefs reads --jobs.
func sacctRefs(in *Input) ([]jobRef, error) {
	var refs []jobRef
	for _, w := range splitIDs(in.Str("jobs")) {
		r, ok := parseJobRef(w)
		if !ok {
			return nil, fatalf("Bad job/step specified: %s", w)
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// sacctFilter tests what the API has no filter for.
func sacctFilter(in *Input) func(*wire.DBJob) bool {
	return func(j *wire.DBJob) bool {
		switch {
		case !listed(in, "qos", j.QOS), !listed(in, "wckeys", j.Wckey.Wckey), !listed(in, "reason", j.State.Reason):
			return false
		case !listed(in, "gid", j.Group), !listed(in, "group", j.Group):
			return false
		case !within(in, "timelimit-min", func(m tres.Minutes) bool { return format.Limit(j.Time.Limit) >= m }):
			return false
		case !within(in, "timelimit-max", func(m tres.Minutes) bool { return format.Limit(j.Time.Limit) <= m }):
			return false
		}
		return true
	}
}

func within(in *Input, long string, test func(tres.Minutes) bool) bool {
	if !in.Given(long) {
		return true
	}
	m, err := tres.ParseTimeLimit(in.Str(long))
	return err == nil && test(m)
}

func printAcct(e *Env, in *Input, table format.Table[format.Acct], resp *wire.DBJobsResp, refs []jobRef) error {
	fc := e.format()
	fc.NoConvert = in.Given("noconvert")
	var units *tres.Unit
	if in.Given("units") {
		u, ok := tres.ParseUnit(in.Str("units"))
		if !ok {
			return fatalf("Invalid unit type %s", in.Str("units"))
		}
		units = &u
	} else if fc.NoConvert {
		u := tres.UnitMega
		units = &u
	}
	uid := func(name string) int64 {
		if id, ok := e.Users.ID(name); ok {
			return id
		}
		return -1
	}
	gid := func(name string) int64 {
		if id, ok := e.Users.GroupID(name); ok {
			return id
		}
		return -1
	}
	var b []byte
	if !in.Given("noheader") {
		b = table.Header(b)
	}
	for i := range resp.Jobs {
		a := format.Acct{Job: &resp.Jobs[i], Units: units, UID: uid, GID: gid}
		if wantsStep(refs, &a) {
			b = table.Line(b, fc, &a)
		}
		if in.Given("allocations") {
			continue
		}
		for k := range a.Job.Steps {
			st := a
			st.Step = &a.Job.Steps[k]
			if wantsStep(refs, &st) {
				b = table.Line(b, fc, &st)
			}
		}
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

// wantsStep leaves lines out where --jobs names single steps of their job.
func wantsStep(refs []jobRef, a *format.Acct) bool {
	steps := false
	for _, r := range refs {
		if r.id != a.Job.JobID && r.id != a.Job.Array.JobID {
			continue
		}
		if r.step == "" || a.Step != nil && strings.HasSuffix(a.ID(), "."+r.step) {
			return true
		}
		steps = true
	}
	return !steps
}

func printScripts(e *Env, resp *wire.DBJobsResp) error {
	for i := range resp.Jobs {
		j := &resp.Jobs[i]
		title := "Batch Script for " + itoa(j.JobID)
		e.printf("%s\n%s\n%s\n", title, strings.Repeat("-", 80), or(j.Script, "NONE\n"))
	}
	return nil
}
