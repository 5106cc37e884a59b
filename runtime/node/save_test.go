package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/runtime/stage"
)

// announce writes the provider's word that the node goes in a while.
func (n *node) announce(in time.Duration) {
	n.t.Helper()
	text, err := json.Marshal(agentapi.Notice{At: time.Now().Add(in), NoticeSeconds: in.Seconds()})
	if err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(n.state), "notice.json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		n.t.Fatal(err)
	}
}

func (c *controller) saved(a *agentapi.Attempt, reason string) *agentapi.CheckpointDone {
	c.t.Helper()
	return event(c, a, reason+" checkpoint of "+a.Name(), func(r *agentapi.Report) (*agentapi.CheckpointDone, bool) {
		d := r.GetCheckpointDone()
		return d, d != nil && d.GetReason() == reason
	})
}

// training counts epochs and keeps the count in ckpt/epoch, as a checkpoint hook or a
// signal asks. It starts from the count it finds.
const training = `mkdir -p ckpt
epoch=$(cat ckpt/epoch 2>/dev/null || echo 0)
echo "start restart=${SLURM_RESTART_COUNT:-0} epoch=$epoch"
trap 'echo $epoch > ckpt/epoch; echo saved $epoch; exit 0' TERM
while :; do epoch=$((epoch+1)); echo $epoch > now; sleep 0.05; done`

func TestNoticeSignalSaveAndResume(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(60, 0)
	plan := func(restore int32) func(*agentapi.Launch) {
		return func(l *agentapi.Launch) {
			l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: restore, RestoreHook: `echo "restoring $SBATCHD_CHECKPOINT_NUMBER from $SBATCHD_CHECKPOINT_DIR"`}
		}
	}
	n.launch(a, training, plan(-1))
	n.c.written(a, "out", "start restart=0 epoch=0\n")
	time.Sleep(400 * time.Millisecond)
	n.announce(20 * time.Second)
	d := n.c.saved(a, "reclaim")
	if d.GetNumber() != 1 || d.GetBytes() == 0 || len(d.GetManifestSha256()) != 64 {
		t.Errorf("checkpoint: %v", d)
	}
	e := n.c.exited(a)
	if e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED || !e.GetNotice() || e.GetCode() != 0 {
		t.Errorf("exit after the notice: %v", e)
	}
	n.c.finished(a)
	if n.c.count(agentapi.NewAttempt(0, 0), func(r *agentapi.Report) bool { return r.GetNotice() != nil }) != 1 {
		t.Error("the notice was not reported once")
	}
	var at int
	if _, err := fmt.Sscanf(n.c.output(a, "out"), "start restart=0 epoch=0\nsaved %d\n", &at); err != nil || at == 0 {
		t.Fatalf("output %q: %v", n.c.output(a, "out"), err)
	}

	// The next node: another machine with the same controller.
	m := newNode(t, nil)
	m.c.store = n.c.store
	b := agentapi.NewAttempt(60, 1)
	m.launch(b, training, plan(0))
	if s := m.c.started(b); s.GetRestoredNumber() != 1 {
		t.Errorf("started: %v", s)
	}
	m.c.written(b, "out", fmt.Sprintf("start restart=1 epoch=%d\n", at))
	if out := m.c.output(b, "out"); !strings.HasPrefix(out, "restoring 1 from "+m.workDir()+"/ckpt\n") && os.Geteuid() == 0 {
		t.Errorf("output %q", out)
	}
}

// TestNoticeFromTheController: a provider that announces by its API alone.
func TestNoticeFromTheController(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(62, 0)
	n.launch(a, training, func(l *agentapi.Launch) { l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1} })
	n.c.written(a, "out", "start restart=0 epoch=0\n")
	for _, in := range []time.Duration{time.Hour, 20 * time.Second} { // the earlier one counts, whether it comes first or last
		if refused := n.c.send(&agentapi.Order{Key: &agentapi.Key{Job: a.GetJob()}, What: &agentapi.Order_Notice{Notice: &agentapi.NodeNotice{
			DeadlineUnixNano: time.Now().Add(in).UnixNano(), Kind: "reclaim",
		}}}); refused != "" {
			t.Fatalf("refused: %s", refused)
		}
	}
	if d := n.c.saved(a, "reclaim"); d.GetNumber() != 1 || d.GetBytes() == 0 {
		t.Errorf("checkpoint: %v", d)
	}
	if e := n.c.exited(a); e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED || !e.GetNotice() {
		t.Errorf("exit after the notice: %v", e)
	}
	n.c.finished(a)
}

