// Command demo tells the story of sbatchd on this machine, with nothing faked
// but the cloud's hardware: an ordinary user submits an ordinary sbatch script,
// a spot node is rented, the market takes it back half way, a second node is
// rented, the training goes on where it was, and the bill adds up.
//
// As root, nodes live in mount and network namespaces of their own and the job
// runs in containerd from an image that the demo makes and pins by digest. As an
// ordinary user the same story runs in personal mode with Runtime=process.
//
// It ends with one line, "demo: ok job=... restarts=1 resumed_at_epoch=...
// cost=$...", and exit status 0, or with what went wrong and 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long the whole demo may take.
const patience = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the demo's time is up"))
	line, err := tell(ctx, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Printf("demo: failed: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(line)
}
