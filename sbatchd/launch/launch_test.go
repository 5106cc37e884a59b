package launch_test

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

func clientTLS(t *testing.T, der []byte, cas [][]byte, key crypto.Signer) *tls.Config {
	t.Helper()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	var roots []*x509.Certificate
	for _, ca := range cas {
		c, err := x509.ParseCertificate(ca)
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, c)
	}
	return agentapi.ClientTLS(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots, time.Now)
}

func TestSessionRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	for _, c := range []struct {
		name  string
		id    agentapi.Identity
		first *agentapi.AgentMessage
		code  codes.Code
		words string
	}{
		{"of another cluster", agentapi.Identity{Cluster: "99999999-2222-4333-8444-555555555555", Node: "spot-1", Tag: tag}, hello(nil), codes.PermissionDenied, "another cluster"},
		{"a machine the node had before", agentapi.Identity{Cluster: cluster, Node: "spot-1", Tag: cluster + "-spot-1-0"}, hello(nil), codes.PermissionDenied, "any more"},
		{"an unknown node", agentapi.Identity{Cluster: cluster, Node: "x", Tag: tag}, hello(nil), codes.PermissionDenied, "any more"},
		{"another node's hello", spot1, hello(func(h *agentapi.Hello) { h.Node = "spot-2" }), codes.InvalidArgument, "own hello"},
		{"no hello", spot1, &agentapi.AgentMessage{Body: &agentapi.AgentMessage_Heartbeat{Heartbeat: &agentapi.Heartbeat{}}}, codes.InvalidArgument, "own hello"},
		{"older protocol", spot1, hello(func(h *agentapi.Hello) { h.ProtocolMajor-- }), codes.FailedPrecondition, "upgrade the older side"},
		{"two minors ahead", spot1, hello(func(h *agentapi.Hello) { h.ProtocolMinor += 2 }), codes.FailedPrecondition, "upgrade the older side"},
		{"has seen a later leadership", spot1, hello(func(h *agentapi.Hello) { h.Epoch = 4 }), codes.FailedPrecondition, "epoch 3 is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.enter(h.connect(c.id), c.first)
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.words) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOtherAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	other, err := agentapi.OpenAuthority(filepath.Join(t.TempDir(), "ca"), cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.enter(h.connectBy(other, spot1), hello(nil)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestHelloReply(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	first := h.agent(nil)
	if d := cmp.Diff([]any{uint64(3), uint32(1800), cluster}, []any{first.reply.GetEpoch(), first.reply.GetFenceTimeoutS(), first.reply.GetClusterUuid()}); d != "" {
		t.Error(d)
	}
	h.heard("up spot-1 cpus=4")
	run := h.allocate(nil)
	first.order()
	h.apply(state.JobStarted{Attempt: run, At: time.Now()})
	h.spool.data[run.String()+" out"] = "hello"

	// The agent comes back and holds the job, frozen, and one nobody wants.
	again := h.agent(func(m *agentapi.Hello) {
		running(run, job.Attempt{Job: 77, Restart: 2})(m)
		m.Running[0].Frozen = true
	})
	got := map[string]string{}
	for _, v := range again.reply.GetVerdicts() {
		got[v.GetAttempt().Name()] = v.GetAction().String()
	}
	if d := cmp.Diff(map[string]string{run.String(): "THAW", "77.2": "FORGET"}, got); d != "" {
		t.Error(d)
	}
	if o := again.reply.GetOutputs(); len(o) != 2 || o[0].GetSize() != 5 {
		t.Errorf("outputs %v", o)
	}
	again.quiet("a job that runs is launched again", isOrder)
	if _, ok := <-first.in; ok {
		t.Error("the older session lives on")
	}
	kept := h.agent(running(run))
	if v := kept.reply.GetVerdicts(); len(v) != 1 || v[0].GetAction() != agentapi.Verdict_KEEP {
		t.Errorf("verdicts %v", v)
	}
}

func TestJobTheNodeForgotVanishes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	run := h.allocate(nil)
	a.order()
	h.apply(state.JobStarted{Attempt: run, At: time.Now()})
	h.agent(nil)
	h.heard("vanished " + run.String() + " node spot-1 does not hold the job any more")
}

func TestLaunchOnlyAfterTheCommit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	open := h.hold()
	run := h.allocate(nil)
	a.quiet("sent before the commit", isOrder)
	open()
	o := a.order()
	h.heard("ordered " + run.String() + " on spot-1 of here at 100")
	if k := o.GetKey(); k.GetJob() != run.Job || k.GetRestart() != 0 || k.GetEpoch() != 3 || k.GetStep() != agentapi.BatchStep {
		t.Errorf("key %v", k)
	}
	l := o.GetLaunch()
	if d := cmp.Diff(
		[]any{"#!/bin/sh\ntrue\n", []string{"PATH=/bin", "SLURM_RLIMIT_NOFILE=1024", "POOL=spot"}, uint32(1), uint64(100), uint32(600), "/home/alice", "process", "/bin/bash"},
		[]any{string(l.GetScript()), l.GetEnv(), l.GetCpus(), l.GetMemoryMib(), l.GetTimeLimitS(), l.GetWorkDir(), l.GetRuntime(), l.GetUser().GetShell()},
	); d != "" {
		t.Error(d)
	}
	if g := l.GetGpus(); len(g) != 1 || g[0].GetType() != "a100" || l.GetWorkDirMode() != agentapi.WorkDir_WORKDIR_SHARED {
		t.Errorf("launch %v", l)
	}
	a.quiet("sent twice", isOrder)
}

func TestDroppedLaunchComesAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	h.desk.mu.Lock()
	h.deny = true
	h.desk.mu.Unlock()
	run := h.allocate(nil)
	h.heard("not ordered " + run.String())
	h.desk.mu.Lock()
	h.deny = false
	h.desk.mu.Unlock()
	h.apply(state.JobReasoned{ID: run.Job})
	if o := a.order(); o.GetLaunch() == nil {
		t.Errorf("got %v", o)
	}
}

