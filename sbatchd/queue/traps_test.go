package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
)

// The tests below are public reports of what went wrong elsewhere, by the
// numbers this project knows them by; each holds the right behaviour.

// O-01: a machine that misses ResumeTimeout costs its jobs no more than that.
func TestO01LateBootReturnsTheJobAtOnce(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		h.until(id, "allocated", allocated)
		tag := "cafe-spot-1-1"
		ok, err := h.Intend(h.t.Context(), node.Instance{Tag: tag, Node: "spot-1", Pool: "spot", Incarnation: 1})
		if err != nil || !ok {
			h.t.Fatal(ok, err)
		}
		h.must(h.Learn(h.t.Context(), tag, func(i *node.Instance) { i.State = node.Created }))
		h.pass(62 * time.Second)
		if n := h.node("spot-1"); !n.Flags.Has(node.PoweringDown) {
			h.t.Errorf("the late node is %v", n.AllFlags().Names())
		}
		j := h.until(id, "elsewhere", func(j *job.Job) bool { return allocated(j) && j.Run.Nodes[0].Node == "spot-2" })
		if j.Restarts != 0 || j.LaunchFailures != 0 || j.Reclaims != 0 {
			h.t.Errorf("counted against the job: %+v", j)
		}
		if err := h.NodeUp(h.t.Context(), node.Registration{Node: "spot-1", Tag: tag}); err == nil {
			h.t.Error("the late machine was let in")
		}
		h.must(h.InstanceGone(h.t.Context(), tag, "deleted"))
		if n := h.node("spot-1"); !n.Flags.Has(node.PoweredDown) || !n.Schedulable() || n.Reason != "" {
			h.t.Errorf("the node did not come back: %v (%s)", n.AllFlags().Names(), n.Reason)
		}
	})
}

// O-02, O-04, O-06: no capacity sets the pool aside, not the node, and the job
// runs on the next pool in the same breath.
func TestO02StockOutTriesTheNextPool(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		h.until(id, "allocated", allocated)
		began := time.Now()
		h.must(h.MarkPool(h.t.Context(), "spot", time.Now().Add(time.Minute), "no capacity"))
		h.must(h.NotRented(h.t.Context(), "spot-1", 1, "no capacity"))
		h.until(id, "on the other pool", func(j *job.Job) bool { return allocated(j) && j.Run.Nodes[0].Node == "other-1" })
		if d := time.Since(began); d > time.Second {
			h.t.Errorf("it took %s", d)
		}
		if n := h.node("spot-1"); n.Down || !n.Schedulable() {
			h.t.Errorf("the node pays for it: %v", n.AllFlags().Names())
		}
	})
}

// O-03, O-11: refusals without end neither count as restarts nor spin.
func TestO11EndlessRefusalsDoNotSpin(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Spec.TRESPerNode = "gres/gpu:1" })) // the pool spot alone
		refused := 0
		for range 300 {
			time.Sleep(time.Second)
			for _, name := range []string{"spot-1", "spot-2"} {
				if n := h.node(name); n.Flags.Has(node.PoweringUp) {
					h.must(h.NotRented(h.t.Context(), name, n.Incarnation, "quota reached: limit 0"))
					refused++
				}
			}
		}
		if refused == 0 || refused > 40 {
			h.t.Errorf("%d tries in five minutes", refused)
		}
		j := h.until(id, "explained", func(j *job.Job) bool { return j.Detail == "pool spot: quota reached: limit 0" })
		if j.Restarts != 0 {
			h.t.Errorf("%d restarts of a job that never ran", j.Restarts)
		}
	})
}

// O-16: a pool that leaves the config with a live node is emptied, and its node
// goes when the machine is gone.
func TestO16RemovedPoolIsEmptiedFirst(t *testing.T) {
	var kept []string
	for line := range strings.Lines(longConf) {
		if !strings.HasPrefix(line, "PoolName=spot") {
			kept = append(kept, strings.Replace(line, "Pools=spot,other", "Pools=other", 1))
		}
	}
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		h.must(h.Reconfigure(h.t.Context(), root, load(h.t, strings.Join(kept, ""))))
		n := h.node("spot-1")
		if !n.Removed() || n.Schedulable() {
			h.t.Errorf("node %v (%s)", n.AllFlags().Names(), n.Reason)
		}
		if _, ok := h.Snapshot().Node("spot-2"); ok {
			h.t.Error("an empty node of the pool stays")
		}
		h.pass(30*time.Second, "spot-1")
		h.want(id, "RUNNING", job.ReasonNone)
		h.must(h.Ended(h.t.Context(), a, job.Exit{}))
		h.must(h.Finished(h.t.Context(), a))
		h.pass(2 * time.Second)
		if n := h.node("spot-1"); !n.Flags.Has(node.PoweringDown) {
			h.t.Fatalf("the machine is kept: %v", n.AllFlags().Names())
		}
		h.gone("spot-1")
		h.pass(2 * time.Second)
		if _, ok := h.Snapshot().Node("spot-1"); ok {
			h.t.Error("the node stays after its machine is gone")
		}
	})
}

