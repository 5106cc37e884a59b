package containerd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sbatchd/sbatchd/runtime/container"
)

const (
	callTimeout = 30 * time.Second // of one attempt: longer means that it hangs
	maxPatience = 2 * time.Minute  // of all attempts, where ctx has no deadline
	firstPause  = 20 * time.Millisecond
	longPause   = time.Second
)

// errRemains says that containerd is still taking away what an attempt that was
// cut off had made.
var errRemains = errors.New("remains of an earlier attempt")

// patiently does something that needs containerd, again if containerd or its
// shim went away under it, until it is done or ctx ends.
func (r *Runtime) patiently(ctx context.Context, do func(context.Context) error) error {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxPatience)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		err := do(attempt)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		r.log.Debug("containerd is away", "err", err)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (containerd: %w)", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// passing tells whether an error is of a containerd or a shim that died or is
// starting, and may be gone with the next attempt.
func passing(err error) bool {
	for _, class := range []error{container.ErrImage, container.ErrPin, container.ErrInfra, container.ErrUser} {
		if errors.Is(err, class) {
			return false
		}
	}
	var start *container.StartError
	if errors.As(err, &start) {
		return false
	}
	if errors.Is(err, errRemains) || errdefs.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) || errdefs.IsDeadlineExceeded(err) || errdefs.IsAborted(err) {
		return true
	}
	// These come as errors of unknown kind from inside containerd, when the
	// task's own shim is what died.
	for _, text := range []string{"ttrpc: closed", "ttrpc: server closed", "transport is closing", "connection refused", "broken pipe", "EOF",
		"connection reset", "no such file or directory: unavailable", "error reading from server"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
