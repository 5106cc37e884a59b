// Package providertest is the conformance suite of cloudburst providers. A
// provider's own test says how to make one and runs everything:
//
//	providertest.Run(t, providertest.Harness{Setup: ..., Want: ...})
//
// The suite creates real instances of whatever the provider rents and deletes
// them again. Differences between providers are declared in the Harness, not
// skipped silently.
package providertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// Account is one fresh, empty account at the provider.
type Account struct {
	// Open gives the provider as a cluster with this UUID would have it. Every
	// call after the first is a controller that was started again.
	Open func(clusterUUID string) cloudburst.Provider
	// Request fills in what a create needs beside Tag, ClusterUUID, Epoch,
	// NodeName, Pool and Offer (boot image, agent settings). May be nil.
	Request func(*cloudburst.Request)
	// NoCapacity makes every create answer "no capacity" from now on; nil when
	// that cannot be arranged.
	NoCapacity func()
	// FailAfterCreate makes the next create fail after the machine was really
	// made; nil when that cannot be arranged.
	FailAfterCreate func()
	// Check looks for what a deleted instance may leave behind; nil is no look.
	Check func(t *testing.T)
}

// Harness says how a provider is tested.
type Harness struct {
	Setup func(t *testing.T) Account
	Want  cloudburst.Want
	// In runs a test's body, for instance in a synctest bubble; nil calls it.
	In func(t *testing.T, body func(t *testing.T))
	// Within is how long a state may take to be reached; 0 is 30 s.
	Within time.Duration
	// Every is the time between two looks; 0 is 50 ms.
	Every time.Duration
}

// UUID makes up a cluster: tests that run at once must not share one, or they
// would take each other's machines for their own.
func UUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	if h.In == nil {
		h.In = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	if h.Within == 0 {
		h.Within = 30 * time.Second
	}
	if h.Every == 0 {
		h.Every = 50 * time.Millisecond
	}
	for _, c := range []struct {
		name string
		body func(*suite)
	}{
		{"offers fit the want", offersFit},
		{"nothing offered for an impossible want", offersNone},
		{"a machine's life", life},
		{"create twice is one machine", createTwice},
		{"create at once is one machine", createAtOnce},
		{"create again after a restart is one machine", createAfterRestart},
		{"create fails after making the machine", failAfterCreate},
		{"delete what is gone", deleteGone},
		{"delete at once", deleteAtOnce},
		{"no capacity", noCapacity},
		{"unknown offer", unknownOffer},
		{"other clusters are left alone", otherCluster},
		{"calls end with their context", cancelled},
		{"many machines", many},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.In(t, func(t *testing.T) {
				s := &suite{T: t, h: h, acc: h.Setup(t), ours: UUID(), theirs: UUID()}
				s.p = s.acc.Open(s.ours)
				c.body(s)
				s.cleanup()
			})
		})
	}
}

type suite struct {
	*testing.T
	h   Harness
	acc Account
	p   cloudburst.Provider

	ours, theirs string // UUIDs of two clusters
}

func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), s.h.Within)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) offer() cloudburst.Offer {
	s.Helper()
	offers, err := s.p.Offers(s.ctx(), s.h.Want)
	if err != nil || len(offers) == 0 {
		s.Fatalf("Offers: %d, %v", len(offers), err)
	}
	return offers[0]
}

func (s *suite) request(uuid, node string, incarnation uint64) cloudburst.Request {
	s.Helper()
	r := cloudburst.Request{
		Tag: cloudburst.MakeTag(uuid, node, incarnation), ClusterUUID: uuid, Epoch: 3,
		Pool: "pool", NodeName: node, Offer: s.offer(),
		Agent: cloudburst.AgentConfig{Controller: "tcp:127.0.0.1:1", Link: "dial", JoinToken: "secret", Runtime: "process", Workdir: "none"},
	}
	if s.acc.Request != nil {
		s.acc.Request(&r)
	}
	return r
}

func (s *suite) create(r cloudburst.Request) cloudburst.Instance {
	s.Helper()
	i, err := s.p.Create(s.ctx(), r)
	if err != nil {
		s.Fatalf("Create %s: %v", r.Tag, err)
	}
	if i.ID == "" || i.Tag != r.Tag || i.ClusterUUID != r.ClusterUUID || i.Epoch != r.Epoch || i.NodeName != r.NodeName {
		s.Errorf("Create answered %+v for %+v", i, r)
	}
	return i
}

// tagged lists the live instances with a tag.
func (s *suite) tagged(tag cloudburst.Tag) []cloudburst.Instance {
	s.Helper()
	all, err := s.p.List(s.ctx())
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	var out []cloudburst.Instance
	for _, i := range all {
		if i.Tag == tag && i.Live() {
			out = append(out, i)
		}
	}
	return out
}

