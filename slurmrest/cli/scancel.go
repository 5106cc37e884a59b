package cli

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "scancel", Args: "[JOB_ID[_ARRAY_ID][.STEP_ID]...]", About: "cancel or signal jobs", Flags: scancelFlags, Run: scancel})
}

var scancelFlags = []Flag{
	{Long: "account", Short: 'A', Arg: option.Required, Meta: "name", Env: "SCANCEL_ACCOUNT", Help: "jobs of this account"},
	{Long: "admin-comment", Arg: option.Required, Meta: "text", Help: "comment to leave on the job (admins)"},
	{Long: "batch", Short: 'b', Env: "SCANCEL_BATCH", Help: "signal the batch script alone"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
	{Long: "ctld", Env: "SCANCEL_CTLD", Help: "leave the choice of jobs to the controller"},
	{Long: "cron", Short: 'c', Env: "SCANCEL_CRON", Help: "cron jobs too"},
	{Long: "full", Short: 'f', Env: "SCANCEL_FULL", Help: "signal the batch script, its children and all steps"},
	{Long: "hurry", Short: 'H', Env: "SCANCEL_HURRY", Help: "skip staging out"},
	{Long: "interactive", Short: 'i', Env: "SCANCEL_INTERACTIVE", Help: "ask before each job"},
	{Long: "me", Help: "own jobs"},
	{Long: "name", Short: 'n', Arg: option.Required, Meta: "name", Env: "SCANCEL_NAME", Help: "jobs with this name"},
	{Long: "jobname", Arg: option.Required, Meta: "name", Help: "the same"},
	{Long: "nodelist", Short: 'w', Arg: option.Required, Meta: "hosts", Help: "jobs on these nodes"},
	{Long: "partition", Short: 'p', Arg: option.Required, Meta: "name", Env: "SCANCEL_PARTITION", Help: "jobs in this partition"},
	{Long: "qos", Short: 'q', Arg: option.Required, Meta: "name", Env: "SCANCEL_QOS", Help: "jobs with this QOS"},
	{Long: "quiet", Short: 'Q', Help: "say less"},
	{Long: "reservation", Short: 'R', Arg: option.Required, Meta: "name", Help: "jobs in this reservation"},
	{Long: "sibling", Arg: option.Required, Meta: "name", Help: "no federations: no effect"},
	{Long: "signal", Short: 's', Arg: option.Required, Meta: "signal", Help: "send this signal instead of cancelling"},
	{Long: "state", Short: 't', Arg: option.Required, Meta: "state", Env: "SCANCEL_STATE", Help: "jobs in this state"},
	{Long: "user", Short: 'u', Arg: option.Required, Meta: "name", Env: "SCANCEL_USER", Help: "jobs of this user"},
	{Long: "verbose", Short: 'v', Env: "SCANCEL_VERBOSE", Help: "say what is done"},
	{Long: "wckey", Arg: option.Required, Meta: "key", Env: "SCANCEL_WCKEY", Help: "jobs with this key"},
}

// canceller is one run of scancel.
type canceller struct {
	e      *Env
	c      *client.Client
	in     *Input
	signal int // 0: cancel
	flags  []string
	status int
	answer *bufio.Reader
}

func scancel(ctx context.Context, e *Env, in *Input) error {
	k := &canceller{e: e, in: in, answer: bufio.NewReader(e.Stdin)}
	if in.Given("signal") {
		var ok bool
		if k.signal, ok = option.ParseSignal(in.Str("signal")); !ok {
			return fail("Unknown job signal: %s", in.Str("signal"))
		}
	}
	var refs []jobRef
	for _, w := range splitIDs(strings.Join(in.Args, " ")) {
		r, ok := parseJobRef(w)
		if !ok {
			return invalidID(w)
		}
		refs = append(refs, r)
	}
	filter, err := cancelFilter(e, in)
	if err != nil {
		return err
	}
	if len(refs) == 0 && filter == nil {
		return failed("No job identification provided")
	}
	for _, f := range []struct{ long, flag string }{{"batch", "BATCH_JOB"}, {"full", "FULL_JOB"}, {"hurry", "HURRY"}, {"cron", "CRON_JOBS"}} {
		if in.Given(f.long) {
			k.flags = append(k.flags, f.flag)
		}
	}
	if k.c, err = e.Client(ctx); err != nil {
		return &option.Error{Exit: int(errno.ControllerConnect) & 0xff, Lines: []option.Line{{Level: option.Err, Text: text(err)}}}
	}
	if filter != nil || in.Given("interactive") {
		if refs, err = k.filtered(ctx, refs, filter); err != nil {
			return err
		}
	}
	for _, r := range refs {
		k.kill(ctx, r)
	}
	if k.status != 0 {
		return exit(k.status)
	}
	return nil
}

// invalidID says what is wrong with an id, of a list of tasks also where.
func invalidID(text string) error {
	e := &option.Error{Exit: 1}
	if _, list, ok := strings.Cut(text, "_["); ok {
		for part := range strings.SplitSeq(strings.TrimSuffix(list, "]"), ",") {
			if _, _, _, ok := indexRange(part); !ok {
				e.Lines = append(e.Lines, option.Line{Level: option.Err, Text: "_parse_single_range: Invalid range: `" + part + "'"})
				break
			}
		}
	}
	e.Lines = append(e.Lines, option.Line{Level: option.Err, Text: "Invalid job id " + text})
	return e
}

// cancelFilter builds the test of the filter options, nil if none is given.
func cancelFilter(e *Env, in *Input) (func(*wire.JobInfo) bool, error) {
	var tests []func(*wire.JobInfo) bool
	add := func(t func(*wire.JobInfo) bool) { tests = append(tests, t) }
	user := int64(-1)
	if in.Given("user") {
		id, ok := e.Users.ID(in.Str("user"))
		if !ok {
			return nil, failed("Invalid user name: %s", in.Str("user"))
		}
		user = id
	}
	if in.Given("me") {
		user = int64(e.UID)
	}
	if user >= 0 {
		add(func(j *wire.JobInfo) bool { return j.UserID == user })
	}
	if in.Given("state") {
		s, ok := format.ParseJobState(in.Str("state"))
		if !ok {
			return nil, &option.Error{Exit: 1, Lines: []option.Line{
				{Level: option.Raw, Text: "Invalid job state specified: " + in.Str("state")},
				{Level: option.Raw, Text: "Valid job states are PENDING, RUNNING, and SUSPENDED"},
			}}
		}
		add(func(j *wire.JobInfo) bool { return slices.Contains(j.JobState, s.Name) })
	}
	for _, f := range []struct {
		long  string
		value func(*wire.JobInfo) string
	}{
		{"account", func(j *wire.JobInfo) string { return j.Account }},
		{"name", func(j *wire.JobInfo) string { return j.Name }},
		{"jobname", func(j *wire.JobInfo) string { return j.Name }},
		{"qos", func(j *wire.JobInfo) string { return j.QOS }},
		{"reservation", func(j *wire.JobInfo) string { return j.ResvName }},
		{"wckey", func(j *wire.JobInfo) string { return j.Wckey }},
	} {
		if in.Given(f.long) {
			names := in.List(f.long)
			add(func(j *wire.JobInfo) bool { return slices.Contains(names, f.value(j)) })
		}
	}
	if in.Given("partition") {
		add(func(j *wire.JobInfo) bool { return overlap(in.List("partition"), strings.Split(j.Partition, ",")) })
	}
	if in.Given("nodelist") {
		wanted, err := hosts(in.Str("nodelist"))
		if err != nil {
			return nil, failed("%s", text(err))
		}
		add(func(j *wire.JobInfo) bool {
			have, err := hosts(j.Nodes)
			return err == nil && overlap(wanted, have)
		})
	}
	if tests == nil {
		return nil, nil //nolint:nilnil // no filter is a value here
	}
	return func(j *wire.JobInfo) bool {
		return !slices.ContainsFunc(tests, func(t func(*wire.JobInfo) bool) bool { return !t(j) })
	}, nil
}

// filtered keeps the ids whose jobs pass the filter, or takes all jobs that do
// if no ids were given; it asks about each if that is wanted.
func (k *canceller) filtered(ctx context.Context, refs []jobRef, pass func(*wire.JobInfo) bool) ([]jobRef, error) {
	resp, err := k.c.Jobs(ctx, client.JobsQuery{})
	if err != nil {
		return nil, fail("slurm_load_jobs error: %s", text(err))
	}
	var out []jobRef
	seen := map[string]bool{}
	keep := func(r jobRef, j *wire.JobInfo) {
		if seen[r.text] || k.in.Given("interactive") && !k.confirm(r, j) {
			return
		}
		seen[r.text] = true
		out = append(out, r)
	}
	for i := range resp.Jobs {
		j := &resp.Jobs[i]
		if format.Finished(j.JobState) || pass != nil && !pass(j) {
			continue
		}
		if len(refs) == 0 {
			own := format.Job{JobInfo: j}
			if r, ok := parseJobRef(strings.Split(own.ID(&format.Context{}), "%")[0]); ok {
				r.text = strings.TrimSuffix(r.text, "]")
				if strings.Contains(r.text, "[") {
					r.text += "]"
				}
				keep(r, j)
			}
			continue
		}
		for _, r := range refs {
			if r.matches(j) {
				keep(r, j)
			}
		}
	}
	if len(out) == 0 && k.in.Given("verbose") {
		k.e.errorf("No active jobs match ALL job filters")
	}
	return out, nil
}

func (k *canceller) confirm(r jobRef, j *wire.JobInfo) bool {
	k.e.printf("Cancel job_id=%s name=%s partition=%s [y/n]? ", r.text, j.Name, j.Partition)
	if err := k.e.flush(); err != nil {
		return false
	}
	line, err := k.answer.ReadString('\n')
	return err == nil && strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}

// send asks the controller. Steps are known to their node alone, so all that is
// said of one is whether its job is there.
func (k *canceller) send(ctx context.Context, r jobRef, signal string) error {
	if r.step != "" {
		if _, err := k.c.Job(ctx, r.base()); err != nil {
			return err
		}
		return errno.NotSupported
	}
	resp, err := k.c.Kill(ctx, r.text, signal, k.flags...)
	if err != nil {
		return err
	}
	for _, s := range resp.Status {
		if s.Error.Code != 0 {
			err = errno.Errno(s.Error.Code)
		}
	}
	return err
}

// kill cancels or signals one id and keeps the worst exit status.
func (k *canceller) kill(ctx context.Context, r jobRef) {
	name := ""
	what := "job"
	if r.step != "" {
		what = "step"
	}
	if k.signal != 0 {
		name = option.SignalName(k.signal)
	}
	if k.in.Given("verbose") {
		if k.signal == 0 || k.signal == 9 {
			k.e.infof("Terminating %s %s", what, r.text)
		} else {
			k.e.infof("Signal %d to %s %s", k.signal, what, r.text)
		}
	}
	err := k.send(ctx, r, name)
	if err == nil {
		return
	}
	gone := errors.Is(err, errno.InvalidJobID) || errors.Is(err, errno.AlreadyDone)
	if gone && r.step == "" && k.signal == 0 && !k.in.Given("verbose") {
		return
	}
	if !k.in.Given("quiet") {
		if r.step != "" {
			k.e.errorf("Kill job error on job step id %s: %s", r.text, text(err))
		} else {
			k.e.errorf("Kill job error on job id %s: %s", r.text, text(err))
		}
	}
	n, _ := errno.Of(err)
	switch {
	case gone && (k.signal != 0 || r.step != ""):
		k.status = max(k.status, 1)
	case !gone:
		k.status = max(k.status, int(n)&0xff, 1)
	}
}
