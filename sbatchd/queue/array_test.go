package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// array is a submission of an array to the two nodes of two CPUs each.
func array(spec string) queue.Submission {
	return in(func(s *queue.Submission) { s.Spec.Array, s.Spec.Partitions = spec, "ws" })
}

// records prints an array's records: the indexes and the state of each.
func (h *house) records(id uint32) string {
	h.t.Helper()
	synctest.Wait()
	var out []string
	for j := range h.Snapshot().Array(id) {
		name := fmt.Sprint(j.ID.Task)
		if j.ID.Task == job.NoTask {
			name = "[" + j.Tasks.String() + "]"
		}
		out = append(out, name+" "+j.ShownCode())
	}
	return strings.Join(out, ", ")
}

// task is the record of an array's task.
func (h *house) task(id, n uint32) *job.Job {
	h.t.Helper()
	synctest.Wait()
	j, ok := h.Snapshot().Task(id, n)
	if !ok {
		h.t.Fatalf("task %d_%d is not in memory", id, n)
	}
	return j
}

// finish runs the attempt of a record to its end.
func (h *house) finish(j *job.Job, status uint8) {
	h.t.Helper()
	a := h.run(j.ID.Raw)
	h.must(h.Ended(h.t.Context(), a, job.Exit{Code: job.ExitCode{Status: status}}))
	h.must(h.Finished(h.t.Context(), a))
}

func TestArrayTasksLeaveAsTheyStart(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		id := h.submit(array("1-6"))
		if got, want := h.records(id), "[5-6] PD, 1 CF, 2 CF, 3 CF, 4 CF"; got != want {
			h.t.Fatalf("%s, want %s", got, want)
		}
		seen := map[uint32]bool{id: true}
		for n := range uint32(4) {
			j := h.task(id, n+1)
			if seen[j.ID.Raw] || j.ID.Array != id {
				h.t.Errorf("task %d is %+v", n+1, j.ID)
			}
			seen[j.ID.Raw] = true
		}
		h.finish(h.task(id, 2), 0)
		h.finish(h.task(id, 1), 1)
		if got, want := h.records(id), "1 F, 2 CD, 3 CF, 4 CF, 5 CF, 6 CF"; got != want {
			h.t.Errorf("%s, want %s", got, want)
		}
		// The last one keeps the array's id, and none is given twice.
		if j := h.task(id, 6); j.ID.Raw != id {
			h.t.Errorf("the last task is %+v", j.ID)
		}
		if next := h.submit(submission()); seen[next] || next <= id+5 {
			h.t.Errorf("id %d given again", next)
		}
	})
}

func TestArrayLimit(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		id := h.submit(array("1-6%2"))
		if got := h.records(id); got != "[3-6] PD, 1 CF, 2 CF" {
			h.t.Fatal(got)
		}
		h.want(id, "PENDING", job.ReasonArrayTaskLimit)
		h.finish(h.task(id, 1), 0)
		if got := h.records(id); got != "[4-6] PD, 1 CD, 2 CF, 3 CF" {
			h.t.Error(got)
		}
		limit := func(ref job.Ref, n uint32) error {
			return h.Update(h.t.Context(), alice, ref, queue.Change{ArrayLimit: &n})
		}
		if err := limit(job.RefTo(id), 3); err == nil || err.Error() != "1_[1]: Job has already finished" {
			h.t.Error(err)
		}
		if got := h.records(id); got != "[5-6] PD, 1 CD, 2 CF, 3 CF, 4 CF" {
			h.t.Error(got)
		}
		if err := limit(job.RefTask(id, 5), 0); !errors.Is(err, errno.NotSupported) {
			h.t.Error(err)
		}
	})
}

