package patience_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/patience"
)

var quiet = slog.New(slog.DiscardHandler)

func TestPassing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"containerd away", fmt.Errorf("start: %w", errdefs.ErrUnavailable), true},
		{"shim away", errors.New("delete task: ttrpc: closed: unknown"), true},
		{"hangs", context.DeadlineExceeded, true},
		{"remains", fmt.Errorf("%w: task exists", patience.ErrAgain), true},
		{"folder in the way", errors.New("create container: failed to rename: rename /x/new-1 /x/7: file exists"), true},
		{"not there", errdefs.ErrNotFound, false},
		{"a judged error", container.Fail(container.ErrImage, errdefs.ErrUnavailable), false},
		{"the job's files", &container.StartError{Message: "connection refused"}, false},
		{"anything else", errors.New("runc create failed"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := patience.Passing(tt.err); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"failed to copy: failed to send write: EOF":                             true,
		"error reading from server: EOF":                                        true,
		"failed to rename: rename /x/new-1 /x/7: file exists":                   true,
		"dial tcp 10.0.0.1:443: connect: connection refused":                    false,
		"failed to do request: read tcp 10.0.0.1:443: connection reset by peer": false,
	} {
		if got := patience.Cut(errors.New(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !patience.Cut(fmt.Errorf("look: %w", errdefs.ErrUnavailable)) {
		t.Error("a containerd that is away is not seen")
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := patience.Do(t.Context(), time.Minute, quiet, func(context.Context) error {
			if n++; n < 10 {
				return errdefs.ErrUnavailable
			}
			return nil
		})
		if err != nil || n != 10 {
			t.Errorf("%d attempts, %v", n, err)
		}

		n = 0
		cause := errors.New("broken for good")
		err = patience.Do(t.Context(), time.Minute, quiet, func(context.Context) error { n++; return cause })
		if !errors.Is(err, cause) || n != 1 {
			t.Errorf("%d attempts, %v", n, err)
		}

		begin := time.Now()
		err = patience.Do(t.Context(), time.Second, quiet, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("gave up after %s, %v", took, err)
		}
	})
}