// O-18: nothing is placed on a node whose machine is on its way out.
func TestO18NothingJoinsALeavingNode(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		a := h.run(h.submit(submission()))
		h.must(h.Ended(h.t.Context(), a, job.Exit{}))
		h.must(h.Finished(h.t.Context(), a))
		h.must(h.UpdateNode(h.t.Context(), root, "spot-1", queue.NodeChange{State: "POWER_DOWN"}))
		id := h.submit(submission())
		if j := h.until(id, "allocated", allocated); j.Run.Nodes[0].Node == "spot-1" {
			h.t.Error("placed on a node that powers down")
		}
	})
}

// O-21, O-29: the controller requeues, under the same id, from its own copy of
// the script.
func TestO21LostNodeRequeuesUnderTheSameID(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		h.run(id)
		script := h.job(id).Spec.ScriptHash
		h.gone("spot-1")
		if again := h.run(id); again.Restart != 1 || h.job(id).Spec.ScriptHash != script {
			h.t.Errorf("attempt %s", again)
		}
	})
}

// O-22: after a notice an exit of 0 is no completion.
func TestO22ExitAfterANoticeIsPreempted(t *testing.T) {
	for _, requeue := range []bool{true, false} {
		t.Run(fmt.Sprintf("requeue=%t", requeue), func(t *testing.T) {
			inBubble(t, longConf, func(h *house) {
				id := h.submit(in(func(s *queue.Submission) { s.Spec.Requeue = requeue }))
				a := h.run(id)
				h.must(h.NodeNotice(h.t.Context(), "spot-1", time.Now().Add(time.Minute)))
				h.must(h.Ended(h.t.Context(), a, job.Exit{Reason: job.ExitScript}))
				h.must(h.Finished(h.t.Context(), a))
				if r := h.m.runOf(a); r.State != job.Preempted {
					h.t.Errorf("run is %s", r.State)
				}
				j := h.job(id)
				if requeue && (j.State.Final() || j.Restarts != 1) || !requeue && j.State != job.Preempted {
					h.t.Errorf("job is %s, restarts %d", j.ShownState(), j.Restarts)
				}
			})
		})
	}
}

// O-23: the loss of any node ends the whole job; but the script on the first
// node must be over before the job starts again.
func TestO23LostWorkerEndsTheGang(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) {
			s.Spec.NodesMin, s.Spec.NodesMax, s.Spec.CPUsPerTask = 2, 2, 4
		}))
		j := h.until(id, "allocated", allocated)
		for _, name := range j.Run.NodeNames() {
			h.boot(name)
		}
		a := j.Attempt()
		if ok, err := h.Ordered(h.t.Context(), a, nil); !ok || err != nil {
			h.t.Fatal(ok, err)
		}
		h.must(h.Started(h.t.Context(), a, "", "", 0))
		h.gone(j.Run.Nodes[1].Node)
		h.pass(2*time.Second, j.Run.Nodes[0].Node)
		j = h.job(id)
		if !j.Flags.Has(job.Completing|job.Requeued) || j.Stop == nil || j.Stop.Why != job.StopNodeFail {
			h.t.Fatalf("job is %s, stop %+v", j.ShownState(), j.Stop)
		}
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Signal: 15}, Reason: job.ExitKilled}))
		h.must(h.Finished(h.t.Context(), a))
		h.until(id, "again", func(j *job.Job) bool { return allocated(j) && j.Restarts == 1 })
		if r := h.m.runOf(a); r.State != job.NodeFail {
			h.t.Errorf("run is %s", r.State)
		}
	})
}

// O-23, with notice: the first node is told that another one goes.
func TestO23NoticeReachesTheScript(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) {
			s.Spec.NodesMin, s.Spec.NodesMax, s.Spec.CPUsPerTask = 2, 2, 4
		}))
		j := h.until(id, "allocated", allocated)
		for _, name := range j.Run.NodeNames() {
			h.boot(name)
		}
		h.run2(id)
		h.must(h.NodeNotice(h.t.Context(), j.Run.Nodes[1].Node, time.Now().Add(time.Minute)))
		if r := h.job(id).Run; !r.NoticeAsked || r.Notice.IsZero() {
			h.t.Errorf("run %+v", r)
		}
	})
}

