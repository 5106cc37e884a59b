// Package fake is a scripted cloud for tests: prices, capacity, faults, boot
// time, reclaims and listing lag are set by the test, and everything happens on
// the clock of the process, so inside a testing/synctest bubble whole days pass
// in milliseconds. It starts no goroutine of its own save in [Cloud.Run], and
// it passes providertest like any other provider.
//
// A [Cloud] is the vendor's side: it lives on when a test kills the controller.
// [Cloud.Open] is one configured provider that talks to it.
package fake

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// Config is how a cloud behaves until a test changes it.
type Config struct {
	Offers      []Offer
	BootDelay   time.Duration // from Create to Running
	DeleteDelay time.Duration // from Delete to Gone
	ListLag     time.Duration // a change shows in List only after this long
	GoneLinger  time.Duration // a Gone instance stays listed this long
	Latency     time.Duration // every call takes this long, or until ctx ends
	Reclaims    []Reclaim
	NoRelease   bool // ignore Request.AutoRelease
}

// Offer is one line of the price list. Capacity limits how many live instances
// of it there can be; negative is no limit.
type Offer struct {
	cloudburst.Offer
	Capacity int
}

// Reclaim takes spot instances away: each matching instance that boots is
// reclaimed After it is running, announced Notice before.
type Reclaim struct {
	Pool   string        // pattern of the pool's name; "" is every pool
	After  time.Duration // after the machine is running
	Notice time.Duration // 0 is without notice
	Times  int           // at most this many instances; 0 is all
}

// Fault makes calls fail.
type Fault struct {
	Op    string        // offers, create, list, delete; "" is any
	Nth   int           // the first call it hits, from 1, counted from when it was set; 0 is 1
	Times int           // how many calls it hits; 0 is 1, negative is for ever
	Err   error         // what the call answers
	After bool          // the call really takes effect before it fails
	Late  time.Duration // with After, of a create: the effect comes this much later than the answer
	Delay time.Duration // the call takes this much longer, or until ctx ends
	Pool  string        // creates of this pool only; "" is all
}

// Call is one entry of the cloud's log.
type Call struct {
	Op  string
	Arg string // tag or instance id
	Err error
	At  time.Time
}

// Cloud is the vendor's side of the fake.
type Cloud struct {
	wake chan struct{}

	mu        sync.Mutex
	cfg       Config
	faults    []*fault
	instances map[cloudburst.InstanceID]*machine
	next      int
	calls     []Call
	reclaimed []int // hits of each cfg.Reclaims
	onBoot    func(cloudburst.Instance, cloudburst.Request)
	onGone    func(cloudburst.Instance)
}

type fault struct {
	Fault
	seen, hit int
}

type machine struct {
	id       cloudburst.InstanceID
	req      cloudburst.Request
	price    cloudburst.Money
	created  time.Time
	boot     time.Time
	deleted  time.Time // when Delete was called; zero is never
	end      time.Time // when it is gone; zero is not yet decided
	notice   time.Time // when the reclaim is announced; zero is never
	reclaim  bool
	toldBoot bool
	toldGone bool
	released time.Time
}

// New makes a cloud. Offers without an ID get one.
func New(cfg Config) *Cloud {
	c := &Cloud{
		wake:      make(chan struct{}, 1),
		instances: map[cloudburst.InstanceID]*machine{},
		reclaimed: make([]int, len(cfg.Reclaims)),
	}
	cfg.Offers = slices.Clone(cfg.Offers)
	for i := range cfg.Offers {
		if cfg.Offers[i].ID == "" {
			cfg.Offers[i].ID = cloudburst.OfferID(fmt.Sprintf("offer-%d", i+1))
		}
	}
	cfg.Reclaims = slices.Clone(cfg.Reclaims)
	c.cfg = cfg
	return c
}

// Simple is an unlimited offer of a machine for tests that do not care:
// 1 dollar an hour, 8 CPUs, 32 GiB.
func Simple(gpuType string, gpus int, spot bool) Offer {
	return Offer{Capacity: -1, Offer: cloudburst.Offer{
		InstanceType: "fake-" + gpuType, Region: "here", Zone: "here-a",
		GPUs: cloudburst.GPUs{Type: gpuType, Count: gpus, MemoryMiB: 80 << 10},
		CPUs: 8, MemoryMiB: 32 << 10, DiskMiB: 100 << 10,
		Spot: spot, Price: cloudburst.Money{Micros: 1e6, Currency: "USD"},
	}}
}

// Open gives the provider a controller would have, under this name.
func (c *Cloud) Open(name string) cloudburst.Provider { return &provider{cloud: c, name: name} }

// Fail adds a fault. Faults are asked in the order they were added; the first
// that hits decides.
func (c *Cloud) Fail(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &fault{Fault: f})
}

// Heal removes every fault.
func (c *Cloud) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// SetCapacity changes how many instances of the offers with this instance type
// can live at once; negative is no limit.
func (c *Cloud) SetCapacity(instanceType string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.cfg.Offers {
		if c.cfg.Offers[i].InstanceType == instanceType {
			c.cfg.Offers[i].Capacity = n
		}
	}
}

// SetPrice changes the price of new instances of an instance type.
func (c *Cloud) SetPrice(instanceType string, m cloudburst.Money) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.cfg.Offers {
		if c.cfg.Offers[i].InstanceType == instanceType {
			c.cfg.Offers[i].Price = m
		}
	}
}

// SetBootDelay changes the boot time of machines created from now on.
func (c *Cloud) SetBootDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.BootDelay = d
}

