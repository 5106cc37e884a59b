package queue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// after is a submission that depends on others.
func after(dep string) queue.Submission {
	return in(func(s *queue.Submission) { s.Spec.Dependency, s.Spec.Partitions, s.Spec.Name = dep, "ws", "b" })
}

// shows compares what a job waits for with what Slurm shows.
func (h *house) shows(id uint32, depends string, reason job.Reason) {
	h.t.Helper()
	if j := h.job(id); j.Depends.String() != depends || j.State == job.Pending && j.Reason != reason {
		h.t.Errorf("job %d waits for %q (%s), want %q (%s)", id, j.Depends, j.Reason, depends, reason)
	}
}

// O-52: an array's id stands for all its tasks.
func TestO52DependOnArray(t *testing.T) {
	for name, c := range map[string]struct {
		dep    string
		status uint8 // of the second task
		first  string
		last   string // once all tasks ended; empty: the job runs
	}{
		"all succeed":        {"afterok:1", 0, "afterok:1_*(unfulfilled)", ""},
		"one fails":          {"afterok:1", 1, "afterok:1_*(unfulfilled)", "afterok:1_*(failed)"},
		"not all succeed":    {"afternotok:1", 1, "afternotok:1_*(unfulfilled)", ""},
		"none fails":         {"afternotok:1", 0, "afternotok:1_*(unfulfilled)", "afternotok:1_*(failed)"},
		"however they end":   {"afterany:1", 1, "afterany:1_*(unfulfilled)", ""},
		"a task":             {"afterok:1_1", 1, "afterok:1_1(unfulfilled)", ""},
		"the other task":     {"afterok:1_2", 1, "afterok:1_2(unfulfilled)", "afterok:1_2(failed)"},
		"both tasks":         {"afterok:1_[1-2]", 1, "afterok:1_1(unfulfilled),afterok:1_2(unfulfilled)", "afterok:1_2(failed)"},
		"one or the other":   {"afterok:1_1?afterok:1_2", 1, "afterok:1_1(unfulfilled)?afterok:1_2(unfulfilled)", ""},
		"two of two":         {"afterok:1,afternotok:1", 0, "afterok:1_*(unfulfilled),afternotok:1_*(unfulfilled)", "afternotok:1_*(failed)"},
		"corresponding once": {"aftercorr:1", 1, "aftercorr:1_*(unfulfilled)", "aftercorr:1_*(failed)"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, longConf, func(h *house) {
				h.up("ws1", "ws2")
				id := h.submit(array("1-2"))
				dep := h.submit(after(c.dep))
				h.shows(dep, c.first, job.ReasonDependency)
				h.finish(h.task(id, 1), 0)
				h.finish(h.task(id, 2), c.status)
				h.shows(dep, c.last, job.ReasonNeverSatisfied)
				if running := h.job(dep).State == job.Running; running != (c.last == "") {
					h.t.Errorf("running is %t", running)
				}
			})
		})
	}
}

// O-52: aftercorr goes index by index.
func TestAfterCorr(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		first := h.submit(array("1-3"))
		s := array("1-3")
		s.Spec.Dependency = "aftercorr:1"
		second := h.submit(s)
		h.shows(second, "aftercorr:1_*(unfulfilled)", job.ReasonDependency)
		h.finish(h.task(first, 3), 0)
		if got := h.records(second); got != "[1-2] PD, 3 CF" {
			h.t.Error(got)
		}
		h.finish(h.task(first, 2), 1)
		h.finish(h.task(first, 1), 0)
		if got := h.records(second); got != "[2] PD, 1 CF, 3 CF" {
			h.t.Error(got)
		}
		h.want(second, "PENDING", job.ReasonNeverSatisfied)
	})
}

// TestAfterDelay: after:id+10 counts from the other's start.
func TestAfterDelay(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		id := h.submit(in(partition("ws")))
		dep := h.submit(after("after:1+10"))
		h.pass(20*time.Minute, "ws1", "ws2")
		h.shows(dep, "after:1+10(unfulfilled)", job.ReasonDependency)
		h.run(id)
		h.pass(9*time.Minute, "ws1", "ws2")
		h.shows(dep, "after:1+10(unfulfilled)", job.ReasonDependency)
		h.pass(2*time.Minute, "ws1", "ws2")
		if j := h.job(dep); j.State != job.Running || j.Depends != nil {
			h.t.Errorf("%s, %s", j.State, j.Depends)
		}
	})
}

