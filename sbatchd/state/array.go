package state

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// An array that waits is one record, whose Tasks say which indexes it stands for.
// A task leaves it for a record of its own when it starts or is changed singly.
// The last one keeps the array's record, and so its id, as in Slurm.

func taskKey(array, task uint32) uint64 { return uint64(array)<<32 | uint64(task) }

// Task finds the record of an array's task: its own, or the one that stands for
// it while it waits.
func (s *State) Task(array, task uint32) (*job.Job, bool) {
	if raw, ok := s.tasks.Get(taskKey(array, task)); ok {
		return s.jobs.Get(raw)
	}
	if m, ok := s.jobs.Get(array); ok && m.Tasks.Has(task) {
		return m, true
	}
	return nil, false
}

// Array walks an array's records: first the one for the waiting tasks, if there is
// one, then the tasks that left it, by index.
func (s *State) Array(array uint32) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		if m, ok := s.jobs.Get(array); ok && m.ID.Array == array && m.ID.Task == job.NoTask && !yield(m) {
			return
		}
		s.tasks.Ascend(taskKey(array, 0), func(key uint64, raw uint32) bool {
			if key > taskKey(array, math.MaxUint32) {
				return false
			}
			j, ok := s.jobs.Get(raw)
			return !ok || yield(j)
		})
	}
}

// TaskLimit is how many tasks of a job's array may run at once, 0 for any number.
func (s *State) TaskLimit(j *job.Job) uint32 {
	if m, ok := s.jobs.Get(j.ID.Array); ok && m.Array != nil {
		return m.Array.Limit
	}
	return 0
}

// index keeps the index of tasks and the count of waiting ones right as a job's
// record changes; a nil one is not there.
func (t *tx) index(was, is *job.Job) {
	t.waiting += beyondOne(is) - beyondOne(was)
	switch {
	case is == nil && was.ID.Array != 0 && was.ID.Task != job.NoTask:
		t.tasks.Delete(taskKey(was.ID.Array, was.ID.Task))
	case is != nil && is.ID.Array != 0 && is.ID.Task != job.NoTask:
		t.tasks.Set(taskKey(is.ID.Array, is.ID.Task), is.ID.Raw)
	}
}

func beyondOne(j *job.Job) int {
	if j == nil || !j.Waiting() {
		return 0
	}
	return j.Tasks.Len() - 1
}

// TaskSplit tells that a task leaves the record of its array's waiting tasks. It
// gets the next id, which must be Raw, unless it is the last: then the record is
// its own from now on, and Raw is the array's id.
type TaskSplit struct {
	Array uint32
	Task  uint32
	Raw   uint32
}

func (TaskSplit) Kind() string                        { return "TaskSplit" }
func (e TaskSplit) Subject() (uint32, string, string) { return e.Raw, "", "" }
func (e TaskSplit) apply(t *tx) error {
	m, err := t.editJob(e.Array)
	if err != nil {
		return err
	}
	if !m.Waiting() || !m.Tasks.Has(e.Task) {
		return fmt.Errorf("array %d has no waiting task %d", e.Array, e.Task)
	}
	if m.Tasks.Len() == 1 {
		if e.Raw != e.Array {
			return fmt.Errorf("the last task of array %d keeps its id", e.Array)
		}
		m.ID.Task, m.Tasks = e.Task, job.TaskSet{}
		return t.putJob(m)
	}
	if e.Raw != t.NextJobID {
		return fmt.Errorf("id %d is not the next one (%d)", e.Raw, t.NextJobID)
	}
	t.NextJobID++
	own := m.Clone()
	own.ID.Raw, own.ID.Task, own.Tasks = e.Raw, e.Task, job.TaskSet{}
	m.Tasks = m.Tasks.Without(e.Task)
	if err := t.putJob(m); err != nil {
		return err
	}
	return t.putJob(own)
}

// TasksCancelled tells that some waiting tasks of an array are not to run. As in
// Slurm nothing remains of them, unless they are the last: then the record ends.
type TasksCancelled struct {
	Array uint32
	Tasks job.TaskSet
	At    time.Time
	By    uint32
}

func (TasksCancelled) Kind() string                        { return "TasksCancelled" }
func (e TasksCancelled) Subject() (uint32, string, string) { return e.Array, "", "" }
func (e TasksCancelled) apply(t *tx) error {
	m, err := t.editJob(e.Array)
	if err != nil {
		return err
	}
	if !m.Waiting() {
		return fmt.Errorf("array %d has no waiting tasks", e.Array)
	}
	if left := m.Tasks.Minus(e.Tasks); left.Len() > 0 {
		m.Tasks = left
		return t.putJob(m)
	}
	m.State, m.CancelledBy = job.Cancelled, &e.By
	m.Start, m.End = e.At, e.At
	return t.putJob(m)
}

// ArrayLimited tells that another number of an array's tasks may run at once, 0
// for any number.
type ArrayLimited struct{ Array, Limit uint32 }

func (ArrayLimited) Kind() string                        { return "ArrayLimited" }
func (e ArrayLimited) Subject() (uint32, string, string) { return e.Array, "", "" }
func (e ArrayLimited) apply(t *tx) error {
	m, err := t.editJob(e.Array)
	if err != nil {
		return err
	}
	if m.Array == nil {
		return fmt.Errorf("job %d is no array", e.Array)
	}
	a := *m.Array
	a.Limit = e.Limit
	m.Array = &a
	return t.putJob(m)
}
