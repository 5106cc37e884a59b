// Package patience is how the node works with a containerd that may be killed
// and started again under any call: what needs it is done again until it is
// there. The container driver and the image store use it; what is done must
// bear being done twice.
package patience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sbatchd/sbatchd/runtime/container"
)

const (
	longest    = 2 * time.Minute
	firstPause = 20 * time.Millisecond
	longPause  = time.Second
)

// ErrAgain makes an error that wraps it one that may pass.
var ErrAgain = errors.New("remains of an earlier attempt")

// Do does something that needs containerd, again if containerd or its shim
// went away under it, until it is done, fails for another reason, ctx ends, or
// containerd has been away for two minutes. An attempt is cut off after limit:
// by then containerd hangs.
func Do(ctx context.Context, limit time.Duration, log *slog.Logger, do func(context.Context) error) error {
	away := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		began := time.Now()
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := do(attempt)
		hung := attempt.Err() != nil
		cancel()
		if err == nil || !Passing(err) {
			return err
		}
		if time.Since(began) > longPause && !hung {
			away = time.Now() // it was there for a while
		}
		if time.Since(away) > longest {
			return fmt.Errorf("containerd is away: %w", err)
		}
		log.Debug("containerd is away", "err", err)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (containerd: %w)", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// cut are texts of errors of the line to containerd itself, and of what its death
// has left behind.
var cut = []string{
	"transport is closing", "failed to send write:", "error reading from server",
	// A snapshotter that died between making a folder and noting it meets the
	// folder again, and removes it as it fails.
	"failed to rename:",
}

// texts are of errors that come without a kind from inside containerd, when the
// task's own shim is what died.
var texts = []string{
	"ttrpc: closed", "ttrpc: server closed", "connection refused", "broken pipe",
	"connection reset", "no such file or directory: unavailable",
}

// Cut tells whether an error is of the line to containerd, and of no other line
// that is in use at the same time, as to a registry.
func Cut(err error) bool { return errdefs.IsUnavailable(err) || mentions(err, cut) }

func mentions(err error, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// Passing tells whether an error is of a containerd or a shim that died or is
// starting, and may be gone with the next attempt.
func Passing(err error) bool {
	if errors.Is(err, ErrAgain) {
		return true
	}
	for _, class := range []error{container.ErrImage, container.ErrPin, container.ErrInfra, container.ErrUser} {
		if errors.Is(err, class) {
			return false
		}
	}
	return Cut(err) || mentions(err, texts) || errdefs.IsAborted(err) ||
		errors.Is(err, context.DeadlineExceeded) || errdefs.IsDeadlineExceeded(err)
}
