package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "read a configuration, or with --scripts batch scripts, and list every fault as file:line: message",
		ArgsUsage: "[FILES with --scripts]",
		Flags: []cli.Flag{configFlag(), &cli.BoolFlag{
			Name: "scripts", Usage: "say of each option of the batch scripts FILES what becomes of it here, and what else they lean on",
		}},
		Action: func(c *cli.Context) error {
			if c.Bool("scripts") {
				return scripts(c)
			}
			place, err := findConfig(c.String("config"), false)
			if err != nil {
				return err
			}
			return check(place.dir, c.App.Writer, c.App.ErrWriter)
		},
	}
}

// scripts checks the batch scripts named, against a configuration if there is one.
func scripts(c *cli.Context) error {
	if c.NArg() == 0 {
		return cli.Exit("check: --scripts: which files?", 1)
	}
	var cfg *partitions.Config
	place, err := findConfig(c.String("config"), false)
	if err == nil {
		if _, serr := os.Stat(filepath.Join(place.dir, "slurm.conf")); serr == nil || c.IsSet("config") {
			if cfg, err = load(place.dir); err != nil {
				return check(place.dir, c.App.Writer, c.App.ErrWriter)
			}
		}
	}
	return checkScripts(cfg, c.Args().Slice(), c.App.Writer, c.App.ErrWriter)
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
