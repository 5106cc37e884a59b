// Command sbatchd-node is what runs on every node: the agent, the shims that hold
// jobs, the first process of every container, and the machine of a local node. It is
// sent to rented machines, so it links no cloud SDK and nothing of the controller.
package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/runtime/execinit"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// version is set by the build.
var version = "dev"

func main() {
	// These see no flags of ours, and the first must come before anything that forks.
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "exec":
			os.Exit(execinit.Main(args))
		case "init":
			os.Exit(localnode.InitMain(args))
		case "forward":
			os.Exit(localnode.ForwardMain(args))
		}
	}
	if err := app().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "sbatchd-node:", err)
		os.Exit(1)
	}
}

// app lists the commands; init, forward and exec are for help only.
func app() *cli.App {
	hidden := func(name, usage string) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, Hidden: true, SkipFlagParsing: true}
	}
	return &cli.App{
		Name: "sbatchd-node", Usage: "sbatchd on a node", Version: version,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		Commands: []*cli.Command{
			agentCommand(),
			shimCommand(),
			{Name: "version", Usage: "version of this program", Action: func(*cli.Context) error {
				_, err := fmt.Println(version)
				return err
			}},
			hidden("exec", "first process of a container"),
			hidden("init", "first process of a local node"),
			hidden("forward", "a local node's door to the host"),
		},
	}
}
