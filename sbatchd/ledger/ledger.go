// Package ledger shows the queue's nodes and ledger rows to the pools, which
// know nothing of the controller's types. It translates and decides nothing;
// serve.go and the simulation connect queue and pool through it.
package ledger

import (
	"context"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/pool"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// Ledger is a queue as the pools see it.
type Ledger struct{ q *queue.Queue }

var (
	_ pool.Ledger   = Ledger{}
	_ pool.NodeSink = Ledger{}
)

// Of is the ledger that a queue keeps.
func Of(q *queue.Queue) Ledger { return Ledger{q} }

// Watch wakes at every change.
func (l Ledger) Watch() (<-chan struct{}, func()) { return l.q.Watch() }

// Snapshot is the newest committed state.
func (l Ledger) Snapshot() pool.Snapshot {
	s := l.q.Snapshot()
	out := pool.Snapshot{Config: s.Config, ClusterUUID: s.UUID, Epoch: s.Epoch}
	for n := range s.Nodes() {
		if n.Pool != "" {
			out.Nodes = append(out.Nodes, nodeOf(s, n))
		}
	}
	for i := range s.Instances() {
		out.Rows = append(out.Rows, rowOf(i))
	}
	return out
}

func nodeOf(s *state.State, n *node.Node) pool.Node {
	p := pool.Node{
		Name: n.Name, Pool: n.Pool, Incarnation: n.Incarnation,
		PoweringUp: n.Flags.Has(node.PoweringUp), PoweringDown: n.Flags.Has(node.PoweringDown),
		Why: n.PowerWhy, Instance: cloudburst.Tag(n.Instance), ReclaimAt: n.ReclaimAt, ResumeBy: n.ResumeBy,
	}
	if !p.PoweringUp {
		return p
	}
	also := cloudburst.Want{Capacity: cloudburst.Auto}
	for _, id := range n.Jobs {
		j, ok := s.Job(id)
		if !ok || j.Run == nil {
			continue
		}
		for _, a := range j.Run.Nodes {
			if a.Node == n.Name {
				p.GPUs += len(a.Gres["gpu"])
				if j.Spec.Exclusive { // all there is, but enough
					also.CPUs += a.Tasks * max(1, j.Spec.CPUsPerTask)
				} else {
					also.CPUs += a.CPUs
				}
				if a.MemoryMiB < n.MemoryMiB { // else all there is, however much
					also.MemoryMiB += a.MemoryMiB
				}
			}
		}
		if b := j.Spec.Burst; b != nil && (len(b.Regions) > 0 || b.Interconnect != "") {
			also.Regions, also.Interconnect = b.Regions, b.Interconnect
		}
	}
	if also.CPUs > 0 {
		p.Also = &also
	}
	return p
}

func rowOf(i *node.Instance) pool.Row {
	return pool.Row{
		Tag: cloudburst.Tag(i.Tag), Node: i.Node, Pool: i.Pool, Provider: i.Provider, Incarnation: i.Incarnation,
		Epoch: i.Epoch, State: pool.RowState(i.State), ID: cloudburst.InstanceID(i.ProviderID), Address: i.Address,
		InstanceType: i.InstanceType, Region: i.Region, Spot: i.Spot, GPUs: i.GPUs, CPUs: i.CPUs, MemoryMiB: i.MemoryMiB,
		Price:    cloudburst.Money{Micros: i.PriceMicros, Currency: i.Currency},
		IntentAt: i.IntentAt, CreatedAt: i.CreatedAt, DeleteAt: i.DeleteAt, Why: i.Why, Err: i.Err,
	}
}

// fill puts what a pool's row says onto a ledger row.
func fill(i *node.Instance, r pool.Row) {
	i.Tag, i.Node, i.Pool, i.Provider, i.Incarnation = string(r.Tag), r.Node, r.Pool, r.Provider, r.Incarnation
	i.Epoch, i.State, i.ProviderID, i.Address = r.Epoch, node.InstanceState(r.State), string(r.ID), r.Address
	i.InstanceType, i.Region, i.Spot, i.GPUs, i.CPUs, i.MemoryMiB = r.InstanceType, r.Region, r.Spot, r.GPUs, r.CPUs, r.MemoryMiB
	i.PriceMicros, i.Currency = r.Price.Micros, r.Price.Currency
	i.IntentAt, i.CreatedAt, i.DeleteAt, i.Why, i.Err = r.IntentAt, r.CreatedAt, r.DeleteAt, r.Why, r.Err
}

// Intend records a machine that is about to be asked for.
func (l Ledger) Intend(ctx context.Context, r pool.Row) (bool, error) {
	var i node.Instance
	fill(&i, r)
	return l.q.Intend(ctx, i)
}

// Learn changes the row of a tag.
func (l Ledger) Learn(ctx context.Context, tag cloudburst.Tag, edit func(*pool.Row)) error {
	return l.q.Learn(ctx, string(tag), func(i *node.Instance) {
		r := rowOf(i)
		edit(&r)
		fill(i, r)
	})
}

// Adopt records a machine of ours that has no row.
func (l Ledger) Adopt(ctx context.Context, r pool.Row) error {
	var i node.Instance
	fill(&i, r)
	return l.q.Adopt(ctx, i)
}

// Gone records that a machine does not exist (any more).
func (l Ledger) Gone(ctx context.Context, tag cloudburst.Tag, why string) error {
	return l.q.InstanceGone(ctx, string(tag), why)
}

// NotRented gives back a node for which no machine could be had.
func (l Ledger) NotRented(ctx context.Context, name string, incarnation uint32, why string) error {
	return l.q.NotRented(ctx, name, incarnation, why)
}

// Notice says that a node's machine will be taken away.
func (l Ledger) Notice(ctx context.Context, name string, at time.Time) error {
	return l.q.NodeNotice(ctx, name, at)
}

// MarkPool sets a pool aside, or with the zero time makes it usable.
func (l Ledger) MarkPool(ctx context.Context, name string, until time.Time, why string) error {
	return l.q.MarkPool(ctx, name, until, why)
}
