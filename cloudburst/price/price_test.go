package price_test

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/price"
)

func offer(id, gpu string, count int, micros int64, change ...func(*cloudburst.Offer)) cloudburst.Offer {
	o := cloudburst.Offer{
		ID: cloudburst.OfferID(id), Provider: "p", InstanceType: id, Region: "eu-west-1", Zone: "eu-west-1a",
		GPUs: cloudburst.GPUs{Type: gpu, Count: count, MemoryMiB: 80 << 10},
		CPUs: 8 * count, MemoryMiB: int64(count) * 64 << 10, DiskMiB: 100 << 10,
		Spot: true, Price: cloudburst.Money{Micros: micros, Currency: "USD"},
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func TestRank(t *testing.T) {
	t.Parallel()
	none := 0
	offers := []cloudburst.Offer{
		offer("one-dear", "a100", 1, 4e6),
		offer("two", "a100", 2, 5e6),
		offer("one-cheap", "a100", 1, 3e6),
		offer("h100", "h100", 1, 2e6),
		offer("ondemand", "a100", 1, 1e6, func(o *cloudburst.Offer) { o.Spot = false }),
		offer("us", "a100", 1, 1e6, func(o *cloudburst.Offer) { o.Region = "us-east-1" }),
		offer("sold-out", "a100", 1, 1e6, func(o *cloudburst.Offer) { o.Available = &none }),
		offer("small-gpu", "a100", 1, 1e6, func(o *cloudburst.Offer) { o.GPUs.MemoryMiB = 40 << 10 }),
		offer("yuan", "a100", 1, 9e6, func(o *cloudburst.Offer) { o.Price.Currency = "CNY" }),
	}
	a100 := func(n int) cloudburst.GPUs { return cloudburst.GPUs{Type: "a100", Count: n, MemoryMiB: 80 << 10} }
	for _, c := range []struct {
		name string
		want cloudburst.Want
		ids  []string
	}{
		{
			"cheapest first, foreign money last",
			cloudburst.Want{GPUs: a100(1), Capacity: cloudburst.Spot, Regions: []string{"eu-*"}},
			[]string{"one-cheap", "one-dear", "two", "yuan"},
		},
		{"two useful", cloudburst.Want{GPUs: a100(2), Capacity: cloudburst.Spot}, []string{"two"}},
		{
			"cap",
			cloudburst.Want{GPUs: a100(1), Capacity: cloudburst.Spot, Regions: []string{"eu-*"}, MaxPrice: cloudburst.Money{Micros: 4e6, Currency: "USD"}},
			[]string{"one-cheap", "one-dear"},
		},
		{
			"range",
			cloudburst.Want{GPUs: a100(1), MaxGPUs: 1, Capacity: cloudburst.Spot, Regions: []string{"EU-*"}, MaxPrice: cloudburst.Money{Micros: 4e6, Currency: "USD"}},
			[]string{"one-cheap", "one-dear"},
		},
		{"on demand is the default", cloudburst.Want{GPUs: a100(1)}, []string{"ondemand"}},
		{
			"auto takes the cheapest of both",
			cloudburst.Want{GPUs: a100(1), Capacity: cloudburst.Auto, Regions: []string{"eu-*"}, MaxPrice: cloudburst.Money{Micros: 3e6, Currency: "USD"}},
			[]string{"ondemand", "one-cheap"},
		},
		{"any type", cloudburst.Want{GPUs: cloudburst.GPUs{Count: 1}, InstanceType: "h100", Capacity: cloudburst.Spot}, []string{"h100"}},
		{"interconnect unknown is not enough", cloudburst.Want{GPUs: a100(1), Capacity: cloudburst.Spot, Interconnect: "nvlink"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range int64(20) {
				shuffled := append([]cloudburst.Offer(nil), offers...)
				rand.New(rand.NewSource(seed)).Shuffle(len(shuffled), func(i, j int) {
					shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
				})
				var ids []string
				for _, choice := range price.Rank(shuffled, c.want) {
					ids = append(ids, string(choice.ID))
				}
				if diff := cmp.Diff(c.ids, ids); diff != "" {
					t.Fatalf("seed %d: order (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	want := cloudburst.Want{GPUs: cloudburst.GPUs{Type: "a100", Count: 1}, Capacity: cloudburst.Spot, MaxPrice: cloudburst.Money{Micros: 1e6, Currency: "USD"}}
	for _, c := range []struct {
		offers []cloudburst.Offer
		text   string
	}{
		{nil, "the provider offers nothing that fits"},
		{[]cloudburst.Offer{offer("a", "a100", 1, 2e6)}, "the only offer: price 2.00USD is above MaxPrice 1.00USD"},
		{[]cloudburst.Offer{offer("a", "h100", 1, 1), offer("b", "h100", 1, 1), offer("c", "a100", 1, 2e6)}, "none of 3 offers fits; most often: GPU h100, a100 wanted"},
		{[]cloudburst.Offer{offer("a", "a100", 1, 1e6, func(o *cloudburst.Offer) { o.Available = new(int) })}, "the only offer: none left"},
		{[]cloudburst.Offer{offer("a", "a100", 1, 1e6)}, ""},
	} {
		if got := price.Explain(c.offers, want); got != c.text {
			t.Errorf("Explain = %q, want %q", got, c.text)
		}
	}
}
