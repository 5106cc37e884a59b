package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/price"
	"github.com/sbatchd/sbatchd/partitions"
)

const (
	// mostOffers is how many offers one node tries before its pool is set aside.
	mostOffers = 5
	// mostTries is how often a create without a clear answer is repeated before
	// the pool is set aside and the machine, if there is one, given back.
	mostTries = 4
	// releaseSlack is how much later than the agent's own switch
	// (OrphanTimeout) the provider's auto-release comes.
	releaseSlack = 10 * time.Minute
)

// poolOf finds the pool of a node and its account. why says in a sentence why
// it cannot be used now.
func (p *Pool) poolOf(s Snapshot, name string) (c *partitions.Pool, a *account, why string) {
	i := slices.IndexFunc(s.Config.Pools, func(c *partitions.Pool) bool { return c.Name == name })
	if i < 0 {
		return nil, nil, "pool " + name + " is not configured any more"
	}
	c = s.Config.Pools[i]
	if c.State != "" && !strings.EqualFold(c.State, "UP") {
		return c, nil, "pool " + name + " is " + c.State
	}
	if c.Provider == nil {
		return c, nil, "pool " + name + " has no provider"
	}
	a, err := p.account(s.Config, c.Provider.Name)
	if err != nil {
		return c, nil, clean(err)
	}
	return c, a, ""
}

// rent finds a machine for a node that powers up, or gives the node back.
func (p *Pool) rent(ctx context.Context, s Snapshot, n Node, tag cloudburst.Tag) error {
	if set, is := p.setAsideUntil(n.Pool); is {
		return p.cfg.Nodes.NotRented(ctx, n.Name, n.Incarnation, set.why)
	}
	c, a, why := p.poolOf(s, n.Pool)
	if why != "" { // set aside too, or the scheduler would send the node straight back
		why, err := p.setAside(ctx, n.Pool, "config", why, 0)
		return errors.Join(err, p.cfg.Nodes.NotRented(ctx, n.Name, n.Incarnation, why))
	}
	choices, err := p.offers(ctx, a, c, n)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		why, err := p.refused(ctx, n.Pool, err)
		return errors.Join(err, p.cfg.Nodes.NotRented(ctx, n.Name, n.Incarnation, why))
	}
	r := Row{
		Tag: tag, Node: n.Name, Pool: n.Pool, Provider: a.name, Incarnation: n.Incarnation,
		Epoch: s.Epoch, State: Intent, IntentAt: p.cfg.Now(),
	}
	describe(&r, c, choices[0].Offer)
	ok, err := p.cfg.Ledger.Intend(ctx, r)
	if err != nil || !ok {
		return err
	}
	p.log.Info("renting", "node", n.Name, "pool", n.Pool, "provider", a.name, "instance", r.Tag,
		"type", r.InstanceType, "price", r.Price.String())
	return p.create(ctx, s, r, c, a, choices, true)
}

// errNoOffer is the case of cloudburst.ErrNoCapacity in which nothing was even
// asked for.
var errNoOffer = fmt.Errorf("nothing to rent (%w)", cloudburst.ErrNoCapacity)

// offers asks what could be rented for a node and ranks it. Nothing that fits
// is errNoOffer with a sentence.
func (p *Pool) offers(ctx context.Context, a *account, c *partitions.Pool, n Node) ([]price.Choice, error) {
	want := wantOf(c, n)
	var found []cloudburst.Offer
	err := p.call(ctx, a, "offers", func(ctx context.Context) (err error) {
		found, err = a.provider.Offers(ctx, want)
		return err
	})
	if err != nil {
		return nil, err
	}
	choices := price.Rank(found, want)
	if len(choices) == 0 {
		return nil, fmt.Errorf("%w: %s", errNoOffer, p.whyNone(ctx, a, found, want))
	}
	if n.Also != nil {
		fits := slices.DeleteFunc(slices.Clone(choices), func(o price.Choice) bool { return n.Also.Fits(o.Offer) != nil })
		if len(fits) == 0 {
			return nil, fmt.Errorf("%w: within the limits of the jobs that wait: %w", errNoOffer, n.Also.Fits(choices[0].Offer))
		}
		choices = fits
	}
	return choices[:min(len(choices), mostOffers)], nil
}

// whyNone says in a sentence why nothing can be had. When nothing fits, it asks
// once more without the pool's limits, to name the one that stands in the way.
func (p *Pool) whyNone(ctx context.Context, a *account, found []cloudburst.Offer, want cloudburst.Want) string {
	if len(found) > 0 {
		return price.Explain(found, want)
	}
	loose := want
	loose.Capacity, loose.MaxPrice, loose.Regions, loose.Zones, loose.InstanceType, loose.Interconnect = cloudburst.Auto, cloudburst.Money{}, nil, nil, "", ""
	err := p.call(ctx, a, "offers", func(ctx context.Context) (err error) {
		found, err = a.provider.Offers(ctx, loose)
		return err
	})
	if err != nil {
		return price.Explain(nil, want)
	}
	return price.Explain(found, want)
}