func TestNoticeWithHook(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(61, 0)
	n.launch(a, "trap 'echo TERM reached it' TERM\nmkdir ckpt; echo ready\nwhile :; do sleep 0.05; done", func(l *agentapi.Launch) {
		l.Checkpoint = &agentapi.CheckpointPlan{
			Dir: "ckpt", RestoreNumber: -1,
			Hook: `echo "$SLURM_JOB_ID $SLURM_RESTART_COUNT $SBATCHD_CHECKPOINT_REASON" > "$SBATCHD_CHECKPOINT_DIR/by-hook"; [ "$SBATCHD_CHECKPOINT_SECONDS" -gt 5 ] && echo hooked`,
		}
	})
	n.c.written(a, "out", "ready")
	n.announce(20 * time.Second)
	n.c.saved(a, "reclaim")
	e := n.c.exited(a)
	if e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED || e.GetSignal() != int32(syscall.SIGKILL) {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
	if out := n.c.output(a, "out"); out != "ready\nhooked\n" {
		t.Errorf("output %q", out)
	}
	if err := n.c.output(a, "err"); !strings.Contains(err, "DUE TO PREEMPTION ***\n") {
		t.Errorf("stderr %q", err)
	}
	m := newNode(t, nil)
	m.c.store = n.c.store
	b := agentapi.NewAttempt(61, 1)
	m.launch(b, "cat ckpt/by-hook", func(l *agentapi.Launch) {
		l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt"}
	})
	m.c.finished(b)
	if out := m.c.output(b, "out"); out != "61 0 reclaim\n" {
		t.Errorf("restored %q", out)
	}
}

// TestAgentKilledDuringReclaim kills the agent between the notice and the end: the
// save happens all the same and the job is reported once as reclaimed.
func TestAgentKilledDuringReclaim(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(62, 0)
	n.launch(a, "mkdir ckpt; echo ready\nwhile :; do sleep 0.05; done", func(l *agentapi.Launch) {
		l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1, Hook: `sleep 1; echo x > ckpt/x`}
	})
	n.c.written(a, "out", "ready")
	n.announce(25 * time.Second)
	for range 4 {
		time.Sleep(450 * time.Millisecond)
		n.killAgent()
	}
	e := n.c.exited(a)
	if e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED {
		t.Errorf("exit: %v", e)
	}
	n.c.saved(a, "reclaim")
	n.c.finished(a)
	n.release(a)
}

func TestIntervalAndOrderedCheckpoints(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(63, 0)
	n.launch(a, "mkdir ckpt; echo data > ckpt/f; echo ready; sleep 30", func(l *agentapi.Launch) {
		l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1, IntervalS: 1}
	})
	n.c.written(a, "out", "ready")
	n.c.saved(a, "interval")
	n.order(a, &agentapi.Order{What: &agentapi.Order_Checkpoint{Checkpoint: &agentapi.Checkpoint{Reason: "user"}}})
	n.c.saved(a, "user")
	n.order(a, &agentapi.Order{What: &agentapi.Order_Kill{Kill: &agentapi.Kill{
		Reason: agentapi.KillReason_KILL_PREEMPT, Checkpoint: true, CheckpointSeconds: 10,
	}}})
	n.c.saved(a, "preempt")
	if e := n.c.exited(a); e.GetKillReason() != agentapi.KillReason_KILL_PREEMPT {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
}

// TestCancelCutsASaveShort: who cancels wants no checkpoint.
func TestCancelCutsASaveShort(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(64, 0)
	n.launch(a, "echo ready; sleep 60", func(l *agentapi.Launch) {
		l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1, Hook: "sleep 60"}
	})
	n.c.written(a, "out", "ready")
	n.announce(2 * time.Minute)
	time.Sleep(time.Second)
	start := time.Now()
	n.order(a, &agentapi.Order{What: &agentapi.Order_Kill{Kill: &agentapi.Kill{Reason: agentapi.KillReason_KILL_CANCEL}}})
	n.c.exited(a)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	n.c.finished(a)
}

func TestNoticeBeforeTheJobStarts(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.announce(20 * time.Second)
	event(n.c, agentapi.NewAttempt(0, 0), "notice", func(r *agentapi.Report) (bool, bool) { return true, r.GetNotice() != nil })
	a := agentapi.NewAttempt(65, 0)
	n.launch(a, "echo ran", nil)
	if e := n.c.exited(a); e.GetReason() != agentapi.ExitReason_EXIT_RECLAIMED {
		t.Errorf("exit: %v", e)
	}
	n.c.finished(a)
	if out := n.c.output(a, "out"); out != "" {
		t.Errorf("it ran: %q", out)
	}
}

