package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "scontrol", Args: "[COMMAND [ARGUMENT...]]", About: "show and change jobs, nodes and partitions", Flags: scontrolFlags, Run: scontrol})
}

var scontrolFlags = []Flag{
	{Long: "all", Short: 'a', Env: "SCONTROL_ALL", Help: "hidden partitions too"},
	{Long: "details", Short: 'd', Help: "show more"},
	{Long: "federation", Env: "SCONTROL_FEDERATION", Help: "no federations: no effect"},
	{Long: "future", Short: 'F', Env: "SCONTROL_FUTURE", Help: "nodes in state FUTURE too"},
	{Long: "hide", Help: "leave hidden partitions out (default)"},
	{Long: "local", Env: "SCONTROL_LOCAL", Help: "no federations: no effect"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "name", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
	{Long: "oneliner", Short: 'o', Help: "one line a record"},
	{Long: "quiet", Short: 'Q', Help: "errors alone"},
	{Long: "sibling", Env: "SCONTROL_SIB", Help: "no federations: no effect"},
	{Long: "uid", Short: 'u', Arg: option.Required, Meta: "user", Help: "act as this user (root)"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "json", Arg: option.Optional, Meta: "version", Help: "the REST API's answer"},
	{Long: "yaml", Arg: option.Optional, Meta: "version", Help: "the REST API's answer as YAML"},
}

// scontrolRun is one run of scontrol: its flags, which commands may change too.
type scontrolRun struct {
	e  *Env
	in *Input

	all, details, future, oneline, quit bool
}

func (s *scontrolRun) client(ctx context.Context) (*client.Client, error) { return s.e.Client(ctx) }

func (s *scontrolRun) structured() bool { return s.in.Given("json") || s.in.Given("yaml") }

// verb is a command of scontrol. min and max bound its arguments; max -1: any.
type verb struct {
	name     string
	min, max int
	run      func(ctx context.Context, s *scontrolRun, args []string) error
}

// verbs in the order in which abbreviations are tried.
func verbs() []verb {
	toggle := func(set func(*scontrolRun)) func(context.Context, *scontrolRun, []string) error {
		return func(_ context.Context, s *scontrolRun, _ []string) error { set(s); return nil }
	}
	return []verb{
		{"all", 0, 0, toggle(func(s *scontrolRun) { s.all = true })},
		{"completing", 0, 0, showCompleting},
		{"details", 0, 0, toggle(func(s *scontrolRun) { s.details = true })},
		{"errnumstr", 1, 1, errNumStr},
		{"exit", 0, 0, toggle(func(s *scontrolRun) { s.quit = true })},
		{"help", 0, 0, func(_ context.Context, s *scontrolRun, _ []string) error { return commands["scontrol"].help(s.e) }},
		{"hide", 0, 0, toggle(func(s *scontrolRun) { s.all = false })},
		{"hold", 1, -1, hold},
		{"oneliner", 0, 0, toggle(func(s *scontrolRun) { s.oneline = true })},
		{"ping", 0, 0, ping},
		{"quit", 0, 0, toggle(func(s *scontrolRun) { s.quit = true })},
		{"reconfigure", 0, 1, reconfigure},
		{"release", 1, -1, release},
		{"requeue", 1, -1, requeue},
		{"requeuehold", 1, -1, requeueHold},
		{"resume", 1, -1, unsupportedVerb("resume")},
		{"show", 1, -1, show},
		{"suspend", 1, -1, unsupportedVerb("suspend")},
		{"token", 0, -1, token},
		{"uhold", 1, -1, hold},
		{"update", 1, -1, update},
		{"version", 0, 0, func(_ context.Context, s *scontrolRun, _ []string) error { s.e.printf("%s\n", Version); return nil }},
		{"wait_job", 1, 1, waitReady},
		{"write", 2, 3, write},
	}
}

func scontrol(ctx context.Context, e *Env, in *Input) error {
	s := &scontrolRun{e: e, in: in, all: in.Given("all"), details: in.Given("details"), future: in.Given("future"), oneline: in.Given("oneliner")}
	if in.Given("clusters") {
		c, err := s.client(ctx)
		if err != nil {
			return failed("%s", text(err))
		}
		if _, err := clusterName(ctx, e, c, in.Str("clusters")); err != nil {
			return err
		}
	}
	if len(in.Args) > 0 {
		return s.command(ctx, in.Args)
	}
	lines := bufio.NewScanner(e.Stdin)
	status := 0
	for !s.quit {
		e.printf("scontrol: ")
		if err := e.flush(); err != nil || !lines.Scan() {
			break
		}
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if err := s.command(ctx, words); err != nil {
			status = report(e, err)
		}
	}
	if status != 0 {
		return exit(status)
	}
	return nil
}

func (s *scontrolRun) command(ctx context.Context, words []string) error {
	name := strings.ToLower(words[0])
	for _, v := range verbs() {
		if !strings.HasPrefix(v.name, name) {
			continue
		}
		args := words[1:]
		switch {
		case len(args) < v.min:
			return fail("too few arguments for keyword:%s", words[0])
		case v.max >= 0 && len(args) > v.max:
			return fail("too many arguments for keyword:%s", words[0])
		}
		return v.run(ctx, s, args)
	}
	return fail("invalid keyword: %s", words[0])
}

// show prints one kind of record.
func show(ctx context.Context, s *scontrolRun, args []string) error {
	what, rest := strings.ToLower(args[0]), args[1:]
	for _, entity := range []struct {
		name string
		run  func(ctx context.Context, s *scontrolRun, args []string) error
	}{
		{"config", showConfig},
		{"daemons", func(_ context.Context, s *scontrolRun, _ []string) error { s.e.printf("(null)\n"); return nil }},
		{"hostlist", showHostlist(false)},
		{"hostlistsorted", showHostlist(true)},
		{"hostnames", showHostnames},
		{"jobs", showJobs},
		{"jobid", showJobs},
		{"licenses", sentence("No licenses configured in Slurm.")},
		{"nodes", showNodes},
		{"partitions", showPartitions},
		{"reservations", func(_ context.Context, s *scontrolRun, args []string) error {
			if len(args) > 0 {
				s.e.printf("Reservation %s not found\n", args[0])
				return exit(1)
			}
			s.e.printf("No reservations in the system\n")
			return nil
		}},
		{"steps", showSteps},
		{"topology", sentence("")},
		{"federation", sentence("")},
	} {
		if strings.HasPrefix(entity.name, what) {
			return entity.run(ctx, s, rest)
		}
	}
	return fail("invalid entity:%s for keyword:show ", args[0])
}

func sentence(text string) func(context.Context, *scontrolRun, []string) error {
	return func(_ context.Context, s *scontrolRun, _ []string) error {
		if text != "" {
			s.e.printf("%s\n", text)
		}
		return nil
	}
}

func showHostnames(_ context.Context, s *scontrolRun, args []string) error {
	list := strings.Join(args, ",")
	if len(args) == 0 {
		list = s.e.Getenv("SLURM_NODELIST")
		if list == "" {
			list = s.e.Getenv("SLURM_JOB_NODELIST")
		}
	}
	if list == "" {
		s.e.errorf("host list is empty")
		return nil
	}
	names, err := hosts(list)
	if err != nil {
		return badHosts(s, err)
	}
	for _, n := range names {
		s.e.printf("%s\n", n)
	}
	return nil
}

// badHosts says what is wrong with a host list; that is not a failure to scontrol.
func badHosts(s *scontrolRun, err error) error {
	var h *hostlist.Error
	if errors.As(err, &h) && h.Diag != "" {
		s.e.errorf("%s", h.Diag)
	}
	s.e.rawf("%s", err)
	return nil
}

func showHostlist(sorted bool) func(context.Context, *scontrolRun, []string) error {
	return func(_ context.Context, s *scontrolRun, args []string) error {
		list := strings.Join(args, ",")
		if list == "" {
			s.e.errorf("host list is empty")
			return nil
		}
		if strings.HasPrefix(list, "/") {
			data, err := s.e.ReadFile(list)
			if err != nil {
				return failed("%v", err)
			}
			list = strings.Join(strings.Fields(string(data)), ",")
		}
		names, err := hosts(list)
		if err != nil {
			return badHosts(s, err)
		}
		if sorted {
			hostlist.Sort(names)
		}
		s.e.printf("%s\n", hostlist.Compress(names))
		return nil
	}
}

// showSteps prints the batch steps of running jobs.
func showSteps(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_get_job_steps error: %s", text(err))
	}
	resp, err := c.Jobs(ctx, client.JobsQuery{})
	if err != nil {
		return fail("slurm_get_job_steps error: %s", text(err))
	}
	found := false
	fc := s.e.format()
	for i := range resp.Jobs {
		j := format.Job{JobInfo: &resp.Jobs[i]}
		if len(args) > 0 {
			ref, ok := parseJobRef(args[0])
			if !ok {
				return fail("slurm_get_job_steps error: Invalid job id specified")
			}
			if !ref.matches(j.JobInfo) || ref.step != "" && ref.step != "batch" {
				continue
			}
		}
		for _, st := range format.Steps([]format.Job{j}) {
			found = true
			r := &record{one: s.oneline}
			r.line("StepId", j.ID(fc)+"."+st.Name, "UserId", itoa(j.UserID), "StartTime", fc.Time(j.StartTime.Number, "Unknown"), "TimeLimit", "UNLIMITED")
			r.line("State", "RUNNING", "Partition", j.Partition, "NodeList", or(j.BatchHost, j.Nodes))
			r.line("Nodes", "1", "CPUs", "0", "Tasks", "1", "Name", st.Name, "Network", "(null)")
			r.line("TRES", "(null)")
			r.line("ResvPorts", "(null)")
			r.line("CPUFreqReq", "Default")
			r.last("SrunHost:Pid", "(null):0")
			s.e.printf("%s", r.String())
		}
	}
	if !found {
		s.e.printf("No job steps in the system\n")
	}
	return nil
}

