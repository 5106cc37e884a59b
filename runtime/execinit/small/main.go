// Command small is the init of a container and nothing else. sbatchd-node
// carries it (package payload) and has it started instead of itself: it links
// so little that it starts in a quarter of the time and leaves the job's memory
// limit to the job.
package main

import (
	"fmt"
	"os"

	"github.com/sbatchd/sbatchd/runtime/execinit"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "exec" {
		fmt.Fprintln(os.Stderr, "usage: exec DIR")
		os.Exit(2)
	}
	os.Exit(execinit.Main(os.Args[2:]))
}
