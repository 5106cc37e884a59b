// Package containertest is the suite that every container driver passes. A
// driver's own test says how to make a runtime and runs everything; what a node
// cannot do is declared, not left out quietly.
package containertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// Driver is what the suite runs against.
type Driver struct {
	// New opens the runtime on the state it had before: called again it is the
	// driver after a restart.
	New func(t *testing.T) container.Runtime
	// Image is the image of every container, "" for none. It must have a
	// POSIX shell.
	Image string
	// Users is set when scripts can run as another user.
	Users bool
	// Memory is set when memory limits are enforced.
	Memory bool
	// Left lists what containers have left on the node; the suite wants
	// nothing when it has deleted them all.
	Left func(t *testing.T) []string
}

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	tests := []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"ExitCode", testExitCode},
		{"Output", testOutput},
		{"OutputAsUser", testOutputAsUser},
		{"OutputRefused", testOutputRefused},
		{"Surroundings", testSurroundings},
		{"User", testUser},
		{"BadScript", testBadScript},
		{"Signal", testSignal},
		{"SignalAll", testSignalAll},
		{"Kill", testKill},
		{"Leftovers", testLeftovers},
		{"Freeze", testFreeze},
		{"KillFrozen", testKillFrozen},
		{"Memory", testMemory},
		{"Exec", testExec},
		{"ExecStreams", testExecStreams},
		{"ExecAfterEnd", testExecAfterEnd},
		{"Usage", testUsage},
		{"Restart", testRestart},
		{"Lost", testLost},
		{"WaitCancelled", testWaitCancelled},
		{"Identity", testIdentity},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{Driver: d, runtime: d.New(t), dir: openDir(t), prefix: strings.ToLower(tt.name)}
			tt.test(t, s)
		})
	}
	if d.Left != nil {
		if left := d.Left(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// Init builds the program that is the init of the tests' containers, static as
// sbatchd-node is.
func Init(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "init")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/sbatchd/sbatchd/runtime/execinit/small")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build init: %v\n%s", err, out)
	}
	return path
}

// suite is one test's view of the driver.
type suite struct {
	Driver
	runtime container.Runtime
	dir     string // for the test's files, the same path inside
	prefix  string
	made    int
}

// openDir is a temporary folder that every user can reach, unlike t.TempDir.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "containertest-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// user is who the scripts run as: not root where there is a choice.
func (s *suite) user() container.User {
	if !s.Users {
		return container.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	return container.User{UID: 4711, GID: 4712, Groups: []uint32{4713, 4714}, Name: "alice", Group: "staff", Home: "/home/alice"}
}

// spec is a container that runs a shell script.
func (s *suite) spec(script string) container.Spec {
	s.made++
	id := fmt.Sprintf("%s-%d.0", s.prefix, s.made)
	return container.Spec{
		ID: id, Image: s.Image, User: s.user(), Cwd: "/", Umask: 0o022, NetworkHost: true,
		Argv:   []string{"/bin/sh", "-c", script},
		Env:    []string{"PATH=/usr/bin:/bin", "COLOR=green"},
		Stdout: filepath.Join(s.dir, id+".out"),
	}
}

// start starts a container that is deleted at the end of the test.
func (s *suite) start(t *testing.T, spec container.Spec) container.Container {
	t.Helper()
	c, err := s.runtime.Start(within(t), spec)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Delete(ctx); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
	return c
}

// within is a context for one step.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func wait(t *testing.T, c container.Container) container.Exit {
	t.Helper()
	e, err := c.Wait(within(t))
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return e
}

func wantExit(t *testing.T, e container.Exit, code, signal int) {
	t.Helper()
	if e.Code != code || e.Signal != signal || e.Lost {
		t.Errorf("exit %+v, want %d:%d", e, code, signal)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a script to its end and returns that and the output.
func (s *suite) run(t *testing.T, spec container.Spec) (container.Exit, string) {
	t.Helper()
	e := wait(t, s.start(t, spec))
	return e, read(t, spec.Stdout)
}

// until polls for a condition that something outside the test brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// has tells whether a file holds the text yet.
func has(path, text string) func() bool {
	return func() bool {
		got, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(got), text)
	}
}

// alive tells whether any process of the node has the text as an argument.
func alive(t *testing.T, text string) bool {
	t.Helper()
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		cmdline, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		if slices.Contains(strings.Split(string(cmdline), "\x00"), text) {
			return true
		}
	}
	return false
}

// number makes an argument for sleep that no other process on the node has.
var numbers struct {
	sync.Mutex
	n int
}

func number() string {
	numbers.Lock()
	defer numbers.Unlock()
	numbers.n++
	return strconv.Itoa(1000000+os.Getpid()) + "." + strconv.Itoa(1000+numbers.n)
}

// initPid is the parent of the script: the container's init.
func initPid(t *testing.T, c container.Container) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if text, ok := strings.CutPrefix(line, "PPid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no PPid")
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v, want %v", err, class)
	}
}
