package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container/process"
)

// TestMain lets the test program be sbatchd-node: agents, shims and first processes
// are real processes that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "agent", "shim", "exec":
			main()
			return
		}
	}
	os.Exit(m.Run())
}

// node is an agent under a supervisor that starts it again whenever it dies.
type node struct {
	t     *testing.T
	c     *controller
	state string

	mu  sync.Mutex
	pid int
}

// newNode makes a controller and a node that joins it.
func newNode(t *testing.T, change func(*agentapi.Config)) *node {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	// Short: sockets of jobs lie below it.
	dir, err := os.MkdirTemp("", "sbn") //nolint:usetesting // TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, c: newController(t, dir), state: filepath.Join(dir, "n")}
	if err := os.Mkdir(n.state, 0o711); err != nil {
		t.Fatal(err)
	}
	name := "test-" + filepath.Base(dir)
	cfg := agentapi.Config{
		Node: name, Tag: "tag", Cluster: testCluster, Controller: n.c.address, Link: "dial",
		Token: n.c.authority.NewToken(name, "tag", time.Now().Add(time.Hour)),
		CPUs:  2, MemoryMiB: 1000, Runtime: "process", Gres: "gpu:a100:2",
		NoticeFile: filepath.Join(dir, "notice.json"), ActiveFile: filepath.Join(dir, "active"),
		CgroupParent: "/" + name,
	}
	if change != nil {
		change(&cfg)
	}
	if err := agentapi.SaveConfig(filepath.Join(n.state, configFile), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.sweep(name) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.supervise(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return n
}

func (n *node) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, os.Args[0], "agent", "--state", n.state, "--log-level", "debug")
		out := n.t.Output()
		cmd.Stdout, cmd.Stderr = out, out
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			n.t.Error(err)
			return
		}
		n.mu.Lock()
		n.pid = cmd.Process.Pid
		n.mu.Unlock()
		_ = cmd.Wait() // it was killed
	}
}

// sweep ends whatever a failed test left and shows what shims said.
func (n *node) sweep(name string) {
	rt, err := process.New(process.Config{State: filepath.Join(n.state, "process"), CgroupParent: "/" + name}, newLog(n.t))
	if err != nil {
		n.t.Error(err)
		return
	}
	dirs, _ := filepath.Glob(filepath.Join(n.state, "jobs", "*"))
	for _, dir := range dirs {
		if text, err := os.ReadFile(filepath.Join(dir, attempt.LogFile)); err == nil && n.t.Failed() {
			n.t.Logf("%s:\n%s", filepath.Base(dir), text)
		}
		if pid, err := attempt.Holder(dir); err == nil && pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	ids, err := rt.List(context.Background())
	if err != nil {
		n.t.Error(err)
	}
	for _, id := range ids {
		if err := rt.Remove(context.Background(), id); err != nil {
			n.t.Error(err)
		}
	}
	if os.Geteuid() == 0 {
		os.RemoveAll(filepath.Join("/var/spool/sbatchd", name))
	}
}

func (n *node) killAgent() {
	n.t.Helper()
	n.mu.Lock()
	pid := n.pid
	n.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		n.t.Error(err)
	}
}

func (n *node) shimPid(a *agentapi.Attempt) int {
	n.t.Helper()
	pid, err := attempt.Holder(filepath.Join(n.state, "jobs", a.Name()))
	if err != nil {
		n.t.Error(err)
	}
	return pid
}

// launch orders a script as the test's own user.
func (n *node) launch(a *agentapi.Attempt, script string, change func(*agentapi.Launch)) {
	n.t.Helper()
	l := &agentapi.Launch{
		Script: []byte("#!/bin/bash\n" + script), Env: []string{"PATH=/usr/bin:/bin", "HELLO=wörld"},
		WorkDir: n.workDir(), Streams: &agentapi.Streams{}, Runtime: "process", Cpus: 1, MemoryMib: 200,
		User: &agentapi.User{
			Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), Name: "tester", Group: "testers", Home: n.state + "-home", Shell: "/bin/bash",
		},
		Umask: 0o022, Relay: true,
		Info: &agentapi.JobInfo{Name: "test", Partition: "gpu", NodeList: "n1", NumNodes: 1, CpusPerNode: "1", TasksPerNode: "1", Cluster: "test"},
	}
	if change != nil {
		change(l)
	}
	o := &agentapi.Order{
		Key:  &agentapi.Key{Job: a.GetJob(), Restart: a.GetRestart(), Step: agentapi.BatchStep},
		What: &agentapi.Order_Launch{Launch: l},
	}
	if why := n.c.send(o); why != "" {
		n.t.Fatalf("launch refused: %s", why)
	}
}

