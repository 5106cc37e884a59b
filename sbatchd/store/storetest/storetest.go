// Package storetest is the conformance suite of store.Journal: every
// implementation runs all of it.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// Maker prepares empty storage and returns a function that opens it, each time
// as another controller would. The suite closes what it opened.
type Maker func(t *testing.T) (open func() (store.Journal, error))

// Run checks an implementation.
func Run(t *testing.T, make Maker) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open func() store.Journal)
	}{
		{"empty", empty},
		{"everything comes back", comesBack},
		{"rows are replaced", replaced},
		{"forgotten jobs stay for accounting", forgotten},
		{"ids never go back", idsNeverGoBack},
		{"only the leader commits", onlyTheLeader},
		{"a batch is whole or nothing", whole},
		{"events", events},
		{"jobs are found", found},
		{"states in a window", window},
		{"ledger", ledger},
		{"content", content},
		{"large batch", large},
		{"records of accounting", records},
	} {
		t.Run(c.name, func(t *testing.T) {
			opener := make(t)
			var opened []store.Journal
			t.Cleanup(func() {
				for _, j := range opened {
					if err := j.Close(); err != nil {
						t.Error(err)
					}
				}
			})
			c.test(t, func() store.Journal {
				t.Helper()
				j, err := opener()
				if err != nil {
					t.Fatal(err)
				}
				opened = append(opened, j)
				return j
			})
		})
	}
}