func showCompleting(ctx context.Context, s *scontrolRun, _ []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_load_jobs error: %s", text(err))
	}
	resp, err := c.Jobs(ctx, client.JobsQuery{})
	if err != nil {
		return fail("slurm_load_jobs error: %s", text(err))
	}
	for i := range resp.Jobs {
		if j := &resp.Jobs[i]; slices.Contains(j.JobState, "COMPLETING") {
			s.e.printf("JobId=%d EndTime=%s CodeTestTime=%s Nodes(COMPLETING)=%s\n", j.JobID, s.e.format().Time(j.EndTime.Number, "Unknown"), "00:00:00", j.Nodes)
		}
	}
	return nil
}

func errNumStr(_ context.Context, s *scontrolRun, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return failed("Invalid error number: %s", args[0])
	}
	s.e.printf("%s\n", errno.Errno(n).Error())
	return nil
}

// jobIDs lists the ids of a command: with blanks or commas between, or
// jobname=x for all jobs of that name.
func (s *scontrolRun) jobIDs(ctx context.Context, args []string) ([]string, error) {
	if name, ok := cutPrefixFold(args[0], "jobname="); ok {
		c, err := s.client(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := c.Jobs(ctx, client.JobsQuery{})
		if err != nil {
			return nil, err
		}
		var out []string
		for i := range resp.Jobs {
			if j := &resp.Jobs[i]; j.Name == name && !format.Finished(j.JobState) && (s.e.UID == 0 || j.UserID == int64(s.e.UID)) {
				out = append(out, itoa(j.JobID))
			}
		}
		if len(out) == 0 {
			return nil, errno.InvalidJobID
		}
		return out, nil
	}
	return splitIDs(strings.Join(args, ",")), nil
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// each runs a change on every id and prints what failed. last is the line after
// a failure, naming the call; empty: none.
func (s *scontrolRun) each(ctx context.Context, args []string, last string, change func(c *client.Client, id string) error) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("%s error: %s", or(last, "slurm_update"), text(err))
	}
	ids, err := s.jobIDs(ctx, args)
	if err != nil {
		return fail("%s error:%s", or(last, "slurm_update"), " "+text(err))
	}
	var worst error
	for _, id := range ids {
		var err error = errno.InvalidJobID
		if _, ok := parseJobRef(id); ok {
			err = change(c, id)
		}
		if err != nil {
			s.e.rawf("%s for job %s", text(err), id)
			worst = err
		}
	}
	switch {
	case worst == nil:
		return nil
	case last == "":
		return exit(1)
	}
	return fail("%s error:%s", last, text(worst))
}