// await looks until ok holds.
func (s *suite) await(what string, ok func() bool) {
	s.Helper()
	for waited := time.Duration(0); ; waited += s.h.Every {
		if ok() {
			return
		}
		if waited > s.h.Within {
			s.Fatalf("%s: not within %s", what, s.h.Within)
		}
		timer := time.NewTimer(s.h.Every)
		<-timer.C
	}
}

// awaitListed waits until List shows a machine: a list may lag behind, and what
// was never listed is not proved gone by not being listed.
func (s *suite) awaitListed(tag cloudburst.Tag) {
	s.Helper()
	s.await(fmt.Sprintf("%s is listed", tag), func() bool { return len(s.tagged(tag)) == 1 })
}

func (s *suite) awaitState(tag cloudburst.Tag, want cloudburst.State) {
	s.Helper()
	s.await(fmt.Sprintf("%s is %s", tag, want), func() bool {
		found := s.tagged(tag)
		if want == cloudburst.Gone {
			return len(found) == 0
		}
		return len(found) == 1 && found[0].State == want
	})
}

// cleanup deletes everything and checks that nothing is left.
func (s *suite) cleanup() {
	s.Helper()
	s.await("account is empty", func() bool {
		all, err := s.p.List(s.ctx())
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		left := 0
		for _, i := range all {
			if i.Live() {
				left++
				if err := s.p.Delete(s.ctx(), i.ID); err != nil {
					s.Errorf("Delete %s: %v", i.ID, err)
				}
			}
		}
		return left == 0
	})
	if s.acc.Check != nil {
		s.acc.Check(s.T)
	}
}

func offersFit(s *suite) {
	offers, err := s.p.Offers(s.ctx(), s.h.Want)
	if err != nil || len(offers) == 0 {
		s.Fatalf("Offers: %d, %v", len(offers), err)
	}
	seen := map[cloudburst.OfferID]bool{}
	for _, o := range offers {
		if err := s.h.Want.Fits(o); err != nil {
			s.Errorf("offer %s does not fit: %v", o.ID, err)
		}
		if o.ID == "" || o.Provider == "" || seen[o.ID] || o.Price.Micros < 0 {
			s.Errorf("offer is incomplete or doubled: %+v", o)
		}
		seen[o.ID] = true
	}
}

func offersNone(s *suite) {
	w := s.h.Want
	w.InstanceType = "no-such-instance-type"
	if offers, err := s.p.Offers(s.ctx(), w); err != nil || len(offers) != 0 {
		s.Errorf("Offers: %v, %v", offers, err)
	}
}

func life(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	before := s.create(r)
	s.awaitState(r.Tag, cloudburst.Running)
	i := s.tagged(r.Tag)[0]
	if i.ID != before.ID || i.ClusterUUID != s.ours || i.NodeName != "n-1" || i.Epoch != 3 || i.CreatedAt.IsZero() {
		s.Errorf("List shows %+v for %+v", i, r)
	}
	if i.Price != r.Offer.Price && !i.Price.IsZero() {
		s.Errorf("price %s, offered for %s", i.Price, r.Offer.Price)
	}
	if err := s.p.Delete(s.ctx(), i.ID); err != nil {
		s.Fatalf("Delete: %v", err)
	}
	s.awaitState(r.Tag, cloudburst.Gone)
}

func createTwice(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	a, b := s.create(r), s.create(r)
	if a.ID != b.ID {
		s.Errorf("two machines: %s and %s", a.ID, b.ID)
	}
	s.awaitState(r.Tag, cloudburst.Running)
	if c := s.create(r); c.ID != a.ID {
		s.Errorf("a third call made %s", c.ID)
	}
	second := s.create(s.request(s.ours, "n-1", 2))
	s.awaitListed(second.Tag)
	if second.ID == a.ID {
		s.Error("another incarnation got the same machine")
	}
}