// TestArrayCommands has what a real Slurm 26.05 does with parts of arrays.
func TestArrayCommands(t *testing.T) {
	held := func(h *house) uint32 {
		s := array("1-6")
		s.Hold = true
		return h.submit(s)
	}
	tasks := func(id uint32, list string) job.Ref {
		ref, err := job.ParseRef(fmt.Sprintf("%d_[%s]", id, list))
		if err != nil {
			panic(err)
		}
		return ref
	}
	for name, c := range map[string]struct {
		do   func(h *house, id uint32) error
		want string // records
		err  string
	}{
		"cancel one": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, tasks(id, "2"), 0, false)
		}, "[1,3-6] PD", ""},
		"cancel some": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, tasks(id, "1-4"), 0, false)
		}, "[5-6] PD", ""},
		"cancel all one by one": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, tasks(id, "1-6"), 0, false)
		}, "[1-6] CA", ""},
		"cancel the array": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, job.RefTo(id), 0, false)
		}, "[1-6] CA", ""},
		"cancel what is not there": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, tasks(id, "9"), 0, false)
		}, "[1-6] PD", "1_[9]: Invalid job id specified"},
		"signal": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), alice, tasks(id, "1"), 10, false)
		}, "[1-6] PD", "1_[1]: Job can not be altered now, try again later"},
		"rename one": {func(h *house, id uint32) error {
			return h.Update(h.t.Context(), alice, tasks(id, "3"), queue.Change{Name: new("x")})
		}, "[1-2,4-6] PD, 3 PD", ""},
		"rename some, one is unknown": {func(h *house, id uint32) error {
			return h.Update(h.t.Context(), alice, tasks(id, "5,99"), queue.Change{Name: new("x")})
		}, "[1-4,6] PD, 5 PD", "1_[99]: Invalid job id specified"},
		"rename the array": {func(h *house, id uint32) error {
			return h.Update(h.t.Context(), alice, job.RefTo(id), queue.Change{Name: new("x")})
		}, "[1-6] PD", ""},
		"release one": {func(h *house, id uint32) error {
			return h.Release(h.t.Context(), alice, tasks(id, "2"))
		}, "[1,3-6] PD, 2 CF", ""},
		"requeue one": {func(h *house, id uint32) error {
			return h.Requeue(h.t.Context(), alice, tasks(id, "2"), false)
		}, "[1-6] PD", "1_[2]: Job is pending execution"},
		"requeue the array": {func(h *house, id uint32) error {
			return h.Requeue(h.t.Context(), alice, job.RefTo(id), false)
		}, "[1-6] PD", "1_[1-6]: Job is pending execution"},
		"another's": {func(h *house, id uint32) error {
			return h.Cancel(h.t.Context(), bob, tasks(id, "2"), 0, false)
		}, "[1-6] PD", "Access/permission denied"},
		"another's name": {func(h *house, id uint32) error {
			return h.Update(h.t.Context(), bob, tasks(id, "2"), queue.Change{Name: new("x")})
		}, "[1-6] PD", "1_[2]: Invalid user id"},
		"another's hold": {func(h *house, id uint32) error {
			return h.Hold(h.t.Context(), bob, job.RefTo(id))
		}, "[1-6] PD", "1_[1-6]: Invalid user id"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, longConf, func(h *house) {
				h.up("ws1", "ws2")
				id := held(h)
				err := c.do(h, id)
				if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
					h.t.Errorf("%v, want %s", err, c.err)
				}
				if got := h.records(id); got != c.want {
					h.t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestArrayRefused(t *testing.T) {
	inBubble(t, longConf+"MaxArraySize=101\nMaxJobCount=50\nSchedulerParameters=max_array_tasks=40\n", func(h *house) {
		for spec, want := range map[string]error{
			"0-100:5": nil, "100": nil, "101": errno.InvalidArray, "5-1": errno.InvalidArray, "x": errno.InvalidArray,
			"0-40": errno.InvalidArray,
		} {
			s := array(spec)
			s.Hold = true
			_, err := h.Submit(h.t.Context(), alice, s)
			if want == nil && err == nil {
				h.must(h.Cancel(h.t.Context(), alice, job.RefTo(h.Snapshot().NextJobID-1), 0, false))
			}
			if !errors.Is(err, want) {
				h.t.Errorf("%s: %v, want %v", spec, err, want)
			}
		}
		s := array("0-38")
		s.Hold = true
		h.submit(s)
		if _, err := h.Submit(h.t.Context(), alice, s); !errors.Is(err, errno.MaxJobCount) {
			h.t.Errorf("more tasks than MaxJobCount: %v", err)
		}
	})
}

// TestLargeArray: a waiting array is one record whatever its size, and no step of a
// pass looks at each task.
func TestLargeArray(t *testing.T) {
	m := newMemory()
	cfg := load(t, longConf+"MaxArraySize=100001\nMaxJobCount=1000000\n")
	h, _ := openHouse(t, m, cfg)
	h.up("ws1", "ws2")
	start := time.Now()
	id := h.submit(array("1-100000"))
	if d := time.Since(start); d > 50*time.Millisecond {
		t.Errorf("100,000 tasks took %s", d)
	}
	h.until(id, "started in part", func(j *job.Job) bool { return j.Tasks.Len() == 99_996 })
	if n := h.Snapshot().JobCount(); n != 100_000 {
		t.Errorf("%d tasks counted", n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.jobs) != 5 {
		t.Errorf("%d records", len(m.jobs))
	}
}

// TestArrayKill: whatever was committed is what is there after a kill; ids go on.
func TestArrayKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		cfg := load(t, longConf)
		h, stop := openHouse(t, m, cfg)
		h.up("ws1", "ws2")
		id := h.submit(array("1-6%3"))
		before := h.records(id)
		next := h.Snapshot().NextJobID
		stop()
		h, _ = openHouse(t, m, cfg)
		if got := h.records(id); got != before || before != "[4-6] PD, 1 CF, 2 CF, 3 CF" {
			t.Errorf("%s before, %s after", before, got)
		}
		if got := h.Snapshot().NextJobID; got != next {
			t.Errorf("next id %d, was %d", got, next)
		}
		h.finish(h.task(id, 1), 0)
		raws := map[uint32]bool{}
		for j := range h.Snapshot().Array(id) {
			if raws[j.ID.Raw] {
				t.Errorf("id %d twice", j.ID.Raw)
			}
			raws[j.ID.Raw] = true
		}
		if got := h.records(id); got != "[5-6] PD, 1 CD, 2 CF, 3 CF, 4 CF" {
			t.Error(got)
		}
	})
}

// TestTaskRequeued: a task that went back to the queue keeps its own id and obeys
// the limit.
func TestTaskRequeued(t *testing.T) {
	inBubble(t, longConf, func(h *house) {
		h.up("ws1", "ws2")
		id := h.submit(array("1-3%1"))
		raw := h.task(id, 1).ID.Raw
		h.run(raw)
		h.must(h.Requeue(h.t.Context(), alice, job.RefTask(id, 1), false))
		a := h.job(raw).Attempt()
		h.must(h.Ended(h.t.Context(), a, job.Exit{Reason: job.ExitKilled}))
		h.must(h.Finished(h.t.Context(), a))
		h.pass(2*time.Second, "ws1", "ws2")
		got := h.records(id)
		if h.task(id, 1).ID.Raw != raw || !slices.Contains([]string{"[2-3] PD, 1 CF", "[3] PD, 1 PD, 2 CF"}, got) {
			h.t.Error(got)
		}
	})
}
