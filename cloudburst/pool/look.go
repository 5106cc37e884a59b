package pool

import (
	"context"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// lookDue says whether a provider is to be listed now: at the start, at
// intervals, and soon while a deletion or an intent waits to be confirmed.
func (p *Pool) lookDue(s Snapshot, a *account, now time.Time) (time.Time, bool) {
	live, waiting := false, false
	for _, r := range s.Rows {
		if r.Provider == a.name && r.Live() {
			live = true
			waiting = waiting || r.State == Deleting
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	due := a.nextLook
	if waiting && a.lookFail == 0 {
		due = earlier(due, a.looked.Add(confirmEvery(now, s, a.name)))
	}
	if live && a.lookFail == 0 {
		due = earlier(due, a.looked.Add(p.cfg.Interval))
	}
	return due, !now.Before(due)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// confirmEvery is the time between looks while deletions wait: a tenth of how
// long the youngest has waited, from 100 ms to 10 s.
func confirmEvery(now time.Time, s Snapshot, provider string) time.Duration {
	wait := 100 * time.Second
	for _, r := range s.Rows {
		if r.Provider == provider && r.State == Deleting {
			wait = min(wait, now.Sub(r.DeleteAt))
		}
	}
	return max(100*time.Millisecond, wait/10)
}

// look lists a provider and makes the ledger agree with it. A list that failed
// changes nothing: an unclear answer is no proof of anything.
func (p *Pool) look(ctx context.Context, a *account) error {
	before := p.cfg.Ledger.Snapshot()
	began := p.cfg.Now()
	var all []cloudburst.Instance
	err := p.call(ctx, a, "list", func(ctx context.Context) (err error) {
		all, err = a.provider.List(ctx)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.mu.Lock()
		a.lookFail++
		a.nextLook = p.cfg.Now().Add(p.delay(Backoff{2 * time.Second, 2 * time.Minute}, a.lookFail))
		p.mu.Unlock()
		p.log.Warn("list", "provider", a.name, "err", clean(err))
		return nil
	}
	p.mu.Lock()
	a.lookFail, a.looked, a.nextLook = 0, began, began.Add(p.cfg.Idle)
	p.mu.Unlock()

	listed := map[cloudburst.Tag][]cloudburst.Instance{}
	for _, i := range all {
		if i.Live() && i.Tag.Of(before.ClusterUUID) && i.Epoch <= before.Epoch {
			listed[i.Tag] = append(listed[i.Tag], i)
		}
	}
	after := p.cfg.Ledger.Snapshot()
	now := map[cloudburst.Tag]Row{}
	for _, r := range after.Rows {
		now[r.Tag] = r
	}
	for _, r := range before.Rows {
		if r.Provider != a.name || !r.Live() || !now[r.Tag].Live() {
			continue
		}
		found := listed[r.Tag]
		delete(listed, r.Tag)
		if err := p.compare(ctx, before, a, r, found, began); err != nil {
			return err
		}
	}
	for tag, found := range listed {
		if r, known := now[tag]; known && r.Live() {
			continue // rented while we looked
		}
		if err := p.unknown(ctx, after, a, found[0], now[tag]); err != nil {
			return err
		}
	}
	return p.extend(ctx, after, a)
}

// compare makes one row agree with what the list shows under its tag.
func (p *Pool) compare(ctx context.Context, s Snapshot, a *account, r Row, found []cloudburst.Instance, began time.Time) error {
	i, is, surplus := own(r, found)
	p.mu.Lock()
	busy := p.busy[string(r.Tag)]
	if len(found) > 0 {
		p.seen[r.Tag] = true
	}
	settled := p.seen[r.Tag] || began.Sub(p.lastCreate(r)) >= a.settle()
	var asked time.Time
	if d := p.removals[r.Tag]; d != nil {
		asked = d.asked
	}
	p.mu.Unlock()
	switch {
	case busy:
		return nil // a create or delete of it is on its way
	case len(surplus) > 0:
		return p.removeSurplus(ctx, a, r, surplus)
	case is && r.State == Deleting:
		if r.ID == "" { // now it can be deleted
			p.mu.Lock()
			delete(p.removals, r.Tag)
			p.mu.Unlock()
			return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) { learn(row, i) })
		}
		return nil
	case is && r.State == Intent:
		return nil // the next try takes it
	case is && i.State == cloudburst.Stopped:
		return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) {
			row.State, row.DeleteAt, row.Why = Deleting, p.cfg.Now(), "stopped by its provider"
		})
	case is:
		return p.alive(ctx, s, r, i)
	case r.State == Intent:
		return nil
	case r.State == Deleting && !asked.IsZero() && asked.Before(began) && settled:
		p.log.Info("given back", "node", r.Node, "pool", r.Pool, "provider", r.Provider, "instance", r.Tag)
		if err := p.gone(ctx, r.Tag, r.Why); err != nil || reclaimed(s, r) {
			return err
		}
		return p.room(ctx, r.Pool)
	case r.State == Created && settled:
		p.log.Warn("lost a machine", "node", r.Node, "pool", r.Pool, "provider", r.Provider, "instance", r.Tag)
		return p.gone(ctx, r.Tag, "the provider does not have the machine any more")
	}
	return nil
}

// own tells a row's machine from others under the same tag: a provider without
// idempotent creates makes two when an answer was lost and the first came late.
func own(r Row, found []cloudburst.Instance) (i cloudburst.Instance, is bool, surplus []cloudburst.Instance) {
	if r.ID == "" {
		if len(found) > 0 {
			return found[0], true, nil // the rest is surplus once the row has its machine
		}
		return i, false, nil
	}
	for _, have := range found {
		if have.ID == r.ID {
			i, is = have, true
		} else {
			surplus = append(surplus, have)
		}
	}
	return i, is, surplus
}

// removeSurplus deletes what a tag has beside its row's machine. Until a list
// shows them no more, the row is left as it is.
func (p *Pool) removeSurplus(ctx context.Context, a *account, r Row, surplus []cloudburst.Instance) error {
	for _, i := range surplus {
		p.log.Warn("a second machine under the same tag is given back", "node", r.Node, "provider", a.name, "instance", r.Tag, "id", string(i.ID))
		if i.State == cloudburst.Stopping {
			continue
		}
		err := p.call(ctx, a, "delete", func(ctx context.Context) error { return a.provider.Delete(ctx, i.ID) })
		if err != nil && cloudburst.Class(err) != "not-found" {
			p.log.Warn("delete", "node", r.Node, "provider", a.name, "id", string(i.ID), "err", clean(err))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a.nextLook = earlier(a.nextLook, p.cfg.Now().Add(2*time.Second))
	return nil
}

// lastCreate is the latest moment at which a create of a row's machine may have
// had its effect. The caller holds p.mu.
func (p *Pool) lastCreate(r Row) time.Time {
	last := r.IntentAt
	for _, t := range []time.Time{p.began, p.created[r.Tag]} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// reclaimed says that the provider had announced to take a row's machine: then
// there is no room for another.
func reclaimed(s Snapshot, r Row) bool {
	for _, n := range s.Nodes {
		if n.Name == r.Node && n.Instance == r.Tag {
			return !n.ReclaimAt.IsZero()
		}
	}
	return false
}

// alive learns what is new about a machine.
func (p *Pool) alive(ctx context.Context, s Snapshot, r Row, i cloudburst.Instance) error {
	next := r
	learn(&next, i)
	if next != r {
		if err := p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) { learn(row, i) }); err != nil {
			return err
		}
	}
	if i.ReclaimAt == nil {
		return nil
	}
	for _, n := range s.Nodes {
		if n.Name == r.Node && n.Instance == r.Tag && (n.ReclaimAt.IsZero() || i.ReclaimAt.Before(n.ReclaimAt)) {
			p.log.Info("reclaim announced", "node", r.Node, "instance", r.Tag, "at", *i.ReclaimAt)
			return p.cfg.Nodes.Notice(ctx, r.Node, *i.ReclaimAt)
		}
	}
	return nil
}

// unknown deals with a machine of ours that no live row stands for: one the
// ledger lost (restored from an old backup), or one that was given up and came
// after all. It is recorded and given back.
func (p *Pool) unknown(ctx context.Context, s Snapshot, a *account, i cloudburst.Instance, had Row) error {
	now := p.cfg.Now()
	if had.Tag != "" {
		p.log.Warn("a machine that was given up is there", "node", had.Node, "provider", a.name, "instance", i.Tag, "id", string(i.ID))
		return p.cfg.Ledger.Learn(ctx, i.Tag, func(row *Row) {
			learn(row, i)
			row.State, row.DeleteAt, row.Why = Deleting, now, "it was there after it was given up"
		})
	}
	_, node, incarnation, err := i.Tag.Parse()
	if err != nil {
		return err
	}
	r := Row{
		Tag: i.Tag, Node: node, Provider: a.name, Incarnation: uint32(incarnation), Epoch: i.Epoch,
		IntentAt: i.CreatedAt, State: Deleting, DeleteAt: now, Why: "no record of it in the ledger",
	}
	for _, n := range s.Nodes {
		if n.Name == node {
			r.Pool = n.Pool
		}
	}
	learn(&r, i)
	p.log.Warn("a machine of ours is not in the ledger", "node", node, "provider", a.name, "instance", i.Tag, "id", string(i.ID))
	return p.cfg.Ledger.Adopt(ctx, r)
}

// extend moves the auto-release times of a provider's machines in time.
func (p *Pool) extend(ctx context.Context, s Snapshot, a *account) error {
	releaser, ok := a.provider.(cloudburst.AutoReleaser)
	orphan := s.Config.OrphanTimeout
	if !ok || orphan <= 0 {
		return nil
	}
	now := p.cfg.Now()
	p.mu.Lock()
	due := a.extended.IsZero() || now.Sub(a.extended) >= orphan/4
	if due {
		a.extended = now
	}
	p.mu.Unlock()
	if !due {
		return nil
	}
	for _, r := range s.Rows {
		if r.Provider != a.name || r.State != Created || r.ID == "" {
			continue
		}
		err := p.call(ctx, a, "extend", func(ctx context.Context) error {
			return releaser.Extend(ctx, r.ID, now.Add(orphan+releaseSlack))
		})
		if err != nil && cloudburst.Class(err) != "not-found" {
			p.log.Warn("extend", "node", r.Node, "provider", a.name, "instance", r.Tag, "err", clean(err))
		}
	}
	return nil
}