func TestUserWithoutAnAccount(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	h.allocate(func(j *job.Job) { j.UID = 4242 })
	if u := a.order().GetLaunch().GetUser(); u.GetUid() != 4242 || u.GetHome() != "/" {
		t.Errorf("user %v", u)
	}
}

// TestUnusableOutput: a job whose output cannot be opened never reaches a node.
func TestUnusableOutput(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	h.spool.mu.Lock()
	h.spool.unusable = errors.New("permission denied")
	h.spool.mu.Unlock()
	run := h.allocate(nil)
	h.heard("launch failed " + run.String() + " user")
	h.heard("finished " + run.String())
	a.quiet("sent", isOrder)
}

// TestDirect: a node writes output files of a shared work directory itself, and
// no others.
func TestDirect(t *testing.T) {
	t.Parallel()
	no := false
	for _, tt := range []struct {
		name string
		spec job.Spec
		want *agentapi.Streams
	}{
		{"one file", job.Spec{WorkDir: "/w", Output: "/w/x.out"}, &agentapi.Streams{Merged: true, Append: true, StdoutPath: "/w/x.out"}},
		{"two files", job.Spec{WorkDir: "/w", Output: "/w/x.out", Error: "/w/d/x.err"},
			&agentapi.Streams{Append: true, StdoutPath: "/w/x.out", StderrPath: "/w/d/x.err"}},
		{"truncated", job.Spec{WorkDir: "/w", Output: "/w/x.out", Append: &no}, &agentapi.Streams{Merged: true, StdoutPath: "/w/x.out"}},
		{"elsewhere", job.Spec{WorkDir: "/w", Output: "/wide/x.out"}, &agentapi.Streams{Merged: true, Append: true}},
		{"above", job.Spec{WorkDir: "/w", Output: "/w/../x.out"}, &agentapi.Streams{Merged: true, Append: true}},
		{"one of two elsewhere", job.Spec{WorkDir: "/w", Output: "/w/x.out", Error: "/x.err"}, &agentapi.Streams{Append: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.rent()
			a := h.agent(nil)
			h.allocate(func(j *job.Job) {
				spec := *j.Spec
				spec.WorkDir, spec.Output, spec.Error, spec.Append = tt.spec.WorkDir, tt.spec.Output, tt.spec.Error, tt.spec.Append
				j.Spec = &spec
			})
			if got := a.order().GetLaunch().GetStreams(); !proto.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	run := h.allocate(nil)
	ids := map[string]uint64{"launch": a.order().GetId()}
	h.apply(state.JobStarted{Attempt: run, At: time.Now()}, state.JobSignalled{Attempt: run, Signal: 10, BatchOnly: true})
	o := a.order()
	if s := o.GetSignal(); s.GetSignal() != 10 || !s.GetBatch() {
		t.Errorf("signal %v", o)
	}
	ids["signal"] = o.GetId()
	h.apply(state.JobSignalled{Attempt: run, Signal: 10, BatchOnly: true})
	if o = a.order(); o.GetSignal() == nil || o.GetId() == ids["signal"] {
		t.Errorf("the same signal again: %v", o)
	}
	limit := func(minutes uint32) uint32 {
		j, _ := h.Snapshot().Job(run.Job)
		spec := *j.Spec
		spec.TimeLimit = minutes
		h.apply(state.JobUpdated{ID: run.Job, Spec: &spec})
		return a.order().GetSetTimeLimit().GetTimeLimitS()
	}
	// Back to the first one too.
	if got := []uint32{limit(20), limit(10), limit(20), limit(job.NoLimit)}; cmp.Diff([]uint32{1200, 600, 1200, 0}, got) != "" {
		t.Errorf("limits %v", got)
	}
	for _, in := range []time.Duration{time.Hour, time.Minute} { // and an earlier one
		deadline := time.Now().Add(in)
		h.apply(state.JobNoticed{Attempt: run, Deadline: deadline})
		if o = a.order(); o.GetNotice().GetDeadlineUnixNano() != deadline.UnixNano() {
			t.Errorf("the provider's notice %v", o)
		}
	}
	h.apply(state.JobNoticed{Attempt: run, Deadline: time.Now().Add(time.Minute), Asked: true})
	o = a.order()
	if k := o.GetKill(); k.GetReason() != agentapi.KillReason_KILL_PREEMPT || !k.GetCheckpoint() || k.GetCheckpointSeconds() != 60 {
		t.Errorf("rehearsed reclaim %v", o)
	}
	h.apply(state.JobStopping{Attempt: run, Stop: job.Stop{Why: job.StopCancel, Final: job.Cancelled, At: time.Now()}})
	o = a.order()
	if k := o.GetKill(); k.GetReason() != agentapi.KillReason_KILL_CANCEL || !strings.Contains(k.GetNotice(), "CANCELLED AT") {
		t.Errorf("cancel %v", o)
	}
	ids["kill"] = o.GetId()

	// Another life of the controller gives the same orders the same ids, and
	// does not launch what was started.
	h.serve()
	b := h.agent(running(run))
	again := map[uint64]bool{}
	for range 4 { // two signals, the newest limit, the kill
		o := b.order()
		if o.GetLaunch() != nil {
			t.Error("launched again")
		}
		again[o.GetId()] = true
	}
	if !again[ids["signal"]] || !again[ids["kill"]] || again[ids["launch"]] {
		t.Errorf("ids %v became %v", ids, again)
	}
	b.quiet("more", isOrder)
}

func TestRefusedVitalOrderEndsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		event func(job.Attempt) state.Event
		want  bool
	}{
		{"launch", nil, true},
		{"kill", func(a job.Attempt) state.Event {
			return state.JobStopping{Attempt: a, Stop: job.Stop{Why: job.StopCancel, Final: job.Cancelled, At: time.Now()}}
		}, true},
		{"signal", func(a job.Attempt) state.Event { return state.JobSignalled{Attempt: a, Signal: 10} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.rent()
			a := h.agent(nil)
			run := h.allocate(nil)
			o := a.order()
			if c.event != nil {
				h.apply(c.event(run))
				o = a.order()
			}
			a.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_OrderAck{OrderAck: &agentapi.OrderAck{Id: o.GetId(), Refused: "no such job"}}})
			if c.want {
				h.heard("vanished " + run.String() + " refused by node spot-1: no such job")
				return
			}
			a.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Heartbeat{Heartbeat: &agentapi.Heartbeat{Seq: 1, CpuLoad: 150}}})
			h.heard("seen spot-1 1.50")
			if j, _ := h.Snapshot().Job(run.Job); !j.Active() {
				t.Error("a refused signal ended the job")
			}
		})
	}
}

