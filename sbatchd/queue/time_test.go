package queue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
)

// TestSilentNode: quiet for SlurmdTimeout is DOWN*, and nothing more; quiet for
// FenceTimeout and a tenth is taken back, a rented machine by deletion.
func TestSilentNode(t *testing.T) {
	t.Run("comes back in time", func(t *testing.T) {
		inBubble(t, longConf, func(h *house) {
			h.up("ws1")
			id := h.submit(in(partition("one")))
			a := h.run(id)
			h.pass(65 * time.Second)
			if n := h.node("ws1"); n.Base() != node.Down || !n.Flags.Has(node.NotResponding) || n.Reason != "Not responding" {
				h.t.Errorf("quiet node is %s %v (%s)", n.Base(), n.AllFlags().Names(), n.Reason)
			}
			h.want(id, "RUNNING", job.ReasonNone)
			h.pass(580*time.Second, "ws1")
			if n := h.node("ws1"); n.Base() == node.Down || n.Reason != "" {
				h.t.Errorf("heard node is %s %v (%s)", n.Base(), n.AllFlags().Names(), n.Reason)
			}
			if j := h.job(id); j.Run.Attempt != a || j.Restarts != 0 {
				h.t.Errorf("the job was disturbed: %+v", j)
			}
		})
	})
	t.Run("static node", func(t *testing.T) {
		inBubble(t, longConf, func(h *house) {
			h.up("ws1")
			id := h.submit(in(partition("one")))
			a := h.run(id)
			h.pass(655 * time.Second)
			h.want(id, "RUNNING", job.ReasonNone)
			h.pass(10 * time.Second)
			h.want(id, "PENDING", job.ReasonResources)
			if r := h.m.runOf(a); r.State != job.NodeFail || r.Free.IsZero() {
				h.t.Errorf("run %+v", r)
			}
		})
	})
	t.Run("rented node", func(t *testing.T) {
		inBubble(t, longConf, func(h *house) {
			id := h.submit(in(func(s *queue.Submission) { s.Spec.TimeLimit, s.Spec.TimeSet = 60, true }))
			h.run(id)
			h.pass(665 * time.Second)
			if n := h.node("spot-1"); !n.Flags.Has(node.PoweringDown) {
				h.t.Errorf("node is %v", n.AllFlags().Names())
			}
			h.want(id, "RUNNING", job.ReasonNone) // until the provider confirms
			h.gone("spot-1")
			if j := h.until(id, "elsewhere", func(j *job.Job) bool { return j.Restarts == 1 && allocated(j) }); j.Reclaims != 1 {
				h.t.Errorf("%d reclaims", j.Reclaims)
			}
		})
	})
}

// TestRestartGivesAgentsTime: silence counts from the controller's own start,
// and machines that booted while it was away may still register.
func TestRestartGivesAgentsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, m := load(t, longConf), newMemory()
		h, stop := openHouse(t, m, cfg)
		h.up("ws1")
		h.run(h.submit(in(partition("one"))))
		booting := h.submit(submission())
		h.until(booting, "allocated", allocated)
		stop()
		time.Sleep(30 * time.Minute)
		again, _ := openHouse(t, m, cfg)
		again.pass(50 * time.Second)
		if n := again.node("ws1"); n.Flags.Has(node.NotResponding) {
			t.Error("a node is silent before it could speak")
		}
		if n := again.node("spot-1"); !n.Flags.Has(node.PoweringUp) {
			t.Errorf("a booting node is %v", n.AllFlags().Names())
		}
	})
}

func TestIdleNodesAreGivenBack(t *testing.T) {
	inBubble(t, strings.Replace(longConf, "MaxNodes=2 Runtime", "MinNodes=1 MaxNodes=2 Runtime", 1), func(h *house) {
		h.pass(2 * time.Second)
		if n := h.node("spot-1"); !n.Flags.Has(node.PoweringUp) {
			h.t.Fatalf("MinNodes=1 and spot-1 is %v", n.AllFlags().Names())
		}
		h.boot("spot-1")
		h.must(h.UpdateNode(h.t.Context(), root, "spot-2", queue.NodeChange{State: "POWER_UP"}))
		h.boot("spot-2")
		h.pass(299*time.Second, "spot-1", "spot-2")
		for _, name := range []string{"spot-1", "spot-2"} {
			if n := h.node(name); n.Flags.Has(node.PoweringDown) {
				h.t.Errorf("%s is given back before SuspendTime", name)
			}
		}
		h.pass(10*time.Second, "spot-1", "spot-2")
		down := 0
		for _, name := range []string{"spot-1", "spot-2"} {
			if h.node(name).Flags.Has(node.PoweringDown) {
				down++
			}
		}
		if down != 1 {
			h.t.Errorf("%d nodes are given back, want all but MinNodes", down)
		}
	})
}

