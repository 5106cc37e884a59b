package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/accounting"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// check is what holds at every moment. It reports whether it does.
func (w *world) check() bool {
	for _, f := range w.truth.found() {
		w.t.Error(f)
	}
	for id := range w.accepted {
		if is, _ := w.disk.has(id); !is {
			w.t.Errorf("job %d was accepted and is lost", id)
		}
	}
	if _, count := w.disk.has(0); count > len(w.accepted)+len(w.unsure) {
		w.t.Errorf("%d jobs, %d submissions were answered and %d not", count, len(w.accepted), len(w.unsure))
	}
	rows := w.disk.instances()
	for _, i := range w.cloud.Live() {
		if r := rows[string(i.Tag)]; r == nil || !r.Live() && time.Since(i.CreatedAt) > 5*time.Minute {
			w.t.Errorf("machine %s (%s) exists and the ledger does not know: %+v", i.ID, i.Tag, r)
		}
	}
	if c := w.now(); c != nil {
		w.checkState(c.q.Snapshot())
	}
	return !w.t.Failed()
}

// checkState compares what nodes are said to be used with what jobs hold.
func (w *world) checkState(s *state.State) {
	for id := range w.accepted {
		if _, ok := s.Job(id); !ok {
			if j := w.disk.job(id); j == nil || !j.State.Final() {
				w.t.Errorf("job %d left memory before it was over: %+v", id, j)
			}
		}
	}
	cpus, gpus := map[string]int{}, map[string]uint64{}
	for j := range s.Active() {
		for _, a := range j.Run.Nodes {
			cpus[a.Node] += a.CPUs
			for _, d := range a.Gres["gpu"] {
				if gpus[a.Node]&(1<<d) != 0 {
					w.t.Errorf("GPU %d of %s is held twice", d, a.Node)
				}
				gpus[a.Node] |= 1 << d
			}
		}
	}
	for n := range s.Nodes() {
		if n.UsedCPUs != cpus[n.Name] || n.UsedCPUs > n.CPUs {
			w.t.Errorf("node %s with %d CPUs counts %d in use, its jobs hold %d", n.Name, n.CPUs, n.UsedCPUs, cpus[n.Name])
		}
	}
}

// drain heals the world, lets everything end and checks what is left.
func (w *world) drain() {
	w.log.Info("ACT", "do", "drain")
	w.heal()
	w.mu.Lock()
	w.deaf = 0
	w.mu.Unlock()
	w.disk.crash(-1<<30, false)
	w.disk.slowness(0)
	if w.cfg != w.with {
		w.reconfigure()
	}
	deadline := time.Now().Add(4 * time.Hour)
	for round := 0; ; round++ {
		if w.now() == nil {
			w.start()
		}
		if round%10 == 0 {
			w.unhold()
		}
		w.resubmit()
		if !sleep(w.ctx, 10*time.Second) || !w.check() {
			return
		}
		waiting := w.waiting()
		tracked := 0
		for _, r := range w.disk.instances() {
			if r.Live() {
				tracked++
			}
		}
		if len(waiting) == 0 && len(w.cloud.Live()) == 0 && tracked == 0 {
			break
		}
		if time.Now().After(deadline) {
			w.t.Errorf("after 4 hours of peace: %d machines live, these jobs are not over:\n%s", len(w.cloud.Live()), strings.Join(waiting, "\n"))
			for _, i := range w.cloud.Live() {
				w.t.Errorf("machine %+v row %+v", i, w.disk.instances()[string(i.Tag)])
			}
			return
		}
	}
	if _, count := w.disk.has(0); count != len(w.accepted) || len(w.unsure) > 0 {
		w.t.Errorf("%d jobs for %d submissions", count, len(w.accepted))
	}
	w.checkBooks()
}

// unhold releases jobs and nodes that somebody held.
func (w *world) unhold() {
	c := w.now()
	if c == nil {
		return
	}
	s := c.q.Snapshot()
	for j := range s.Pending() {
		if j.Held() {
			w.ask(func(ctx context.Context, q *queue.Queue) error { return q.Release(ctx, alice, job.RefTo(j.ID.Raw)) })
		}
	}
	for n := range s.Nodes() {
		if n.Flags.Has(node.Drain) || n.Down && !n.Flags.Has(node.NotResponding) {
			w.ask(func(ctx context.Context, q *queue.Queue) error {
				return q.UpdateNode(ctx, root, n.Name, queue.NodeChange{State: "RESUME"})
			})
		}
	}
}

// waiting describes the jobs that are not over and should be.
func (w *world) waiting() []string {
	var out []string
	c := w.now()
	if c == nil {
		return []string{"no controller"}
	}
	s := c.q.Snapshot()
	never := map[uint32]bool{}
	for j := range s.Jobs() {
		if j.State.Final() && !j.Active() {
			continue
		}
		stuck := j.Depends != nil && slices.ContainsFunc(j.Depends.List, func(d job.Dep) bool { return never[d.Job] })
		if j.Reason == job.ReasonNeverSatisfied || j.Reason == job.ReasonDependency && stuck {
			never[j.ID.Raw] = true
			continue
		}
		out = append(out, fmt.Sprintf("job %d: %s %s reason %s (%s) priority %d stop %+v run %+v spec %+v",
			j.ID.Raw, j.State, strings.Join(j.Flags.Names(), "+"), j.Reason, j.Detail, j.Priority, j.Stop, j.Run, j.Spec))
	}
	return out
}

// checkBooks compares the records with what the machines really did.
func (w *world) checkBooks() {
	c := w.now()
	if leaks := c.pool.Leaks(w.ctx); leaks.Leaked() > 0 {
		w.t.Errorf("leaks: %+v", leaks)
	}
	w.truth.mu.Lock()
	used := w.truth.used
	w.truth.mu.Unlock()
	for id := range w.accepted {
		j := w.disk.job(id)
		var runs []*job.Run
		for restart := uint32(0); restart <= j.Restarts; restart++ {
			a := job.Attempt{Job: id, Restart: restart}
			r := w.disk.run(a)
			if r == nil {
				continue
			}
			runs = append(runs, r)
			if !r.Ordered.IsZero() && r.Free.IsZero() {
				w.t.Errorf("attempt %s is not closed: %+v", a, r)
			}
			if r.State == job.Completed && r.Usage.ElapsedMs != used[a].Milliseconds() {
				w.t.Errorf("attempt %s used %d ms, its record says %d", a, used[a].Milliseconds(), r.Usage.ElapsedMs)
			}
			if size, _ := w.spool.Size(a, "out"); r.State == job.Completed && size != 20 {
				w.t.Errorf("attempt %s completed with %d bytes of its output", a, size)
			}
		}
		bill := accounting.BillOf(j, runs, "", time.Now())
		var sum int64
		for _, it := range bill.Items {
			sum += it.Total.Micros
		}
		var total int64
		for _, m := range bill.Totals {
			total += m.Total
		}
		if sum != total {
			w.t.Errorf("job %d: attempts cost %d, the bill says %d", id, sum, total)
		}
	}
}
