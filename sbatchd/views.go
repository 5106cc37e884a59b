package main

import (
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/accounting"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// explain answers sburst explain from a snapshot.
func explain(s *state.State, id uint32, now time.Time) []wire.ExplainPool {
	j, ok := s.Job(id)
	if !ok {
		return nil
	}
	var out []wire.ExplainPool
	for _, v := range scheduler.Explain(s, j, now) {
		out = append(out, wire.ExplainPool{Partition: v.Partition, Pool: v.Pool, Fits: v.Fits, Why: v.Why, Until: v.Until})
	}
	return out
}

const micros = 1e6

// billOf shows accounting's bill as the wire has it.
func billOf(r store.JobRecord, now time.Time) wire.Bill {
	j := r.Job
	out, errPath := paths(j)
	b := accounting.BillOf(j, r.Runs, out, now)
	w := wire.Bill{
		JobID: b.Job, Name: b.Name, User: b.User,
		Result: wire.BillResult{
			State: b.State, ExitCode: b.ExitCode, Reason: string(j.Reason), Restarts: b.Restarts,
			Output: out, Error: errPath, WorkDir: j.Spec.WorkDir,
		},
	}
	for _, it := range b.Items {
		lost := it.Setup.Seconds + it.Lost.Seconds
		host := wire.BillHost{
			Node: it.Node, Pool: it.Pool, Provider: it.Provider, Instance: it.Instance, InstanceType: it.InstanceType,
			Region: it.Region, Spot: it.Spot, GPUs: it.GPUs, Driver: it.Driver, ImageRef: it.ImageRef, ImageDigest: it.ImageDigest,
			PricePerHour: float64(it.PriceMicros) / micros, Currency: it.Currency, Share: it.Share,
			Cost: float64(it.Total.Micros) / micros, UsefulCost: float64(it.Useful.Micros+it.Finish.Micros) / micros,
			LostCost: float64(it.Setup.Micros+it.Lost.Micros) / micros,
		}
		last := len(w.Attempts) - 1
		if last >= 0 && w.Attempts[last].Restart == it.Restart {
			w.Attempts[last].Hosts = append(w.Attempts[last].Hosts, host)
			continue
		}
		w.Attempts = append(w.Attempts, wire.BillAttempt{
			Restart: it.Restart, State: it.State, ExitCode: it.ExitCode, Start: it.Start, End: it.End,
			Seconds: it.Total.Seconds, Useful: it.Useful.Seconds + it.Finish.Seconds, Lost: lost,
			Checkpoint: it.Saved, Restored: it.Restored, Hosts: []wire.BillHost{host},
		})
	}
	for currency, m := range b.Totals {
		w.Totals = append(w.Totals, wire.BillTotal{
			Currency: currency, Cost: float64(m.Total) / micros,
			Useful: float64(m.Useful+m.Finish) / micros, Lost: float64(m.Setup+m.Lost) / micros,
		})
	}
	slices.SortFunc(w.Totals, func(a, b wire.BillTotal) int {
		if a.Currency < b.Currency {
			return -1
		}
		return 1
	})
	return w
}
