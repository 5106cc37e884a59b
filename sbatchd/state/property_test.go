package state_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

const conf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/tmp/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:a:2 Capacity=spot MaxNodes=3 Runtime=process Workdir=shared
PartitionName=main Pools=spot Default=YES
`

func config(t *testing.T) *partitions.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// random draws the next event that might happen, legal or not.
func random(t *rapid.T, s *state.State, now time.Time) []state.Event {
	var ids []uint32
	for j := range s.Jobs() {
		ids = append(ids, j.ID.Raw)
	}
	attempt := func() job.Attempt {
		if len(ids) == 0 {
			return job.Attempt{}
		}
		id := rapid.SampledFrom(ids).Draw(t, "job")
		j, _ := s.Job(id)
		return job.Attempt{Job: id, Restart: uint32(max(0, int(j.Restarts)-rapid.IntRange(0, 1).Draw(t, "older")))}
	}
	final := rapid.SampledFrom([]job.State{job.Completed, job.Failed, job.Timeout, job.NodeFail, job.Preempted})
	switch rapid.IntRange(0, 8).Draw(t, "event") {
	case 0, 1:
		spec := &job.Spec{
			Partitions: "main", NodesMin: rapid.IntRange(1, 2).Draw(t, "nodes"), Tasks: 1,
			CPUsPerTask: rapid.IntRange(1, 4).Draw(t, "cpus"), TimeLimit: 10, Requeue: true,
		}
		if rapid.Bool().Draw(t, "gpu") {
			spec.TRESPerNode = "gres/gpu:1"
		}
		return []state.Event{state.JobSubmitted{Job: &job.Job{ID: job.NewID(s.NextJobID), Spec: spec, Partition: "main", Priority: 1}}}
	case 2, 3:
		var out []state.Event
		for _, st := range scheduler.Plan(s, now).Starts {
			for _, a := range st.Nodes {
				if n, _ := s.Node(a.Node); n.Flags.Has(node.PoweredDown) {
					out = append(out, state.NodeResuming{Name: a.Node, Incarnation: n.Incarnation + 1, At: now, By: now.Add(time.Minute)})
				}
			}
			out = append(out, state.JobAllocated{ID: st.Job, Partition: st.Partition, Nodes: st.Nodes, At: now})
		}
		return out
	case 4:
		return []state.Event{state.JobStarted{Attempt: attempt(), At: now}}
	case 5:
		return []state.Event{state.JobEnded{Attempt: attempt(), At: now, State: final.Draw(t, "final"), Requeue: rapid.Bool().Draw(t, "requeue")}}
	case 6:
		return []state.Event{state.JobCleared{Attempt: attempt(), At: now, Begin: now}}
	case 7:
		return []state.Event{state.JobStopping{Attempt: attempt(), Stop: job.Stop{Why: job.StopCancel, Final: job.Cancelled, At: now, Requeue: rapid.Bool().Draw(t, "back")}}}
	default:
		return []state.Event{state.CheckpointSaved{Attempt: attempt(), Checkpoint: job.Checkpoint{Number: uint32(rapid.IntRange(1, 9).Draw(t, "number"))}}}
	}
}

// invariants hold after every event.
func invariants(t *rapid.T, s *state.State, submitted int, restarts map[uint32]uint32) {
	if s.JobCount() != submitted {
		t.Fatalf("%d jobs of %d", s.JobCount(), submitted)
	}
	type used struct {
		cpus int
		mem  int64
		gpus map[int]uint32
	}
	use := map[string]*used{}
	for j := range s.Jobs() {
		if j.Restarts < restarts[j.ID.Raw] {
			t.Fatalf("job %d went back to restart %d", j.ID.Raw, j.Restarts)
		}
		restarts[j.ID.Raw] = j.Restarts
		if !j.Active() {
			continue
		}
		if j.Run == nil || j.Run.Restart != j.Restarts {
			t.Fatalf("job %d is active without its run", j.ID.Raw)
		}
		for _, a := range j.Run.Nodes {
			u := use[a.Node]
			if u == nil {
				u = &used{gpus: map[int]uint32{}}
				use[a.Node] = u
			}
			u.cpus += a.CPUs
			u.mem += a.MemoryMiB
			for _, d := range a.Gres["gpu"] {
				if other, taken := u.gpus[d]; taken {
					t.Fatalf("gpu %d of %s is job %d's and job %d's", d, a.Node, other, j.ID.Raw)
				}
				u.gpus[d] = j.ID.Raw
			}
		}
	}
	for n := range s.Nodes() {
		u := use[n.Name]
		if u == nil {
			u = &used{}
		}
		if u.cpus != n.UsedCPUs || u.mem != n.UsedMiB {
			t.Fatalf("node %s counts %d CPUs %d MiB, its jobs hold %d and %d", n.Name, n.UsedCPUs, n.UsedMiB, u.cpus, u.mem)
		}
		if n.UsedCPUs > n.CPUs || n.UsedMiB > n.MemoryMiB {
			t.Fatalf("node %s is oversubscribed", n.Name)
		}
	}
}

func rows(t *rapid.T, s *state.State) (jobs []*job.Job, nodes []*node.Node) {
	for j := range s.Jobs() {
		data, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		c := &job.Job{}
		if err := json.Unmarshal(data, c); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, c)
	}
	for n := range s.Nodes() {
		data, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		c := &node.Node{}
		if err := json.Unmarshal(data, c); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, c)
	}
	return jobs, nodes
}

// TestAnyHistory: whatever happens in whatever order, nothing is lost or
// oversubscribed, and rows alone bring the same state back.
func TestAnyHistory(t *testing.T) {
	cfg := config(t)
	rapid.Check(t, func(t *rapid.T) {
		s, err := state.Restore(state.New(cfg, "cafe", 1), 1, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		restarts := map[uint32]uint32{}
		submitted := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Second)
			for _, e := range random(t, s, now) {
				next, _, err := state.Apply(s, e)
				if err != nil {
					if next != s {
						t.Fatal("a refused event changed the state")
					}
					continue
				}
				if _, ok := e.(state.JobSubmitted); ok {
					submitted++
				}
				s = next
				invariants(t, s, submitted, restarts)
			}
		}
		jobs, nodes := rows(t, s)
		again, err := state.Restore(state.New(cfg, "cafe", 2), s.NextJobID, jobs, nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		invariants(t, again, submitted, restarts)
		for n := range s.Nodes() {
			m, _ := again.Node(n.Name)
			if !slices.Equal(n.Jobs, m.Jobs) || n.UsedCPUs != m.UsedCPUs {
				t.Fatalf("node %s after reload: %v, was %v", n.Name, m.Jobs, n.Jobs)
			}
		}
	})
}
