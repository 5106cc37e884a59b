// Package all compiles every provider in. Its list is generated: `make generate`.
package all

import (
	_ "github.com/sbatchd/sbatchd/cloudburst/provider/local" // local: nodes on this machine
)