func TestReportsAreAcknowledgedAfterTheCommit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	run := h.allocate(nil)
	a.order()
	open := h.hold()
	a.report(7, &agentapi.Report{Event: &agentapi.Report_Started{Started: &agentapi.Started{RestoredNumber: 2}}}, run)
	a.report(8, &agentapi.Report{Event: &agentapi.Report_Exited{Exited: &agentapi.Exited{Code: 3}}}, run)
	a.quiet("acknowledged before the commit", isAck)
	open()
	for _, seq := range []uint64{7, 8} { // in order
		if got := a.next(isAck).GetReportAck().GetSeq(); got != seq {
			t.Errorf("acknowledged %d, want %d", got, seq)
		}
	}
	h.heard("started " + run.String() + " from 2")
	h.heard("ended " + run.String() + " 3:0 script")
	h.spool.note = "disk full"
	a.report(9, &agentapi.Report{Event: &agentapi.Report_Finished{Finished: &agentapi.Finished{}}}, run)
	if o := a.order(); o.GetRelease() == nil {
		t.Errorf("got %v", o)
	}
	h.heard("note 1 disk full")
	h.heard("finished " + run.String())
}

func TestOutput(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	run := h.allocate(nil)
	a.order()
	send := func(at job.Attempt, offset uint64, text string) uint64 {
		a.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Output{Output: &agentapi.Output{
			Attempt: agentapi.NewAttempt(at.Job, at.Restart), Stream: "out", Offset: offset, Data: []byte(text),
		}}})
		return a.next(func(m *agentapi.ControllerMessage) bool { return m.GetOutputAck() != nil }).GetOutputAck().GetSize()
	}
	if got := []uint64{send(run, 0, "one "), send(run, 4, "two"), send(run, 0, "one two")}; cmp.Diff([]uint64{4, 7, 7}, got) != "" {
		t.Errorf("sizes %v", got)
	}
	// An old attempt's output is taken away from the node and kept nowhere.
	if got := send(job.Attempt{Job: run.Job, Restart: 5}, 10, "old"); got != 13 {
		t.Errorf("old attempt acknowledged up to %d", got)
	}
	if d := cmp.Diff(map[string]string{run.String() + " out": "one two"}, h.spool.data); d != "" {
		t.Error(d)
	}
}

