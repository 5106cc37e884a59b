package containertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
)

func testRestart(t *testing.T, s *suite) {
	spec := s.spec(`trap "echo term; exit 8" TERM; echo ready; while :; do sleep 0.05; done`)
	c := s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "ready"))
	pid := c.Pid()

	load := func() container.Container {
		t.Helper()
		c, err := s.New(t).Load(within(t), spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	again := load()
	if again.Pid() != pid || pid == 0 || again.ID() != spec.ID {
		t.Errorf("found %s with pid %d, want %s with %d", again.ID(), again.Pid(), spec.ID, pid)
	}
	p, err := again.Exec(within(t), container.ExecSpec{Argv: []string{"sh", "-c", "echo hook"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := again.Signal(within(t), 15, false); err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, again), 8, 0)
	wantExit(t, wait(t, load()), 8, 0)
	wantExit(t, wait(t, c), 8, 0)
	if out := read(t, spec.Stdout); out != "ready\nhook\nterm\n" {
		t.Errorf("output %q", out)
	}
}

func testLost(t *testing.T, s *suite) {
	for _, when := range []string{"watched", "unwatched"} {
		c, marks := s.startStubborn(t, "while :; do sleep 0.1; done")
		ended := make(chan container.Exit, 1)
		if when == "watched" {
			go func() {
				e, err := c.Wait(context.Background())
				if err != nil {
					e.Reason = err.Error()
				}
				ended <- e
			}()
		}
		kill(t, initPid(t, c))
		var e container.Exit
		if when == "watched" {
			e = <-ended
		} else {
			again, err := s.New(t).Load(within(t), c.ID())
			if err != nil {
				t.Fatal(err)
			}
			e = wait(t, again)
		}
		if !e.Lost || e.Reason == "" {
			t.Errorf("%s: exit %+v, want lost with a reason", when, e)
		}
		wantDead(t, marks)
	}
}

func testWaitCancelled(t *testing.T, s *suite) {
	c := s.start(t, s.spec("while :; do sleep 0.05; done"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	if c.Pid() == 0 {
		t.Error("the script ended with the wait")
	}
}

func testIdentity(t *testing.T, s *suite) {
	_, err := s.runtime.Load(within(t), "no-such-container")
	wantError(t, err, container.ErrNotFound)
	_, err = s.runtime.Load(within(t), "../escape")
	wantError(t, err, container.ErrNotFound)
	if err := s.runtime.Remove(within(t), "no-such-container"); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
	spec := s.spec("while :; do sleep 0.05; done")
	c := s.start(t, spec)
	_, err = s.runtime.Start(within(t), spec)
	wantError(t, err, container.ErrExists)
	ids, err := s.runtime.List(within(t))
	if err != nil || !slices.Contains(ids, spec.ID) {
		t.Errorf("list: %q, %v", ids, err)
	}
	if err := s.runtime.Remove(within(t), spec.ID); err != nil {
		t.Fatal(err)
	}
	if ids, err = s.runtime.List(within(t)); err != nil || slices.Contains(ids, spec.ID) {
		t.Errorf("list after remove: %q, %v", ids, err)
	}
	_, err = s.runtime.Load(within(t), spec.ID)
	wantError(t, err, container.ErrNotFound)
	if err := c.Delete(within(t)); err != nil {
		t.Errorf("delete again: %v", err)
	}

	bad := s.spec("exit 0")
	bad.ID = "a/b"
	_, err = s.runtime.Start(within(t), bad)
	wantError(t, err, container.ErrInfra)
	bad = s.spec("exit 0")
	bad.Mounts = []container.Mount{{Source: s.dir + "/none", Target: "/none"}}
	_, err = s.runtime.Start(within(t), bad)
	wantError(t, err, container.ErrInfra)
}
