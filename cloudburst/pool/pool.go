package pool

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
)

// Config is what a Pool is made from. All of the first group must be set.
type Config struct {
	Ledger Ledger
	Nodes  NodeSink
	// Open makes a configured provider.
	Open func(*partitions.Provider) (cloudburst.Provider, error)
	// Agent is what the agent of a new machine needs, its join token included.
	Agent func(Row, *partitions.Pool) (cloudburst.AgentConfig, error)
	Now   func() time.Time // wall time, the queue's
	Rand  *rand.Rand       // jitter; used by this pool alone
	Log   *slog.Logger

	Timeout    time.Duration                               // of one provider call; 0 is 2 minutes
	Interval   time.Duration                               // between looks at a provider that has machines; 0 is 30 s
	Idle       time.Duration                               // between looks at one that has none; 0 is 10 minutes
	Backoff    map[string]Backoff                          // by class, over the defaults
	UserData   func(Row, *partitions.Pool) (string, error) // start-up text; nil is none
	Registerer prometheus.Registerer                       // nil counts for itself
}

// Pool rents and gives back the machines of all pools.
type Pool struct {
	cfg   Config
	log   *slog.Logger
	calls *prometheus.CounterVec
	wake  chan struct{}

	mu       sync.Mutex
	accounts map[string]*account
	aside    map[string]*aside
	busy     map[string]bool              // what a worker is at: tags, mostly
	held     map[string]time.Time         // what a worker failed at: not again before then
	tries    map[cloudburst.Tag]*try      // rows whose machine may or may not be there
	removals map[cloudburst.Tag]*removal  // rows being deleted
	seen     map[cloudburst.Tag]bool      // machines that a List has shown
	created  map[cloudburst.Tag]time.Time // when the last create of a tag was answered
	began    time.Time                    // of Run: creates of an earlier life were before it
	config   *partitions.Config           // last seen
}

// try counts creates of a row that were not clearly answered.
type try struct {
	n    int
	next time.Time
}

// removal is the deletion of one row's machine.
type removal struct {
	n      int
	next   time.Time
	asked  time.Time // when the provider last took the order; zero is never
	warned bool
}

// New makes a pool; Run works.
func New(cfg Config) (*Pool, error) {
	if cfg.Ledger == nil || cfg.Nodes == nil || cfg.Open == nil || cfg.Agent == nil || cfg.Now == nil || cfg.Rand == nil || cfg.Log == nil {
		return nil, errors.New("pool: incomplete configuration")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.Timeout, 2*time.Minute)
	def(&cfg.Interval, 30*time.Second)
	def(&cfg.Idle, 10*time.Minute)
	calls, err := newCalls(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Pool{
		cfg: cfg, log: cfg.Log, calls: calls, wake: make(chan struct{}, 1),
		accounts: map[string]*account{}, aside: map[string]*aside{}, busy: map[string]bool{}, held: map[string]time.Time{},
		tries: map[cloudburst.Tag]*try{}, removals: map[cloudburst.Tag]*removal{},
		seen: map[cloudburst.Tag]bool{}, created: map[cloudburst.Tag]time.Time{},
	}, nil
}

// breath is the least time between the starts of two rounds, so that a busy
// queue does not keep the pool busy too.
const breath = 50 * time.Millisecond

// Run reconciles until ctx ends; it returns when all of its calls have. One
// controller at a time may run it: the one that leads.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.began = p.cfg.Now()
	p.mu.Unlock()
	changed, stop := p.cfg.Ledger.Watch()
	defer stop()
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		rested := time.NewTimer(breath)
		next := p.round(ctx, &workers)
		due := time.NewTimer(max(breath, next.Sub(p.cfg.Now())))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-p.wake:
		case <-due.C:
		}
		due.Stop()
		select {
		case <-ctx.Done():
			rested.Stop()
			return ctx.Err()
		case <-rested.C:
		}
	}
}

func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// hold is how long a key rests after its worker failed at something no other
// backoff covers: the ledger did not take a change.
const hold = time.Second

// work runs a job for key unless one is at it already or has just failed. It
// says when to come again.
func (p *Pool) work(ctx context.Context, workers *sync.WaitGroup, key string, do func(context.Context) error) (again time.Time) {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	until, is := p.held[key]
	if is && now.Before(until) {
		return until
	}
	delete(p.held, key)
	if p.busy[key] {
		return now.Add(p.cfg.Interval) // it wakes us when it is done
	}
	p.busy[key] = true
	workers.Go(func() {
		err := do(ctx)
		p.mu.Lock()
		delete(p.busy, key)
		if err != nil {
			p.held[key] = p.cfg.Now().Add(hold)
		}
		p.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			p.log.Error("pool", "for", key, "err", clean(err))
		}
		p.poke()
	})
	return now.Add(p.cfg.Interval)
}