func TestNodeIsBelievedAboutItsOwnJobsAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	run := h.allocate(nil)
	h.apply(state.JobOrdered{Attempt: run, At: time.Now()})
	now := time.Now()
	h.apply(state.NodeResuming{Name: "spot-2", Incarnation: 1, At: now, By: now.Add(time.Minute)})
	other, err := h.enter(h.connect(agentapi.Identity{Cluster: cluster, Node: "spot-2"}), hello(func(h *agentapi.Hello) { h.Node = "spot-2" }))
	if err != nil {
		t.Fatal(err)
	}
	other.report(1, &agentapi.Report{Event: &agentapi.Report_Exited{Exited: &agentapi.Exited{}}}, run)
	other.next(isAck)
	if j, _ := h.Snapshot().Job(run.Job); j.State != job.Running {
		t.Errorf("another node ended the job: %s", j.State)
	}
}

func TestRelay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	a := h.agent(nil)
	run := h.allocate(nil)
	a.order()
	ask := func(at job.Attempt, uid uint32) (int32, string, string, error) {
		s, err := agentapi.NewAgentLinkClient(a.conn).Relay(t.Context(), &agentapi.RelayRequest{
			Attempt: agentapi.NewAttempt(at.Job, at.Restart), Uid: uid, Method: "GET", Path: "/slurm/v0.0.45/jobs?x=1",
			Headers: []*agentapi.Header{
				{Name: "authorization", Value: "Bearer stolen"}, {Name: "X-SLURM-USER-NAME", Value: "root"}, {Name: "X-Kept", Value: "yes"},
			},
		})
		if err != nil {
			return 0, "", "", err
		}
		var code int32
		var who, body string
		for {
			r, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return code, who, body, nil
			}
			if err != nil {
				return 0, "", "", err
			}
			code = max(code, r.GetStatus())
			for _, hd := range r.GetHeaders() {
				if hd.GetName() == "X-Who" {
					who = hd.GetValue()
				}
			}
			body += string(r.GetBody())
		}
	}
	for _, uid := range []uint32{1000, 0} { // root in the job is its user outside
		code, who, body, err := ask(run, uid)
		if err != nil || code != 418 || who != "alice" || body != "spot-1 yes" {
			t.Errorf("uid %d: %d %q %q %v", uid, code, who, body, err)
		}
	}
	if _, _, _, err := ask(run, 1001); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another uid: %v", err)
	}
	if _, _, _, err := ask(job.Attempt{Job: run.Job, Restart: 1}, 1000); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another attempt: %v", err)
	}
}