func hold(ctx context.Context, s *scontrolRun, args []string) error {
	yes := true
	return s.each(ctx, args, "slurm_suspend", func(c *client.Client, id string) error {
		_, err := c.Update(ctx, id, &wire.JobDescMsg{Hold: &yes})
		return err
	})
}

func release(ctx context.Context, s *scontrolRun, args []string) error {
	no := false
	return s.each(ctx, args, "slurm_suspend", func(c *client.Client, id string) error {
		_, err := c.Update(ctx, id, &wire.JobDescMsg{Hold: &no})
		return err
	})
}

func requeue(ctx context.Context, s *scontrolRun, args []string) error {
	return s.requeue(ctx, args)
}

func requeueHold(ctx context.Context, s *scontrolRun, args []string) error {
	return s.requeue(ctx, args, "Hold")
}

func (s *scontrolRun) requeue(ctx context.Context, args []string, flags ...string) error {
	for len(args) > 0 {
		if v, ok := cutPrefixFold(args[0], "state="); ok {
			if strings.EqualFold(v, "specialexit") || strings.EqualFold(v, "SE") {
				flags = append(flags, "SpecialExit")
			}
		} else if strings.EqualFold(args[0], "incomplete") {
			flags = append(flags, "Incomplete")
		} else {
			break
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return fail("too few arguments for keyword:requeue")
	}
	return s.each(ctx, args, "", func(c *client.Client, id string) error {
		resp, err := c.Requeue(ctx, []string{id}, flags...)
		if err != nil {
			return err
		}
		for _, job := range resp.Status {
			for _, r := range job {
				if r.ErrorCode != 0 {
					return errno.Errno(r.ErrorCode)
				}
			}
		}
		return nil
	})
}

// unsupportedVerb answers commands whose part is not built: parsed, refused.
func unsupportedVerb(name string) func(context.Context, *scontrolRun, []string) error {
	return func(ctx context.Context, s *scontrolRun, args []string) error {
		return s.each(ctx, args, "", func(*client.Client, string) error { return fmt.Errorf("%s: %w", name, errno.NotSupported) })
	}
}

func reconfigure(ctx context.Context, s *scontrolRun, _ []string) error {
	c, err := s.client(ctx)
	if err == nil {
		err = c.Reconfigure(ctx)
	}
	if err == nil {
		return nil
	}
	if ce, ok := errors.AsType[*client.Error](err); ok && ours(ce) {
		s.e.errorf("%s", ce.Description)
	}
	return fail("slurm_reconfigure error:%s", text(err))
}

func token(ctx context.Context, s *scontrolRun, args []string) error {
	var req wire.TokenRequest
	for _, a := range args {
		if v, ok := cutPrefixFold(a, "username="); ok {
			req.User = v
		} else if v, ok := cutPrefixFold(a, "lifespan="); ok {
			n, err := strconv.ParseInt(v, 10, 32)
			if strings.EqualFold(v, "infinite") {
				n, err = -1, nil
			}
			if err != nil {
				return failed("Invalid lifespan value: %s", v)
			}
			req.Lifespan = n
		} else {
			return failed("Invalid argument: %s", a)
		}
	}
	c, err := s.client(ctx)
	if err != nil {
		return fail("token: %s", text(err))
	}
	var out wire.Token
	if err := c.Post(ctx, "/sbatchd/v1/token", req, &out); err != nil {
		return fail("token: %s", text(err))
	}
	s.e.printf("SLURM_JWT=%s\n", out.Token)
	return nil
}

// waitReady waits until a job's nodes are up.
func waitReady(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	for pause := 250 * time.Millisecond; ; pause = min(pause*2, 8*time.Second) {
		resp, err := c.Job(ctx, args[0])
		if err != nil && !errors.Is(err, errno.InvalidJobID) {
			return failed("%s", text(err))
		}
		if err != nil || len(resp.Jobs) == 0 || format.Finished(resp.Jobs[0].JobState) {
			return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Err, Text: fmt.Sprintf("Job %s no longer running", args[0])}}}
		}
		j := &resp.Jobs[0]
		if format.ShownState(j.JobState).Name == "RUNNING" {
			return nil
		}
		if err := s.e.Sleep(ctx, pause); err != nil {
			return exit(1)
		}
	}
}

