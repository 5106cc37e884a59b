package pool_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
)

func slow() fake.Config {
	return fake.Config{
		Offers:    []fake.Offer{fake.Simple("a100", 1, true), fake.Simple("a100", 2, true), fake.Simple("h100", 8, false)},
		BootDelay: 40 * time.Second, DeleteDelay: 5 * time.Second, ListLag: 2 * time.Second,
		GoneLinger: time.Minute, Latency: 200 * time.Millisecond,
	}
}

// bubble runs a test on fake time with a world in it.
func bubble(t *testing.T, cfg fake.Config, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg)
		body(w)
		w.stop()
	})
}

func TestRentAndGiveBack(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1", "spot-2")
		w.eventually("both rented", 5*time.Second, func() bool { return w.rented("spot-1") && w.rented("spot-2") })
		r := w.books.live()[0]
		if r.ID == "" || r.InstanceType != "fake-a100" || r.GPUs != "gpu:a100:1" || r.Price.Micros != 1e6 || !r.Spot || r.CreatedAt.IsZero() {
			w.Errorf("row: %+v", r)
		}
		time.Sleep(time.Hour)
		if !w.rented("spot-1") || !w.agree() {
			w.Error("machines did not stay")
		}
		w.books.down("spot-1", "idle for SuspendTime")
		w.eventually("given back", 20*time.Second, func() bool { return w.books.node("spot-1").Instance == "" })
		if !w.agree() || !w.rented("spot-2") {
			w.Errorf("cloud %v, ledger %v", w.cloud.Live(), w.books.live())
		}
		if c := w.pool.Leaks(w.Context()); c.Leaked() != 0 || c.Listed != 1 || c.Tracked != 1 || len(c.Leaks) > 0 {
			w.Errorf("leaks: %+v", c)
		}
	})
}

func TestShapeFollowsTheJobs(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.mu.Lock()
		w.books.nodes["spot-1"].GPUs = 2
		w.books.mu.Unlock()
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		if r := w.books.live()[0]; r.GPUs != "gpu:a100:2" {
			w.Errorf("row: %+v", r)
		}
	})
}

func TestNoCapacitySetsThePoolAside(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.cloud.SetCapacity("fake-a100", 0)
		w.books.up("spot-1")
		w.eventually("node given back", 2*time.Second, func() bool { return w.books.lost("spot-1") == 1 })
		if why := w.books.mark("spot"); why != "nothing to rent: none of 2 offers fits; most often: none left" {
			w.Errorf("why: %q", why)
		}
		st := w.pool.Pools()[0]
		if st.Class != "no-offer" || st.Until.IsZero() || st.Live != 0 {
			w.Errorf("status: %+v", st)
		}
		calls := w.asked()
		w.books.up("spot-1")
		w.eventually("given back at once", time.Second, func() bool { return w.books.lost("spot-1") == 2 })
		if w.asked() != calls {
			w.Error("a pool that is set aside was asked")
		}
		w.books.up("big-1") // the other pool of the same provider goes on
		w.eventually("other pool", 5*time.Second, func() bool { return w.rented("big-1") })

		w.cloud.SetCapacity("fake-a100", -1)
		time.Sleep(time.Minute)
		w.books.up("spot-1")
		w.eventually("rented after the backoff", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.eventually("usable again", time.Second, func() bool { return w.books.mark("spot") == "" })
	})
}

func TestWhyNothingIsRented(t *testing.T) {
	t.Parallel()
	dear := slow()
	for i := range dear.Offers {
		dear.Offers[i].Price.Micros = 4e6
	}
	sold := slow()
	for i := range sold.Offers {
		sold.Offers[i].Capacity = 0
	}
	none := slow()
	none.Offers = nil
	for want, cfg := range map[string]fake.Config{
		"none of 2 offers fits; most often: price 4.00USD is above MaxPrice 3.00USD": dear,
		"none of 2 offers fits; most often: none left":                               sold,
		"the provider offers nothing that fits":                                      none,
	} {
		bubble(t, cfg, func(w *world) {
			w.books.up("spot-1")
			w.eventually("given back", 2*time.Second, func() bool { return w.books.lost("spot-1") == 1 })
			if why := w.books.mark("spot"); why != "nothing to rent: "+want {
				w.Errorf("why: %q, want %q", why, want)
			}
		})
	}
}

