package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// stuck is how long a deletion may take before a human must look.
const stuck = 10 * time.Minute

// removeDue says whether the provider is to be asked (again) to delete a
// machine now.
func (p *Pool) removeDue(r Row, now time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.removals[r.Tag]
	if d == nil {
		return now, true
	}
	return d.next, !now.Before(d.next)
}

// remove asks the provider to delete the machine of a row. That it is gone only
// look confirms; until then this is repeated.
func (p *Pool) remove(ctx context.Context, tag cloudburst.Tag) error {
	s, r, n, wanted := p.row(tag)
	if !r.Live() || wanted && r.State != Deleting {
		return nil
	}
	now := p.cfg.Now()
	if r.State != Deleting {
		late := n.Instance == r.Tag && n.PoweringDown && !n.ResumeBy.IsZero() && now.After(n.ResumeBy)
		why := n.Why
		switch {
		case n.Instance != r.Tag:
			why = "its node has no use for it any more"
		case late:
			why = "ResumeTimeout reached"
		case why == "":
			why = "power down"
		}
		err := p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) {
			if row.State == Gone {
				return
			}
			row.State = Deleting
			if row.DeleteAt.IsZero() {
				row.DeleteAt, row.Why = now, why
			}
		})
		if err != nil {
			return err
		}
		r.State, r.DeleteAt, r.Why = Deleting, now, why
		p.log.Info("giving back", "node", r.Node, "pool", r.Pool, "provider", r.Provider, "instance", r.Tag, "why", why)
		if late && r.ID != "" {
			if _, err := p.setAside(ctx, r.Pool, "boot", "", 0); err != nil {
				return err
			}
		}
	}
	a, err := p.account(s.Config, r.Provider)
	if err != nil {
		p.attempted(r, err)
		return err
	}
	if r.ID != "" {
		err = p.call(ctx, a, "delete", func(ctx context.Context) error { return a.provider.Delete(ctx, r.ID) })
		if cloudburst.Class(err) == "not-found" {
			err = nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.attempted(r, err)
	if err != nil {
		p.log.Warn("delete", "node", r.Node, "provider", r.Provider, "instance", r.Tag, "id", string(r.ID), "err", clean(err))
		if text := clean(err); text != r.Err {
			return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) { row.Err = text })
		}
		return nil
	}
	p.lookNow(a)
	return nil
}

// attempted books one attempt at a deletion and plans the next, which comes only
// if no list has confirmed it by then.
func (p *Pool) attempted(r Row, err error) {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.removals[r.Tag]
	if d == nil {
		d = &removal{}
		p.removals[r.Tag] = d
	}
	d.n++
	if err == nil {
		d.asked = now
	}
	d.next = now.Add(p.delay(Backoff{2 * time.Second, 2 * time.Minute}, d.n))
	if !d.warned && !r.DeleteAt.IsZero() && now.Sub(r.DeleteAt) > stuck {
		d.warned = true
		p.log.Error("a machine is not gone and may cost money", "node", r.Node, "provider", r.Provider,
			"instance", r.Tag, "id", string(r.ID), "since", now.Sub(r.DeleteAt), "cost", r.Price.Cost(now.Sub(r.DeleteAt)).String())
	}
}

// gone closes a row.
func (p *Pool) gone(ctx context.Context, tag cloudburst.Tag, why string) error {
	if err := p.cfg.Ledger.Gone(ctx, tag, why); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	p.mu.Lock()
	delete(p.removals, tag)
	delete(p.tries, tag)
	p.mu.Unlock()
	return nil
}
