package cli

import (
	"context"

	"github.com/sbatchd/sbatchd/slurmrest/option"
)

func init() {
	register(Command{Name: "scrontab", Args: "[file]", About: "jobs at set times", Flags: []Flag{
		{Long: "edit", Short: 'e', Help: "edit the crontab"},
		{Long: "list", Short: 'l', Help: "print the crontab"},
		{Long: "remove", Short: 'r', Help: "delete the crontab"},
		{Long: "user", Short: 'u', Arg: option.Required, Meta: "user", Help: "whose crontab"},
		{Long: "verbose", Short: 'v', Help: "say more"},
	}, Run: scrontab})
}

// scrontab answers as a Slurm without ScronParameters=enable: cron jobs are not
// built.
func scrontab(context.Context, *Env, *Input) error {
	return fatalf("scrontab is disabled on this cluster")
}