func TestPoolThatCannotBeUsedRests(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.mu.Lock()
		w.books.config = load(w.T, strings.Replace(pools, "Capacity=spot", "Capacity=spot State=DOWN", 1))
		w.books.mu.Unlock()
		w.books.up("spot-1")
		w.eventually("given back", time.Second, func() bool { return w.books.lost("spot-1") == 1 })
		if why := w.books.mark("spot"); why != "not usable as configured: pool spot is DOWN" {
			w.Errorf("why: %q", why)
		}
		w.books.mu.Lock()
		w.books.config = load(w.T, pools)
		w.books.mu.Unlock()
		w.books.up("spot-1") // a change wakes the pool, which sees the cured configuration
		w.eventually("rented", 5*time.Second, func() bool {
			if n := w.books.node("spot-1"); !n.PoweringUp {
				w.books.up("spot-1")
			}
			return w.rented("spot-1")
		})
	})
}

func TestGivingBackMakesRoom(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.Offers = cfg.Offers[:1]
	cfg.Offers[0].Capacity = 1
	bubble(t, cfg, func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.books.up("spot-2")
		w.eventually("refused", 5*time.Second, func() bool { return w.books.lost("spot-2") == 1 && w.books.mark("spot") != "" })
		w.books.down("spot-1", "idle for SuspendTime")
		w.eventually("room", 15*time.Second, func() bool { return w.books.mark("spot") == "" })
		w.books.up("spot-2")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-2") })
	})
}

// A success that was on its way does not undo a refusal that came after it.
func TestEarlierSuccessDoesNotForgive(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.Offers = cfg.Offers[:1]
	cfg.Offers[0].Capacity = 1
	bubble(t, cfg, func(w *world) {
		w.cloud.Fail(fake.Fault{Op: "create", Err: nil, After: true, Delay: 5 * time.Second})
		w.books.up("spot-1")
		time.Sleep(time.Second)
		w.books.up("spot-2")
		w.eventually("refused", 3*time.Second, func() bool { return w.books.lost("spot-2") == 1 })
		w.eventually("rented", 10*time.Second, func() bool { return w.rented("spot-1") })
		if w.books.mark("spot") == "" {
			w.Error("the pool is usable again")
		}
	})
}

func TestRefusalAtCreateTriesTheNextOffer(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.cloud.Fail(fake.Fault{Op: "create", Err: cloudburst.ErrNoCapacity})
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		if r := w.books.live()[0]; r.GPUs != "gpu:a100:2" {
			w.Errorf("row: %+v", r)
		}
	})
}

func TestRefusalsGrowQuieter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err       error
		most, min int // creates in half a day of asking every minute
	}{
		{cloudburst.ErrNoCapacity, 110, 50},
		{cloudburst.ErrQuota, 20, 8},
		{cloudburst.ErrAuth, 20, 8},
		{cloudburst.ErrNoBalance, 20, 8},
		{cloudburst.ErrBadRequest, 20, 8},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			cfg := slow()
			cfg.Offers = cfg.Offers[:1]
			bubble(t, cfg, func(w *world) {
				w.cloud.Fail(fake.Fault{Op: "create", Times: -1, Err: c.err})
				for range 12 * 60 {
					if n := w.books.node("spot-1"); !n.PoweringUp && !n.PoweringDown {
						w.books.up("spot-1")
					}
					time.Sleep(time.Minute)
				}
				n := 0
				for _, call := range w.cloud.Calls() {
					if call.Op == "create" {
						n++
					}
				}
				if n > c.most || n < c.min {
					w.Errorf("%d creates in half a day", n)
				}
				if len(w.books.live()) != 0 {
					w.Errorf("rows: %v", w.books.live())
				}
			})
		})
	}
}

func TestCreateThatFailsAfterMakingTheMachine(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"transient": cloudburst.ErrTransient, "odd": errors.New("connection reset"), "rate": cloudburst.RateLimited{After: 3 * time.Second},
		"no-capacity": cloudburst.ErrNoCapacity,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, slow(), func(w *world) {
				w.cloud.Fail(fake.Fault{Op: "create", Times: 1, Err: err, After: true})
				w.books.up("spot-1")
				w.eventually("rented", time.Minute, func() bool { return w.rented("spot-1") })
				time.Sleep(time.Minute)
				if !w.agree() {
					w.Errorf("cloud %v, ledger %v", w.cloud.Live(), w.books.live())
				}
			})
		})
	}
}

