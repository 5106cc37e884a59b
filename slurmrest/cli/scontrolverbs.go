package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

// verb is a command of scontrol. It may be cut to short letters; min and max bound
// its arguments, max -1 is any number.
type verb struct {
	name     string
	short    int
	min, max int
	few      string // what is said of too few arguments; "": the usual sentence
	run      func(ctx context.Context, s *scontrolRun, args []string) error
}

const (
	fewWords = "too few arguments for %s keyword"
	missing  = "missing argument for keyword:%s"
)

// scontrolVerbs in the order in which abbreviations are tried, as Slurm's own.
func scontrolVerbs() []verb {
	set := func(change func(*scontrolRun)) func(context.Context, *scontrolRun, []string) error {
		return func(_ context.Context, s *scontrolRun, _ []string) error { change(s); return nil }
	}
	nothing := set(func(*scontrolRun) {})
	return []verb{
		{"all", 2, 0, 0, "", set(func(s *scontrolRun) { s.all = true })},
		{"cancel_reboot", 3, 1, 1, missing, rebootVerb},
		{"cluster", 2, 0, 1, "", useCluster},
		{"completing", 2, 0, 0, "", showCompleting},
		{"create", 2, 1, -1, fewWords, create},
		{"details", 1, 0, 0, "", set(func(s *scontrolRun) { s.details = true })},
		{"delete", 3, 1, -1, fewWords, remove},
		{"errnumstr", 2, 1, 1, "one arguments required for keyword:%s", errNumStr},
		{"exit", 2, 0, 0, "", set(func(s *scontrolRun) { s.quit = true })},
		{"fsdampeningfactor", 3, 1, 1, "", adminVerb("slurm_set_fs_dampeningfactor")},
		{"help", 2, 0, 0, "", func(_ context.Context, s *scontrolRun, _ []string) error { return commands["scontrol"].help(s.e) }},
		{"hide", 2, 0, 0, "", set(func(s *scontrolRun) { s.all = false })},
		{"hold", 4, 1, -1, "", hold},
		{"holdu", 5, 1, -1, "", hold},
		{"listpids", 1, 0, 2, "", nodeVerb("No job steps exist on this node.")},
		{"listjobs", 5, 0, 1, "", nodeVerb("No slurmstepd's found on this node")},
		{"liststeps", 5, 0, 1, "", nodeVerb("No slurmstepd's found on this node")},
		{"notify", 1, 2, -1, "", notify},
		{"oneliner", 1, 0, 0, "", set(func(s *scontrolRun) { s.oneline = true })},
		{"pidinfo", 3, 1, 1, missing, nodeVerb("Failed to locate job for requested pid")},
		{"ping", 3, 0, 0, "", ping},
		{"power", 2, 2, -1, "", power},
		{"quiet", 4, 0, 0, "", nothing},
		{"quit", 4, 0, 0, "", set(func(s *scontrolRun) { s.quit = true })},
		{"reboot", 3, 1, -1, "Missing node list. Specify ALL|<NodeList>", rebootVerb},
		{"reconfigure", 3, 0, 1, "", reconfigure},
		{"release", 3, 1, -1, "", release},
		{"requeue", 3, 1, -1, "", requeue},
		{"requeuehold", 8, 1, -1, "", requeueHold},
		{"resume", 3, 1, -1, "", unsupportedVerb("resume")},
		{"schedloglevel", 3, 1, 1, "", adminVerb("slurm_set_schedlog_level")},
		{"setdebug", 2, 1, -1, "", setDebug},
		{"setdebugflags", 9, 1, -1, "", adminVerb("slurm_set_debug_flags")},
		{"show", 3, 1, -1, "", show},
		{"shutdown", 8, 0, 1, "", adminVerb("slurm_shutdown")},
		{"suspend", 2, 1, -1, "", unsupportedVerb("suspend")},
		{"takeover", 8, 0, 1, "", adminVerb("slurm_takeover")},
		{"token", 3, 0, -1, "", token},
		{"top", 3, 1, -1, "", top},
		{"update", 1, 1, -1, fewWords, update},
		{"uhold", 2, 1, -1, "", hold},
		{"verbose", 4, 0, 0, "", nothing},
		{"version", 4, 0, 0, "", func(_ context.Context, s *scontrolRun, _ []string) error { s.e.printf("%s\n", Version); return nil }},
		{"wait_job", 2, 1, 1, "", waitReady},
		{"write", 5, 1, 3, "", write},
	}
}

