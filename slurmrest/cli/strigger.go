package cli

import (
	"context"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

func init() {
	register(Command{Name: "strigger", About: "programs run at events", Flags: striggerFlags(), Run: strigger})
}

// triggerEvents are the options that name what a trigger waits for.
var triggerEvents = []string{
	"backup_controller_assumed_control", "backup_controller_failure", "backup_controller_resumed_operation", "burst_buffer", "down",
	"drained", "draining", "fail", "fini", "idle", "node", "primary_controller_acct_buffer_full", "primary_controller_failure",
	"primary_controller_resumed_control", "primary_controller_resumed_operation", "primary_database_failure",
	"primary_database_resumed_operation", "primary_slurmdbd_failure", "primary_slurmdbd_resumed_operation", "reconfig", "resume", "time", "up",
}

func striggerFlags() []Flag {
	list := []Flag{
		{Long: "set", Help: "make a trigger"},
		{Long: "get", Help: "list triggers"},
		{Long: "clear", Help: "delete triggers"},
		{Long: "id", Short: 'i', Arg: option.Required, Meta: "id", Help: "a trigger's number"},
		{Long: "jobid", Short: 'j', Arg: option.Required, Meta: "id", Help: "of this job"},
		{Long: "user", Arg: option.Required, Meta: "user", Help: "of this user"},
		{Long: "program", Short: 'p', Arg: option.Required, Meta: "path", Help: "what to run"},
		{Long: "offset", Short: 'o', Arg: option.Required, Meta: "seconds", Help: "before or after the event"},
		{Long: "flags", Arg: option.Required, Meta: "type", Help: "PERM: it stays"},
		{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "name", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
		{Long: "noheader", Short: 'n', Help: "no header"},
		{Long: "quiet", Short: 'Q', Help: "no messages"},
		{Long: "verbose", Short: 'v', Help: "say more"},
	}
	for _, e := range triggerEvents {
		f := Flag{Long: e, Help: "at this event"}
		switch e {
		case "node":
			f.Arg, f.Meta = option.Optional, "hosts"
		case "time":
			f.Short = 't'
		}
		list = append(list, f)
	}
	return list
}

// strigger: there are no triggers, and none can be set but by an administrator, who
// is told that they aren't built.
func strigger(_ context.Context, e *Env, in *Input) error {
	asked := 0
	for _, what := range []string{"set", "get", "clear"} {
		if in.Given(what) {
			asked++
		}
	}
	event := in.Given("jobid")
	for _, name := range triggerEvents {
		event = event || in.Given(name)
	}
	switch {
	case asked != 1:
		return failed("You must use exactly one of the following options: --set, --get or --clear")
	case in.Given("get"):
		return nil
	case in.Given("clear") && !in.Given("id") && !in.Given("jobid") && !in.Given("user"):
		return failed("You must specify a --id, --jobid, or --user to clear")
	case in.Given("clear"):
		return fail("slurm_clear_trigger: No such process")
	case !event:
		return failed("You must specify a trigger")
	case strings.TrimSpace(in.Str("program")) == "":
		return failed("You must specify a --program value")
	case e.UID != 0:
		return fail("slurm_set_trigger: %s", errno.AccessDenied)
	}
	return fail("slurm_set_trigger: %s", errno.NotSupported)
}