// A provider that answers with an error and makes the machine long after: while
// it is on its way, a second one may be made under the same tag. In the end
// there is exactly what the ledger says.
func TestMachinesThatComeLate(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Second, 10 * time.Second, 3 * time.Minute} {
		for _, err := range []error{cloudburst.ErrTransient, cloudburst.ErrNoCapacity, cloudburst.ErrQuota} {
			t.Run(late.String()+" "+cloudburst.Class(err), func(t *testing.T) {
				t.Parallel()
				bubble(t, slow(), func(w *world) {
					w.cloud.Fail(fake.Fault{Op: "create", Times: 2, Err: err, After: true, Late: late})
					w.books.up("spot-1")
					time.Sleep(20 * time.Minute)
					if n := w.books.node("spot-1"); n.Instance != "" {
						w.books.down("spot-1", "idle for SuspendTime")
					}
					time.Sleep(20 * time.Minute)
					if live := w.cloud.Live(); len(live) != 0 {
						w.Errorf("live %v; story %s", live, w.books.told())
					}
					if rows := w.books.live(); len(rows) != 0 {
						w.Errorf("rows %v", rows)
					}
				})
			})
		}
	}
}

func TestHundredNodesHalfOfTheAnswersLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New(slow())
		w := worldOf(t, cloud, newBooks(load(t, strings.Replace(pools, "MaxNodes=4", "MaxNodes=100", 1))))
		for nth := 1; nth <= 100; nth += 2 {
			cloud.Fail(fake.Fault{Op: "create", Nth: nth, Err: cloudburst.ErrTransient, After: true})
		}
		var names []string
		for _, p := range w.books.config.Pools {
			if p.Name == "spot" {
				names = p.NodeNames()
			}
		}
		w.books.up(names...)
		w.eventually("all rented", 5*time.Minute, func() bool {
			for _, n := range names {
				if !w.rented(n) {
					return false
				}
			}
			return true
		})
		if !w.agree() || len(cloud.Live()) != 100 {
			t.Errorf("%d machines, %d rows", len(cloud.Live()), len(w.books.live()))
		}
		w.stop()
	})
}

func TestProviderThatNeverAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.cloud.Fail(fake.Fault{Op: "create", Times: -1, Delay: time.Hour})
		w.books.up("spot-1")
		w.eventually("given back", 10*time.Minute, func() bool { return w.books.lost("spot-1") == 1 })
		if why := w.books.mark("spot"); !strings.Contains(why, "does not answer as it should") {
			w.Errorf("why: %q", why)
		}
		w.cloud.Heal()
		time.Sleep(6 * time.Minute)
		w.books.up("spot-1")
		w.eventually("rented", time.Minute, func() bool { return w.rented("spot-1") })
	})
}

func TestDeleteIsRepeatedUntilTheListConfirms(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.cloud.Fail(fake.Fault{Op: "delete", Times: 3, Err: cloudburst.ErrTransient})
		w.cloud.Fail(fake.Fault{Op: "list", Times: 4, Err: cloudburst.ErrTransient})
		w.books.down("spot-1", "idle for SuspendTime")
		time.Sleep(3 * time.Second)
		if w.books.node("spot-1").Instance == "" {
			w.Error("called gone without a list that says so")
		}
		w.eventually("gone", 2*time.Minute, func() bool { return w.books.node("spot-1").Instance == "" })
		if len(w.cloud.Live()) != 0 {
			w.Errorf("live: %v", w.cloud.Live())
		}
	})
}

func TestLateMachineIsDeletedAndItsPoolRests(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.cloud.SetBootDelay(time.Hour)
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.books.mu.Lock()
		w.books.nodes["spot-1"].ResumeBy = time.Now().Add(15 * time.Minute)
		w.books.mu.Unlock()
		time.Sleep(16 * time.Minute)
		w.books.down("spot-1", "")
		w.eventually("gone", time.Minute, func() bool { return w.books.node("spot-1").Instance == "" })
		if len(w.cloud.Live()) != 0 || w.books.mark("spot") != "machines do not boot within ResumeTimeout" {
			w.Errorf("live %v, mark %q", w.cloud.Live(), w.books.mark("spot"))
		}
	})
}

func TestLostMachineIsTold(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		time.Sleep(2 * time.Minute)
		w.cloud.Reclaim("spot-1", 0)
		w.eventually("told", 40*time.Second, func() bool { return w.books.lost("spot-1") == 1 })
	})
}

func TestNoticeIsPassedOn(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		time.Sleep(2 * time.Minute)
		w.cloud.Reclaim("spot-1", 2*time.Minute)
		w.eventually("notice", 40*time.Second, func() bool { return !w.books.node("spot-1").ReclaimAt.IsZero() })
		w.eventually("gone", 3*time.Minute, func() bool { return w.books.node("spot-1").Instance == "" })
		if n := strings.Count(w.books.told(), "notice"); n != 1 {
			w.Errorf("%d notices", n)
		}
	})
}