// describe writes an offer into a row.
func describe(r *Row, c *partitions.Pool, o cloudburst.Offer) {
	r.InstanceType, r.Region, r.Spot, r.Price = o.InstanceType, o.Region, o.Spot, o.Price
	r.CPUs, r.MemoryMiB, r.GPUs = o.CPUs, o.MemoryMiB, ""
	for _, g := range c.Gres {
		if g.Name == "gpu" {
			r.GPUs = gpuGres(o.GPUs, g.Type)
		}
	}
	if r.GPUs == "" {
		r.GPUs = gpuGres(o.GPUs, "")
	}
}

// create asks for the machine of a row, offer by offer. first says that no
// create of this tag can have had an effect before: then a clear refusal is
// believed at once.
func (p *Pool) create(ctx context.Context, s Snapshot, r Row, c *partitions.Pool, a *account, choices []price.Choice, first bool) error {
	var last error
	for _, choice := range choices {
		before := r
		if describe(&r, c, choice.Offer); r != before {
			if err := p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) { describe(row, c, choice.Offer) }); err != nil {
				return err
			}
		}
		req, err := p.request(s, r, c, choice.Offer)
		if err != nil {
			last = err
			break
		}
		var made cloudburst.Instance
		begun := p.cfg.Now()
		err = p.call(ctx, a, "create", func(ctx context.Context) (err error) {
			made, err = a.provider.Create(ctx, req)
			return err
		})
		p.mu.Lock()
		p.created[r.Tag] = p.cfg.Now()
		p.mu.Unlock()
		if err == nil {
			return p.rented(ctx, r, c, made, begun)
		}
		if ctx.Err() != nil {
			return err // the next start finds the intent
		}
		last = hide(err, req.Agent.JoinToken)
		p.log.Warn("create", "node", r.Node, "pool", r.Pool, "provider", a.name, "instance", r.Tag, "type", r.InstanceType, "err", clean(last))
		if !errors.Is(err, cloudburst.ErrNoCapacity) {
			break
		}
	}
	return p.notCreated(ctx, r, last, first)
}

// notCreated deals with a create that failed.
func (p *Pool) notCreated(ctx context.Context, r Row, err error, first bool) error {
	class := cloudburst.Class(err)
	var rate cloudburst.RateLimited
	clear := class != "transient" && class != "not-found" && !errors.As(err, &rate)
	if !clear {
		p.mu.Lock()
		t := p.tries[r.Tag]
		if t == nil {
			t = &try{}
			p.tries[r.Tag] = t
		}
		t.n++
		t.next = p.cfg.Now().Add(max(rate.After, p.delay(Backoff{time.Second, 30 * time.Second}, t.n)))
		again := t.n < mostTries
		p.mu.Unlock()
		if again {
			return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) { row.Err = clean(err) })
		}
	}
	why, asideErr := p.refused(ctx, r.Pool, err)
	if asideErr != nil {
		return asideErr
	}
	if clear && first {
		return p.gone(ctx, r.Tag, why)
	}
	// The machine may be there all the same: the ordinary way out of the ledger
	// makes sure that it is not.
	return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) {
		row.State, row.DeleteAt, row.Why, row.Err = Deleting, p.cfg.Now(), why, clean(err)
	})
}

// hide takes a secret out of an error's text.
func hide(err error, secret string) error {
	if secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return hidden{error: err, secret: secret}
}

type hidden struct {
	error
	secret string
}

func (h hidden) Error() string { return strings.ReplaceAll(h.error.Error(), h.secret, "[secret]") }
func (h hidden) Unwrap() error { return h.error }

// request describes the machine of a row to its provider.
func (p *Pool) request(s Snapshot, r Row, c *partitions.Pool, o cloudburst.Offer) (cloudburst.Request, error) {
	agent, err := p.cfg.Agent(r, c)
	if err != nil {
		return cloudburst.Request{}, fmt.Errorf("agent's settings: %w: %w", cloudburst.ErrBadRequest, err)
	}
	agent.CPUs, agent.MemoryMiB, agent.Gres = c.CPUs, c.RealMemory.Bytes()>>20, gresOf(c, o)
	req := cloudburst.Request{
		Tag: r.Tag, ClusterUUID: s.ClusterUUID, Epoch: s.Epoch, Pool: r.Pool, NodeName: r.Node,
		Offer: o, BootImage: c.BootImage, Agent: agent,
	}
	if s.Config.OrphanTimeout > 0 {
		req.AutoRelease = p.cfg.Now().Add(s.Config.OrphanTimeout + releaseSlack)
	}
	if p.cfg.UserData != nil {
		if req.UserData, err = p.cfg.UserData(r, c); err != nil {
			return req, fmt.Errorf("start-up text: %w: %w", cloudburst.ErrBadRequest, err)
		}
	}
	return req, nil
}