var (
	ctx  = context.Background()
	noon = time.Date(2026, 8, 1, 12, 0, 0, 5, time.UTC)
)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func load(t *testing.T, j store.Journal) *store.Loaded {
	t.Helper()
	l, err := j.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func commit(t *testing.T, j store.Journal, b *store.Batch) {
	t.Helper()
	if err := j.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// newJob is a pending job of user u<uid>.
func newJob(id, uid uint32) *job.Job {
	return &job.Job{
		ID: job.NewID(id), UID: uid, GID: uid, User: fmt.Sprintf("u%d", uid), Account: "lab",
		Spec:      &job.Spec{Name: "train", Partitions: "gpu", WorkDir: "/home/x", ScriptHash: "abc", Nice: -1, TimeLimit: job.NoLimit},
		Partition: "gpu", Priority: 100, Submit: at(0),
	}
}

func ran(j *job.Job, state job.State, start, end int) *job.Run {
	r := &job.Run{
		Attempt: j.Attempt(), Partition: j.Partition, State: state,
		Nodes: []job.NodeAlloc{{Node: fmt.Sprintf("gpu-%d", j.ID.Raw), CPUs: 2, Gres: map[string][]int{"gpu": {0, 1}}}},
		Hosts: []job.Host{{Node: "gpu-1", PriceMicros: 1_500_000, Currency: "USD"}},
		Alloc: at(start), Start: at(start),
	}
	if end > 0 {
		r.Ended = at(end)
	}
	return r
}

func empty(t *testing.T, open func() store.Journal) {
	a := load(t, open())
	if a.ClusterUUID == "" || a.Epoch == 0 || a.NextJobID != 0 || len(a.Jobs)+len(a.Nodes)+len(a.Instances)+len(a.Idempotency) != 0 {
		t.Errorf("first load: %+v", a)
	}
	b := load(t, open())
	if b.ClusterUUID != a.ClusterUUID {
		t.Errorf("cluster was %s, is %s", a.ClusterUUID, b.ClusterUUID)
	}
	if b.Epoch <= a.Epoch {
		t.Errorf("epoch was %d, is %d", a.Epoch, b.Epoch)
	}
}

func comesBack(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	j1, j2 := newJob(1, 1000), newJob(2, 1001)
	j2.State, j2.Start, j2.End = job.Running, at(1), at(61)
	j2.Run = ran(j2, job.Running, 1, 0)
	j2.Stop = &job.Stop{Why: job.StopCancel, Final: job.Cancelled, At: at(2), By: 7}
	// An array whose first task left it, and waits for two others.
	tasks, array, err := job.NewArray("1-9:2,20%3", 1001)
	if err != nil {
		t.Fatal(err)
	}
	j1.ID.Array, j1.Array, j1.Tasks = 1, array, tasks.Without(1)
	j1.Depends = &job.Depends{Any: true, List: []job.Dep{
		{Type: job.DepOK, Job: 9, Task: job.NoTask, Array: true, Failed: true}, {Type: job.DepAfter, Job: 9, Task: 4, Delay: 5},
	}}
	n := &node.Node{Name: "gpu-1", Pool: "gpu", CPUs: 8, MemoryMiB: 1 << 40, Flags: node.Cloud, Gres: []node.Gres{{Name: "gpu", Type: "a100", Count: 2}}}
	i := &node.Instance{Tag: "t-gpu-1-1", Node: "gpu-1", State: node.Created, PriceMicros: 1 << 60, IntentAt: at(0)}
	k := store.IdempotencyKey{UID: 1000, Key: "k", Digest: "d", Job: 1, Warning: 2015, Time: at(0)}
	commit(t, s, &store.Batch{
		Events: []store.Event{{Time: at(0), Actor: "u1000", Kind: "JobSubmitted", Job: 1}},
		Jobs:   []*job.Job{j1, j2}, Runs: []*job.Run{j2.Run}, Nodes: []*node.Node{n}, Instances: []*node.Instance{i},
		NextJobID: 3, Idempotency: []store.IdempotencyKey{k},
	})
	l := load(t, open())
	same(t, "jobs", []*job.Job{j1, j2}, l.Jobs)
	same(t, "nodes", []*node.Node{n}, l.Nodes)
	same(t, "instances", []*node.Instance{i}, l.Instances)
	same(t, "idempotency", []store.IdempotencyKey{k}, l.Idempotency)
	same(t, "next id", uint32(3), l.NextJobID)
}

func replaced(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	j := newJob(1, 1000)
	commit(t, s, &store.Batch{Jobs: []*job.Job{j}, Nodes: []*node.Node{{Name: "a"}, {Name: "b"}}})
	second, third := j.Clone(), j.Clone()
	second.Comment, third.Comment = "second", "third"
	r1, r2 := ran(j, job.Running, 1, 0), ran(j, job.Completed, 1, 2)
	commit(t, s, &store.Batch{
		Jobs: []*job.Job{second, third}, Runs: []*job.Run{r1, r2},
		Nodes: []*node.Node{{Name: "a", Reason: "x"}, {Name: "a", Reason: "y"}}, DropNodes: []string{"b"},
	})
	l := load(t, open())
	same(t, "jobs", []*job.Job{third}, l.Jobs)
	same(t, "nodes", []*node.Node{{Name: "a", Reason: "y"}}, l.Nodes)
	recs, err := s.Jobs(ctx, store.JobQuery{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "records", []store.JobRecord{{Job: third, Runs: []*job.Run{r2}}}, recs)
}

func forgotten(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	j1, j2 := newJob(1, 1000), newJob(2, 1000)
	j1.State, j1.End = job.Completed, at(3)
	commit(t, s, &store.Batch{Jobs: []*job.Job{j1, j2}, NextJobID: 3})
	commit(t, s, &store.Batch{Forget: []uint32{1}})
	l := load(t, open())
	same(t, "live jobs", []*job.Job{j2}, l.Jobs)
	recs, err := s.Jobs(ctx, store.JobQuery{IDs: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "record", []store.JobRecord{{Job: j1}}, recs)
}

func idsNeverGoBack(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	commit(t, s, &store.Batch{Jobs: []*job.Job{newJob(41, 1)}, NextJobID: 42})
	commit(t, s, &store.Batch{Forget: []uint32{41}})
	same(t, "next id", uint32(42), load(t, open()).NextJobID)
}

func onlyTheLeader(t *testing.T, open func() store.Journal) {
	old := open()
	load(t, old)
	commit(t, old, &store.Batch{Jobs: []*job.Job{newJob(1, 1)}})
	leader := open()
	load(t, leader)
	if err := old.Commit(ctx, &store.Batch{Jobs: []*job.Job{newJob(2, 1)}}); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("commit without leadership: %v", err)
	}
	commit(t, leader, &store.Batch{Jobs: []*job.Job{newJob(3, 1)}})
	same(t, "jobs", []*job.Job{newJob(1, 1), newJob(3, 1)}, load(t, open()).Jobs)
}

func whole(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	bad := newJob(2, 1)
	bad.Submit = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) // has no JSON form
	err := s.Commit(ctx, &store.Batch{
		Events: []store.Event{{Time: at(0), Kind: "X"}},
		Jobs:   []*job.Job{newJob(1, 1), bad}, Blobs: []store.Blob{{Hash: "h", Data: []byte("x")}}, NextJobID: 3,
	})
	if err == nil {
		t.Fatal("committed")
	}
	l := load(t, open())
	if len(l.Jobs) != 0 || l.NextJobID != 0 {
		t.Errorf("part of a failed batch is there: %+v", l)
	}
	if ev, err := s.Events(ctx, 0, 10); err != nil || len(ev) != 0 {
		t.Errorf("events of a failed batch: %v %v", ev, err)
	}
	if _, err := s.Blob(ctx, "h"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("content of a failed batch: %v", err)
	}
}

func events(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	first := &store.Batch{Events: []store.Event{
		{Time: at(0), Actor: "alice", Kind: "JobSubmitted", Job: 1, Data: json.RawMessage(`{"a":1}`)},
		{Time: at(1), Actor: "<pool>", Kind: "NodeUp", Node: "gpu-1", Tag: "t"},
	}}
	commit(t, s, first)
	again := open()
	load(t, again)
	second := &store.Batch{Events: []store.Event{{Time: at(2), Actor: "root", Kind: "JobHeld", Job: 1}}}
	commit(t, again, second)
	if a, b, c := first.Events[0].Seq, first.Events[1].Seq, second.Events[0].Seq; a == 0 || b <= a || c <= b {
		t.Errorf("sequence %d, %d, %d", a, b, c)
	}
	got, err := s.Events(ctx, first.Events[1].Seq, 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "events", []store.Event{first.Events[1], second.Events[0]}, got)
	got, err = s.Events(ctx, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "limited events", first.Events[:1], got)
}

func ids(recs []store.JobRecord) []uint32 {
	out := []uint32{}
	for _, r := range recs {
		out = append(out, r.Job.ID.Raw)
	}
	return out
}

func found(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	var jobs []*job.Job
	var runs []*job.Run
	for id := uint32(1); id <= 6; id++ {
		j := newJob(id, 1000+id%2)
		if id == 6 {
			j.Partition, j.Account, j.Spec.Name = "cpu", "other", "eval"
		}
		jobs, runs = append(jobs, j), append(runs, ran(j, job.Running, 1, 0))
	}
	jobs[3].ID = job.ID{Raw: 4, Array: 3, Task: 1}
	again := ran(jobs[0], job.Completed, 5, 6)
	again.Restart = 1
	commit(t, s, &store.Batch{Jobs: jobs, Runs: append(runs, again)})
	for _, c := range []struct {
		name string
		q    store.JobQuery
		want []uint32
	}{
		{"all", store.JobQuery{}, []uint32{1, 2, 3, 4, 5, 6}},
		{"ids", store.JobQuery{IDs: []uint32{5, 2, 77}}, []uint32{2, 5}},
		{"arrays or ids", store.JobQuery{Arrays: []uint32{3}, IDs: []uint32{3}}, []uint32{3, 4}},
		{"uid", store.JobQuery{UIDs: []uint32{1001}}, []uint32{1, 3, 5}},
		{"user", store.JobQuery{Users: []string{"u1000"}}, []uint32{2, 4, 6}},
		{"partition", store.JobQuery{Partitions: []string{"cpu"}}, []uint32{6}},
		{"account", store.JobQuery{Accounts: []string{"other", "none"}}, []uint32{6}},
		{"name", store.JobQuery{Names: []string{"eval"}}, []uint32{6}},
		{"node", store.JobQuery{Nodes: []string{"gpu-3", "gpu-4"}}, []uint32{3, 4}},
		{"several", store.JobQuery{Users: []string{"u1001"}, Nodes: []string{"gpu-3", "gpu-4"}}, []uint32{3}},
		{"limit", store.JobQuery{Limit: 2}, []uint32{1, 2}},
		{"none", store.JobQuery{Users: []string{"'; DROP TABLE job; --"}}, []uint32{}},
	} {
		recs, err := s.Jobs(ctx, c.q)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, c.want, ids(recs))
	}
	recs, err := s.Jobs(ctx, store.JobQuery{IDs: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "attempts in order", []*job.Run{runs[0], again}, recs[0].Runs)
}

func window(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	// 1 ran from minute 10 to 20, 2 was cancelled at 15 without running, 3 runs
	// since 30, 4 waits, 5 was preempted (10 to 12), waited and completed (20 to 25).
	j := make([]*job.Job, 6)
	for id := range uint32(6) {
		j[id] = newJob(id, 1000)
	}
	j[1].State, j[1].Start, j[1].End = job.Completed, at(10), at(20)
	j[2].State, j[2].End = job.Cancelled, at(15)
	j[3].State, j[3].Start, j[3].End = job.Running, at(30), at(90)
	j[5].State, j[5].Start, j[5].End, j[5].Restarts = job.Completed, at(20), at(25), 1
	lost := ran(j[5], job.Preempted, 10, 12)
	lost.Restart = 0
	commit(t, s, &store.Batch{Jobs: j[1:], Runs: []*job.Run{
		ran(j[1], job.Completed, 10, 20), ran(j[3], job.Running, 30, 0), lost, ran(j[5], job.Completed, 20, 25),
	}})
	for _, c := range []struct {
		name         string
		since, until int
		states       []job.State
		want         []uint32
	}{
		{"existed late", 40, 50, nil, []uint32{3, 4}},
		{"existed in the middle", 16, 18, nil, []uint32{1, 3, 4, 5}},
		{"running", 11, 12, []job.State{job.Running}, []uint32{1, 5}},
		{"running now", 40, 50, []job.State{job.Running}, []uint32{3}},
		{"pending late", 40, 50, []job.State{job.Pending}, []uint32{4}},
		{"pending early", 1, 5, []job.State{job.Pending}, []uint32{1, 2, 3, 4, 5}},
		{"completed", 18, 22, []job.State{job.Completed}, []uint32{1}},
		{"preempted attempt", 1, 50, []job.State{job.Preempted}, []uint32{5}},
		{"either", 1, 50, []job.State{job.Completed, job.Cancelled}, []uint32{1, 2, 5}},
	} {
		recs, err := s.Jobs(ctx, store.JobQuery{Since: at(c.since), Until: at(c.until), States: c.states})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, c.want, ids(recs))
	}
}

func ledger(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	live := &node.Instance{Tag: "live", State: node.Created, IntentAt: at(0)}
	gone := &node.Instance{Tag: "gone", State: node.Gone, IntentAt: at(0), GoneAt: at(60)}
	old := &node.Instance{Tag: "old", State: node.Gone, IntentAt: at(-9000), GoneAt: at(-3000)}
	commit(t, s, &store.Batch{
		Events:    []store.Event{{Time: at(100), Kind: "X"}},
		Instances: []*node.Instance{live, gone, old},
		Idempotency: []store.IdempotencyKey{
			{UID: 1, Key: "old", Job: 1, Time: at(-3000)}, {UID: 1, Key: "new", Job: 2, Time: at(0)}, {UID: 2, Key: "new", Job: 3, Time: at(0)},
		},
	})
	l := load(t, open())
	same(t, "recent rows", []*node.Instance{gone, live}, l.Instances)
	same(t, "recent keys", []store.IdempotencyKey{{UID: 1, Key: "new", Job: 2, Time: at(0)}, {UID: 2, Key: "new", Job: 3, Time: at(0)}}, l.Idempotency)
	got, err := s.Instances(ctx, []string{"old", "live", "none"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "rows by tag", []*node.Instance{live, old}, got)
}

func content(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	for range 2 { // the second time it is there already
		commit(t, s, &store.Batch{Blobs: []store.Blob{{Hash: "a", Data: []byte("#!/bin/sh\x00\xff\n")}, {Hash: "none"}}})
	}
	for _, c := range []struct{ hash, want string }{{"a", "#!/bin/sh\x00\xff\n"}, {"none", ""}} {
		got, err := s.Blob(ctx, c.hash)
		if err != nil || string(got) != c.want {
			t.Errorf("content %s: %q %v, want %q", c.hash, got, err, c.want)
		}
	}
	if _, err := s.Blob(ctx, "missing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing content: %v", err)
	}
}

func large(t *testing.T, open func() store.Journal) {
	s := open()
	load(t, s)
	const n = 3000
	b := new(store.Batch)
	for id := uint32(1); id <= n; id++ {
		j := newJob(id, 1000)
		b.Jobs = append(b.Jobs, j)
		b.Runs = append(b.Runs, ran(j, job.Running, 1, 0))
		b.Events = append(b.Events, store.Event{Time: at(0), Kind: "JobSubmitted", Job: id})
	}
	b.NextJobID = n + 1
	commit(t, s, b)
	l := load(t, open())
	if len(l.Jobs) != n {
		t.Fatalf("%d jobs came back of %d", len(l.Jobs), n)
	}
	recs, err := s.Jobs(ctx, store.JobQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range recs {
		if r.Job.ID.Raw != uint32(i+1) || len(r.Runs) != 1 || r.Runs[0].Job != uint32(i+1) {
			t.Fatalf("record %d: job %d, %d runs", i, r.Job.ID.Raw, len(r.Runs))
		}
	}
	if ev, err := s.Events(ctx, 1, 2*n); err != nil || len(ev) != n {
		t.Errorf("%d events, %v, want %d", len(ev), err, n)
	}
}
