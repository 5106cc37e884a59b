package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "read a configuration and list every fault as file:line: message",
		Flags: []cli.Flag{configFlag()},
		Action: func(c *cli.Context) error {
			place, err := findConfig(c.String("config"), false)
			if err != nil {
				return err
			}
			return check(place.dir, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// check prints faults to errw and exits 1, or a summary to w.
func check(dir string, w, errw io.Writer) error {
	cfg, err := load(dir)
	if err != nil {
		faults := partitions.Faults(err)
		for _, f := range faults {
			fmt.Fprintln(errw, f)
		}
		return cli.Exit("", 1)
	}
	for _, f := range cfg.Warnings {
		fmt.Fprintln(errw, "warning:", f)
	}
	return partitions.Summary(cfg, w)
}
