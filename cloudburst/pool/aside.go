package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// Backoff is how long a pool is set aside: First after the first refusal,
// doubled with each further one up to Most, each time shortened by up to a
// quarter at random so that pools do not come back in step.
type Backoff struct{ First, Most time.Duration }

// defaultBackoff by class of error (cloudburst.Class), plus "no-offer" when
// nothing on offer fits, "boot" for machines that missed ResumeTimeout, "dear" for
// machines charged above MaxPrice and "config" for pools that cannot be used.
var defaultBackoff = map[string]Backoff{
	"no-capacity": {30 * time.Second, 10 * time.Minute},
	"no-offer":    {30 * time.Second, 10 * time.Minute},
	"quota":       {10 * time.Minute, time.Hour},
	"auth":        {5 * time.Minute, time.Hour},
	"no-balance":  {5 * time.Minute, time.Hour},
	"bad-request": {5 * time.Minute, time.Hour},
	"unsupported": {time.Hour, time.Hour},
	"rate":        {5 * time.Second, 5 * time.Minute},
	"transient":   {10 * time.Second, 5 * time.Minute},
	"boot":        {time.Minute, 10 * time.Minute},
	"dear":        {10 * time.Minute, time.Hour},
	"config":      {30 * time.Second, 10 * time.Minute},
}

// explained is the class in words a user understands.
var explained = map[string]string{
	"no-capacity": "the provider has no capacity",
	"no-offer":    "nothing to rent",
	"quota":       "the account's quota is used up",
	"auth":        "the provider refuses the credentials",
	"no-balance":  "the account has no balance",
	"bad-request": "the provider refuses the request",
	"unsupported": "the provider cannot do it",
	"rate":        "the provider limits our calls",
	"transient":   "the provider does not answer as it should",
	"config":      "not usable as configured",
	"dear":        "the provider charges more than it offered",
	"boot":        "machines do not boot within ResumeTimeout",
}

// aside is a pool that its provider refused.
type aside struct {
	class string
	fails int
	since time.Time // of the last refusal
	until time.Time
	why   string
}

// delay is the wait before try n, from 1. The caller holds p.mu.
func (p *Pool) delay(b Backoff, n int) time.Duration {
	d := b.First
	for i := 1; i < n && d < b.Most; i++ {
		d *= 2
	}
	d = min(d, b.Most)
	return d - time.Duration(p.cfg.Rand.Int63n(int64(d)/4+1))
}

// setAside keeps new machines out of a pool for a while and tells everyone why.
// Refusals while it is aside already, by calls that were on their way, do not
// lengthen it.
func (p *Pool) setAside(ctx context.Context, pool, class, detail string, after time.Duration) (string, error) {
	now := p.cfg.Now()
	p.mu.Lock()
	a := p.aside[pool]
	if a == nil || a.class != class {
		a = &aside{class: class}
		p.aside[pool] = a
	}
	if now.Before(a.until) {
		p.mu.Unlock()
		return a.why, nil
	}
	a.fails++
	b, ok := p.cfg.Backoff[class]
	if !ok {
		b = defaultBackoff[class]
	}
	a.since, a.until = now, now.Add(max(after, p.delay(b, a.fails)))
	a.why = explained[class]
	if detail != "" {
		a.why += ": " + detail
	}
	until, why, fails := a.until, a.why, a.fails
	p.mu.Unlock()
	p.log.Warn("pool set aside", "pool", pool, "class", class, "times", fails, "for", until.Sub(now), "err", why)
	return why, p.cfg.Nodes.MarkPool(ctx, pool, until, why)
}

// refused sets a pool aside for an answer of its provider.
func (p *Pool) refused(ctx context.Context, pool string, err error) (string, error) {
	var rate cloudburst.RateLimited
	errors.As(err, &rate)
	detail := clean(err)
	if rest, ok := strings.CutPrefix(detail, errNoOffer.Error()+": "); ok {
		return p.setAside(ctx, pool, "no-offer", rest, 0)
	}
	for _, known := range []error{cloudburst.ErrNoCapacity, cloudburst.ErrQuota, cloudburst.ErrAuth, cloudburst.ErrNoBalance} {
		detail = strings.TrimPrefix(detail, known.Error()+": ") // said already
	}
	return p.setAside(ctx, pool, cloudburst.Class(err), detail, rate.After)
}

// usable makes a pool usable again after a success that was begun at a moment:
// a refusal since then counts for more.
func (p *Pool) usable(ctx context.Context, pool string, begun time.Time) error {
	return p.forgive(ctx, pool, func(a *aside) bool { return !a.since.After(begun) })
}

// room makes a pool usable again when a machine of it was given back: where
// there was no room, or no quota, there is some now.
func (p *Pool) room(ctx context.Context, pool string) error {
	return p.forgive(ctx, pool, func(a *aside) bool {
		return a.class == "no-capacity" || a.class == "no-offer" || a.class == "quota"
	})
}

func (p *Pool) forgive(ctx context.Context, pool string, fits func(*aside) bool) error {
	p.mu.Lock()
	a := p.aside[pool]
	if a == nil || !fits(a) {
		p.mu.Unlock()
		return nil
	}
	delete(p.aside, pool)
	p.mu.Unlock()
	p.log.Info("pool usable again", "pool", pool)
	return p.cfg.Nodes.MarkPool(ctx, pool, time.Time{}, "")
}

// setAsideUntil says whether a pool is aside now, and why.
func (p *Pool) setAsideUntil(pool string) (aside, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.aside[pool]; a != nil && p.cfg.Now().Before(a.until) {
		return *a, true
	}
	return aside{}, false
}

// clean is an error's text for people: bounded, on one line.
func clean(err error) string {
	const most = 300
	text := []rune(fmt.Sprint(err))
	for i, r := range text {
		if r < ' ' {
			text[i] = ' '
		}
	}
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}