func createAtOnce(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	other := s.acc.Open(s.ours)
	var wg sync.WaitGroup
	ids := make([]cloudburst.InstanceID, 6)
	for n := range ids {
		wg.Go(func() {
			p := s.p
			if n%2 == 1 {
				p = other
			}
			i, err := p.Create(s.ctx(), r)
			if err != nil {
				s.Errorf("Create: %v", err)
			}
			ids[n] = i.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			s.Fatalf("several machines: %v", ids)
		}
	}
	s.awaitState(r.Tag, cloudburst.Running)
}

func createAfterRestart(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	a := s.create(r)
	s.p = s.acc.Open(s.ours)
	s.awaitState(r.Tag, cloudburst.Running)
	if b := s.create(r); a.ID != b.ID {
		s.Errorf("two machines: %s and %s", a.ID, b.ID)
	}
}

func failAfterCreate(s *suite) {
	if s.acc.FailAfterCreate == nil {
		s.Log("declared: the provider cannot be made to fail after a create")
		return
	}
	r := s.request(s.ours, "n-1", 1)
	s.acc.FailAfterCreate()
	if _, err := s.p.Create(s.ctx(), r); err == nil {
		s.Fatal("Create did not fail")
	}
	i := s.create(r)
	s.awaitState(r.Tag, cloudburst.Running)
	if found := s.tagged(r.Tag); found[0].ID != i.ID {
		s.Errorf("List shows %s, Create answered %s", found[0].ID, i.ID)
	}
}

func deleteGone(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	i := s.create(r)
	s.awaitListed(r.Tag)
	for range 2 {
		if err := s.p.Delete(s.ctx(), i.ID); err != nil {
			s.Errorf("Delete: %v", err)
		}
	}
	s.awaitState(r.Tag, cloudburst.Gone)
	if err := s.p.Delete(s.ctx(), i.ID); err != nil {
		s.Errorf("Delete of what is gone: %v", err)
	}
	if err := s.acc.Open(s.ours).Delete(s.ctx(), i.ID); err != nil {
		s.Errorf("Delete of what is gone, after a restart: %v", err)
	}
}

func deleteAtOnce(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	i := s.create(r)
	s.awaitListed(r.Tag)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.p.Delete(s.ctx(), i.ID); err != nil {
				s.Errorf("Delete: %v", err)
			}
		})
	}
	wg.Wait()
	s.awaitState(r.Tag, cloudburst.Gone)
}

func noCapacity(s *suite) {
	if s.acc.NoCapacity == nil {
		s.Log("declared: the provider cannot be made to run out of capacity")
		return
	}
	r := s.request(s.ours, "n-1", 1)
	s.acc.NoCapacity()
	if _, err := s.p.Create(s.ctx(), r); !errors.Is(err, cloudburst.ErrNoCapacity) {
		s.Errorf("Create: %v, want %v", err, cloudburst.ErrNoCapacity)
	}
	s.awaitState(r.Tag, cloudburst.Gone)
}

func unknownOffer(s *suite) {
	r := s.request(s.ours, "n-1", 1)
	r.Offer.ID, r.Offer.InstanceType = "no-such-offer", "no-such-instance-type"
	if _, err := s.p.Create(s.ctx(), r); !errors.Is(err, cloudburst.ErrBadRequest) && !errors.Is(err, cloudburst.ErrNoCapacity) {
		s.Errorf("Create: %v, want %v or %v", err, cloudburst.ErrBadRequest, cloudburst.ErrNoCapacity)
	}
	s.awaitState(r.Tag, cloudburst.Gone)
}

func otherCluster(s *suite) {
	mine, theirs := s.request(s.ours, "n-1", 1), s.request(s.theirs, "n-1", 1)
	other := s.acc.Open(s.theirs)
	t, err := other.Create(s.ctx(), theirs)
	if err != nil {
		s.Fatalf("Create: %v", err)
	}
	i := s.create(mine)
	if i.ID == t.ID {
		s.Fatal("two clusters share a machine")
	}
	s.awaitState(mine.Tag, cloudburst.Running)
	if err := s.p.Delete(s.ctx(), i.ID); err != nil {
		s.Fatalf("Delete: %v", err)
	}
	s.awaitState(mine.Tag, cloudburst.Gone)
	all, err := other.List(s.ctx())
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	for _, o := range all {
		if o.ID == t.ID && o.Live() {
			if o.ClusterUUID != s.theirs {
				s.Errorf("the other cluster's machine is listed as %s's", o.ClusterUUID)
			}
			if err := other.Delete(s.ctx(), t.ID); err != nil {
				s.Errorf("Delete: %v", err)
			}
			return
		}
	}
	s.Error("the other cluster's machine is gone")
}

func cancelled(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	r := s.request(s.ours, "n-1", 1)
	cancel()
	if _, err := s.p.Create(ctx, r); err == nil {
		s.Error("Create with a cancelled context succeeded")
	}
	if _, err := s.p.List(ctx); err == nil {
		s.Error("List with a cancelled context succeeded")
	}
	// The create may have made a machine or not; cleanup must find it.
}

func many(s *suite) {
	const n = 5
	var wg sync.WaitGroup
	for k := range n {
		r := s.request(s.ours, fmt.Sprintf("n-%d", k), 1)
		wg.Go(func() {
			if _, err := s.p.Create(s.ctx(), r); err != nil {
				s.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	for k := range n {
		s.awaitState(cloudburst.MakeTag(s.ours, fmt.Sprintf("n-%d", k), 1), cloudburst.Running)
	}
}