// O-24: a node lost while the job is set up costs it nothing.
func TestO24LossBeforeTheScriptIsNotTheJobs(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Spec.Requeue = false }))
		h.until(id, "allocated", allocated)
		h.boot("spot-1")
		h.must(h.NodeNotice(h.t.Context(), "spot-1", time.Now().Add(time.Minute)))
		j := h.until(id, "elsewhere", func(j *job.Job) bool { return allocated(j) && j.Run.Nodes[0].Node != "spot-1" })
		if j.Restarts != 0 || j.Reclaims != 0 {
			h.t.Errorf("counted: %+v", j)
		}
	})
}

// O-26: a node that cannot launch is avoided, tries come slower and slower, and
// after MaxBatchRequeue the job is held and says why.
func TestO26BrokenNodeIsAvoided(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		id := h.submit(in(partition("ws")))
		fail := func() (string, time.Time) {
			a := h.run2(id)
			name := h.job(id).Run.Nodes[0].Node
			h.must(h.LaunchFailed(h.t.Context(), a, job.LaunchFailure{Class: job.FaultInfra, Message: "no space on /var"}))
			h.must(h.Finished(h.t.Context(), a))
			return name, h.job(id).Begin
		}
		first, begin1 := fail()
		delay1 := time.Until(begin1)
		h.pass(20*time.Second, "ws1", "ws2")
		second, begin2 := fail()
		delay2 := time.Until(begin2)
		if first == second {
			h.t.Errorf("tried %s twice", first)
		}
		if n := h.node(first); !n.Flags.Has(node.Drain) || n.Reason != "launch failed: no space on /var" {
			h.t.Errorf("broken node %v (%s)", n.AllFlags().Names(), n.Reason)
		}
		if delay1 <= 0 || delay2 <= delay1 {
			h.t.Errorf("delays %s, %s", delay1, delay2)
		}
		h.must(h.UpdateNode(h.t.Context(), root, "ws1", queue.NodeChange{State: "RESUME"}))
		h.pass(20*time.Second, "ws1", "ws2")
		fail()
		h.pass(2 * time.Second)
		h.want(id, "PENDING", job.ReasonMaxRequeue)
		if j := h.job(id); !strings.Contains(j.SystemNote, "no space on /var") || !j.Held() {
			h.t.Errorf("held job says %q, %q", j.Detail, j.SystemNote)
		}
		// A release starts over.
		h.must(h.UpdateNode(h.t.Context(), root, "ws1", queue.NodeChange{State: "RESUME"}))
		h.must(h.Release(h.t.Context(), alice, job.RefTo(id)))
		h.pass(20*time.Second, "ws1", "ws2")
		fail()
		if j := h.job(id); j.Held() {
			h.t.Error("held again at the first failure")
		}
	})
}

// run2 brings the next attempt of a job to its node.
func (h *house) run2(id uint32) job.Attempt {
	h.t.Helper()
	j := h.until(id, "allocated", allocated)
	if ok, err := h.Ordered(h.t.Context(), j.Attempt(), nil); err != nil || !ok {
		h.t.Fatalf("ordered: %v %v", ok, err)
	}
	return j.Attempt()
}

// O-27: reclaims are counted apart from failures; --max-restarts holds the job.
func TestO27MaxRestartsHolds(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Spec.Burst = &job.Burst{MaxRestarts: 2} }))
		for restart := range uint32(3) {
			a := h.run(id)
			if a.Restart != restart {
				h.t.Errorf("attempt %s", a)
			}
			h.gone(h.job(id).Run.Nodes[0].Node)
		}
		h.pass(2 * time.Second)
		h.want(id, "PENDING", job.ReasonMaxRequeue)
		j := h.job(id)
		if want := "reclaimed 3 times, --max-restarts=2"; j.SystemNote != want || j.LaunchFailures != 0 {
			h.t.Errorf("note %q, %d launch failures", j.SystemNote, j.LaunchFailures)
		}
		h.must(h.Release(h.t.Context(), alice, job.RefTo(id)))
		h.run(id)
	})
}

// O-32: through a requeue no final state is to be seen.
func TestO32NoFinalStateThroughARequeue(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		seen := []string{h.job(id).ShownState()}
		look := func() { seen = append(seen, h.job(id).ShownState()) }
		h.must(h.NodeNotice(h.t.Context(), "spot-1", time.Now().Add(time.Minute)))
		look()
		h.must(h.Ended(h.t.Context(), a, job.Exit{Reason: job.ExitReclaimed}))
		look()
		h.must(h.Finished(h.t.Context(), a))
		look()
		if got := strings.Join(seen, " "); got != "RUNNING RUNNING COMPLETING CONFIGURING" {
			h.t.Errorf("seen %s", got)
		}
	})
}