// round starts what the newest snapshot asks for and says when to look again
// at the latest.
func (p *Pool) round(ctx context.Context, workers *sync.WaitGroup) time.Time {
	s := p.cfg.Ledger.Snapshot()
	now := p.cfg.Now()
	next := now.Add(p.cfg.Interval)
	start := func(due time.Time, is bool, key string, do func(context.Context) error) {
		if is {
			due = p.work(ctx, workers, key, do)
		}
		if due.Before(next) {
			next = due
		}
	}
	for _, name := range p.reconfigured(s.Config) {
		start(now, true, "pool "+name, func(ctx context.Context) error {
			return p.cfg.Nodes.MarkPool(ctx, name, time.Time{}, "")
		})
	}
	nodes := make(map[string]Node, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes[n.Name] = n
		if n.PoweringUp && n.Instance == "" {
			tag := cloudburst.MakeTag(s.ClusterUUID, n.Name, uint64(n.Incarnation))
			start(now, true, string(tag), func(ctx context.Context) error { return p.rent(ctx, s, n, tag) })
		}
	}
	rows := make(map[cloudburst.Tag]bool, len(s.Rows))
	for _, r := range s.Rows {
		rows[r.Tag] = true
		n, known := nodes[r.Node]
		wanted := known && n.Instance == r.Tag && !n.PoweringDown
		switch {
		case !r.Live():
		case r.State == Deleting || !wanted:
			due, is := p.removeDue(r, now)
			start(due, is, string(r.Tag), func(ctx context.Context) error { return p.remove(ctx, r.Tag) })
		case r.State == Intent:
			due, is := p.tryDue(r, now)
			start(due, is, string(r.Tag), func(ctx context.Context) error { return p.again(ctx, r.Tag) })
		}
	}
	p.forget(rows)
	for _, name := range watched(s) {
		a, err := p.account(s.Config, name)
		if err != nil {
			p.log.Debug("provider", "provider", name, "err", clean(err))
			continue
		}
		p.listen(ctx, workers, a)
		due, is := p.lookDue(s, a, now)
		start(due, is, "list "+name, func(ctx context.Context) error { return p.look(ctx, a) })
	}
	return next
}

// row reads a row and its node anew: a worker starts from the state of its own
// moment, not of the round that started it. An unknown row is Gone. wanted says
// whether its node stands on this very machine and shall go on to.
func (p *Pool) row(tag cloudburst.Tag) (s Snapshot, r Row, n Node, wanted bool) {
	s = p.cfg.Ledger.Snapshot()
	r.State = Gone
	for _, have := range s.Rows {
		if have.Tag == tag {
			r = have
		}
	}
	for _, have := range s.Nodes {
		if have.Name == r.Node && r.Node != "" {
			n = have
		}
	}
	return s, r, n, n.Instance == tag && !n.PoweringDown
}

// watched names the providers to look at: all that are configured, and those
// that have machines in the ledger.
func watched(s Snapshot) []string {
	var names []string
	have := map[string]bool{}
	add := func(name string) {
		if !have[name] {
			have[name] = true
			names = append(names, name)
		}
	}
	for _, c := range s.Config.Providers {
		add(c.Name)
	}
	for _, r := range s.Rows {
		if r.Live() {
			add(r.Provider)
		}
	}
	return names
}

// listen starts a provider's Notify once.
func (p *Pool) listen(ctx context.Context, workers *sync.WaitGroup, a *account) {
	n, ok := a.provider.(cloudburst.Notifier)
	p.mu.Lock()
	if !ok || a.notifier {
		p.mu.Unlock()
		return
	}
	a.notifier = true
	p.mu.Unlock()
	changed := make(chan struct{}, 1)
	workers.Go(func() {
		err := n.Notify(ctx, changed)
		if ctx.Err() == nil {
			p.log.Warn("provider tells no changes any more; looking at intervals", "provider", a.name, "err", clean(err))
		}
		close(changed)
	})
	workers.Go(func() {
		for range changed {
			p.lookNow(a)
			p.poke()
		}
	})
}

// lookNow makes the next look at a provider due.
func (p *Pool) lookNow(a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.nextLook = time.Time{}
}

// reconfigured forgets refusals that a new configuration may have cured, and
// names their pools.
func (p *Pool) reconfigured(c *partitions.Config) (cured []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config == c {
		return nil
	}
	if p.config != nil {
		for name, a := range p.aside {
			switch a.class {
			case "auth", "quota", "no-balance", "bad-request", "unsupported", "no-offer", "config":
				delete(p.aside, name)
				cured = append(cured, name)
			}
		}
	}
	p.config = c
	return cured
}

// forget drops what is remembered of rows that are no longer in memory.
func (p *Pool) forget(rows map[cloudburst.Tag]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(tag cloudburst.Tag) bool { return !rows[tag] && !p.busy[string(tag)] }
	maps.DeleteFunc(p.seen, func(tag cloudburst.Tag, _ bool) bool { return gone(tag) })
	maps.DeleteFunc(p.created, func(tag cloudburst.Tag, _ time.Time) bool { return gone(tag) })
}
