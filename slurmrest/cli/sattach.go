package cli

import (
	"context"
	"slices"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
)

func init() {
	register(Command{Name: "sattach", Args: "<jobid.stepid>", About: "see the output of a step that runs", Stop: true, Flags: []Flag{
		{Long: "input-filter", Arg: option.Required, Meta: "task", Help: "the task that gets standard input"},
		{Long: "output-filter", Arg: option.Required, Meta: "task", Help: "the task whose output is shown"},
		{Long: "error-filter", Arg: option.Required, Meta: "task", Help: "the task whose errors are shown"},
		{Long: "label", Short: 'l', Help: "the task's number before each line"},
		{Long: "layout", Help: "print where tasks run, and end"},
		{Long: "pty", Help: "a terminal"},
		{Long: "quiet", Short: 'Q', Help: "no messages"},
		{Long: "verbose", Short: 'v', Help: "say more"},
	}, Run: sattach})
}

// sattach finds the step; the stream of one that another srun holds can't be
// shared.
func sattach(ctx context.Context, e *Env, in *Input) error {
	usage := option.Line{Level: option.Raw, Text: "Usage: sattach [options] <jobid.stepid>"}
	if len(in.Args) != 1 {
		return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Err, Text: "too many parameters"}, usage}}
	}
	ref, ok := parseJobRef(in.Args[0])
	if !ok {
		return fatalf("Bad job/step specified: %s: JobID can not be zero", in.Args[0])
	}
	if ref.step == "" {
		return &option.Error{Exit: 1, Lines: []option.Line{
			{Level: option.Err, Text: "Failed to parse stepid from command line options"}, usage,
		}}
	}
	c, err := e.Client(ctx)
	if err != nil {
		return failed("Could not get job step info: %s", text(err))
	}
	steps, err := loadSteps(ctx, c)
	if err == nil && !slices.ContainsFunc(steps, func(s format.Step) bool { return ref.matchesStep(&s) }) {
		err = errno.InvalidJobID
	}
	if err == nil {
		err = errno.NotSupported
	}
	return failed("Could not get job step info: %s", text(err))
}