func TestSingleton(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		first := h.submit(after(""))
		second := h.submit(after("singleton"))
		third := h.submit(after("singleton"))
		other := h.submit(in(func(s *queue.Submission) { s.Spec.Dependency, s.Spec.Partitions = "singleton", "ws" }))
		h.shows(second, "singleton(unfulfilled)", job.ReasonDependency)
		if h.job(other).State != job.Running {
			h.t.Error("a job of another name waits")
		}
		h.finish(h.job(first), 1)
		if h.job(second).State != job.Running || h.job(third).State != job.Pending {
			h.t.Errorf("%s, %s", h.job(second).State, h.job(third).State)
		}
	})
}

// TestDependencyNeverSatisfied: such a job stays, unless it or the cluster says
// that it is to end.
func TestDependencyNeverSatisfied(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		conf string
		kill *bool
		want string
	}{
		"stays":                 {"", nil, "PENDING"},
		"asked to end":          {"", &yes, "CANCELLED"},
		"the cluster ends it":   {"DependencyParameters=kill_invalid_depend\n", nil, "CANCELLED"},
		"older way to say it":   {"SchedulerParameters=kill_invalid_depend\n", nil, "CANCELLED"},
		"asked to stay all the": {"DependencyParameters=kill_invalid_depend\n", &no, "PENDING"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, longConf+c.conf, func(h *house) {
				h.up("ws1", "ws2")
				id := h.submit(in(partition("ws")))
				s := after("afterok:1")
				s.Spec.KillOnInvalidDep = c.kill
				dep := h.submit(s)
				h.finish(h.job(id), 1)
				h.pass(2*time.Second, "ws1", "ws2")
				h.want(dep, c.want, job.ReasonNeverSatisfied)
				j := h.job(dep)
				if j.Depends.String() != "afterok:1(failed)" || j.CancelledBy != nil || !j.ExitCode.OK() {
					h.t.Errorf("%s, by %v, exit %s", j.Depends, j.CancelledBy, j.ExitCode)
				}
			})
		})
	}
}

func TestDependencyRefused(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		held := func(dep string) (uint32, error) {
			s := after(dep)
			s.Hold = true
			out, err := h.Submit(h.t.Context(), alice, s)
			return out.ID.Raw, err
		}
		first, err := held("")
		h.must(err)
		for dep, want := range map[string]error{
			"afterok:99": errno.Dependency, "afternotok:99": errno.Dependency, "afterany:99": nil, "after:99": nil,
			"aftercorr:99": nil, "afterok:1_4": errno.Dependency, "foo:1": errno.Dependency, "expand:1": errno.NotSupported,
		} {
			if _, err := held(dep); !errors.Is(err, want) {
				h.t.Errorf("%s: %v, want %v", dep, err, want)
			}
		}
		second, err := held("afterok:1")
		h.must(err)
		set := func(id uint32, dep string) error {
			return h.Update(h.t.Context(), alice, job.RefTo(id), queue.Change{Dependency: &dep})
		}
		if err := set(first, "after:1"); !errors.Is(err, errno.Dependency) {
			h.t.Errorf("on oneself: %v", err)
		}
		if err := set(first, "afterany:"+job.NewID(second).String()); !errors.Is(err, errno.CircularDependency) {
			h.t.Errorf("in a circle: %v", err)
		}
		h.shows(first, "", job.ReasonHeldUser)
		h.must(set(second, "singleton"))
		h.shows(second, "singleton(unfulfilled)", job.ReasonHeldUser)
		h.must(set(second, ""))
		h.shows(second, "", job.ReasonHeldUser)
	})
}

// TestDependencyOutlivesForgetting: how a job ended stays known as long as another
// waits for it, and what was met stays met after a kill.
func TestDependencyOutlivesForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		cfg := load(t, longConf)
		h, stop := openHouse(t, m, cfg)
		h.up("ws1", "ws2")
		first, second := h.submit(in(partition("ws"))), h.submit(in(partition("ws")))
		dep := h.submit(after("afterok:1:2"))
		h.finish(h.job(first), 0)
		h.shows(dep, "afterok:2(unfulfilled)", job.ReasonDependency)
		a := h.run(second)
		h.pass(10*time.Minute, "ws1", "ws2") // far beyond MinJobAge
		stop()
		h, _ = openHouse(t, m, cfg)
		h.up("ws1", "ws2")
		if _, ok := h.Snapshot().Job(first); ok {
			t.Error("a job nobody waits for is still in memory")
		}
		h.shows(dep, "afterok:2(unfulfilled)", job.ReasonDependency)
		h.must(h.Ended(t.Context(), a, job.Exit{}))
		h.must(h.Finished(t.Context(), a))
		h.until(dep, "running", allocated)
	})
}
