package queue

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchers wake readers when a new state is published. A slow reader misses
// wake-ups, never states: it reads the newest snapshot when it comes.
type watchers struct {
	mu  sync.Mutex
	set map[chan struct{}]struct{}
}

// Watch returns a channel that receives after every published change (at
// least once after the last one) and a function that ends it.
func (q *Queue) Watch() (<-chan struct{}, func()) {
	w := &q.watchers
	c := make(chan struct{}, 1)
	w.mu.Lock()
	if w.set == nil {
		w.set = map[chan struct{}]struct{}{}
	}
	w.set[c] = struct{}{}
	w.mu.Unlock()
	return c, func() {
		w.mu.Lock()
		delete(w.set, c)
		w.mu.Unlock()
	}
}

func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.set {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Stats count what the owner did; all are totals since start.
type Stats struct {
	commits, commands, nanos atomic.Int64
	// Passes of the scheduler: their number, nanoseconds and pending jobs.
	passes, passLast, passMax, passSum, passDepth atomic.Int64
}

func (s *Stats) commit(n int, d time.Duration) {
	s.commits.Add(1)
	s.commands.Add(int64(n))
	s.nanos.Add(int64(d))
}

func (s *Stats) pass(pending int, d time.Duration) {
	s.passes.Add(1)
	s.passLast.Store(int64(d))
	s.passSum.Add(int64(d))
	s.passDepth.Add(int64(pending))
	if int64(d) > s.passMax.Load() { // there is one scheduler
		s.passMax.Store(int64(d))
	}
}

// Counters are the totals of Stats.
type Counters struct {
	Commits, Commands int64
	CommitTime        time.Duration
	Inbox             int
	// Passes of the scheduler; PassDepth sums up the jobs that were pending.
	Passes, PassDepth          int64
	PassLast, PassMax, PassSum time.Duration
}

// Counters reads the totals.
func (q *Queue) Counters() Counters {
	return Counters{
		Commits: q.stats.commits.Load(), Commands: q.stats.commands.Load(),
		CommitTime: time.Duration(q.stats.nanos.Load()), Inbox: len(q.inbox),
		Passes: q.stats.passes.Load(), PassDepth: q.stats.passDepth.Load(),
		PassLast: time.Duration(q.stats.passLast.Load()), PassMax: time.Duration(q.stats.passMax.Load()), PassSum: time.Duration(q.stats.passSum.Load()),
	}
}
