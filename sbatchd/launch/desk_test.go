package launch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

const (
	cluster = "11111111-2222-4333-8444-555555555555"
	tag     = cluster + "-spot-1-1"
)

const conf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/run/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
FenceTimeout=1800
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:a100:2 Capacity=spot MaxNodes=2 Runtime=process Workdir=shared Env=POOL=spot
PartitionName=main Pools=spot Default=YES
`

// desk is the queue as launch sees it: a real state, and a record of what was
// said. gate, when set, holds Ordered and Started back as a slow commit would.
type desk struct {
	t *testing.T

	mu    sync.Mutex
	s     *state.State
	said  []string
	watch map[chan struct{}]bool
	gate  chan struct{}
	deny  bool // Ordered says no
	keys  map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Restore(state.New(cfg, cluster, 3), 1, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, s: s, watch: map[chan struct{}]bool{}, keys: map[string]string{}}
}

// apply moves the state on.
func (d *desk) apply(events ...state.Event) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		next, _, err := state.Apply(d.s, e)
		if err != nil {
			d.t.Errorf("%v", err)
			return
		}
		d.s = next
	}
	for c := range d.watch {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// rent makes spot-1 a machine that boots.
func (d *desk) rent() {
	d.t.Helper()
	now := time.Now()
	d.apply(
		state.NodeResuming{Name: "spot-1", Incarnation: 1, At: now, By: now.Add(time.Minute)},
		state.InstanceIntended{Instance: &node.Instance{
			Tag: tag, Node: "spot-1", Pool: "spot", Provider: "here", Incarnation: 1, State: node.Created,
			InstanceType: "t1", PriceMicros: 100, Currency: "USD", Spot: true,
		}},
	)
}

// allocate gives a new job spot-1.
func (d *desk) allocate(edit func(*job.Job)) job.Attempt {
	d.t.Helper()
	id := d.Snapshot().NextJobID
	j := &job.Job{
		ID: job.NewID(id), User: "alice", UID: 1000, GID: 1000, Partition: "main", Priority: 1,
		Spec: &job.Spec{
			Name: "a", Partitions: "main", WorkDir: "/home/alice", ScriptHash: "script", EnvHash: "env",
			NodesMin: 1, Tasks: 1, CPUsPerTask: 1, TimeLimit: 10, Requeue: true,
		},
	}
	if edit != nil {
		edit(j)
	}
	d.apply(
		state.JobSubmitted{Job: j},
		state.JobAllocated{ID: id, Partition: "main", At: time.Now(), Nodes: []job.NodeAlloc{
			{Node: "spot-1", CPUs: 1, MemoryMiB: 100, Tasks: 1, Gres: map[string][]int{"gpu": {0}}},
		}},
	)
	return job.Attempt{Job: id}
}

func (d *desk) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, fmt.Sprintf(format, args...))
}

// heard waits until something was said.
func (d *desk) heard(want string) {
	d.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) { // real sockets, no bubble
		d.mu.Lock()
		said := append([]string(nil), d.said...)
		d.mu.Unlock()
		if slices.Contains(said, want) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("never said %q, only %q", want, said)
		}
	}
}

func (d *desk) hold() (open func()) {
	gate := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

func (d *desk) pass(ctx context.Context) error {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *desk) Snapshot() *state.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s
}

func (d *desk) Watch() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch[c] = true
	return c, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watch, c)
	}
}

func (d *desk) Blob(_ context.Context, hash string) ([]byte, error) {
	if hash == "env" {
		return []byte("PATH=/bin\x00SLURM_RLIMIT_NOFILE=1024\x00"), nil
	}
	return []byte("#!/bin/sh\ntrue\n"), nil
}

func (d *desk) NodeUp(_ context.Context, r node.Registration) error {
	d.say("up %s cpus=%d", r.Node, r.CPUs)
	d.apply(state.NodeUp{Name: r.Node, At: time.Now(), Version: r.Version})
	return nil
}

func (d *desk) NodeSeen(_ context.Context, name string, load float64, _ int64) error {
	d.say("seen %s %.2f", name, load)
	return nil
}

func (d *desk) NodeNotice(_ context.Context, name string, at time.Time) error {
	d.say("notice %s %d", name, at.Unix())
	return nil
}

func (d *desk) BindKey(_ context.Context, _, tag, key string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys[tag] == "" {
		d.keys[tag] = key
	}
	return d.keys[tag], nil
}

func (d *desk) Ordered(ctx context.Context, a job.Attempt, hosts []job.Host) (bool, error) {
	if err := d.pass(ctx); err != nil {
		return false, err
	}
	d.mu.Lock()
	deny := d.deny
	d.mu.Unlock()
	if deny {
		d.say("not ordered %s", a)
		return false, nil
	}
	d.say("ordered %s on %s of %s at %d", a, hosts[0].Node, hosts[0].Provider, hosts[0].PriceMicros)
	d.apply(state.JobOrdered{Attempt: a, At: time.Now(), Hosts: hosts})
	return true, nil
}

func (d *desk) Progress(_ context.Context, a job.Attempt, phase string) error {
	d.say("progress %s %s", a, phase)
	return nil
}

func (d *desk) Started(ctx context.Context, a job.Attempt, _, _ string, restored uint32) error {
	if err := d.pass(ctx); err != nil {
		return err
	}
	d.say("started %s from %d", a, restored)
	d.apply(state.JobStarted{Attempt: a, At: time.Now(), Restored: restored})
	return nil
}

func (d *desk) Ended(_ context.Context, a job.Attempt, x job.Exit) error {
	d.say("ended %s %s %s", a, x.Code, x.Reason)
	d.apply(state.JobEnded{Attempt: a, At: time.Now(), State: job.Completed, ExitCode: x.Code})
	return nil
}

func (d *desk) StepStarted(_ context.Context, a job.Attempt, s job.Step) error {
	d.say("step %s %d %s of %d", a, s.ID, s.Name, s.Tasks)
	return nil
}

func (d *desk) StepEnded(_ context.Context, a job.Attempt, id uint32, code job.ExitCode) error {
	d.say("step %s %d ended %d:%d", a, id, code.Status, code.Signal)
	return nil
}

func (d *desk) LaunchFailed(_ context.Context, a job.Attempt, f job.LaunchFailure) error {
	d.say("launch failed %s %s", a, f.Class)
	d.apply(state.JobEnded{Attempt: a, At: time.Now(), State: job.Failed})
	return nil
}

func (d *desk) Lost(_ context.Context, a job.Attempt, message string) error {
	d.say("lost %s %s", a, message)
	return nil
}

func (d *desk) Vanished(_ context.Context, a job.Attempt, message string) error {
	d.say("vanished %s %s", a, message)
	d.apply(state.JobEnded{Attempt: a, At: time.Now(), State: job.NodeFail, Requeue: true}, state.JobCleared{Attempt: a, At: time.Now()})
	return nil
}

func (d *desk) Finished(_ context.Context, a job.Attempt) error {
	d.say("finished %s", a)
	d.apply(state.JobCleared{Attempt: a, At: time.Now()})
	return nil
}

func (d *desk) Checkpointed(_ context.Context, a job.Attempt, c job.Checkpoint) error {
	d.say("checkpoint %s %d", a, c.Number)
	return nil
}

func (d *desk) Note(_ context.Context, id uint32, text string) error {
	d.say("note %d %s", id, text)
	return nil
}

// spool keeps output by stream.
type spool struct {
	mu   sync.Mutex
	data map[string]string
	note string
	// unusable is what Prepare says.
	unusable error
}

func (s *spool) Files(j *job.Job) (out, err string) {
	if j.Spec.Output == "" {
		return "/elsewhere/slurm.out", j.Spec.Error
	}
	return j.Spec.Output, j.Spec.Error
}

func (s *spool) Prepare(context.Context, *job.Job, bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unusable != nil, s.unusable
}

func (s *spool) Append(_ context.Context, j *job.Job, stream string, offset int64, data []byte) (int64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := j.Run.Attempt.String() + " " + stream
	if have := int64(len(s.data[key])); offset <= have && offset+int64(len(data)) > have {
		s.data[key] = s.data[key][:offset] + string(data)
	}
	return int64(len(s.data[key])), false, nil
}

func (s *spool) Size(a job.Attempt, stream string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.data[a.String()+" "+stream])), nil
}

func (s *spool) Settle(context.Context, *job.Job) string { return s.note }

// people knows alice alone.
type people struct{}

func (people) ByName(context.Context, string) (auth.Account, error) {
	return auth.Account{}, auth.ErrUnknownUser
}

func (people) ByUID(_ context.Context, uid uint32) (auth.Account, error) {
	if uid != 1000 {
		return auth.Account{}, fmt.Errorf("uid %d: %w", uid, auth.ErrUnknownUser)
	}
	return auth.Account{Name: "alice", UID: 1000, GID: 1000, Home: "/home/alice", Shell: "/bin/bash"}, nil
}
