package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/pool"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
)

// The kill points: every call a controller makes to its ledger and to the cloud
// is a step, and the controller is killed before or after any one of them.
// Killed means that nothing it does from then on has an effect.

var errKilled = errors.New("killed")

// killer counts the steps of one life of the controller and ends it.
type killer struct {
	at    int  // the step it dies at; 0 is never
	after bool // the step has its effect first
	steps int
	names []string
	dead  bool
	died  chan struct{}
}

// step runs one step, if the controller still lives. The books' lock is not
// held; the bubble runs one goroutine of this at a time only at the calls, so
// the counter is guarded by the books.
func (k *killer) step(b *books, name string, do func() error) error {
	b.mu.Lock()
	if k.dead {
		b.mu.Unlock()
		return errKilled
	}
	k.steps++
	k.names = append(k.names, name)
	mine := k.steps == k.at
	if mine {
		k.dead = true
		close(k.died)
	}
	b.mu.Unlock()
	if !mine || k.after {
		if err := do(); err != nil {
			return err
		}
	}
	if mine {
		return errKilled
	}
	return nil
}

// mortal is the ledger, seen by a controller that can be killed.
type mortal struct {
	*books
	k *killer
}

func (m mortal) Intend(ctx context.Context, r pool.Row) (ok bool, err error) {
	err = m.k.step(m.books, "intend", func() (err error) { ok, err = m.books.Intend(ctx, r); return err })
	return ok, err
}

func (m mortal) Learn(ctx context.Context, tag cloudburst.Tag, edit func(*pool.Row)) error {
	return m.k.step(m.books, "learn", func() error { return m.books.Learn(ctx, tag, edit) })
}

func (m mortal) Adopt(ctx context.Context, r pool.Row) error {
	return m.k.step(m.books, "adopt", func() error { return m.books.Adopt(ctx, r) })
}

func (m mortal) Gone(ctx context.Context, tag cloudburst.Tag, why string) error {
	return m.k.step(m.books, "gone", func() error { return m.books.Gone(ctx, tag, why) })
}

func (m mortal) NotRented(ctx context.Context, n string, inc uint32, why string) error {
	return m.k.step(m.books, "not rented", func() error { return m.books.NotRented(ctx, n, inc, why) })
}

func (m mortal) MarkPool(ctx context.Context, n string, until time.Time, why string) error {
	return m.k.step(m.books, "mark", func() error { return m.books.MarkPool(ctx, n, until, why) })
}

// mortalProvider is the cloud, seen by the same controller.
type mortalProvider struct {
	cloudburst.Provider
	b *books
	k *killer
}

func (m mortalProvider) Offers(ctx context.Context, w cloudburst.Want) (out []cloudburst.Offer, err error) {
	err = m.k.step(m.b, "offers", func() (err error) { out, err = m.Provider.Offers(ctx, w); return err })
	return out, err
}

func (m mortalProvider) Create(ctx context.Context, r cloudburst.Request) (out cloudburst.Instance, err error) {
	err = m.k.step(m.b, "create", func() (err error) { out, err = m.Provider.Create(ctx, r); return err })
	return out, err
}

func (m mortalProvider) List(ctx context.Context) (out []cloudburst.Instance, err error) {
	err = m.k.step(m.b, "list", func() (err error) { out, err = m.Provider.List(ctx); return err })
	return out, err
}

func (m mortalProvider) Delete(ctx context.Context, id cloudburst.InstanceID) error {
	return m.k.step(m.b, "delete", func() error { return m.Provider.Delete(ctx, id) })
}

func (m mortalProvider) SettleTime() time.Duration {
	return m.Provider.(cloudburst.Settler).SettleTime()
}

// stories are what a controller is killed in the middle of.
var stories = []struct {
	name  string
	fault *fake.Fault
	act   func(w *world) // the queue's decisions, spread over time
	fate  func(w *world) bool
}{
	{
		name: "rent",
		act:  func(w *world) { w.books.up("spot-1", "spot-2") },
		fate: func(w *world) bool { return w.rented("spot-1") && w.rented("spot-2") },
	},
	{
		name: "rent and give back",
		act: func(w *world) {
			w.books.up("spot-1")
			time.Sleep(2 * time.Second)
			w.books.down("spot-1", "idle for SuspendTime")
		},
		fate: func(w *world) bool { n := w.books.node("spot-1"); return n.Instance == "" && !n.PoweringDown },
	},
	{
		name:  "answers lost after the machine was made",
		fault: &fake.Fault{Op: "create", Times: 2, Err: cloudburst.ErrTransient, After: true},
		act:   func(w *world) { w.books.up("spot-1") },
		fate:  func(w *world) bool { return w.rented("spot-1") },
	},
	{
		name:  "no capacity",
		fault: &fake.Fault{Op: "create", Times: -1, Err: cloudburst.ErrNoCapacity},
		act:   func(w *world) { w.books.up("spot-1") },
		fate:  func(w *world) bool { n := w.books.node("spot-1"); return !n.PoweringUp && n.Instance == "" },
	},
	{
		name: "machine lost",
		act: func(w *world) {
			w.books.up("spot-1")
			time.Sleep(5 * time.Second)
			w.cloud.Reclaim("spot-1", 0)
		},
		fate: func(w *world) bool { n := w.books.node("spot-1"); return !n.PoweringUp && n.Instance == "" },
	},
}

// TestKilledBetweenAnyTwoSteps kills the controller at each of its steps, before
// and after the effect, starts it again and checks that the ledger and the cloud
// agree and the nodes got what they were to get.
func TestKilledBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			points := 0
			for at, more := 1, true; more; at++ {
				for _, after := range []bool{false, true} {
					name, reached := "", false
					synctest.Test(t, func(t *testing.T) {
						w := quiet(t)
						if story.fault != nil {
							w.cloud.Fail(*story.fault)
						}
						k := &killer{at: at, after: after, died: make(chan struct{})}
						w.start(mortal{w.books, k}, mortal{w.books, k}, func(p cloudburst.Provider) cloudburst.Provider {
							return mortalProvider{Provider: p, b: w.books, k: k}
						})
						go story.act(w)
						select {
						case <-k.died:
							name, reached = fmt.Sprintf("%d (%s), after=%v", at, k.names[at-1], after), true
						case <-time.After(20 * time.Second):
							name = "never"
						}
						w.stop()
						time.Sleep(3 * time.Second) // as long as a restart takes
						w.start(w.books, w.books, nil)
						within := func(what string, ok func() bool) {
							for end := time.Now().Add(10 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
								if time.Now().After(end) {
									t.Errorf("killed at step %s: %s; cloud %v; story %s", name, what, w.cloud.Live(), w.books.told())
									return
								}
							}
						}
						within("the node did not get what it was to get", func() bool { return story.fate(w) })
						within("the ledger and the cloud disagree", w.agree)
						time.Sleep(5 * time.Minute)
						if !w.agree() {
							t.Errorf("killed at step %s: they disagree later; cloud %v; story %s", name, w.cloud.Live(), w.books.told())
						}
						w.stop()
					})
					if t.Failed() {
						return
					}
					more = reached
					points++
				}
			}
			t.Logf("%d kill points", points-2)
			if points < 10 {
				t.Errorf("only %d kill points: the story was not told", points)
			}
		})
	}
}

// quiet is a world without a controller yet.
func quiet(t *testing.T) *world {
	t.Helper()
	w := worldOf(t, fake.New(slow()), newBooks(load(t, pools)))
	w.stop()
	return w
}