// O-33: without requeue a dead node is NODE_FAIL, for MinJobAge at least.
func TestO33NodeFailStaysVisible(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(in(func(s *queue.Submission) { s.Spec.Requeue = false }))
		h.run(id)
		h.gone("spot-1")
		h.pass(119 * time.Second)
		if j := h.job(id); j.State != job.NodeFail || j.Reason != job.ReasonNodeDown {
			h.t.Errorf("job is %s (%s)", j.State, j.Reason)
		}
		h.pass(5 * time.Second)
		if _, ok := h.Snapshot().Job(id); ok {
			h.t.Error("it outlives MinJobAge")
		}
	})
}

// O-34, O-36: a cancelled job holds its GPUs until its last process is gone.
func TestO34CancelledJobHoldsItsDevices(t *testing.T) {
	inBubble(t, strings.Replace(longConf, "MaxNodes=2", "MaxNodes=1", 1), func(h *house) {
		both := func(s *queue.Submission) { s.Spec.TRESPerNode = "gres/gpu:2" }
		id := h.submit(in(both))
		a := h.run(id)
		h.must(h.Cancel(h.t.Context(), alice, job.RefTo(id), 0, false))
		next := h.submit(in(both))
		h.pass(30*time.Second, "spot-1")
		h.want(id, "COMPLETING", job.ReasonNone)
		h.want(next, "PENDING", job.ReasonResources)
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Signal: 9}, Reason: job.ExitKilled}))
		h.must(h.Finished(h.t.Context(), a))
		h.until(next, "allocated", allocated)
	})
}

// O-35: a cancelled job on a node that never answers ends at the fence.
func TestO35CancelOnADeadNodeEndsAtTheFence(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		h.run(id)
		h.must(h.Cancel(h.t.Context(), alice, job.RefTo(id), 0, false))
		h.pass(665 * time.Second)
		h.gone("spot-1")
		if j := h.job(id); j.State != job.Cancelled || j.Active() {
			h.t.Errorf("job is %s", j.ShownState())
		}
	})
}

// An admin's DOWN ends what runs there by order: the agent may be well, and the
// job must not start elsewhere while its script still runs.
func TestNodeSetDownEndsItsJobsByOrder(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		h.must(h.UpdateNode(h.t.Context(), root, "spot-1", queue.NodeChange{State: "DOWN", Reason: "smoke"}))
		h.pass(10*time.Second, "spot-1")
		j := h.job(id)
		if !j.Active() || j.Stop == nil || j.Stop.Why != job.StopNodeFail || j.Restarts != 0 {
			h.t.Fatalf("job is %s, stop %+v", j.ShownState(), j.Stop)
		}
		if n := h.node("spot-1"); n.Base() != node.Down || n.Reason != "smoke" {
			h.t.Errorf("node %s (%s)", n.Base(), n.Reason)
		}
		h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Signal: 15}, Reason: job.ExitKilled}))
		h.must(h.Finished(h.t.Context(), a))
		if j := h.until(id, "elsewhere", func(j *job.Job) bool { return allocated(j) && j.Restarts == 1 }); j.Run.Nodes[0].Node == "spot-1" {
			h.t.Error("back on the node that is DOWN")
		}
	})
}

// A late or repeated order for an allocation that is not the present one is
// refused, also when the attempt has the same number.
func TestOrderedChecksTheMachine(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		j := h.until(id, "allocated", allocated)
		h.boot("spot-1")
		stale := []job.Host{{Node: "spot-1", Instance: "cafe-spot-1-0"}}
		if ok, err := h.Ordered(h.t.Context(), j.Attempt(), stale); ok || err != nil {
			h.t.Errorf("ordered onto a machine that is gone: %t %v", ok, err)
		}
		good := []job.Host{{Node: "spot-1", Instance: h.node("spot-1").Instance}}
		if ok, err := h.Ordered(h.t.Context(), j.Attempt(), good); !ok || err != nil {
			h.t.Errorf("%t %v", ok, err)
		}
	})
}

// A finish without an end is no reason to wait for ever.
func TestFinishedWithoutAnEndRequeues(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		h.must(h.Finished(h.t.Context(), a))
		h.until(id, "again", func(j *job.Job) bool { return j.Restarts == 1 })
	})
}

// A job whose shim is gone keeps its node until its output is here.
func TestLostJobEndsWhenItsOutputIsHere(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		id := h.submit(submission())
		a := h.run(id)
		h.must(h.Lost(h.t.Context(), a, "the shim is gone"))
		h.pass(5*time.Second, "spot-1")
		h.want(id, "COMPLETING", job.ReasonNone)
		h.must(h.Finished(h.t.Context(), a))
		h.until(id, "again", func(j *job.Job) bool { return j.Restarts == 1 })
	})
}
