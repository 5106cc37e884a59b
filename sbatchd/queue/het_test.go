package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// het is a job of components that want so many CPUs each, on the two nodes of two.
func het(cpus ...int) queue.Submission {
	one := func(n int) queue.Submission {
		return in(func(s *queue.Submission) { s.Spec.CPUsPerTask, s.Spec.Partitions = n, "ws" })
	}
	s := one(cpus[0])
	for _, n := range cpus[1:] {
		s.Parts = append(s.Parts, one(n))
	}
	return s
}

// parts prints the components of a job: state, node, and those of the nodes' CPUs.
func (h *house) parts(id uint32) string {
	h.t.Helper()
	synctest.Wait()
	leader := h.job(id)
	list := []*job.Job{leader}
	for p := range h.Snapshot().Parts(leader) {
		list = append(list, p)
	}
	var out []string
	for _, j := range list {
		where := ""
		if j.Active() {
			where = " on " + j.Run.Nodes[0].Node
		}
		out = append(out, fmt.Sprintf("%d %s%s", j.Het.Offset, j.ShownCode(), where))
	}
	return strings.Join(out, ", ")
}

func TestHetStartsAndEndsTogether(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		first := h.submit(in(func(s *queue.Submission) { s.Spec.Partitions, s.Spec.CPUsPerTask = "ws", 2 }))
		id := h.submit(het(2, 2))
		// One node is free: not enough for both, so neither has it.
		if got := h.parts(id); got != "0 PD, 1 PD" {
			h.t.Fatal(got)
		}
		h.want(id, "PENDING", job.ReasonResources)
		h.finish(h.job(first), 0)
		if got := h.parts(id); got != "0 CF on ws1, 1 CF on ws2" {
			h.t.Fatal(got)
		}
		a := h.run(id)
		if got := h.parts(id); got != "0 R on ws1, 1 R on ws2" {
			h.t.Error(got)
		}
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Status: 3}}))
		if got := h.parts(id); got != "0 CG on ws1, 1 CG on ws2" {
			h.t.Error(got)
		}
		h.must(h.Finished(h.t.Context(), a))
		if got := h.parts(id); got != "0 F, 1 F" {
			h.t.Error(got)
		}
		for _, name := range []string{"ws1", "ws2"} {
			if n := h.node(name); n.UsedCPUs != 0 || len(n.Jobs) != 0 {
				h.t.Errorf("%s is still used: %+v", name, n)
			}
		}
		if r := h.m.runOf(job.Attempt{Job: id + 1}); r.State != job.Failed || r.Free.IsZero() || r.ExitCode.Status != 3 {
			h.t.Errorf("the component is recorded as %+v", r)
		}
	})
}

// TestHetCommands has what a real Slurm 26.05 does with components.
func TestHetCommands(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		s := het(1, 1)
		s.Hold = true
		id := h.submit(s)
		ctx, part := h.t.Context(), job.Ref{ID: id, Part: 1}
		for what, err := range map[string]error{
			"cancel of a component": h.Cancel(ctx, alice, part, 0, false),
			"cancel by its own id":  h.Cancel(ctx, alice, job.RefTo(id+1), 0, false),
		} {
			if !errors.Is(err, errno.NotWholeHetJob) {
				h.t.Errorf("%s: %v", what, err)
			}
		}
		if err := h.Requeue(ctx, alice, job.RefTo(id+1), false); !errors.Is(err, errno.NotHetJobLeader) {
			h.t.Errorf("requeue of a component: %v", err)
		}
		if err := h.Update(ctx, alice, job.Ref{ID: id, Part: 2}, queue.Change{Name: new("x")}); !errors.Is(err, errno.InvalidJobID) {
			h.t.Errorf("a component that is not there: %v", err)
		}
		h.must(h.Update(ctx, alice, part, queue.Change{Name: new("two")}))
		h.must(h.Update(ctx, alice, job.RefTo(id), queue.Change{Comment: new("both")}))
		if a, b := h.job(id), h.job(id+1); a.Spec.Name != "a" || b.Spec.Name != "two" || a.Comment+b.Comment != "bothboth" {
			h.t.Errorf("%s %s, %s %s", a.Spec.Name, a.Comment, b.Spec.Name, b.Comment)
		}
		h.must(h.Release(ctx, alice, job.RefTo(id)))
		if got := h.parts(id); got != "0 CF on ws1, 1 CF on ws1" {
			h.t.Error(got)
		}
		h.must(h.Cancel(ctx, alice, job.RefTo(id), 0, false))
		if got := h.parts(id); got != "0 CA, 1 CA" {
			h.t.Error(got)
		}
	})
}

// TestHetLosesANode: a component's node takes the whole job with it, and it starts
// again as a whole, also after a kill.
func TestHetLosesANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		cfg := load(t, longConf)
		h, stop := openHouse(t, m, cfg)
		h.up("ws1", "ws2")
		id := h.submit(het(2, 2))
		a := h.run(id)
		h.pass(15*time.Minute, "ws1") // ws2 falls silent: fenced
		if j := h.job(id); j.Stop == nil || j.Stop.Why != job.StopNodeFail {
			t.Fatalf("the leader goes on: %s", h.parts(id))
		}
		h.must(h.Ended(t.Context(), a, job.Exit{Reason: job.ExitKilled}))
		h.must(h.Finished(t.Context(), a))
		stop()
		h, _ = openHouse(t, m, cfg)
		if got := h.parts(id); got != "0 PD, 1 PD" {
			t.Error(got)
		}
		h.up("ws1", "ws2")
		h.pass(3*time.Second, "ws1", "ws2")
		if got := h.parts(id); got != "0 CF on ws1, 1 CF on ws2" || h.job(id+1).Restarts != 1 {
			t.Errorf("%s, restart %d", got, h.job(id+1).Restarts)
		}
	})
}

func TestHetRefused(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		next := h.Snapshot().NextJobID
		s := het(1, 1)
		s.Parts[0].Spec.Partitions = "nosuch"
		if _, err := h.Submit(h.t.Context(), alice, s); !errors.Is(err, errno.InvalidPartition) {
			h.t.Errorf("a bad component: %v", err)
		}
		s = het(1, 1)
		s.Spec.Array = "1-2"
		if _, err := h.Submit(h.t.Context(), alice, s); !errors.Is(err, errno.InvalidArray) {
			h.t.Errorf("an array: %v", err)
		}
		if h.Snapshot().NextJobID != next || h.Snapshot().JobCount() != 0 {
			h.t.Error("something was accepted")
		}
	})
}
