package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
)

func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// listen opens the command socket and the job's own.
func (s *shim) listen(ctx context.Context) (err error) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	if s.commandsAt, err = attempt.ListenUnix(ctx, s.path(attempt.SocketFile), 0o600); err != nil {
		return fmt.Errorf("shim's socket: %w", err)
	}
	if s.spec.JobSocket == "" {
		return nil
	}
	// Anybody may connect, the owner alone is served: see jobHandler.
	if s.jobAt, err = attempt.ListenUnix(ctx, s.spec.JobSocket, 0o666); err != nil {
		return fmt.Errorf("job's socket: %w", err)
	}
	return nil
}

// serve serves the sockets in g until ctx ends.
func (s *shim) serve(ctx context.Context, g *errgroup.Group) {
	serveHTTP(ctx, g, s.commandsAt, s.commands(), nil)
	if s.jobAt != nil {
		serveHTTP(ctx, g, s.jobAt, s.jobHandler(), withPeer)
	}
}

func serveHTTP(ctx context.Context, g *errgroup.Group, l net.Listener, h http.Handler, connContext func(context.Context, net.Conn) context.Context) {
	srv := &http.Server{
		Handler: h, ConnContext: connContext, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		// Let answers to the end (wait) out, but not for long.
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 200*time.Millisecond)
		defer cancel()
		if srv.Shutdown(bye) != nil {
			return srv.Close()
		}
		return nil
	})
}

// commands are what the agent may say.
func (s *shim) commands() http.Handler {
	mux := http.NewServeMux()
	handle(mux, attempt.PathSignal, func(ctx context.Context, sig attempt.Signal) (any, error) {
		return nil, s.do(ctx, func() error { s.signal(s.own(), sig); return nil })
	})
	handle(mux, attempt.PathKill, func(ctx context.Context, k attempt.Kill) (any, error) {
		return nil, s.do(ctx, func() error { s.kill(s.own(), k); return nil })
	})
	handle(mux, attempt.PathThaw, func(ctx context.Context, _ any) (any, error) {
		return nil, s.do(ctx, func() error { return s.thaw(s.own()) })
	})
	handle(mux, attempt.PathFreeze, func(ctx context.Context, _ any) (any, error) {
		return nil, s.box.Freeze(ctx) // for a save before the kill; never thawed
	})
	handle(mux, attempt.PathSuspend, func(ctx context.Context, _ any) (any, error) {
		return nil, s.do(ctx, func() error { return s.suspend(s.own()) })
	})
	handle(mux, attempt.PathResume, func(ctx context.Context, _ any) (any, error) {
		return nil, s.do(ctx, func() error { return s.resume(s.own()) })
	})
	handle(mux, attempt.PathLimit, func(ctx context.Context, l attempt.Limit) (any, error) {
		return nil, s.do(ctx, func() error { s.state.TimeLimit = l.TimeLimit; return s.save() })
	})
	handle(mux, attempt.PathHook, func(ctx context.Context, h attempt.Hook) (any, error) {
		return s.hook(ctx, h)
	})
	handle(mux, attempt.PathWait, func(ctx context.Context, _ any) (any, error) {
		select {
		case <-s.done:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return mux
}

// own is the context of what the shim itself does: it does not end with the
// request that asked for it.
func (s *shim) own() context.Context { return context.Background() }

// handle serves one command: JSON in, JSON out, the error as text.
func handle[T any](mux *http.ServeMux, path string, do func(context.Context, T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var in T
		err := json.NewDecoder(io.LimitReader(r.Body, 16<<20)).Decode(&in)
		var out any
		if err == nil {
			out, err = do(r.Context(), in)
		}
		status := http.StatusOK
		switch {
		case errors.Is(err, container.ErrNotRunning):
			out = nil // it has ended: nothing is left to do
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// A caller that went away does not want the answer.
		_ = json.NewEncoder(w).Encode(out)
	})
}

// hook runs a command line beside the script and waits for it.
func (s *shim) hook(ctx context.Context, h attempt.Hook) (attempt.HookResult, error) {
	shell := s.spec.Run.User.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	p, err := s.box.Exec(ctx, container.ExecSpec{Argv: []string{shell, "-c", h.Command}, Env: h.Env})
	if errors.Is(err, container.ErrNotRunning) {
		return attempt.HookResult{Gone: true}, nil
	}
	if err != nil {
		return attempt.HookResult{Code: 127, Message: err.Error()}, nil
	}
	wait := s.own()
	if h.Timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, h.Timeout)
		defer cancel()
	}
	exit, err := p.Wait(wait)
	switch {
	case err == nil:
		return attempt.HookResult{Code: exit.Code, Signal: exit.Signal, Gone: exit.Lost}, nil
	case errors.Is(err, context.DeadlineExceeded):
		if kerr := p.Signal(s.own(), syscall.SIGKILL); kerr != nil {
			s.log.Warn("hook is not killed", "err", kerr)
		}
		return attempt.HookResult{TimedOut: true, Signal: int(syscall.SIGKILL)}, nil
	}
	return attempt.HookResult{}, err
}