// write saves a batch script or the configuration.
func write(ctx context.Context, s *scontrolRun, args []string) error {
	if !strings.HasPrefix("batch_script", strings.ToLower(args[0])) { // may be cut short
		return fail("invalid write argument:%s", args[0])
	}
	id := args[1]
	c, err := s.client(ctx)
	if err != nil {
		return fail("job script retrieval failed: %s", text(err))
	}
	body, err := c.Stream(ctx, "/sbatchd/v1/script/"+url.PathEscape(id), nil)
	if err != nil {
		s.e.rawf("job script retrieval failed: %s", text(err))
		return nil
	}
	defer body.Close() //nolint:errcheck // only read
	name := "slurm-" + id + ".sh"
	if len(args) > 2 {
		name = args[2]
	}
	if name == "-" {
		_, err := io.Copy(s.e.Stdout, body)
		return err
	}
	f, err := s.e.Create(s.e.Path(name))
	if err != nil {
		return fail("failed to open file `%s`: %v", name, err)
	}
	if _, err := io.Copy(f, body); err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return fail("failed to write file `%s`: %v", name, err)
	}
	if err := f.Close(); err != nil {
		return fail("failed to write file `%s`: %v", name, err)
	}
	s.e.printf("batch script for job %s written to %s\n", id, name)
	return nil
}
