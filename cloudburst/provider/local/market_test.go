package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/local"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

func TestMarketReclaims(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "Offer=a Spot=yes Price=1\nReclaim=spot AfterJob=1.5 Notice=1 Times=1\n")
		first, second := s.create("pool-1"), s.create("pool-2")
		s.ask(first, "touch "+filepath.Join(s.folder(first), localnode.ActiveFile))
		s.await("notice", func() bool {
			_, ok, err := agentapi.LoadNotice(filepath.Join(s.folder(first), localnode.NoticeFile))
			return ok && err == nil
		})
		announced, err := s.p.(cloudburst.Interrupter).Interruptions(t.Context())
		if err != nil || len(announced) != 1 || announced[0].Tag != first.Tag || time.Until(announced[0].At) > time.Second {
			t.Errorf("announced: %v, %v", announced, err)
		}
		s.await("reclaim", func() bool { return s.live("pool-1") == "" })
		s.ask(second, "touch "+filepath.Join(s.folder(second), localnode.ActiveFile))
		time.Sleep(2 * time.Second)
		if s.live("pool-2") != cloudburst.Running {
			t.Error("the market took more machines than Times allows")
		}
	})
}

func TestMarketFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Offer=a Price=x":                        `market:1: Price=x: invalid amount of money: "x" (as in 3.00 or 60CNY)`,
		"# ok\nOffer=a Colour=red":               "market:2: unknown key Colour",
		"Offer=a\nOffer=a":                       `market:2: offer "a": the name is empty or used twice`,
		"Reclaim=spot Notice=3":                  "market:1: a reclaim has exactly one of After, AfterJob and At",
		"Fault=create Error=odd":                 "market:1: Error=odd: one of no-capacity, quota, auth, no-balance, bad-request, rate, transient",
		"Fault=fly Error=quota":                  `market:1: fault "fly": the call is one of offers, create, list, delete`,
		"Sale=now":                               "market:1: a line starts with Offer, Reclaim or Fault, not Sale",
		"Offer=a Spot=perhaps":                   "market:1: Spot=perhaps: yes or no",
		"Offer=a Capacity=-1":                    "market:1: Capacity=-1: not a number from 0 on",
		"Offer=a CPUs=4 RealMemory=2G Price=0.5": "",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "market")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := local.ReadMarket(file); err != nil {
			got = strings.ReplaceAll(err.Error(), dir+"/", "")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMarketSells(t *testing.T) {
	t.Parallel()
	s := newSite(t, true, "Offer=a Gres=gpu:a100:1 Spot=yes Price=0.50 Capacity=1\nOffer=b Gres=gpu:a100:2 Price=60CNY\nFault=create Offer=b Error=quota Nth=1 Times=2\n")
	want := cloudburst.Want{GPUs: cloudburst.GPUs{Type: "a100", Count: 1}, Capacity: cloudburst.Auto}
	offers, err := s.p.Offers(t.Context(), want)
	if err != nil || len(offers) != 2 || *offers[0].Available != 1 || offers[1].Price.String() != "60.00CNY" {
		t.Fatalf("Offers: %+v, %v", offers, err)
	}
	s.create("pool-1", func(r *cloudburst.Request) { r.Offer = offers[0] })
	if again, err := s.p.Offers(t.Context(), want); err != nil || len(again) != 2 || !again[0].SoldOut() {
		t.Errorf("Offers when one is sold out: %+v, %v", again, err)
	}
	r := s.request("pool-2", func(r *cloudburst.Request) { r.Offer = offers[0] })
	if _, err := s.p.Create(t.Context(), r); !errors.Is(err, cloudburst.ErrNoCapacity) {
		t.Errorf("Create when sold out: %v", err)
	}
	r.Offer = offers[1]
	var classes []string
	for range 3 {
		_, err := s.p.Create(t.Context(), r)
		classes = append(classes, cloudburst.Class(err))
	}
	if !slices.Equal(classes, []string{"quota", "quota", ""}) {
		t.Errorf("creates: %q", classes)
	}
}