// rented writes the provider's answer into the ledger. A machine dearer than
// its pool allows goes straight back.
func (p *Pool) rented(ctx context.Context, r Row, c *partitions.Pool, i cloudburst.Instance, begun time.Time) error {
	p.mu.Lock()
	delete(p.tries, r.Tag)
	p.mu.Unlock()
	limit := cloudburst.Money{Micros: c.MaxPrice.Amount, Currency: c.MaxPrice.Currency}
	dear := ""
	if !limit.IsZero() && !i.Price.IsZero() && i.Price.Comparable(limit) && i.Price.Micros > limit.Micros {
		dear = fmt.Sprintf("offered at %s, charged at %s, above MaxPrice %s", r.Price, i.Price, limit)
	}
	if !i.Price.IsZero() && i.Price != r.Price {
		p.log.Warn("charged price differs from the offer's", "node", r.Node, "instance", r.Tag,
			"offered", r.Price.String(), "charged", i.Price.String())
	}
	err := p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) {
		learn(row, i)
		row.Err = ""
		switch row.State {
		case Intent:
			row.State = Created
		case Gone:
			row.State, row.DeleteAt, row.Why = Deleting, p.cfg.Now(), "it came after it was given up"
		case Created, Deleting:
		}
		if dear != "" {
			row.State, row.DeleteAt, row.Why = Deleting, p.cfg.Now(), dear
		}
	})
	if err != nil {
		return err
	}
	p.log.Info("rented", "node", r.Node, "pool", r.Pool, "provider", r.Provider, "instance", r.Tag, "id", string(i.ID))
	if dear != "" {
		_, err := p.setAside(ctx, r.Pool, "dear", dear, 0)
		return err
	}
	return p.usable(ctx, r.Pool, begun)
}

// learn copies what a provider says about a machine into its row.
func learn(row *Row, i cloudburst.Instance) {
	row.ID = i.ID
	if i.Address != "" {
		row.Address = i.Address
	}
	if i.Region != "" {
		row.Region = i.Region
	}
	if !i.Price.IsZero() {
		row.Price = i.Price
	}
	if row.CreatedAt.IsZero() {
		row.CreatedAt = i.CreatedAt
	}
}

// tryDue says whether an intent that was not answered is to be tried again now.
func (p *Pool) tryDue(r Row, now time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tries[r.Tag]
	if t == nil {
		return now, true // of an earlier life of the controller
	}
	return t.next, !now.Before(t.next)
}

// again finds out what became of an intent: the machine is there, or it is
// asked for once more with the same tag.
func (p *Pool) again(ctx context.Context, tag cloudburst.Tag) error {
	s, r, n, wanted := p.row(tag)
	if r.State != Intent || !wanted {
		return nil
	}
	c, a, why := p.poolOf(s, r.Pool)
	if why != "" {
		return p.cfg.Ledger.Learn(ctx, r.Tag, func(row *Row) {
			row.State, row.DeleteAt, row.Why = Deleting, p.cfg.Now(), why
		})
	}
	var all []cloudburst.Instance
	err := p.call(ctx, a, "list", func(ctx context.Context) (err error) {
		all, err = a.provider.List(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return p.notCreated(ctx, r, fmt.Errorf("%w: %w", cloudburst.ErrTransient, err), false)
	}
	for _, i := range all {
		if i.Tag == r.Tag && i.Live() {
			p.log.Info("found the machine of an intent", "node", r.Node, "instance", r.Tag, "id", string(i.ID))
			return p.rented(ctx, r, c, i, p.cfg.Now())
		}
	}
	choices, err := p.offers(ctx, a, c, n)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return p.notCreated(ctx, r, err, false)
	}
	// The offer that was meant comes first: a machine made of it may be there
	// already.
	slices.SortStableFunc(choices, func(x, y price.Choice) int { return same(y, r) - same(x, r) })
	return p.create(ctx, s, r, c, a, choices, false)
}

func same(c price.Choice, r Row) int {
	if c.InstanceType == r.InstanceType && c.Region == r.Region && c.Spot == r.Spot {
		return 1
	}
	return 0
}
