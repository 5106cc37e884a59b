// Command gen writes OPTIONS.md from the option table (go generate).
package main

import (
	"fmt"
	"os"

	"github.com/sbatchd/sbatchd/slurmrest/option"
)

func main() {
	if err := os.WriteFile("OPTIONS.md", []byte(option.Document()), 0o644); err != nil { //nolint:gosec // a document
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