func TestListThatFailsKillsNobody(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.cloud.Fail(fake.Fault{Op: "list", Times: -1, Err: cloudburst.ErrTransient})
		time.Sleep(24 * time.Hour)
		if !w.rented("spot-1") || w.books.lost("spot-1") != 0 {
			w.Error("a machine was given up on an unclear answer")
		}
		lists := 0
		for _, c := range w.cloud.Calls() {
			if c.Op == "list" {
				lists++
			}
		}
		if lists > 2000 {
			w.Errorf("%d lists in a day of failures", lists)
		}
	})
}

func TestReaper(t *testing.T) {
	t.Parallel()
	const theirs = "99999999-2222-4333-8444-555555555555"
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New(slow())
		offer := slow().Offers[0].Offer
		offer.ID = "offer-1"
		plant := func(cluster, node string, epoch uint64) {
			cloud.Plant(cloudburst.Request{
				Tag: cloudburst.MakeTag(cluster, node, 9), ClusterUUID: cluster, Epoch: epoch, NodeName: node, Offer: offer,
			})
		}
		plant(uuid, "spot-1", 1)                                                     // the ledger was restored from an old backup
		plant(uuid, "nosuch-1", 1)                                                   // of a pool long gone
		plant(uuid, "spot-2", 2)                                                     // of a controller that leads after us
		plant(theirs, "spot-1", 1)                                                   // another installation's
		cloud.Plant(cloudburst.Request{Tag: "web-1", NodeName: "web", Offer: offer}) // nobody's
		time.Sleep(time.Minute)
		w := worldOf(t, cloud, newBooks(load(t, pools)))
		time.Sleep(2 * time.Minute)
		left := map[cloudburst.Tag]bool{}
		for _, i := range cloud.Live() {
			left[i.Tag] = true
		}
		if len(left) != 3 || !left[cloudburst.MakeTag(uuid, "spot-2", 9)] || !left[cloudburst.MakeTag(theirs, "spot-1", 9)] || !left["web-1"] {
			t.Errorf("left: %v", left)
		}
		if n := strings.Count(w.books.told(), "adopt"); n != 2 || len(w.books.live()) != 0 {
			t.Errorf("%d adopted, live %v", n, w.books.live())
		}
		c := w.pool.Leaks(t.Context())
		if c.Others != 2 || c.Leaked() != 1 { // the later epoch's: this controller's ledger does not know it
			t.Errorf("leaks: %+v", c)
		}
		w.stop()
	})
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.cloud.Fail(fake.Fault{Op: "create", Times: -1, Err: errors.New("500: body {token: s3cret-spot-1}")})
		w.books.up("spot-1")
		w.eventually("given back", 10*time.Minute, func() bool { return w.books.lost("spot-1") == 1 })
		for _, text := range []string{w.books.mark("spot"), w.books.told()} {
			if strings.Contains(text, "s3cret") {
				w.Errorf("a secret in %q", text)
			}
		}
	})
}

func TestDearMachineGoesBack(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		// The price rises between offer and create.
		w.cloud.Fail(fake.Fault{Op: "create", Delay: time.Second})
		w.books.up("spot-1")
		time.Sleep(500 * time.Millisecond)
		w.cloud.SetPrice("fake-a100", cloudburst.Money{Micros: 4e6, Currency: "USD"})
		w.eventually("given back", time.Minute, func() bool { return w.books.lost("spot-1") == 1 })
		if why := w.books.mark("spot"); len(w.cloud.Live()) != 0 || !strings.Contains(why, "above MaxPrice 3.00USD") {
			w.Errorf("live %v, why %q", w.cloud.Live(), why)
		}
	})
}

func TestPoolThatLeavesTheConfigIsEmptied(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		w.books.mu.Lock()
		w.books.config = load(w.T, "ProviderName=other Type=fake\nPoolName=spot Provider=other MaxNodes=1\nPoolName=big Provider=other MaxNodes=1\n")
		w.books.mu.Unlock()
		w.books.down("spot-1", "removed from the config")
		w.eventually("gone", time.Minute, func() bool { return w.books.node("spot-1").Instance == "" })
		if len(w.cloud.Live()) != 0 {
			w.Errorf("live: %v", w.cloud.Live())
		}
	})
}

func TestMachinesOutliveTheirAutoReleaseOnlyUnderAController(t *testing.T) {
	t.Parallel()
	bubble(t, slow(), func(w *world) {
		w.books.up("spot-1")
		w.eventually("rented", 5*time.Second, func() bool { return w.rented("spot-1") })
		time.Sleep(24 * time.Hour)
		if !w.rented("spot-1") || len(w.cloud.Live()) != 1 {
			w.Fatal("released under a living controller")
		}
		w.stop()
		time.Sleep(w.books.config.OrphanTimeout + 30*time.Minute)
		if len(w.cloud.Live()) != 0 {
			w.Error("a forgotten machine runs on")
		}
	})
}
