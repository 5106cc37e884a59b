// Command slurm is Slurm's commands and sburst in one program: links to it are
// named sbatch, squeue, ..., and the name it is called by says which it is.
package main

import (
	"context"
	"os"

	"github.com/sbatchd/sbatchd/slurmrest/cli"
)

func main() { os.Exit(cli.Main(context.Background(), cli.System(os.Args))) }
