package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// memory is a journal in memory; fail makes the next commit fail.
type memory struct {
	mu   sync.Mutex
	jobs map[uint32]*job.Job
	runs map[job.Attempt]*job.Run
	node map[string]*node.Node
	inst map[string]*node.Instance
	next uint32
	log  []store.Event
	idem []store.IdempotencyKey
	acct []assoc.Row
	txns []assoc.Txn
	fail error
}

func newMemory() *memory {
	return &memory{
		jobs: map[uint32]*job.Job{}, runs: map[job.Attempt]*job.Run{},
		node: map[string]*node.Node{}, inst: map[string]*node.Instance{},
	}
}

func (m *memory) Load(context.Context) (*store.Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &store.Loaded{ClusterUUID: "cafe", Epoch: 1, NextJobID: m.next, Idempotency: m.idem, Records: m.acct}
	for _, j := range m.jobs {
		l.Jobs = append(l.Jobs, j)
	}
	for _, n := range m.node {
		l.Nodes = append(l.Nodes, n)
	}
	for _, i := range m.inst {
		l.Instances = append(l.Instances, i)
	}
	return l, nil
}

func (m *memory) Commit(_ context.Context, b *store.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.acct, m.txns = append(m.acct, b.Records...), append(m.txns, b.Txns...)
	for _, j := range b.Jobs {
		m.jobs[j.ID.Raw] = j
	}
	for _, r := range b.Runs {
		m.runs[r.Attempt] = r
	}
	for _, n := range b.Nodes {
		m.node[n.Name] = n
	}
	for _, i := range b.Instances {
		m.inst[i.Tag] = i
	}
	for _, id := range b.Forget {
		delete(m.jobs, id)
	}
	if b.NextJobID != 0 {
		m.next = b.NextJobID
	}
	m.log = append(m.log, b.Events...)
	m.idem = append(m.idem, b.Idempotency...)
	return nil
}

func (m *memory) Blob(context.Context, string) ([]byte, error) { return nil, store.ErrNotFound }
func (m *memory) Jobs(context.Context, store.JobQuery) ([]store.JobRecord, error) {
	return nil, nil
}
func (m *memory) Instances(context.Context, []string) ([]*node.Instance, error) { return nil, nil }
func (m *memory) Events(context.Context, uint64, int) ([]store.Event, error)    { return m.log, nil }
func (m *memory) Transactions(context.Context, store.TxnQuery) ([]assoc.Txn, error) {
	return m.txns, nil
}
func (m *memory) Close() error { return nil }

// runOf reads an attempt's row.
func (m *memory) runOf(a job.Attempt) *job.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[a]
}

// story is every event so far.
func (m *memory) story() []store.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// house is a queue with its scheduler, on a config with one local pool.
type house struct {
	*queue.Queue
	t *testing.T
	m *memory
}

