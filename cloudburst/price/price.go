// Package price decides which offer a node is rented from. It is pure: offers
// in, one ranked list out; the pool and provider/fake call it. It calls no
// provider and converts no currency.
package price

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// Choice is one offer that fits, with what it is ranked by.
type Choice struct {
	cloudburst.Offer
	PerUseful int64 // millionths per hour and useful GPU (machine when no GPU is wanted)
}

// Rank lists the offers that fit and are not sold out, best first: cheapest per useful GPU (a GPU
// beyond what was asked for is of no use), then the smaller machine, then spot
// last, then by provider, region, zone, instance type and id, so that equal
// inputs always give the same order. Prices in another currency than MaxPrice's
// (US dollars without one) cannot be compared and come last, by currency.
func Rank(offers []cloudburst.Offer, w cloudburst.Want) []Choice {
	var out []Choice
	for _, o := range offers {
		if w.Fits(o) == nil && !o.SoldOut() {
			out = append(out, Choice{Offer: o, PerUseful: o.Price.Micros / int64(max(1, w.GPUs.Count))})
		}
	}
	home := cloudburst.DefaultCurrency
	if w.MaxPrice.Currency != "" {
		home = w.MaxPrice.Currency
	}
	slices.SortStableFunc(out, func(a, b Choice) int {
		return cmp.Or(
			cmp.Compare(foreign(a.Price, home), foreign(b.Price, home)),
			strings.Compare(a.Price.Currency, b.Price.Currency),
			cmp.Compare(a.PerUseful, b.PerUseful),
			cmp.Compare(a.GPUs.Count, b.GPUs.Count),
			cmp.Compare(a.CPUs, b.CPUs),
			cmp.Compare(a.MemoryMiB, b.MemoryMiB),
			cmp.Compare(rank(a.Spot), rank(b.Spot)),
			strings.Compare(a.Provider, b.Provider),
			strings.Compare(a.Region, b.Region),
			strings.Compare(a.Zone, b.Zone),
			strings.Compare(a.InstanceType, b.InstanceType),
			strings.Compare(string(a.ID), string(b.ID)),
		)
	})
	return out
}

// Explain says in one sentence why none of the offers can be had: the reason
// most of them were refused for, and how many there were.
func Explain(offers []cloudburst.Offer, w cloudburst.Want) string {
	if len(offers) == 0 {
		return "the provider offers nothing that fits"
	}
	counts := map[string]int{}
	for _, o := range offers {
		if err := w.Fits(o); err != nil {
			counts[err.Error()]++
		} else if o.SoldOut() {
			counts["none left"]++
		}
	}
	best, n := "", 0
	for reason, c := range counts {
		if c > n || c == n && reason < best {
			best, n = reason, c
		}
	}
	if best == "" {
		return ""
	}
	if len(offers) == 1 {
		return "the only offer: " + best
	}
	return fmt.Sprintf("none of %d offers fits; most often: %s", len(offers), best)
}

func foreign(m cloudburst.Money, home string) int {
	if m.IsZero() || m.Currency == home {
		return 0
	}
	return 1
}

func rank(spot bool) int {
	if spot {
		return 1
	}
	return 0
}
