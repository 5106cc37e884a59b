// Sbatchd is the controller: it takes jobs over Slurm's REST interface, rents
// nodes for them and runs them there. This package is wiring only: one file per
// subcommand, serve.go connects the parts. `go doc ./sbatchd` is the
// architecture page:
//
//	slurmrest/server -> queue -> store        commands in, rows out
//	queue.Schedule   -> scheduler.Plan        a pure function of a snapshot
//	cloudburst/pool  -> providers             machines for nodes that power up
//	launch           <-> agents               orders out, reports and output in
//
// Every arrow that changes something ends in the queue, the one owner of jobs,
// nodes and the ledger; every other part reads its snapshots.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// version is set by the linker.
var version = "dev"

func main() {
	helperMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app().RunContext(ctx, os.Args); err != nil {
		if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
			if text := exit.Error(); text != "" {
				fmt.Fprintln(os.Stderr, "sbatchd: "+text)
			}
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "sbatchd: error:", err)
		os.Exit(1)
	}
}

// app is the command line.
func app() *cli.App {
	a := &cli.App{
		Name:           "sbatchd",
		Usage:          "run sbatch scripts on rented GPUs",
		Version:        version,
		HideVersion:    true,
		DefaultCommand: "serve",
		ExitErrHandler: func(*cli.Context, error) {},
		Commands:       []*cli.Command{serveCommand(), checkCommand(), joinCommand(), versionCommand()},
	}
	return a
}

func configFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "config", Aliases: []string{"c"}, EnvVars: []string{"SBATCHD_CONFIG_DIR"},
		Usage: "`DIR` that holds slurm.conf (root: " + siteDir + "; otherwise personal mode)",
	}
}

// siteDir is where a site's configuration lies.
const siteDir = "/etc/sbatchd"

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Action: func(c *cli.Context) error {
			fmt.Fprintln(c.App.Writer, "sbatchd", version)
			return nil
		},
	}
}
