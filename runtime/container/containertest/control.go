package containertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/container"
)

const trapLoop = `trap "echo usr1" USR1; trap "echo term; exit 3" TERM; echo ready; while :; do sleep 0.05; done`

func testSignal(t *testing.T, s *suite) {
	spec := s.spec(trapLoop)
	c := s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "ready"))
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
		if err := c.Signal(within(t), sig, false); err != nil {
			t.Fatal(err)
		}
		until(t, sig.String()+" arrives", func() bool {
			return has(spec.Stdout, "usr1")() || has(spec.Stdout, "term")()
		})
	}
	wantExit(t, wait(t, c), 3, 0)
	if c.Pid() != 0 {
		t.Error("an ended script has a pid")
	}
	wantError(t, c.Signal(within(t), syscall.SIGTERM, false), container.ErrNotRunning)
	wantError(t, c.Signal(within(t), syscall.SIGTERM, true), container.ErrNotRunning)

	// Without a handler a signal ends the script, as if it were not the first
	// process of anything.
	spec = s.spec("echo ready; exec sleep 100")
	c = s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "ready"))
	if err := c.Signal(within(t), syscall.SIGTERM, false); err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, c), 0, 15)
}

func testSignalAll(t *testing.T, s *suite) {
	spec := s.spec(`for i in 1 2; do sh -c 'trap "echo child; exit" TERM; echo ready; while :; do sleep 0.05; done' & done
		trap "wait; echo parent; exit 0" TERM; while :; do sleep 0.05; done`)
	c := s.start(t, spec)
	until(t, "the children are ready", func() bool { return strings.Count(read(t, spec.Stdout), "ready") == 2 })
	if err := c.Signal(within(t), syscall.SIGTERM, true); err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, c), 0, 0)
	if out := read(t, spec.Stdout); strings.Count(out, "child") != 2 || !strings.HasSuffix(out, "parent\n") {
		t.Errorf("output %q", out)
	}
}

// stubborn leaves processes in every corner: a child, a grandchild whose
// parent is gone, and one in a session of its own.
func stubborn() (script string, marks []string) {
	marks = []string{number(), number(), number()}
	return `trap "" TERM; sleep ` + marks[0] + ` & (sleep ` + marks[1] + ` &); setsid sleep ` + marks[2] +
		` & while ! pidof -q sleep 2>/dev/null && [ $((i=i+1)) -lt 20 ]; do :; done; echo ready; `, marks
}

func (s *suite) startStubborn(t *testing.T, last string) (container.Container, []string) {
	t.Helper()
	script, marks := stubborn()
	spec := s.spec(script + last)
	c := s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "ready"))
	return c, marks
}

func wantDead(t *testing.T, marks []string) {
	t.Helper()
	for i, mark := range marks {
		if alive(t, mark) {
			t.Errorf("process %d of the script is alive", i)
		}
	}
}

func testKill(t *testing.T, s *suite) {
	c, marks := s.startStubborn(t, "while :; do sleep 0.1; done")
	until(t, "all processes run", func() bool {
		return !slices.ContainsFunc(marks, func(m string) bool { return !alive(t, m) })
	})
	if err := c.Kill(within(t)); err != nil {
		t.Fatal(err)
	}
	wantDead(t, marks)
	wantExit(t, wait(t, c), 0, 9)
	if err := c.Kill(within(t)); err != nil {
		t.Errorf("kill again: %v", err)
	}
	wantExit(t, wait(t, c), 0, 9)
}

func testLeftovers(t *testing.T, s *suite) {
	c, marks := s.startStubborn(t, "exit 4")
	wantExit(t, wait(t, c), 4, 0)
	wantDead(t, marks)
}

const countLoop = `i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`

