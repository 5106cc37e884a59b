package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

func init() {
	cloudburst.Register(cloudburst.Driver{
		Name: "fake", New: open,
		Kind: cloudburst.VM, Billing: time.Second, SelfDestruct: true,
	})
}

var published = struct {
	sync.Mutex
	clouds map[string]*Cloud
}{clouds: map[string]*Cloud{}}

// Publish lets a configuration reach a cloud of this process: by the
// ProviderName of a provider of Type=fake.
func Publish(provider string, c *Cloud) {
	published.Lock()
	defer published.Unlock()
	published.clouds[provider] = c
}

func open(o cloudburst.Options) (cloudburst.Provider, error) {
	published.Lock()
	defer published.Unlock()
	c, ok := published.clouds[o.Provider]
	if !ok {
		return nil, errors.New("no fake cloud was published under this name")
	}
	return c.Open(o.Provider), nil
}

type provider struct {
	cloud *Cloud
	name  string
}

// call runs one API call: latency, faults, effect, log.
func (p *provider) call(ctx context.Context, op, arg, pool string, effect func(now time.Time) error) error {
	c := p.cloud
	c.mu.Lock()
	f := c.pick(op, pool)
	delay := c.cfg.Latency
	if f != nil {
		delay += f.Delay
	}
	c.mu.Unlock()

	err := ctx.Err()
	if err == nil && (f == nil || !f.After) {
		err = sleep(ctx, delay)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		switch {
		case f == nil || f.Err == nil && !f.After:
			err = effect(time.Now())
		case f.After:
			if err = effect(time.Now().Add(f.Late)); err == nil {
				err = f.Err
				c.mu.Unlock()
				if slow := sleep(ctx, delay); slow != nil {
					err = slow
				}
				c.mu.Lock()
			}
		default:
			err = f.Err
		}
	}
	c.calls = append(c.calls, Call{Op: op, Arg: arg, Err: err, At: time.Now()})
	return err
}

// pick finds the fault that hits this call, if any. The caller holds mu.
func (c *Cloud) pick(op, pool string) *fault {
	for _, f := range c.faults {
		if f.Op != "" && f.Op != op || f.Pool != "" && f.Pool != pool {
			continue
		}
		f.seen++
		if f.seen < max(f.Nth, 1) || f.Times >= 0 && f.hit >= max(f.Times, 1) {
			continue
		}
		f.hit++
		return f
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Offers lists what fits, with what is left of each.
func (p *provider) Offers(ctx context.Context, w cloudburst.Want) ([]cloudburst.Offer, error) {
	var out []cloudburst.Offer
	err := p.call(ctx, "offers", "", "", func(now time.Time) error {
		for _, o := range p.cloud.cfg.Offers {
			offer := o.Offer
			offer.Provider = p.name
			if o.Capacity >= 0 {
				left := max(0, o.Capacity-p.cloud.used(o.ID, now))
				offer.Available = &left
			}
			if w.Fits(offer) == nil {
				out = append(out, offer)
			}
		}
		return nil
	})
	return out, err
}

// used counts the live machines of an offer. The caller holds mu.
func (c *Cloud) used(id cloudburst.OfferID, now time.Time) int {
	n := 0
	for _, m := range c.instances {
		if m.req.Offer.ID == id && m.there(now) {
			n++
		}
	}
	return n
}

// Create makes the machine of r.Tag once.
func (p *provider) Create(ctx context.Context, r cloudburst.Request) (cloudburst.Instance, error) {
	var out cloudburst.Instance
	err := p.call(ctx, "create", string(r.Tag), r.Pool, func(now time.Time) error {
		c := p.cloud
		for _, m := range c.sorted() {
			if m.req.Tag == r.Tag && m.there(now) {
				out = m.view(now)
				return nil
			}
		}
		for _, o := range c.cfg.Offers {
			if o.ID != r.Offer.ID {
				continue
			}
			if o.Capacity >= 0 && c.used(o.ID, now) >= o.Capacity {
				return fmt.Errorf("create %s: %w", o.InstanceType, cloudburst.ErrNoCapacity)
			}
			r.Offer = o.Offer
			out = c.make(r, now).view(now)
			return nil
		}
		return fmt.Errorf("create: offer %q: %w", r.Offer.ID, cloudburst.ErrBadRequest)
	})
	if err != nil {
		return cloudburst.Instance{}, err
	}
	return out, nil
}

// List shows every machine as it was ListLag ago.
func (p *provider) List(ctx context.Context) ([]cloudburst.Instance, error) {
	var out []cloudburst.Instance
	err := p.call(ctx, "list", "", "", func(now time.Time) error {
		c := p.cloud
		seen := now.Add(-c.cfg.ListLag)
		for _, m := range c.sorted() {
			if m.created.After(seen) {
				continue
			}
			if m.state(seen) == cloudburst.Gone && !seen.Before(m.end.Add(c.cfg.GoneLinger)) {
				continue
			}
			view := m.view(seen)
			view.ReclaimAt = m.view(now).ReclaimAt
			out = append(out, view)
		}
		return nil
	})
	return out, err
}

// Delete ends a machine after DeleteDelay.
func (p *provider) Delete(ctx context.Context, id cloudburst.InstanceID) error {
	return p.call(ctx, "delete", string(id), "", func(now time.Time) error {
		m, ok := p.cloud.instances[id]
		if !ok || !m.there(now) || !m.deleted.IsZero() {
			return nil
		}
		m.deleted = now
		if end := now.Add(p.cloud.cfg.DeleteDelay); m.end.IsZero() || end.Before(m.end) {
			m.end = end
		}
		p.cloud.poke()
		return nil
	})
}

// Interruptions lists the announced reclaims.
func (p *provider) Interruptions(ctx context.Context) ([]cloudburst.Interruption, error) {
	var out []cloudburst.Interruption
	err := p.call(ctx, "interruptions", "", "", func(now time.Time) error {
		for _, m := range p.cloud.sorted() {
			if v := m.view(now); v.ReclaimAt != nil {
				out = append(out, cloudburst.Interruption{ID: v.ID, Tag: v.Tag, At: *v.ReclaimAt})
			}
		}
		return nil
	})
	return out, err
}

// Extend moves the auto-release time.
func (p *provider) Extend(ctx context.Context, id cloudburst.InstanceID, until time.Time) error {
	return p.call(ctx, "extend", string(id), "", func(now time.Time) error {
		m, ok := p.cloud.instances[id]
		if !ok || m.state(now) == cloudburst.Gone {
			return fmt.Errorf("extend %s: %w", id, cloudburst.ErrNotFound)
		}
		if m.deleted.IsZero() && (m.end.IsZero() || m.end.Equal(m.released)) {
			m.end, m.released = until, until
		}
		return nil
	})
}

// SettleTime is the listing lag.
func (p *provider) SettleTime() time.Duration {
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	return p.cloud.cfg.ListLag + p.cloud.cfg.Latency
}
