package queue_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
)

// longConf has every kind of node and short times.
const longConf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/tmp/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
ResumeTimeout=60
SuspendTime=300
SlurmdTimeout=60
FenceTimeout=600
MinJobAge=120
MaxBatchRequeue=2
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:fake:2 Capacity=spot MaxNodes=2 Runtime=process Workdir=shared
PoolName=other Provider=here CPUs=4 RealMemory=4000 Capacity=ondemand MaxNodes=1 Runtime=process Workdir=shared
NodeName=ws[1-2] CPUs=2 RealMemory=2000
PartitionName=main Pools=spot,other Default=YES MaxTime=60 DefaultTime=10
PartitionName=ws Nodes=ws[1-2] MaxTime=60 DefaultTime=10 Overflow=main
PartitionName=one Nodes=ws1 MaxTime=60 DefaultTime=10
`

// load reads a config from its text.
func load(t *testing.T, text string) *partitions.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// inBubble runs a queue with its scheduler on fake time.
func inBubble(t *testing.T, conf string, body func(h *house)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := openHouse(t, newMemory(), load(t, conf))
		body(h)
	})
}

// openHouse starts a queue on what m holds; stop ends it before the test does.
func openHouse(t *testing.T, m *memory, cfg *partitions.Config) (h *house, stop func()) {
	t.Helper()
	q, err := queue.Open(t.Context(), cfg, m, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{q.Run, q.Schedule} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("owner stopped: %v", err)
			}
		})
	}
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return &house{q, t, m}, stop
}

// pass lets time go by while the agents of the named nodes speak.
func (h *house) pass(d time.Duration, alive ...string) {
	h.t.Helper()
	for d > 0 {
		step := min(d, 10*time.Second)
		time.Sleep(step)
		d -= step
		for _, name := range alive {
			h.must(h.NodeSeen(h.t.Context(), name, 0, 0))
		}
	}
	synctest.Wait()
}

func (h *house) job(id uint32) *job.Job {
	h.t.Helper()
	synctest.Wait()
	j, ok := h.Snapshot().Job(id)
	if !ok {
		h.t.Fatalf("job %d is not in memory", id)
	}
	return j
}

func (h *house) node(name string) *node.Node {
	h.t.Helper()
	synctest.Wait()
	n, ok := h.Snapshot().Node(name)
	if !ok {
		h.t.Fatalf("node %s is unknown", name)
	}
	return n
}

// in is a submission with changes.
func in(edit func(*queue.Submission)) queue.Submission {
	s := submission()
	edit(&s)
	return s
}

// partition submits to one.
func partition(name string) func(*queue.Submission) {
	return func(s *queue.Submission) { s.Spec.Partitions = name }
}

// up registers a static node's agent.
func (h *house) up(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.must(h.NodeUp(h.t.Context(), node.Registration{Node: name, CPUs: 2, MemoryMiB: 2000}))
	}
}

// gone ends a node's machine as its provider would confirm it.
func (h *house) gone(name string) {
	h.t.Helper()
	h.must(h.InstanceGone(h.t.Context(), h.node(name).Instance, "vanished"))
}

// want compares a job's state, as a user sees it.
func (h *house) want(id uint32, state string, reason job.Reason) {
	h.t.Helper()
	if j := h.job(id); j.ShownState() != state || j.Reason != reason {
		h.t.Errorf("job %d is %s (%s: %s), want %s (%s)", id, j.ShownState(), j.Reason, j.Detail, state, reason)
	}
}

// events counts those of a kind in the story.
func (h *house) events(kind string) int {
	synctest.Wait()
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	n := 0
	for _, e := range h.m.log {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