func TestDownPoolIsLeftAlone(t *testing.T) {
	conf := strings.Replace(longConf, "MaxNodes=2 Runtime", "MinNodes=1 MaxNodes=2 State=DOWN Runtime", 1)
	inBubble(t, conf, func(h *house) {
		id := h.submit(submission())
		if j := h.until(id, "allocated", allocated); j.Run.Nodes[0].Node != "other-1" {
			h.t.Errorf("on %s", j.Run.Nodes[0].Node)
		}
		h.pass(time.Minute)
		if n := h.node("spot-1"); !n.Flags.Has(node.PoweredDown) {
			h.t.Errorf("a node of a DOWN pool is %v", n.AllFlags().Names())
		}
	})
}

func TestQueueTimeout(t *testing.T) {
	impatient := func(part string) queue.Submission {
		return in(func(s *queue.Submission) {
			s.Spec.Partitions, s.Spec.Burst = part, &job.Burst{QueueTimeout: 5}
		})
	}
	inBubble(t, longConf, func(h *house) {
		// No own machine is up, so both wait.
		fails, overflows := h.submit(impatient("one")), h.submit(impatient("ws"))
		held := h.submit(in(func(s *queue.Submission) { s.Hold, s.Spec.Burst = true, &job.Burst{QueueTimeout: 5} }))
		h.pass(5 * time.Minute)
		h.want(fails, "PENDING", job.ReasonResources)
		h.pass(5 * time.Second)
		if j := h.job(fails); j.State != job.Failed || j.ExitCode.OK() || j.Detail == "" {
			h.t.Errorf("job is %s %s (%s)", j.State, j.ExitCode, j.Detail)
		}
		if j := h.job(overflows); j.Partition != "main" || !allocated(j) {
			h.t.Errorf("job is in %s, %s", j.Partition, j.ShownState())
		}
		h.want(held, "PENDING", job.ReasonHeldUser)
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) {
			s.Spec.Partitions, s.Spec.Deadline = "one", time.Now().Add(10*time.Minute)
			s.Spec.TimeLimit, s.Spec.TimeSet = 1, true
		}))
		h.pass(9 * time.Minute)
		h.want(id, "PENDING", job.ReasonResources)
		h.pass(62 * time.Second)
		if j := h.job(id); j.State != job.Deadline || j.Reason != job.ReasonDeadline {
			h.t.Errorf("job is %s (%s)", j.State, j.Reason)
		}
	})
}

// TestTimeLimitBackup: a node that does not end its job at the limit is told.
func TestTimeLimitBackup(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		h.run(id)
		h.pass(10*time.Minute+30*time.Second, "spot-1")
		h.want(id, "RUNNING", job.ReasonNone)
		h.pass(40*time.Second, "spot-1")
		if j := h.job(id); j.State != job.Timeout || j.Stop == nil || j.Stop.Why != job.StopTimeLimit {
			h.t.Errorf("job is %s, stop %+v", j.State, j.Stop)
		}
	})
}

// TestDependencyOutlivesMinJobAge: how a job ended stays known as long as
// another waits for it.
func TestDependencyOutlivesMinJobAge(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		first := h.submit(submission())
		a := h.run(first)
		second := h.submit(in(func(s *queue.Submission) { s.Spec.Dependency = "afterok:1" }))
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Status: 1}}))
		h.must(h.Finished(h.t.Context(), a))
		h.pass(time.Hour, "spot-1")
		h.want(second, "PENDING", job.ReasonNeverSatisfied)
		h.must(h.Cancel(h.t.Context(), alice, job.RefTo(second), 0, false))
		h.pass(10*time.Minute, "spot-1")
		if n := h.Snapshot().JobCount(); n != 0 {
			h.t.Errorf("%d jobs are still in memory", n)
		}
	})
}

func TestAfterWithADelay(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		first := h.submit(submission())
		second := h.submit(in(func(s *queue.Submission) { s.Spec.Dependency = "after:1+2" }))
		h.run(first)
		h.pass(115*time.Second, "spot-1")
		h.want(second, "PENDING", job.ReasonDependency)
		h.pass(10*time.Second, "spot-1")
		h.until(second, "allocated", allocated)
	})
}
