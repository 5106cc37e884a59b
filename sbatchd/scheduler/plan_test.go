package scheduler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const conf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/tmp/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:a:2,gpu:b:1 Capacity=spot MaxNodes=2 Runtime=process Workdir=shared Feature=fast
PoolName=big Provider=here CPUs=16 RealMemory=64000 Capacity=ondemand MaxNodes=1 Runtime=process Workdir=shared Feature=slow
PartitionName=main Pools=spot,big Default=YES MaxTime=60 DefaultTime=10
PartitionName=small Pools=spot MaxTime=60
PartitionName=down Pools=spot State=DOWN
`

type world struct {
	t *testing.T
	*state.State
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Restore(state.New(cfg, "cafe", 1), 1, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, s}
}

func (w *world) apply(events ...state.Event) {
	w.t.Helper()
	for _, e := range events {
		next, _, err := state.Apply(w.State, e)
		if err != nil {
			w.t.Fatal(err)
		}
		w.State = next
	}
}

func (w *world) submit(edit func(*job.Spec)) uint32 {
	w.t.Helper()
	s := &job.Spec{Partitions: "main", NodesMin: 1, Tasks: 1, CPUsPerTask: 1, TimeLimit: 10, Requeue: true}
	if edit != nil {
		edit(s)
	}
	id := w.NextJobID
	depends, err := scheduler.ReadDepends(w.State, s.Dependency, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(state.JobSubmitted{Job: &job.Job{
		ID: job.NewID(id), Spec: s, Depends: depends, Partition: strings.Split(s.Partitions, ",")[0], Priority: 1, Submit: t0, Begin: s.Begin, UID: 1000,
	}})
	return id
}

// pass plans once and applies it; it returns where each job went.
func (w *world) pass() map[uint32]string {
	w.t.Helper()
	d := scheduler.Plan(w.State, t0)
	out := map[uint32]string{}
	for _, s := range d.Starts {
		var at []string
		for _, a := range s.Nodes {
			at = append(at, a.Node)
			if n, _ := w.Node(a.Node); n.Instance == "" && n.Incarnation == 0 {
				w.apply(state.NodeResuming{Name: a.Node, Incarnation: 1, At: t0, By: t0.Add(time.Minute)})
			}
		}
		out[s.Job] = strings.Join(at, "+")
		w.apply(state.JobAllocated{ID: s.Job, Partition: s.Partition, Nodes: s.Nodes, At: t0})
	}
	for _, r := range d.Reasons {
		w.apply(state.JobReasoned{ID: r.Job, Reason: r.Reason, Detail: r.Detail})
		out[r.Job] = "(" + r.Reason.String() + ")"
	}
	return out
}

func TestPlan(t *testing.T) {
	cpus := func(n int) func(*job.Spec) { return func(s *job.Spec) { s.CPUsPerTask = n } }
	for _, c := range []struct {
		name string
		jobs []func(*job.Spec)
		want map[uint32]string
	}{
		{
			"first pool first, a node is shared",
			[]func(*job.Spec){cpus(2), cpus(2), cpus(1)},
			map[uint32]string{1: "spot-1", 2: "spot-1", 3: "spot-2"},
		},
		{"too big for the first pool", []func(*job.Spec){cpus(8)}, map[uint32]string{1: "big-1"}},
		{"gres type", []func(*job.Spec){
			func(s *job.Spec) { s.TRESPerNode = "gres/gpu:b:1" },
			func(s *job.Spec) { s.TRESPerNode = "gres/gpu:b:1" },
			func(s *job.Spec) { s.TRESPerNode = "gres/gpu:b:1" },
		}, map[uint32]string{1: "spot-1", 2: "spot-2", 3: "(Resources)"}},
		{"gang: all nodes or none", []func(*job.Spec){
			func(s *job.Spec) { s.NodesMin, s.NodesMax, s.CPUsPerTask, s.Constraint = 2, 2, 4, "fast" },
		}, map[uint32]string{1: "spot-1+spot-2"}},
		{"gang waits", []func(*job.Spec){
			func(s *job.Spec) { s.Constraint = "fast"; s.Exclusive = true },
			func(s *job.Spec) { s.NodesMin, s.NodesMax, s.Constraint = 2, 2, "fast" },
		}, map[uint32]string{1: "spot-1", 2: "(Resources)"}},
		{"feature", []func(*job.Spec){func(s *job.Spec) { s.Constraint = "slow|nothing" }}, map[uint32]string{1: "big-1"}},
		{"memory", []func(*job.Spec){func(s *job.Spec) { s.MemPerNode, s.MemSet = 5000, true }}, map[uint32]string{1: "big-1"}},
		{"begin time", []func(*job.Spec){func(s *job.Spec) { s.Begin = t0.Add(time.Hour) }}, map[uint32]string{1: "(BeginTime)"}},
		{"partition down", []func(*job.Spec){func(s *job.Spec) { s.Partitions = "down" }}, map[uint32]string{1: "(PartitionDown)"}},
		{"time limit over the partition's", []func(*job.Spec){func(s *job.Spec) { s.TimeLimit = 61 }}, map[uint32]string{1: "(PartitionTimeLimit)"}},
		{"second partition takes it", []func(*job.Spec){func(s *job.Spec) { s.Partitions, s.CPUsPerTask = "small,main", 8 }}, map[uint32]string{1: "big-1"}},
		{"short job backfills, long one does not", []func(*job.Spec){
			func(s *job.Spec) { s.Partitions, s.CPUsPerTask, s.Tasks, s.TasksSet = "small", 4, 1, true },
			func(s *job.Spec) { s.Partitions, s.NodesMin, s.NodesMax, s.CPUsPerTask = "small", 2, 2, 4 },
			func(s *job.Spec) { s.Partitions, s.TimeLimit = "small", 60 },
			func(s *job.Spec) { s.Partitions, s.TimeLimit = "small", 5 },
		}, map[uint32]string{1: "spot-1", 2: "(Resources)", 3: "(Priority)", 4: "spot-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, edit := range c.jobs {
				w.submit(edit)
			}
			if d := cmp.Diff(c.want, w.pass()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPriorityThenSubmitOrder(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.submit(func(s *job.Spec) { s.Partitions, s.NodesMin, s.NodesMax, s.Exclusive = "small", 2, 2, true })
	}
	high := uint32(9)
	w.apply(state.JobUpdated{ID: 3, Priority: &high})
	if got := w.pass(); got[3] != "spot-1+spot-2" || got[1] != "(Resources)" || got[2] != "(Priority)" {
		t.Errorf("%v", got)
	}
}

func TestDependencies(t *testing.T) {
	for _, c := range []struct {
		name, dep string
		first     job.State
		exit      job.ExitCode
		want      string
	}{
		{"afterok of a success", "afterok:1", job.Completed, job.ExitCode{}, "spot-1"},
		{"afterok of a failure", "afterok:1", job.Failed, job.ExitCode{Status: 1}, "(DependencyNeverSatisfied)"},
		{"afternotok of a failure", "afternotok:1", job.Failed, job.ExitCode{Status: 1}, "spot-1"},
		{"afterany of a failure", "afterany:1", job.Failed, job.ExitCode{Status: 1}, "spot-1"},
		{"any of two", "afterok:1?afternotok:1", job.Failed, job.ExitCode{Status: 1}, "spot-1"},
		{"all of two", "afterok:1,afternotok:1", job.Failed, job.ExitCode{Status: 1}, "(DependencyNeverSatisfied)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			first := w.submit(nil)
			second := w.submit(func(s *job.Spec) { s.Dependency = c.dep })
			if got := w.pass(); got[first] != "spot-1" {
				t.Fatalf("%v", got)
			}
			a := job.Attempt{Job: first}
			w.apply(state.JobEnded{Attempt: a, At: t0, State: c.first, ExitCode: c.exit}, state.JobCleared{Attempt: a, At: t0})
			if got := w.pass(); got[second] != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestPoolSetAsideIsPassedOver(t *testing.T) {
	w := newWorld(t)
	w.apply(state.PoolMarked{Pool: "spot", Status: state.PoolStatus{Until: t0.Add(time.Minute), Why: "no capacity"}})
	w.submit(nil)
	w.submit(func(s *job.Spec) { s.Partitions = "small" })
	if got := w.pass(); got[1] != "big-1" || got[2] != "(Resources)" {
		t.Errorf("%v", got)
	}
	j, _ := w.Job(2)
	if j.Detail != "pool spot: no capacity" {
		t.Errorf("detail %q", j.Detail)
	}
}
