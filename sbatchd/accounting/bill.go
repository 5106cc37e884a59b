// Package accounting turns what attempts held into what they cost: pure
// functions over job records and ledger rows, called by the REST server. It
// reads no clock and does no I/O.
package accounting

import (
	"fmt"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// Item is the cost of one attempt. Times are wall-clock; money is in millionths
// of Currency.
type Item struct {
	Restart      uint32    `json:"restart"`
	Node         string    `json:"node"`
	Instance     string    `json:"instance,omitempty"`
	Pool         string    `json:"pool,omitempty"`
	Provider     string    `json:"provider,omitempty"`
	InstanceType string    `json:"instance_type,omitempty"`
	Region       string    `json:"region,omitempty"`
	Spot         bool      `json:"spot,omitempty"`
	GPUs         []string  `json:"gpus,omitempty"`
	Driver       string    `json:"driver,omitempty"`
	ImageRef     string    `json:"image_ref,omitempty"`
	ImageDigest  string    `json:"image_digest,omitempty"`
	State        string    `json:"state"`
	ExitCode     string    `json:"exit_code"`
	PriceMicros  int64     `json:"price_micros"` // per hour, of the part of the node held
	Currency     string    `json:"currency"`
	Share        float64   `json:"share"` // of the node
	Restored     uint32    `json:"restored_checkpoint,omitempty"`
	Saved        uint32    `json:"saved_checkpoint,omitempty"`
	Alloc        time.Time `json:"alloc"`
	Start        time.Time `json:"start,omitzero"`
	End          time.Time `json:"end,omitzero"`
	Setup        Cost      `json:"setup"`  // nodes given until the script began: boot, pull, stage
	Useful       Cost      `json:"useful"` // work that the job kept
	Lost         Cost      `json:"lost"`   // work done again by a later attempt
	Finish       Cost      `json:"finish"` // script over until everything was saved
	Total        Cost      `json:"total"`
}

// Cost is a time and its money.
type Cost struct {
	Seconds float64 `json:"seconds"`
	Micros  int64   `json:"micros"`
}

// Bill is what a job cost.
type Bill struct {
	Job      uint32           `json:"job_id"`
	Name     string           `json:"name"`
	User     string           `json:"user"`
	State    string           `json:"state"`
	ExitCode string           `json:"exit_code"`
	Output   string           `json:"output"`
	Restarts uint32           `json:"restarts"`
	Items    []Item           `json:"attempts"`
	Totals   map[string]Money `json:"totals"` // by currency
}

// Money sums a bill in one currency, in millionths.
type Money struct {
	Setup  int64 `json:"setup"`
	Useful int64 `json:"useful"`
	Lost   int64 `json:"lost"`
	Finish int64 `json:"finish"`
	Total  int64 `json:"total"`
}

// BillOf itemises a job's attempts, oldest first; until is the end of what
// still runs.
func BillOf(j *job.Job, runs []*job.Run, output string, until time.Time) Bill {
	b := Bill{
		Job: j.ID.Raw, Name: j.Spec.Name, User: j.User, State: j.ShownState(), ExitCode: j.ExitCode.String(),
		Output: output, Restarts: j.Restarts, Totals: map[string]Money{},
	}
	for _, r := range runs {
		last := r.Restart == j.Restarts && j.State != job.Pending
		for _, it := range itemsOf(r, last, until) {
			b.Items = append(b.Items, it)
			m := b.Totals[it.Currency]
			m.Setup += it.Setup.Micros
			m.Useful += it.Useful.Micros
			m.Lost += it.Lost.Micros
			m.Finish += it.Finish.Micros
			m.Total += it.Total.Micros
			b.Totals[it.Currency] = m
		}
	}
	return b
}

func itemsOf(r *job.Run, last bool, until time.Time) []Item {
	hosts := r.Hosts
	if len(hosts) == 0 { // never got as far as a machine: nothing to pay
		return nil
	}
	out := make([]Item, 0, len(hosts))
	for _, h := range hosts {
		it := Item{
			Restart: r.Restart, Node: h.Node, Instance: h.Instance, Pool: h.Pool, Provider: h.Provider,
			InstanceType: h.InstanceType, Region: h.Region, Spot: h.Spot, GPUs: h.GPUs, Driver: h.Driver,
			ImageRef: h.ImageRef, ImageDigest: h.ImageDigest,
			State: r.State.String(), ExitCode: r.ExitCode.String(),
			PriceMicros: int64(float64(h.PriceMicros) * h.Share), Currency: h.Currency, Share: h.Share,
			Restored: r.Restored, Saved: r.Saved.Number,
			Alloc: r.Alloc, Start: r.Start, End: r.Ended,
		}
		it.split(r, last, until)
		out = append(out, it)
	}
	return out
}

// split divides an attempt's time. Work up to the newest checkpoint it made is
// kept; what came after is lost, unless the attempt is the job's last.
func (it *Item) split(r *job.Run, last bool, until time.Time) {
	free := pick(r.Free, until)
	ended := pick(r.Ended, free)
	start := pick(r.Start, ended)
	kept := ended
	if !last {
		kept = start
		if r.Saved.Number > 0 && r.Saved.Time.After(start) {
			kept = r.Saved.Time
			if kept.After(ended) {
				kept = ended
			}
		}
	}
	it.Setup = it.cost(start.Sub(r.Alloc))
	it.Useful = it.cost(kept.Sub(start))
	it.Lost = it.cost(ended.Sub(kept))
	it.Finish = it.cost(free.Sub(ended))
	for _, c := range []Cost{it.Setup, it.Useful, it.Lost, it.Finish} {
		it.Total.Seconds += c.Seconds
		it.Total.Micros += c.Micros
	}
}

func (it *Item) cost(d time.Duration) Cost {
	d = max(d, 0)
	return Cost{Seconds: d.Seconds(), Micros: int64(float64(it.PriceMicros)*d.Hours() + 0.5)}
}

func pick(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// Format prints millionths of a currency as people read them, four digits
// after the point: $0.0123, or 1.5000 CNY.
func Format(micros int64, currency string) string {
	amount := fmt.Sprintf("%.4f", float64(micros)/1e6)
	if currency == "" || currency == "USD" {
		return "$" + amount
	}
	return amount + " " + currency
}
