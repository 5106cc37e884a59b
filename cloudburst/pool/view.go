package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/price"
	"github.com/sbatchd/sbatchd/partitions"
)

// Status is one pool as sburst pools shows it.
type Status struct {
	Pool     string
	Provider string
	Driver   string
	State    string // UP or DOWN
	Live     int    // machines that may cost money
	MaxNodes int
	PerHour  []cloudburst.Money // what they cost together, one amount a currency
	Until    time.Time          // set aside until then; zero is usable
	Class    string             // of the refusal (see Backoff)
	Why      string             // a sentence; "" is usable
	Switch   string             // what ends a forgotten machine, in words
}

// Pools says how every configured pool stands, in the order of the file. It
// asks no provider.
func (p *Pool) Pools() []Status {
	s := p.cfg.Ledger.Snapshot()
	var out []Status
	for _, c := range s.Config.Pools {
		st := Status{Pool: c.Name, State: cmp.Or(c.State, "UP"), MaxNodes: c.MaxNodes}
		if c.Provider != nil {
			st.Provider, st.Driver = c.Provider.Name, c.Provider.Type
		}
		sums := map[string]int64{}
		for _, r := range s.Rows {
			if r.Pool == c.Name && r.Live() {
				st.Live++
				sums[r.Price.Currency] += r.Price.Micros
			}
		}
		for currency, micros := range sums {
			st.PerHour = append(st.PerHour, cloudburst.Money{Micros: micros, Currency: currency})
		}
		slices.SortFunc(st.PerHour, func(a, b cloudburst.Money) int { return cmp.Compare(a.Currency, b.Currency) })
		if a, is := p.setAsideUntil(c.Name); is {
			st.Until, st.Class, st.Why = a.until, a.class, a.why
		}
		if a, err := p.account(s.Config, st.Provider); err != nil {
			st.Why = cmp.Or(st.Why, clean(err))
		} else {
			st.Switch = deadMansSwitch(a, s.Config)
		}
		out = append(out, st)
	}
	return out
}

func deadMansSwitch(a *account, c *partitions.Config) string {
	_, release := a.provider.(cloudburst.AutoReleaser)
	switch {
	case c.OrphanTimeout <= 0:
		return "none: OrphanTimeout is off"
	case release && a.driver.SelfDestruct:
		return "the agent's shutdown, then the provider's auto-release"
	case release:
		return "the provider's auto-release"
	case a.driver.SelfDestruct:
		return "the agent's shutdown"
	default:
		return "none: a machine forgotten here runs on"
	}
}

// Offered is one offer as sburst offers shows it.
type Offered struct {
	Pool  string
	Offer cloudburst.Offer
	Rank  int    // from 1; 0 does not fit
	Why   string // why it does not fit
}

// Offers asks the provider of a pool ("" is all) what could be rented now,
// best first. Providers that do not answer are an error beside what the others
// said.
func (p *Pool) Offers(ctx context.Context, pool string) ([]Offered, error) {
	s := p.cfg.Ledger.Snapshot()
	var out []Offered
	var failed []error
	for _, c := range s.Config.Pools {
		if pool != "" && c.Name != pool || c.Provider == nil {
			continue
		}
		a, err := p.account(s.Config, c.Provider.Name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		want := wantOf(c, Node{})
		var found []cloudburst.Offer
		err = p.call(ctx, a, "offers", func(ctx context.Context) (err error) {
			found, err = a.provider.Offers(ctx, want)
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("pool %s: %w", c.Name, err))
			continue
		}
		for i, choice := range price.Rank(found, want) {
			out = append(out, Offered{Pool: c.Name, Offer: choice.Offer, Rank: i + 1})
		}
		for _, o := range found {
			if err := want.Fits(o); err != nil {
				out = append(out, Offered{Pool: c.Name, Offer: o, Why: err.Error()})
			}
		}
	}
	return out, joined(failed)
}

func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// Leak is a machine the provider lists and the ledger does not know as live, or
// the other way round.
type Leak struct {
	Provider string
	ID       cloudburst.InstanceID
	Tag      cloudburst.Tag
	State    cloudburst.State // "" when the provider does not list it
	Price    cloudburst.Money
	Since    time.Time
	Leaked   bool   // it costs money and nobody tracks it
	Why      string // a sentence
}

// Comparison is the ledger beside what providers list.
type Comparison struct {
	Listed  int // machines of this cluster that exist, all providers together
	Tracked int // of those, with a live row
	Others  int // machines of other clusters, left alone
	Leaks   []Leak
	Failed  []string // providers that could not be asked, with the reason
}

// Leaked counts the machines nobody tracks.
func (c Comparison) Leaked() int {
	n := 0
	for _, l := range c.Leaks {
		if l.Leaked {
			n++
		}
	}
	return n
}

// Leaks asks every provider what it lists and compares it with the ledger. It
// changes nothing.
func (p *Pool) Leaks(ctx context.Context) Comparison {
	var out Comparison
	s := p.cfg.Ledger.Snapshot()
	for _, name := range watched(s) {
		before := p.cfg.Ledger.Snapshot()
		a, err := p.account(before.Config, name)
		var all []cloudburst.Instance
		if err == nil {
			err = p.call(ctx, a, "list", func(ctx context.Context) (err error) {
				all, err = a.provider.List(ctx)
				return err
			})
		}
		if err != nil {
			out.Failed = append(out.Failed, name+": "+clean(err))
			continue
		}
		after := p.cfg.Ledger.Snapshot()
		rows := map[cloudburst.Tag]Row{}
		for _, r := range after.Rows {
			rows[r.Tag] = r
		}
		listed := map[cloudburst.Tag]bool{}
		for _, i := range all {
			if !i.Live() {
				continue
			}
			if !i.Tag.Of(before.ClusterUUID) {
				out.Others++
				continue
			}
			out.Listed++
			listed[i.Tag] = true
			why := "the provider has it, the ledger does not"
			if r, known := rows[i.Tag]; known && r.Live() {
				if r.ID == "" || r.ID == i.ID {
					out.Tracked++
					continue
				}
				why = "a second machine under the same tag"
			}
			out.Leaks = append(out.Leaks, Leak{
				Provider: name, ID: i.ID, Tag: i.Tag, State: i.State, Price: i.Price, Since: i.CreatedAt, Leaked: true, Why: why,
			})
		}
		for _, r := range before.Rows {
			if r.Provider == name && r.State == Created && rows[r.Tag].State == Created && !listed[r.Tag] {
				out.Leaks = append(out.Leaks, Leak{
					Provider: name, ID: r.ID, Tag: r.Tag, Price: r.Price, Since: r.CreatedAt,
					Why: "the ledger has it, the provider does not list it",
				})
			}
		}
	}
	slices.SortFunc(out.Leaks, func(a, b Leak) int { return cmp.Compare(a.Tag, b.Tag) })
	return out
}