func (n *node) workDir() string { return n.state + "-work" }

func (n *node) order(a *agentapi.Attempt, o *agentapi.Order) string {
	n.t.Helper()
	o.Key = &agentapi.Key{Job: a.GetJob(), Restart: a.GetRestart(), Step: agentapi.BatchStep}
	return n.c.send(o)
}

// release lets the node forget an attempt and waits until it has.
func (n *node) release(a *agentapi.Attempt) {
	n.t.Helper()
	if why := n.order(a, &agentapi.Order{What: &agentapi.Order_Release{Release: &agentapi.Release{}}}); why != "" {
		n.t.Errorf("release refused: %s", why)
	}
	dir := filepath.Join(n.state, "jobs", a.Name())
	eventually(n.t, "folder gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 400 {
		if cond() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestRunsAJob(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(12, 0)
	n.launch(a, `echo "out $HELLO $SLURM_JOB_ID $SLURM_JOB_NAME ${SLURM_RESTART_COUNT-unset} $SLURM_GPUS_ON_NODE $CUDA_VISIBLE_DEVICES"
echo "err $1" >&2
pwd
exit 7`, func(l *agentapi.Launch) {
		l.Args = []string{"arg one"}
		l.Gpus = []*agentapi.Gpu{{Index: 1}}
	})
	n.c.started(a)
	e := n.c.exited(a)
	if e.GetCode() != 7 || e.GetSignal() != 0 || e.GetReason() != agentapi.ExitReason_EXIT_SCRIPT {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
	lines := strings.Split(n.c.output(a, "out"), "\n")
	if lines[0] != "out wörld 12 test unset 1 1" {
		t.Errorf("stdout: %q", lines[0])
	}
	if got := n.c.output(a, "err"); got != "err arg one\n" {
		t.Errorf("stderr: %q", got)
	}
	if os.Geteuid() == 0 && lines[1] != n.workDir() {
		t.Errorf("work directory: %q", lines[1])
	}
	n.release(a)
	if h := n.c.last.GetHardware(); h.GetCpus() != 2 || len(h.GetGpus()) != 2 || h.GetGpus()[0].GetType() != "a100" {
		t.Errorf("hardware: %v", h)
	}
}

func TestOrdersAreIdempotentAndNeverOlder(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(5, 1)
	n.launch(a, "echo once", nil)
	n.launch(a, "echo twice", nil) // the same attempt again
	n.c.exited(a)
	n.c.finished(a)
	if got := n.c.output(a, "out"); got != "once\n" {
		t.Errorf("output %q", got)
	}
	older := &agentapi.Order{
		Key:  &agentapi.Key{Job: 5, Restart: 0, Step: agentapi.BatchStep},
		What: &agentapi.Order_Launch{Launch: &agentapi.Launch{Runtime: "process"}},
	}
	if why := n.c.send(older); why == "" {
		t.Error("an older restart was taken")
	}
	n.release(a)
	again := &agentapi.Order{
		Key:  &agentapi.Key{Job: 5, Restart: 1, Step: agentapi.BatchStep},
		What: &agentapi.Order_Launch{Launch: &agentapi.Launch{Runtime: "process"}},
	}
	if why := n.c.send(again); why == "" {
		t.Error("a run that is over was started again")
	}
	n.c.mu.Lock()
	n.c.epoch = 3
	n.c.mu.Unlock()
	b := agentapi.NewAttempt(6, 0)
	n.launch(b, "true", nil)
	stale := &agentapi.Order{
		Key:  &agentapi.Key{Job: 7, Step: agentapi.BatchStep, Epoch: 2},
		What: &agentapi.Order_Launch{Launch: &agentapi.Launch{Runtime: "process"}},
	}
	if why := n.c.send(stale); why == "" {
		t.Error("an order of an older leadership was taken")
	}
}

// counting writes numbered lines to both streams, with some that are long.
const counting = `for i in $(seq 1 %d); do
  echo "line $i"
  echo "error $i" >&2
  if [ $((i %% 20)) = 0 ]; then head -c 30000 /dev/zero | tr '\0' x; echo; fi
  sleep 0.02
done`

// wantCounting is what counting writes to stdout and stderr.
func wantCounting(lines int) (out, errs string) {
	var o, e bytes.Buffer
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&o, "line %d\n", i)
		fmt.Fprintf(&e, "error %d\n", i)
		if i%20 == 0 {
			o.WriteString(strings.Repeat("x", 30000) + "\n")
		}
	}
	return o.String(), e.String()
}

// compareLong says where two long texts part.
func compareLong(t *testing.T, name, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	t.Errorf("%s: %d bytes, want %d; they part at %d: %q", name, len(got), len(want), i, got[i:min(len(got), i+60)])
}

func TestKilledAgentLosesNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	const jobs, lines = 3, 100
	for j := range jobs {
		n.launch(agentapi.NewAttempt(uint32(j+1), 0), fmt.Sprintf(counting, lines)+"\nexit 3", nil)
	}
	for i := range 12 {
		time.Sleep(time.Duration(40+i*35) * time.Millisecond)
		n.killAgent()
		if i%4 == 1 {
			n.c.down()
			time.Sleep(50 * time.Millisecond)
			n.c.up()
		}
	}
	out, errs := wantCounting(lines)
	for j := range jobs {
		a := agentapi.NewAttempt(uint32(j+1), 0)
		if e := n.c.exited(a); e.GetCode() != 3 {
			t.Errorf("job %d: exit %v", j+1, e)
		}
		n.c.finished(a)
		compareLong(t, "stdout", out, n.c.output(a, "out"))
		compareLong(t, "stderr", errs, n.c.output(a, "err"))
		if lost := n.c.count(a, func(r *agentapi.Report) bool { return r.GetLost() != nil }); lost != 0 {
			t.Errorf("job %d: reported lost", j+1)
		}
		n.release(a)
	}
}

