package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
	"github.com/sbatchd/sbatchd/cloudburst/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]fake.Config{
		"at once": {},
		"slow": {
			BootDelay: 40 * time.Second, DeleteDelay: 10 * time.Second,
			ListLag: 5 * time.Second, GoneLinger: time.Minute, Latency: 300 * time.Millisecond,
		},
	} {
		cfg.Offers = []fake.Offer{fake.Simple("a100", 1, true), fake.Simple("h100", 8, false)}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				In:     func(t *testing.T, body func(*testing.T)) { synctest.Test(t, body) },
				Within: time.Hour, Every: time.Second,
				Want: cloudburst.Want{GPUs: cloudburst.GPUs{Type: "a100", Count: 1}, Capacity: cloudburst.Spot},
				Setup: func(t *testing.T) providertest.Account {
					cloud := fake.New(cfg)
					return providertest.Account{
						Open:       func(string) cloudburst.Provider { return cloud.Open("acme") },
						NoCapacity: func() { cloud.SetCapacity("fake-a100", 0) },
						FailAfterCreate: func() {
							cloud.Fail(fake.Fault{Op: "create", Err: cloudburst.ErrTransient, After: true})
						},
						Check: func(t *testing.T) {
							if live := cloud.Live(); len(live) > 0 {
								t.Errorf("left behind: %v", live)
							}
						},
					}
				},
			})
		})
	}
}

const ours = "11111111-2222-4333-8444-555555555555"

func request(node string, o fake.Offer) cloudburst.Request {
	return cloudburst.Request{
		Tag: cloudburst.MakeTag(ours, node, 1), ClusterUUID: ours,
		Pool: "pool", NodeName: node, Offer: o.Offer,
	}
}

func TestReclaimsOnScript(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		offer := fake.Simple("a100", 1, true)
		offer.ID = "o"
		cloud := fake.New(fake.Config{
			Offers: []fake.Offer{offer}, BootDelay: time.Minute,
			Reclaims: []fake.Reclaim{{After: 25 * time.Second, Notice: 10 * time.Second, Times: 1}},
		})
		var told []string
		cloud.Watch(
			func(i cloudburst.Instance, _ cloudburst.Request) { told = append(told, "boot "+i.NodeName) },
			func(i cloudburst.Instance) { told = append(told, "gone "+i.NodeName) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = cloud.Run(ctx) }() // ends with ctx

		p := cloud.Open("acme")
		for _, node := range []string{"n-1", "n-2"} {
			if _, err := p.Create(ctx, request(node, offer)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute + 16*time.Second)
		announced, err := p.(cloudburst.Interrupter).Interruptions(ctx)
		if err != nil || len(announced) != 1 || time.Until(announced[0].At) != 9*time.Second {
			t.Fatalf("announced: %v, %v", announced, err)
		}
		time.Sleep(10 * time.Second)
		if live := cloud.Live(); len(live) != 1 || live[0].NodeName != "n-2" {
			t.Errorf("live: %v", live)
		}
		cancel()
		<-done
		if len(told) != 3 || told[2] != "gone n-1" {
			t.Errorf("told: %v", told)
		}
		if got := cloud.Bill().Micros; got < 44000 || got > 48000 { // 85 s + 86 s at 1 dollar an hour
			t.Errorf("bill: %d", got)
		}
	})
}

func TestFaultsHitTheCallsTheyName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		offer := fake.Simple("a100", 1, true)
		offer.ID = "o"
		cloud := fake.New(fake.Config{Offers: []fake.Offer{offer}})
		p := cloud.Open("acme")
		cloud.Fail(fake.Fault{Op: "create", Nth: 2, Err: cloudburst.ErrQuota})
		cloud.Fail(fake.Fault{Op: "list", Times: -1, Delay: time.Hour})
		var got []string
		for _, node := range []string{"n-1", "n-2", "n-3"} {
			_, err := p.Create(t.Context(), request(node, offer))
			got = append(got, cloudburst.Class(err))
		}
		if got[0] != "" || got[1] != "quota" || got[2] != "" {
			t.Errorf("creates: %q", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slow list: %v", err)
		}
		cloud.Heal()
		if all, err := p.List(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("List: %v, %v", all, err)
		}
	})
}

func TestAutoRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		offer := fake.Simple("a100", 1, true)
		offer.ID = "o"
		cloud := fake.New(fake.Config{Offers: []fake.Offer{offer}})
		p := cloud.Open("acme")
		r := request("n-1", offer)
		r.AutoRelease = time.Now().Add(time.Hour)
		i, err := p.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if err := p.(cloudburst.AutoReleaser).Extend(t.Context(), i.ID, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if len(cloud.Live()) != 1 {
			t.Error("released although extended")
		}
		time.Sleep(11 * time.Minute)
		if len(cloud.Live()) != 0 {
			t.Error("not released")
		}
	})
}
