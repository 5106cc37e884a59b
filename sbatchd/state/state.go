package state

import (
	"iter"
	"time"

	"github.com/tidwall/btree"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// State is one moment. Its methods are safe for any number of readers.
type State struct {
	Config    *partitions.Config
	UUID      string // of the cluster
	Epoch     uint64 // of leadership
	NextJobID uint32
	// Version grows with every change; equal versions are equal states.
	Version uint64
	// Pools says which pools are set aside, and why. Not stored: it is found
	// out again after a restart.
	Pools map[string]PoolStatus
	// Acct are the records of accounting.
	Acct *assoc.Book

	jobs      *btree.Map[uint32, *job.Job]
	tasks     *btree.Map[uint64, uint32] // array and index -> raw id of the tasks that have records
	waiting   int                        // tasks that records of arrays stand for, beyond one each
	pending   *btree.Set[uint32]         // raw ids in state PENDING
	active    *btree.Set[uint32]         // raw ids that hold nodes
	nodes     *btree.Map[string, *node.Node]
	instances *btree.Map[string, *node.Instance]
}

// PoolStatus is what the pool last learnt from its provider.
type PoolStatus struct {
	Until time.Time // set aside until then; zero is usable
	Why   string    // a sentence for squeue and sburst explain
}

// New is an empty state under a config.
func New(cfg *partitions.Config, uuid string, epoch uint64) *State {
	return &State{
		Config: cfg, UUID: uuid, Epoch: epoch, NextJobID: max(1, cfg.FirstJobID),
		Pools:     map[string]PoolStatus{},
		Acct:      assoc.Empty(),
		jobs:      btree.NewMap[uint32, *job.Job](32),
		tasks:     btree.NewMap[uint64, uint32](32),
		pending:   new(btree.Set[uint32]),
		active:    new(btree.Set[uint32]),
		nodes:     btree.NewMap[string, *node.Node](32),
		instances: btree.NewMap[string, *node.Instance](32),
	}
}

// fork is a copy whose trees may be written without the original seeing it.
func (s *State) fork() *State {
	c := *s
	c.Version++
	c.jobs, c.nodes, c.instances = s.jobs.Copy(), s.nodes.Copy(), s.instances.Copy()
	c.tasks, c.pending, c.active = s.tasks.Copy(), s.pending.Copy(), s.active.Copy()
	return &c
}

// Job finds a job by raw id.
func (s *State) Job(raw uint32) (*job.Job, bool) { return s.jobs.Get(raw) }

// Node finds a node by name.
func (s *State) Node(name string) (*node.Node, bool) { return s.nodes.Get(name) }

// Instance finds a ledger row by tag.
func (s *State) Instance(tag string) (*node.Instance, bool) { return s.instances.Get(tag) }

// JobCount is the number of jobs in memory, each task of an array counted.
func (s *State) JobCount() int { return s.jobs.Len() + s.waiting }

// NodeCount is the number of nodes.
func (s *State) NodeCount() int { return s.nodes.Len() }

// PendingCount is the number of jobs in state PENDING.
func (s *State) PendingCount() int { return s.pending.Len() }

// Jobs walks all jobs in id order.
func (s *State) Jobs() iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		s.jobs.Scan(func(_ uint32, j *job.Job) bool { return yield(j) })
	}
}

// JobsFrom walks the jobs from a raw id on, in id order.
func (s *State) JobsFrom(raw uint32) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		s.jobs.Ascend(raw, func(_ uint32, j *job.Job) bool { return yield(j) })
	}
}

// Pending walks the jobs in state PENDING in id order.
func (s *State) Pending() iter.Seq[*job.Job] { return s.members(s.pending) }

// Active walks the jobs that hold nodes in id order.
func (s *State) Active() iter.Seq[*job.Job] { return s.members(s.active) }

func (s *State) members(set *btree.Set[uint32]) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		set.Scan(func(id uint32) bool {
			j, ok := s.jobs.Get(id)
			return !ok || yield(j)
		})
	}
}

// Nodes walks all nodes in name order.
func (s *State) Nodes() iter.Seq[*node.Node] {
	return func(yield func(*node.Node) bool) {
		s.nodes.Scan(func(_ string, n *node.Node) bool { return yield(n) })
	}
}

// Instances walks the ledger in tag order.
func (s *State) Instances() iter.Seq[*node.Instance] {
	return func(yield func(*node.Instance) bool) {
		s.instances.Scan(func(_ string, i *node.Instance) bool { return yield(i) })
	}
}
