package cli

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/option"
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
		list = s.e.Getenv("SLURM_NODELIST") // as Slurm does; jobs have both this and SLURM_JOB_NODELIST
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