// Reclaim takes the live instances of a node away: announced now, gone after
// notice. It reports how many there were.
func (c *Cloud) Reclaim(node string, notice time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, n := time.Now(), 0
	for _, m := range c.sorted() {
		if m.req.NodeName == node && m.there(now) {
			m.reclaimAt(now.Add(notice), notice)
			n++
		}
	}
	c.poke()
	return n
}

// Plant makes a machine that no call of ours asked for: an orphan, or another
// cluster's.
func (c *Cloud) Plant(r cloudburst.Request) cloudburst.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.make(r, time.Now())
	return m.view(time.Now())
}

// Live lists the instances that exist now, without any listing lag: the truth
// a test compares with.
func (c *Cloud) Live() []cloudburst.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var out []cloudburst.Instance
	for _, m := range c.sorted() {
		if m.there(now) {
			out = append(out, m.view(now))
		}
	}
	return out
}

// Bill is what every instance so far has cost, in the currency of the prices.
func (c *Cloud) Bill() cloudburst.Money {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, sum := time.Now(), cloudburst.Money{}
	for _, m := range c.instances {
		end := now
		if !m.end.IsZero() && m.end.Before(now) {
			end = m.end
		}
		cost := m.price.Cost(end.Sub(m.created))
		sum.Micros += cost.Micros
		sum.Currency = cost.Currency
	}
	return sum
}

// Calls is the log of every call, oldest first.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Watch sets what Run calls when a machine has booted and when it is gone, so
// that a simulation can start and kill its agent. Either may be nil.
func (c *Cloud) Watch(boot func(cloudburst.Instance, cloudburst.Request), gone func(cloudburst.Instance)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onBoot, c.onGone = boot, gone
}

// Run calls the functions of Watch at the right moments until ctx ends.
// Everything else works without it.
func (c *Cloud) Run(ctx context.Context) error {
	for {
		next := c.tell()
		var timer <-chan time.Time
		var stop func() bool
		if !next.IsZero() {
			t := time.NewTimer(time.Until(next))
			timer, stop = t.C, t.Stop
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer:
		}
		if stop != nil {
			stop()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tell calls what is due and returns the moment of the next change.
func (c *Cloud) tell() time.Time {
	c.mu.Lock()
	now := time.Now()
	var next time.Time
	var due []func()
	later := func(t time.Time) {
		if !t.IsZero() && t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, m := range c.sorted() {
		state, view, req := m.state(now), m.view(now), m.req
		later(m.created)
		if state == cloudburst.Running && !m.toldBoot && c.onBoot != nil {
			m.toldBoot = true
			boot := c.onBoot
			due = append(due, func() { boot(view, req) })
		}
		if state == cloudburst.Gone && !m.toldGone && c.onGone != nil {
			m.toldGone = true
			gone := c.onGone
			due = append(due, func() { gone(view) })
		}
		later(m.boot)
		later(m.end)
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
	return next
}

func (c *Cloud) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// sorted gives the machines in order of creation. The caller holds mu.
func (c *Cloud) sorted() []*machine {
	return slices.SortedFunc(maps.Values(c.instances), func(a, b *machine) int {
		return strings.Compare(string(a.id), string(b.id))
	})
}

// make adds a machine. The caller holds mu.
func (c *Cloud) make(r cloudburst.Request, now time.Time) *machine {
	c.next++
	m := &machine{
		id:      cloudburst.InstanceID(fmt.Sprintf("i-%08d", c.next)),
		req:     r,
		price:   r.Offer.Price,
		created: now,
		boot:    now.Add(c.cfg.BootDelay),
	}
	if !c.cfg.NoRelease && !r.AutoRelease.IsZero() {
		m.end, m.released = r.AutoRelease, r.AutoRelease
	}
	for i, rule := range c.cfg.Reclaims {
		if !r.Offer.Spot || rule.Times > 0 && c.reclaimed[i] >= rule.Times {
			continue
		}
		if ok, err := path.Match(rule.Pool, r.Pool); rule.Pool != "" && (err != nil || !ok) {
			continue
		}
		c.reclaimed[i]++
		m.reclaimAt(m.boot.Add(rule.After), rule.Notice)
		break
	}
	c.instances[m.id] = m
	c.poke()
	return m
}

func (m *machine) reclaimAt(at time.Time, notice time.Duration) {
	if m.end.IsZero() || at.Before(m.end) {
		m.end = at
	}
	m.reclaim = true
	if notice > 0 {
		m.notice = at.Add(-notice)
	}
}

// there says whether the machine exists: one of a late create does not yet.
func (m *machine) there(now time.Time) bool {
	return !m.created.After(now) && m.state(now) != cloudburst.Gone
}

func (m *machine) state(now time.Time) cloudburst.State {
	switch {
	case !m.end.IsZero() && !now.Before(m.end):
		return cloudburst.Gone
	case !m.deleted.IsZero() && !now.Before(m.deleted):
		return cloudburst.Stopping
	case now.Before(m.boot):
		return cloudburst.Pending
	default:
		return cloudburst.Running
	}
}

func (m *machine) view(now time.Time) cloudburst.Instance {
	i := cloudburst.Instance{
		ID: m.id, Tag: m.req.Tag, ClusterUUID: m.req.ClusterUUID, Epoch: m.req.Epoch,
		NodeName: m.req.NodeName, Offer: m.req.Offer.ID, State: m.state(now),
		Region: m.req.Offer.Region, Zone: m.req.Offer.Zone,
		Price: m.price, CreatedAt: m.created,
	}
	if i.State == cloudburst.Running {
		i.Address = string(m.id) + ".fake:22"
	}
	if m.reclaim && !m.notice.IsZero() && !now.Before(m.notice) && i.State != cloudburst.Gone {
		at := m.end
		i.ReclaimAt = &at
	}
	return i
}
