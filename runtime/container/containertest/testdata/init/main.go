// Command init is what sbatchd-node is to the container drivers: the program
// that runs as "exec DIR" in each container.
package main

import (
	"os"

	"github.com/sbatchd/sbatchd/runtime/execinit"
)

func main() { os.Exit(execinit.Main(os.Args[2:])) }