const slurmConf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/tmp/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
ResumeTimeout=60
SuspendTime=300
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:fake:2 Capacity=spot MaxNodes=2 Runtime=process Workdir=shared
PartitionName=main Pools=spot Default=YES MaxTime=60 DefaultTime=10
PartitionName=off Pools=spot State=INACTIVE
`

func newHouse(t *testing.T, m *memory) *house {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(slurmConf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), cfg, m, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{q.Run, q.Schedule} {
		wg.Go(func() {
			if err := run(ctx); err != nil && m.fail == nil {
				t.Errorf("owner stopped: %v", err)
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return &house{q, t, m}
}

var (
	alice = auth.Identity{User: "alice", UID: 1000, GID: 1000, Groups: []uint32{1000}, Role: auth.User}
	bob   = auth.Identity{User: "bob", UID: 1001, GID: 1001, Role: auth.User}
)

func submission() queue.Submission {
	return queue.Submission{
		Spec:   &job.Spec{Name: "a", WorkDir: "/tmp", NodesMin: 1, Tasks: 1, CPUsPerTask: 1, Requeue: true},
		Script: []byte("#!/bin/sh\ntrue\n"), Env: []byte("PATH=/bin\x00"),
	}
}

func (h *house) submit(in queue.Submission) uint32 {
	h.t.Helper()
	out, err := h.Submit(h.t.Context(), alice, in)
	if err != nil {
		h.t.Fatal(err)
	}
	return out.ID.Raw
}

// until waits for a job to satisfy what.
func (h *house) until(id uint32, what string, ok func(*job.Job) bool) *job.Job {
	h.t.Helper()
	changed, stop := h.Watch()
	defer stop()
	deadline := time.After(5 * time.Second)
	for {
		j, _ := h.Snapshot().Job(id)
		if j != nil && ok(j) {
			return j
		}
		select {
		case <-changed:
		case <-deadline:
			h.t.Fatalf("job %d never was %s: %+v run %+v", id, what, j, j.Run)
		}
	}
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// boot brings up the machine behind a node that powers up.
func (h *house) boot(name string) string {
	h.t.Helper()
	n, _ := h.Snapshot().Node(name)
	tag := "cafe-" + name + "-" + string(rune('0'+n.Incarnation))
	ok, err := h.Intend(h.t.Context(), node.Instance{Tag: tag, Node: name, Pool: "spot", Incarnation: n.Incarnation})
	if err != nil || !ok {
		h.t.Fatalf("intend %s: %v %v", name, ok, err)
	}
	h.must(h.Learn(h.t.Context(), tag, func(i *node.Instance) { i.State, i.ProviderID = node.Created, "x" }))
	h.must(h.NodeUp(h.t.Context(), node.Registration{Node: name, Tag: tag}))
	return tag
}

func allocated(j *job.Job) bool { return j.State == job.Running }

func (h *house) run(id uint32) job.Attempt {
	h.t.Helper()
	j := h.until(id, "allocated", allocated)
	n, _ := h.Snapshot().Node(j.Run.Nodes[0].Node)
	if n.Flags.Has(node.PoweringUp) && n.Instance == "" {
		h.boot(n.Name)
	}
	if ok, err := h.Ordered(h.t.Context(), j.Attempt(), nil); err != nil || !ok {
		h.t.Fatalf("ordered: %v %v", ok, err)
	}
	h.must(h.Started(h.t.Context(), j.Attempt(), "", "", 0))
	return j.Attempt()
}

func TestJobRunsToItsEnd(t *testing.T) {
	h := newHouse(t, newMemory())
	id := h.submit(submission())
	a := h.run(id)
	h.must(h.Ended(t.Context(), a, job.Exit{Code: job.ExitCode{Status: 3}}))
	h.until(id, "completing", func(j *job.Job) bool { return j.Flags.Has(job.Completing) && j.State == job.Failed })
	h.must(h.Finished(t.Context(), a))
	j := h.until(id, "failed", func(j *job.Job) bool { return j.State == job.Failed && j.Flags == 0 })
	if j.ExitCode.String() != "3:0" || j.Reason != job.ReasonNonZeroExit {
		t.Errorf("exit %s reason %s", j.ExitCode, j.Reason)
	}
	n, _ := h.Snapshot().Node("spot-1")
	if n.UsedCPUs != 0 || len(n.Jobs) != 0 || n.Base() != node.Idle {
		t.Errorf("node still used: %+v", n)
	}
}

func TestReclaimRequeuesUnderTheSameID(t *testing.T) {
	h := newHouse(t, newMemory())
	id := h.submit(submission())
	a := h.run(id)
	soon := time.Now().Add(10 * time.Second).Round(0)
	for _, at := range []time.Time{soon.Add(time.Minute), soon, soon.Add(time.Second)} { // the earliest counts
		h.must(h.NodeNotice(t.Context(), "spot-1", at))
	}
	if n, _ := h.Snapshot().Node("spot-1"); !n.ReclaimAt.Equal(soon) {
		t.Errorf("reclaimed at %s, want %s", n.ReclaimAt, soon)
	}
	if j, _ := h.Snapshot().Job(id); !j.Run.Notice.Equal(soon) {
		t.Errorf("the job's notice is for %s, want %s", j.Run.Notice, soon)
	}
	h.must(h.Checkpointed(t.Context(), a, job.Checkpoint{Number: 1, Bytes: 10}))
	// An exit 0 after the notice still counts as preempted.
	h.must(h.Ended(t.Context(), a, job.Exit{Reason: job.ExitReclaimed}))
	h.must(h.Finished(t.Context(), a))
	j := h.until(id, "on another node", func(j *job.Job) bool { return j.Restarts == 1 && j.State == job.Running })
	if got := j.Run.Nodes[0].Node; got != "spot-2" {
		t.Errorf("second attempt on %s, want spot-2", got)
	}
	if j.Checkpoint.Number != 1 {
		t.Errorf("checkpoint %d", j.Checkpoint.Number)
	}
	if r := h.m.runOf(a); r.State != job.Preempted || r.Saved.Number != 1 {
		t.Errorf("first attempt recorded as %+v", r)
	}
	if ok, err := h.Ordered(t.Context(), a, nil); err != nil || ok {
		t.Error("the old attempt may still be ordered")
	}
}

func TestDeadNodeRequeues(t *testing.T) {
	h := newHouse(t, newMemory())
	id := h.submit(submission())
	a := h.run(id)
	n, _ := h.Snapshot().Node("spot-1")
	h.must(h.InstanceGone(t.Context(), n.Instance, "vanished"))
	j := h.until(id, "restarted", func(j *job.Job) bool { return j.Restarts == 1 && j.State == job.Running })
	if h.m.runOf(a).State != job.NodeFail {
		t.Errorf("attempt recorded as %s", h.m.runOf(a).State)
	}
	_ = j
	n, _ = h.Snapshot().Node("spot-1")
	if n.Instance != "" && n.Incarnation < 2 {
		t.Errorf("node kept its dead machine: %+v", n)
	}
}

func TestNoRequeueEndsNodeFail(t *testing.T) {
	h := newHouse(t, newMemory())
	in := submission()
	in.Spec.Requeue = false
	id := h.submit(in)
	h.run(id)
	n, _ := h.Snapshot().Node("spot-1")
	h.must(h.InstanceGone(t.Context(), n.Instance, "vanished"))
	j := h.until(id, "NODE_FAIL", func(j *job.Job) bool { return j.State == job.NodeFail && j.Flags == 0 })
	if j.ExitCode.String() != "1:0" { // O-33
		t.Errorf("exit code %s", j.ExitCode)
	}
}

func TestNoCapacityGoesBackToTheQueue(t *testing.T) {
	h := newHouse(t, newMemory())
	id := h.submit(submission())
	j := h.until(id, "allocated", allocated)
	h.must(h.MarkPool(t.Context(), "spot", time.Now().Add(time.Hour), "no capacity"))
	h.must(h.NotRented(t.Context(), j.Run.Nodes[0].Node, 1, "no capacity"))
	j = h.until(id, "waiting for the pool", func(j *job.Job) bool {
		return j.State == job.Pending && j.Reason == job.ReasonResources && j.Detail != ""
	})
	if j.Detail != "pool spot: no capacity" {
		t.Errorf("detail %q", j.Detail)
	}
	if j.Reclaims != 0 {
		t.Errorf("counted as %d reclaims", j.Reclaims)
	}
}

func TestCancel(t *testing.T) {
	h := newHouse(t, newMemory())
	held := submission()
	held.Hold = true
	id := h.submit(held)
	if err := h.Cancel(t.Context(), bob, job.RefTo(id), 0, false); !errors.Is(err, errno.AccessDenied) {
		t.Errorf("bob cancels alice's job: %v", err)
	}
	h.must(h.Cancel(t.Context(), alice, job.RefTo(id), 0, false))
	h.until(id, "cancelled", func(j *job.Job) bool { return j.State == job.Cancelled })
	if err := h.Cancel(t.Context(), alice, job.RefTo(id), 0, false); !errors.Is(err, errno.AlreadyDone) {
		t.Errorf("again: %v", err)
	}

	id = h.submit(submission())
	a := h.run(id)
	h.must(h.Cancel(t.Context(), alice, job.RefTo(id), 0, false))
	j := h.until(id, "cancelling", func(j *job.Job) bool { return j.State == job.Cancelled })
	if !j.Flags.Has(job.Completing | job.Stopping) {
		t.Errorf("flags %v", j.Flags.Names())
	}
	h.must(h.Ended(t.Context(), a, job.Exit{Code: job.ExitCode{Signal: 15}, Reason: job.ExitKilled}))
	h.must(h.Finished(t.Context(), a))
	j = h.until(id, "gone", func(j *job.Job) bool { return j.Flags == 0 })
	if j.State != job.Cancelled || j.ExitCode.String() != "0:15" || j.Run.ExitCode.String() != "0:15" {
		t.Errorf("%s %s, its script %s", j.State, j.ExitCode, j.Run.ExitCode)
	}
	denied := 0
	for _, e := range h.m.story() {
		if e.Kind == "Denied" && e.Actor == "bob" {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("%d denials in the story, want 1", denied)
	}
}

func TestRefusals(t *testing.T) {
	h := newHouse(t, newMemory())
	for _, c := range []struct {
		name string
		edit func(*queue.Submission)
		want errno.Errno
	}{
		{"unknown partition", func(s *queue.Submission) { s.Spec.Partitions = "nope" }, errno.InvalidPartition},
		{"inactive partition", func(s *queue.Submission) { s.Spec.Partitions = "off" }, errno.PartitionNotAvail},
		{"more GPUs than any node has", func(s *queue.Submission) { s.Spec.TRESPerNode = "gres/gpu:3" }, errno.RequestedNodeConfigUnavailable},
		{"unknown gres", func(s *queue.Submission) { s.Spec.TRESPerNode = "gres/npu:1" }, errno.InvalidGRES},
		{"too many CPUs", func(s *queue.Submission) { s.Spec.CPUsPerTask = 5 }, errno.RequestedNodeConfigUnavailable},
		{"too many nodes", func(s *queue.Submission) { s.Spec.NodesMin = 3 }, errno.RequestedNodeConfigUnavailable},
		{"unknown feature", func(s *queue.Submission) { s.Spec.Constraint = "fpga" }, errno.InvalidFeature},
		{"unpinned image", func(s *queue.Submission) { s.Spec.Image = "docker.io/library/alpine:latest" }, errno.InvalidContainerID},
		{"unknown dependency", func(s *queue.Submission) { s.Spec.Dependency = "afterok:999" }, errno.Dependency},
		{"negative nice of a user", func(s *queue.Submission) { s.Spec.Nice = -5 }, errno.InvalidNice},
		{"unknown reservation", func(s *queue.Submission) { s.Spec.Reservation = "maint" }, errno.ReservationInvalid},
		{"unknown licence", func(s *queue.Submission) { s.Spec.Licenses = "matlab" }, errno.InvalidLicenses},
		{"unknown excluded node", func(s *queue.Submission) { s.Spec.ExcNodes = "n[1-3]" }, errno.InvalidNodeName},
		{"no script", func(s *queue.Submission) { s.Script = nil }, errno.JobScriptMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := h.Snapshot().JobCount()
			in := submission()
			spec := *in.Spec
			in.Spec = &spec
			c.edit(&in)
			if _, err := h.Submit(t.Context(), alice, in); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if h.Snapshot().JobCount() != before {
				t.Error("a refused job is in the queue")
			}
		})
	}
}

func TestRetriedSubmitIsOneJob(t *testing.T) {
	m := newMemory()
	h := newHouse(t, m)
	in := submission()
	in.Hold, in.IdempotencyKey = true, "k1"
	first, second := h.submit(in), h.submit(in)
	if first != second || h.Snapshot().JobCount() != 1 {
		t.Errorf("ids %d and %d, %d jobs", first, second, h.Snapshot().JobCount())
	}
	again := newHouse(t, m)
	if third := again.submit(in); third != first {
		t.Errorf("after a restart the key answers %d, want %d", third, first)
	}
}

func TestFailedCommitAnswersAndStops(t *testing.T) {
	m := newMemory()
	h := newHouse(t, m)
	m.mu.Lock()
	m.fail = errors.New("disk full")
	m.mu.Unlock()
	if _, err := h.Submit(t.Context(), alice, submission()); err == nil {
		t.Fatal("an uncommitted job was accepted")
	}
	if h.Snapshot().JobCount() != 0 {
		t.Error("memory is ahead of disk")
	}
}

func TestIDsAreNeverReused(t *testing.T) {
	m := newMemory()
	h := newHouse(t, m)
	id := h.submit(submission())
	m.mu.Lock()
	delete(m.jobs, id) // purged
	m.mu.Unlock()
	again := newHouse(t, m)
	if next := again.submit(submission()); next <= id {
		t.Errorf("id %d after %d", next, id)
	}
}