// command runs one line of words.
func (s *scontrolRun) command(ctx context.Context, words []string) error {
	name, args := strings.ToLower(words[0]), words[1:]
	for _, v := range scontrolVerbs() {
		if len(name) < v.short || !strings.HasPrefix(v.name, name) {
			continue
		}
		switch {
		case len(args) < v.min && v.few == "":
			return fail("too few arguments for keyword:%s", words[0])
		case len(args) < v.min:
			return fail("%s", strings.ReplaceAll(v.few, "%s", words[0]))
		case v.max >= 0 && len(args) > v.max:
			return fail("too many arguments for keyword:%s", words[0])
		}
		return v.run(ctx, s, args)
	}
	return fail("invalid keyword: %s", words[0])
}

// adminVerb answers what only an administrator may do, and he elsewhere: in the
// configuration, or with systemctl.
func adminVerb(call string) func(context.Context, *scontrolRun, []string) error {
	denied := "Permission denied" // the C library's; these don't reach the controller's own words
	if call == "slurm_shutdown" {
		denied = errno.UserIDMissing.Error()
	}
	return func(_ context.Context, s *scontrolRun, _ []string) error {
		if s.e.UID != 0 {
			return fail("%s error:%s", call, denied)
		}
		return fail("%s error:%s", call, errno.NotSupported)
	}
}

// debugLevels are the words of setdebug.
var debugLevels = []string{"quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5"}

func setDebug(ctx context.Context, s *scontrolRun, args []string) error {
	n, err := strconv.Atoi(args[0])
	if (err != nil || n < 0 || n >= len(debugLevels)) && !overlap([]string{strings.ToLower(args[0])}, debugLevels) {
		return fail("invalid debug level: %s", args[0])
	}
	return adminVerb("slurm_set_debug_level")(ctx, s, args)
}

// rebootVerb answers as a Slurm without a RebootProgram: nodes are rented anew.
func rebootVerb(_ context.Context, s *scontrolRun, _ []string) error {
	return &option.Error{Exit: 1, Lines: []option.Line{
		{Level: option.Err, Text: "RebootProgram isn't defined"},
		{Level: option.Raw, Text: "scontrol_reboot_nodes error:" + errno.Unspecified.Error()},
	}}
}

// nodeVerb answers what a machine that runs no jobs does: jobs here live in
// containers, whose processes only their node knows.
func nodeVerb(says string) func(context.Context, *scontrolRun, []string) error {
	return func(context.Context, *scontrolRun, []string) error { return fail("%s", says) }
}

// useCluster takes our own name, or none.
func useCluster(ctx context.Context, s *scontrolRun, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c, err := s.client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	_, err = clusterName(ctx, s.e, c, args[0])
	return err
}

// notify would write to a job's output, which its node owns.
func notify(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err == nil {
		_, err = c.Job(ctx, args[0])
	}
	if err == nil {
		err = errno.NotSupported
	}
	return fail("job notify failure: %s", text(err))
}

func errNumStr(_ context.Context, s *scontrolRun, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fail("numeric arguments required for keyword:errnumstr")
	}
	s.e.printf("%s\n", errno.Errno(n).Error())
	return nil
}

// unsupportedVerb answers commands whose part is not built: parsed, refused.
func unsupportedVerb(name string) func(context.Context, *scontrolRun, []string) error {
	return func(ctx context.Context, s *scontrolRun, args []string) error {
		return s.each(ctx, args, "", func(c *client.Client, id string) error {
			resp, err := c.Job(ctx, id)
			switch {
			case err != nil:
				return err
			case len(resp.Jobs) == 0:
				return errno.InvalidJobID
			case format.Finished(resp.Jobs[0].JobState):
				return errno.AlreadyDone
			case format.BaseState(resp.Jobs[0].JobState).Name == "PENDING":
				return errno.JobPending
			}
			return fmt.Errorf("%s: %w", name, errno.NotSupported)
		})
	}
}