func TestSyncedWorkDir(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	submit := filepath.Join(filepath.Dir(n.state), "submit")
	if err := os.MkdirAll(filepath.Join(submit, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(submit, "data", "in"), []byte("input\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.c.submit = stage.Dir{Path: submit, Owner: asuser.Self(), Job: 66}
	a := agentapi.NewAttempt(66, 0)
	n.launch(a, "cat data/in; mkdir results; echo made > results/out; sleep 0.3; echo late >> results/out", func(l *agentapi.Launch) {
		l.WorkDirMode = agentapi.WorkDir_WORKDIR_SYNC
	})
	n.c.started(a)
	n.killAgent()
	n.c.finished(a)
	if out := n.c.output(a, "out"); out != "input\n" {
		t.Errorf("output %q", out)
	}
	got, err := os.ReadFile(filepath.Join(submit, "results", "out"))
	if err != nil || string(got) != "made\nlate\n" {
		t.Errorf("result %q %v", got, err)
	}
	if n.c.count(a, func(r *agentapi.Report) bool { return r.GetStagedOut().GetFiles() > 0 }) == 0 {
		t.Error("staging out was not reported")
	}
}

// TestSharedWorkDir has the submit host's files aside, as on a local node: the job sees
// its directory at its own path, with its checkpoints in it, and no more than its user
// may.
func TestSharedWorkDir(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	var host string
	n := newNode(t, func(c *agentapi.Config) {
		host = filepath.Join(filepath.Dir(c.NoticeFile), "aside", "host")
		c.HostRoot = host
	})
	const uid = 65534
	dir := filepath.Join(host, n.workDir())
	for _, d := range []string{dir, filepath.Join(host, n.state+"-closed", "open")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(host): 0o700, filepath.Join(host, n.state+"-closed"): 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	shared := func(l *agentapi.Launch) {
		l.WorkDirMode = agentapi.WorkDir_WORKDIR_SHARED
		l.User.Uid, l.User.Gid = uid, uid
		l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1}
	}
	a := agentapi.NewAttempt(67, 0)
	n.launch(a, "pwd; mkdir ckpt; echo 1 > ckpt/n; echo ready; sleep 60", shared)
	n.c.written(a, "out", n.workDir()+"\nready\n")
	n.order(a, &agentapi.Order{What: &agentapi.Order_Checkpoint{Checkpoint: &agentapi.Checkpoint{}}})
	n.c.saved(a, "user")
	n.killAgent()
	n.order(a, &agentapi.Order{What: &agentapi.Order_Kill{Kill: &agentapi.Kill{}}})
	n.c.finished(a)
	n.release(a)
	if text, err := os.ReadFile(filepath.Join(dir, "ckpt", "n")); err != nil || string(text) != "1\n" {
		t.Errorf("the user's file: %q %v", text, err)
	}

	b := agentapi.NewAttempt(68, 0)
	n.launch(b, "pwd", func(l *agentapi.Launch) {
		shared(l)
		l.WorkDir = n.state + "-closed/open"
	})
	n.c.finished(b)
	if out := n.c.output(b, "out"); out != "/tmp\n" {
		t.Errorf("a directory behind a closed one: the job ran in %q", out)
	}
	n.release(b)
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(text), "/var/spool/sbatchd/test-"+filepath.Base(filepath.Dir(n.state))) {
		t.Errorf("mounts are left: %v", err)
	}
}

// TestKilledAgentAtEveryStep kills the agent again and again while short jobs are staged,
// started, ended and brought back: each runs once, and its result and output come.
func TestKilledAgentAtEveryStep(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	submit := filepath.Join(filepath.Dir(n.state), "submit")
	if err := os.MkdirAll(submit, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(submit, fmt.Sprintf("in%d", i)), []byte(strings.Repeat("x", 1000*i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.c.submit = stage.Dir{Path: submit, Owner: asuser.Self(), Job: 1}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range 10 { // then the jobs may finish in peace
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(50+i*53%600) * time.Millisecond):
				before := n.c.links()
				n.killAgent()
				// One that never comes up, on a slow machine, is no step.
				for n.c.links() == before {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}
		}
	}()
	const jobs = 6
	attempts := make([]*agentapi.Attempt, jobs)
	for i := range attempts {
		attempts[i] = agentapi.NewAttempt(uint32(100+i), 0)
		n.launch(attempts[i], `echo run >> ran.$SLURM_JOB_ID; cat in19 | wc -c; sleep 0.2; echo end`, func(l *agentapi.Launch) {
			l.WorkDirMode = agentapi.WorkDir_WORKDIR_SYNC
			l.Checkpoint = &agentapi.CheckpointPlan{Dir: "ckpt", RestoreNumber: -1}
		})
		time.Sleep(100 * time.Millisecond)
	}
	for i, a := range attempts {
		if i == jobs/2 {
			close(stop) // the rest may finish in peace
			<-stopped
		}
		n.c.finished(a)
	}
	for _, a := range attempts {
		if out := n.c.output(a, "out"); out != "19000\nend\n" {
			t.Errorf("job %d: output %q", a.GetJob(), out)
		}
		if text, err := os.ReadFile(filepath.Join(submit, fmt.Sprintf("ran.%d", a.GetJob()))); err != nil || string(text) != "run\n" {
			t.Errorf("job %d: result %q %v", a.GetJob(), text, err)
		}
		if n.c.count(a, func(r *agentapi.Report) bool { return r.GetLost() != nil || r.GetLaunchFailed() != nil }) > 0 {
			t.Errorf("job %d: reported lost", a.GetJob())
		}
		n.release(a)
	}
}