func testFreeze(t *testing.T, s *suite) {
	spec := s.spec(countLoop)
	c := s.start(t, spec)
	until(t, "it counts", has(spec.Stdout, "3\n"))
	for range 2 {
		if err := c.Freeze(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	before := read(t, spec.Stdout)
	again := s.start(t, s.spec("sleep 0.2")) // time passes for others
	wantExit(t, wait(t, again), 0, 0)
	if after := read(t, spec.Stdout); after != before {
		t.Errorf("a frozen script wrote %q", after[len(before):])
	}
	for range 2 {
		if err := c.Thaw(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "it counts on", func() bool { return len(read(t, spec.Stdout)) > len(before) })
	if err := c.Kill(within(t)); err != nil {
		t.Fatal(err)
	}
	wantError(t, c.Freeze(within(t)), container.ErrNotRunning)
}

func testKillFrozen(t *testing.T, s *suite) {
	spec := s.spec(countLoop)
	c := s.start(t, spec)
	until(t, "it counts", has(spec.Stdout, "3\n"))
	if err := c.Freeze(within(t)); err != nil {
		t.Fatal(err)
	}
	before := read(t, spec.Stdout)
	c, err := s.New(t).Load(within(t), c.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(within(t)); err != nil {
		t.Fatal(err)
	}
	wantExit(t, wait(t, c), 0, 9)
	if after := read(t, spec.Stdout); after != before {
		t.Errorf("it wrote %q between freeze and kill", after[len(before):])
	}
}

func testMemory(t *testing.T, s *suite) {
	if !s.Memory {
		t.Skip("SKIP memory limit: not enforced here")
	}
	spec := s.spec("dd if=/dev/zero of=/dev/null bs=300M count=1; echo dd said $?; exit 5")
	spec.MemoryMiB, spec.CPUs = 1, 0.5 // the least is MinMemoryMiB
	e, out := s.run(t, spec)
	wantExit(t, e, 5, 0)
	if !e.OOM {
		t.Errorf("not told that memory ran out; output %q", out)
	}
	spec = s.spec("dd if=/dev/zero of=/dev/null bs=8M count=4 2>/dev/null; echo dd said $?")
	spec.MemoryMiB = container.MinMemoryMiB
	e, out = s.run(t, spec)
	wantExit(t, e, 0, 0)
	if e.OOM || out != "dd said 0\n" {
		t.Errorf("within the limit: %+v, output %q", e, out)
	}
}

func testExec(t *testing.T, s *suite) {
	spec := s.spec("echo script; while :; do sleep 0.05; done")
	c := s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "script"))
	run := func(e container.ExecSpec) container.Exit {
		t.Helper()
		p, err := c.Exec(within(t), e)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := p.Wait(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := p.Wait(within(t)); again != exit || err != nil {
			t.Errorf("second wait %+v, %v", again, err)
		}
		return exit
	}
	wantExit(t, run(container.ExecSpec{Argv: []string{"sh", "-c", `echo hook $COLOR $SHAPE; exit 6`}, Env: []string{"SHAPE=round"}}), 6, 0)
	wantExit(t, run(container.ExecSpec{Argv: []string{"sh", "-c", `echo $COLOR`}, Env: []string{"COLOR=red"}}), 0, 0)
	wantExit(t, run(container.ExecSpec{Argv: []string{"no-such-hook"}}), 2, 0)
	want := "script\nhook green round\nred\nerror: execve(): no-such-hook: No such file or directory\n"
	if out := unstamped(read(t, spec.Stdout)); out != want {
		t.Errorf("output %q, want %q", out, want)
	}

	p, err := c.Exec(within(t), container.ExecSpec{Argv: []string{"sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a cancelled context: %v", err)
	}
	if err := p.Signal(within(t), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, e, 0, int(syscall.SIGUSR1))

	// What the script's end takes with it is lost.
	mark := number()
	if p, err = c.Exec(within(t), container.ExecSpec{Argv: []string{"sleep", mark}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(within(t)); err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(within(t)); err != nil || (!e.Lost && e.Signal != 9) {
		t.Errorf("step of a killed container: %+v, %v", e, err)
	}
	wantDead(t, []string{mark})
}

func testExecStreams(t *testing.T, s *suite) {
	spec := s.spec("while :; do sleep 0.05; done")
	c := s.start(t, spec)
	open := func(name string, flags int) *os.File {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(s.dir, name), flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	if err := os.WriteFile(filepath.Join(s.dir, "in"), []byte("typed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := c.Exec(within(t), container.ExecSpec{
		Argv:  []string{"sh", "-c", "cat; echo oops >&2; id -u; pwd"},
		User:  &container.User{UID: s.user().UID, GID: s.user().GID},
		Cwd:   "/tmp",
		Stdin: open("in", os.O_RDONLY), Stdout: open("step.out", os.O_CREATE|os.O_WRONLY), Stderr: open("step.err", os.O_CREATE|os.O_WRONLY),
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, e, 0, 0)
	if out := read(t, filepath.Join(s.dir, "step.out")); !strings.HasPrefix(out, "typed\n") || !strings.HasSuffix(out, "\n/tmp\n") {
		t.Errorf("stdout %q", out)
	}
	if out := read(t, filepath.Join(s.dir, "step.err")); out != "oops\n" {
		t.Errorf("stderr %q", out)
	}
	if out := read(t, spec.Stdout); out != "" {
		t.Errorf("the script's output got %q", out)
	}
}

func testExecAfterEnd(t *testing.T, s *suite) {
	c := s.start(t, s.spec("exit 0"))
	wait(t, c)
	_, err := c.Exec(within(t), container.ExecSpec{Argv: []string{"true"}})
	wantError(t, err, container.ErrNotRunning)
}

func testUsage(t *testing.T, s *suite) {
	spec := s.spec("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo ready; while :; do sleep 0.05; done")
	c := s.start(t, spec)
	until(t, "the script is ready", has(spec.Stdout, "ready"))
	during, err := c.Usage(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if during.CPU <= 0 || during.MaxRSSBytes == 0 {
		t.Errorf("while running: %+v", during)
	}
	if err := c.Signal(within(t), syscall.SIGKILL, false); err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	after, err := c.Usage(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU <= 0 || after.MaxRSSBytes == 0 {
		t.Errorf("after the end: %+v", after)
	}
}
