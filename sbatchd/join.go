package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

func joinCommand() *cli.Command {
	return &cli.Command{
		Name: "join", Usage: "print agent.json for one of your own machines (a NodeName= line), with a token to join by",
		ArgsUsage: "NODE",
		Flags: []cli.Flag{
			configFlag(),
			&cli.StringFlag{Name: "runtime", Value: string(partitions.Containerd), Usage: "how jobs run there: containerd or process"},
			&cli.DurationFlag{Name: "valid", Value: 24 * time.Hour, Usage: "how long the token can be used first"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cli.Exit("join: name one node", 1)
			}
			place, err := findConfig(c.String("config"), false)
			if err != nil {
				return err
			}
			cfg, err := load(place.dir)
			if err != nil {
				return check(place.dir, c.App.Writer, c.App.ErrWriter)
			}
			agent, err := join(cfg, c.Args().First(), c.String("runtime"), time.Now().Add(c.Duration("valid")))
			if err != nil {
				return cli.Exit("join: "+err.Error(), 1)
			}
			out := json.NewEncoder(c.App.Writer)
			out.SetIndent("", "  ")
			return out.Encode(agent)
		},
	}
}

// join is the configuration of a static node's agent. Its token is good until the
// end of validity for the first machine that uses it; a newer token's machine takes
// the node over.
func join(cfg *partitions.Config, name, runtime string, until time.Time) (agentapi.Config, error) {
	n := cfg.Node(name)
	switch {
	case n == nil && cfg.Pool(name) == nil:
		return agentapi.Config{}, fmt.Errorf("there is no NodeName=%s in %s", name, cfg.Path)
	case n == nil:
		return agentapi.Config{}, fmt.Errorf("%s is a pool: its machines join by themselves", name)
	case runtime != string(partitions.Containerd) && runtime != string(partitions.Process):
		return agentapi.Config{}, fmt.Errorf("runtime %q is not containerd or process", runtime)
	}
	dir := filepath.Join(cfg.StateSaveLocation, "ca")
	if _, err := os.Stat(dir); err != nil {
		return agentapi.Config{}, fmt.Errorf("start sbatchd once before: %w", err)
	}
	ca, err := agentapi.OpenAuthority(dir, "", time.Now())
	if err != nil {
		return agentapi.Config{}, err
	}
	tag := name + "." + rand.Text()
	return agentapi.Config{
		Node: name, Tag: tag, Cluster: ca.Cluster(), Controller: agentAddress(cfg), Link: "dial",
		Token: ca.NewToken(name, tag, until), CASHA256: ca.SHA256(), Runtime: runtime, Workdir: string(partitions.WorkdirShared),
		Features: n.Features,
	}, nil
}
