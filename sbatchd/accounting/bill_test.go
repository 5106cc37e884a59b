package accounting_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/accounting"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

func TestBillKeepsUsefulAndLostTimeApart(t *testing.T) {
	t0 := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	host := []job.Host{{Node: "spot-1", PriceMicros: 3_600_000, Currency: "USD", Share: 0.5}}
	runs := []*job.Run{
		{
			Attempt: job.Attempt{Job: 7}, Hosts: host, State: job.Preempted,
			Alloc: at(0), Start: at(10), Ended: at(110), Free: at(120),
			Saved: job.Checkpoint{Number: 1, Time: at(90)},
		},
		{
			Attempt: job.Attempt{Job: 7, Restart: 1}, Hosts: host, State: job.Completed, Restored: 1,
			Alloc: at(200), Start: at(204), Ended: at(304), Free: at(306),
		},
	}
	j := &job.Job{ID: job.NewID(7), Spec: &job.Spec{Name: "train"}, State: job.Completed, Restarts: 1}
	b := accounting.BillOf(j, runs, "", at(999))
	// Half a node at $3.60 an hour is 500 millionths a second.
	want := accounting.Money{Setup: 7_000, Useful: 90_000, Lost: 10_000, Finish: 6_000, Total: 113_000}
	if d := cmp.Diff(want, b.Totals["USD"]); d != "" {
		t.Error(d)
	}
	if got := accounting.Format(b.Totals["USD"].Total, "USD"); got != "$0.1130" {
		t.Errorf("printed %s", got)
	}
}

func TestBillOfARunWithoutCheckpointIsLost(t *testing.T) {
	t0 := time.Unix(1_800_000_000, 0)
	r := &job.Run{
		Attempt: job.Attempt{Job: 1}, Hosts: []job.Host{{Node: "a-1", PriceMicros: 3_600_000, Currency: "EUR", Share: 1}},
		Alloc: t0, Start: t0, Ended: t0.Add(time.Minute), Free: t0.Add(time.Minute), State: job.NodeFail,
	}
	j := &job.Job{ID: job.NewID(1), Spec: &job.Spec{}, State: job.Pending, Restarts: 1}
	m := accounting.BillOf(j, []*job.Run{r}, "", t0).Totals["EUR"]
	if m.Lost != 60_000 || m.Useful != 0 {
		t.Errorf("%+v", m)
	}
}