func TestKilledShimLosesTheJob(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	mark := filepath.Join(filepath.Dir(n.state), "alive")
	a := agentapi.NewAttempt(9, 0)
	n.launch(a, "while :; do date +%s%N > "+mark+"; sleep 0.05; done", nil)
	n.c.started(a)
	eventually(t, "script runs", func() bool { _, err := os.Stat(mark); return err == nil })
	if err := syscall.Kill(n.shimPid(a), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	event(n.c, a, "job lost", func(r *agentapi.Report) (bool, bool) { return true, r.GetLost() != nil })
	before, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if after, err := os.ReadFile(mark); err != nil || !bytes.Equal(before, after) {
		t.Error("the job of a dead shim goes on")
	}
	n.c.finished(a)
	n.release(a)
}

func TestTimeLimitWhileTheControllerIsAway(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(20, 0)
	n.launch(a, `trap 'echo got USR1' USR1
trap 'echo got TERM' TERM
echo ready
while :; do sleep 0.1; done`, func(l *agentapi.Launch) {
		l.TimeLimitS = 3
		l.Signal = &agentapi.JobSignal{Signal: int32(syscall.SIGUSR1), Seconds: 2, BatchOnly: true}
	})
	n.c.written(a, "out", "ready")
	n.c.down()
	time.Sleep(6 * time.Second) // the limit, and KillWait of 2 s after it
	n.c.up()
	e := n.c.exited(a)
	if e.GetReason() != agentapi.ExitReason_EXIT_TIME_LIMIT || e.GetSignal() != int32(syscall.SIGKILL) {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
	out := n.c.output(a, "out")
	if strings.Count(out, "got USR1") != 1 || strings.Count(out, "got TERM") != 1 {
		t.Errorf("stdout: %q", out)
	}
	line := n.c.output(a, "err")
	if !strings.Contains(line, "] error: *** JOB 20 ON test-") || !strings.Contains(line, " DUE TO TIME LIMIT ***\n") {
		t.Errorf("stderr: %q", line)
	}
}

func TestFenceFreezesAndThaws(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.c.down()
	n.c.settings = func(r *agentapi.HelloReply) { r.FenceTimeoutS = 2 }
	n.c.hellos = 0
	n.c.up()
	n.c.until("a link with these settings", 20*time.Second, func() bool { return n.c.hellos > 0 })
	a := agentapi.NewAttempt(30, 0)
	n.launch(a, fmt.Sprintf("for i in $(seq 1 %d); do echo $i; sleep 0.05; done", 100), nil)
	n.c.written(a, "out", "10\n")
	n.c.down()
	time.Sleep(3 * time.Second)
	file := filepath.Join(n.state, "jobs", a.Name(), attempt.OutFile)
	size := fileSize(t, file)
	time.Sleep(700 * time.Millisecond)
	if grown := fileSize(t, file) - size; grown != 0 {
		t.Errorf("the job wrote %d bytes behind its fence", grown)
	}
	n.c.up()
	n.c.exited(a)
	n.c.finished(a)
	var want strings.Builder
	for i := 1; i <= 100; i++ {
		want.WriteString(strconv.Itoa(i) + "\n")
	}
	compareLong(t, "stdout", want.String(), n.c.output(a, "out"))
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestCancel(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(40, 0)
	n.launch(a, "trap 'echo got TERM; exit 9' TERM\necho ready\nwhile :; do sleep 0.1; done", func(l *agentapi.Launch) { l.Streams.Merged = true })
	n.c.written(a, "out", "ready")
	n.order(a, &agentapi.Order{What: &agentapi.Order_Kill{Kill: &agentapi.Kill{Reason: agentapi.KillReason_KILL_CANCEL}}})
	e := n.c.exited(a)
	if e.GetCode() != 9 || e.GetReason() != agentapi.ExitReason_EXIT_KILLED {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
	out := n.c.output(a, "out")
	if !strings.HasPrefix(out, "ready\n[") || !strings.Contains(out, "] error: *** JOB 40 ON test-") || !strings.Contains(out, "got TERM\n") {
		t.Errorf("output %q", out)
	}
}

func TestUnwantedJobIsForgotten(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(50, 0)
	n.launch(a, "echo hi; sleep 600", nil)
	n.c.written(a, "out", "hi")
	n.c.mu.Lock()
	delete(n.c.wanted, a.Name())
	n.c.mu.Unlock()
	n.c.down()
	n.c.up()
	eventually(t, "folder gone", func() bool {
		_, err := os.Stat(filepath.Join(n.state, "jobs", a.Name()))
		return os.IsNotExist(err)
	})
}

func TestInput(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	in := filepath.Join(filepath.Dir(n.state), "it's in")
	if err := os.WriteFile(in, []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, b := agentapi.NewAttempt(90, 0), agentapi.NewAttempt(91, 0)
	n.launch(a, "cat; echo $1", func(l *agentapi.Launch) {
		l.Streams.Input, l.Args = in, []string{"a b"}
	})
	n.launch(b, "echo ran", func(l *agentapi.Launch) { l.Streams.Input = in + ".missing" })
	n.c.finished(a)
	if out := n.c.output(a, "out"); out != "given\na b\n" {
		t.Errorf("output %q", out)
	}
	if e := n.c.exited(b); e.GetCode() == 0 {
		t.Errorf("exit without its input: %v", e)
	}
	n.c.finished(b)
	if out := n.c.output(b, "out"); out != "" {
		t.Errorf("output %q", out)
	}
	// The file is opened with the rights of the job's user.
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chmod(in, 0o600); err != nil {
		t.Fatal(err)
	}
	c := agentapi.NewAttempt(92, 0)
	n.launch(c, "cat", func(l *agentapi.Launch) {
		l.Streams.Input = in
		l.User.Uid, l.User.Gid = 65534, 65534
	})
	n.c.finished(c)
	if out := n.c.output(c, "out"); out != "" {
		t.Errorf("another user's file was read: %q", out)
	}
}
