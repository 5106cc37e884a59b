package queue

import (
	"context"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// The methods below are the ledger's: the pool calls them before, during and
// after a machine lives. Each is committed before it returns.

// Intend records that a machine is about to be asked for. ok is false when the
// node does not want one any more.
func (q *Queue) Intend(ctx context.Context, in node.Instance) (ok bool, err error) {
	err = q.internal(ctx, "pool", func(w *work) error {
		n, known := w.Node(in.Node)
		if !known || !n.Flags.Has(node.PoweringUp) || n.Incarnation != in.Incarnation || n.Instance != "" {
			return nil
		}
		in.State, in.IntentAt, in.Epoch = node.Intent, w.Now, w.Epoch
		if err := w.emit(state.InstanceIntended{Instance: &in}); err != nil {
			return err
		}
		ok = true
		return w.refit(in.Node)
	})
	return ok, err
}

// Learn records what the provider said of a machine: edit changes a copy of
// its row. Unknown tags are ignored.
func (q *Queue) Learn(ctx context.Context, tag string, edit func(*node.Instance)) error {
	return q.internal(ctx, "pool", func(w *work) error {
		i, ok := w.Instance(tag)
		if !ok {
			return nil
		}
		c := i.Clone()
		edit(c)
		if *c == *i {
			return nil
		}
		if err := w.emit(state.InstanceChanged{Instance: c}); err != nil {
			return err
		}
		if n, ok := w.Node(i.Node); ok && n.Instance == tag && n.Flags.Has(node.PoweringUp) {
			return w.refit(n.Name)
		}
		return nil
	})
}

// Adopt records a machine that carries our tag but has no row.
func (q *Queue) Adopt(ctx context.Context, in node.Instance) error {
	return q.internal(ctx, "pool", func(w *work) error {
		if _, ok := w.Instance(in.Tag); ok {
			return nil
		}
		if in.IntentAt.IsZero() {
			in.IntentAt = w.Now
		}
		return w.emit(state.InstanceChanged{Instance: &in})
	})
}

// InstanceGone says that the provider confirms that the machine does not exist (any
// more). Whatever ran on it is fenced now; its node can be resumed again.
func (q *Queue) InstanceGone(ctx context.Context, tag, why string) error {
	return q.internal(ctx, "pool", func(w *work) error {
		i, ok := w.Instance(tag)
		if !ok || i.State == node.Gone {
			return nil
		}
		c := i.Clone()
		c.State, c.GoneAt = node.Gone, w.Now
		if c.Why == "" {
			c.Why = why
		}
		if err := w.emit(state.InstanceChanged{Instance: c}); err != nil {
			return err
		}
		n, ok := w.Node(i.Node)
		if !ok || n.Instance != tag {
			return nil
		}
		if err := w.nodeGone(n.Name, why); err != nil {
			return err
		}
		return w.emit(state.NodePoweredDown{Name: n.Name, At: w.Now})
	})
}

// NotRented says that no machine could be had for a node that is powering up; its jobs
// go back to the queue.
func (q *Queue) NotRented(ctx context.Context, name string, incarnation uint32, why string) error {
	return q.internal(ctx, "pool", func(w *work) error {
		n, ok := w.Node(name)
		if !ok || n.Incarnation != incarnation || !n.Flags.Has(node.PoweringUp) || n.Instance != "" {
			return nil
		}
		if err := w.nodeGone(name, why); err != nil {
			return err
		}
		if err := w.emit(state.NodePoweredDown{Name: name, At: w.Now}); err != nil {
			return err
		}
		if w.Pools[n.Pool].Until.After(w.Now) {
			return nil
		}
		// Not again at once, or the job and the pool would go round in circles.
		status := state.PoolStatus{Until: w.Now.Add(asideFor), Why: why}
		return w.emit(state.PoolMarked{Pool: n.Pool, Status: status})
	})
}

// asideFor is how long a pool rests that rented nothing and did not say for how
// long.
const asideFor = 10 * time.Second

// MarkPool sets a pool aside until a time, or with the zero time makes it
// usable again.
func (q *Queue) MarkPool(ctx context.Context, pool string, until time.Time, why string) error {
	return q.internal(ctx, "pool", func(w *work) error {
		return w.emit(state.PoolMarked{Pool: pool, Status: state.PoolStatus{Until: until, Why: why}})
	})
}

// BindKey remembers the first key that used an instance's join token and
// answers the key it is bound to; empty for an instance that is not expected. On a
// static node the newest token counts: it replaces the machine that came before.
func (q *Queue) BindKey(ctx context.Context, name, tag, key string) (bound string, err error) {
	err = q.internal(ctx, "launch", func(w *work) error {
		if n, ok := w.Node(name); ok && n.Pool == "" {
			if n.JoinTag == tag {
				bound = n.JoinKey
				return nil
			}
			bound = key
			return w.emit(state.NodeJoined{Name: name, Tag: tag, Key: key})
		}
		i, known := w.Instance(tag)
		if !known || i.State == node.Gone {
			return nil
		}
		if bound = i.JoinKey; bound != "" {
			return nil
		}
		c := i.Clone()
		c.JoinKey, bound = key, key
		return w.emit(state.InstanceChanged{Instance: c})
	})
	return bound, err
}
