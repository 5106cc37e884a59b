package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// TaskError says why something was not done to some tasks of an array.
type TaskError struct {
	Array uint32
	Tasks job.TaskSet
	Err   error
}

// Name is how Slurm names the tasks in an answer: 12_[1-3].
func (e TaskError) Name() string { return fmt.Sprintf("%d_[%s]", e.Array, e.Tasks) }

// Error reads as scontrol prints it.
func (e TaskError) Error() string { return e.Name() + ": " + e.Err.Error() }

// Unwrap is the reason, one of Slurm's.
func (e TaskError) Unwrap() error { return e.Err }

// TaskErrors answers a command on an array that was refused for some of its
// tasks, one entry for each reason; for the others it was done.
type TaskErrors []TaskError

// Error is the first entry's.
func (e TaskErrors) Error() string { return e[0].Error() }

// Unwrap lists the entries.
func (e TaskErrors) Unwrap() []error {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i]
	}
	return list
}

// add notes a reason; equal ones share an entry.
func (e *TaskErrors) add(array uint32, tasks job.TaskSet, err error) {
	if tasks.Len() == 0 {
		return
	}
	for i := range *e {
		if t := &(*e)[i]; errors.Is(t.Err, err) {
			t.Tasks = t.Tasks.With(tasks)
			return
		}
	}
	*e = append(*e, TaskError{array, tasks, err})
}

// member is a record that a command is about, or some of the waiting tasks that
// an array's record stands for.
type member struct {
	*job.Job
	some job.TaskSet // empty: the whole record
}

// tasks are the indexes of a member of an array.
func (m member) tasks() job.TaskSet {
	switch {
	case m.some.Len() > 0:
		return m.some
	case m.Tasks.Len() > 0:
		return m.Tasks
	case m.ID.Task != job.NoTask:
		return job.RefTask(m.ID.Array, m.ID.Task).Tasks
	}
	return job.TaskSet{}
}

// find lists what a ref means. missing are tasks it names that do not exist; a
// ref that names nothing at all is Slurm's error.
func (w *work) find(ref job.Ref) (list []member, missing job.TaskSet, err error) {
	if ref.Tasks.Len() == 0 {
		j, ok := w.Job(ref.ID)
		if ok && (j.ID.Array == 0 || j.ID.Array != ref.ID) {
			list = append(list, member{Job: j})
			for p := range w.Parts(j) {
				list = append(list, member{Job: p})
			}
			if ref.Part == job.AllParts {
				return list, missing, nil
			}
			if ref.Part >= len(list) || j.Het == nil {
				return nil, missing, errno.InvalidJobID
			}
			return list[ref.Part : ref.Part+1], missing, nil
		}
		for j := range w.Array(ref.ID) {
			list = append(list, member{Job: j})
		}
		if len(list) == 0 {
			err = errno.InvalidJobID
		}
		return list, missing, err
	}
	missing = ref.Tasks
	for j := range w.Array(ref.ID) {
		if j.Tasks.Len() > 0 && !j.Waiting() {
			continue // cancelled: only accounting knows its tasks
		}
		m := member{Job: j}
		all := m.tasks()
		some := all.Both(ref.Tasks)
		if some.Len() == 0 {
			continue
		}
		missing = missing.Minus(some)
		if some.Len() < all.Len() {
			m.some = some
		}
		list = append(list, m)
	}
	return list, missing, nil
}

// onJobs runs an action on every record that a ref means, after checking that who
// may; what is to happen to some of an array's waiting tasks alone happens to
// records of their own. Where a part is refused the rest is done all the same.
func (q *Queue) onJobs(ctx context.Context, who auth.Identity, ref job.Ref, what string, do func(*work, *job.Job) error) error {
	return q.onMembers(ctx, who, ref, what, func(w *work, m member) error {
		if m.some.Len() == 0 {
			return do(w, m.Job)
		}
		for n := range m.some.All() {
			own, err := w.split(m.ID.Raw, n)
			if err == nil {
				err = do(w, own)
			}
			if err != nil {
				return err // equal tasks are refused for the same reason
			}
		}
		return nil
	})
}

// onMembers is onJobs for an action that takes waiting tasks as they are.
func (q *Queue) onMembers(ctx context.Context, who auth.Identity, ref job.Ref, what string, do func(*work, member) error) error {
	var refused TaskErrors
	err := q.send(ctx, who.User, func(w *work) error {
		list, missing, err := w.find(ref)
		if err != nil {
			return err
		}
		refused.add(ref.ID, missing, errno.InvalidJobID)
		if len(list) == 0 {
			return nil
		}
		if err := w.mayJob(who, list[0].Job, what); err != nil {
			if what == "cancel" || list[0].ID.Array == 0 {
				return denied(what)
			}
			w.keepDenials()
			for _, m := range list {
				refused.add(m.ID.Array, m.tasks(), denied(what))
			}
			return nil
		}
		if list[0].ID.Array == 0 {
			for _, m := range list {
				if err := do(w, m); err != nil {
					return err
				}
			}
			return nil
		}
		for _, m := range list {
			if err := w.try(func() error { return do(w, m) }); err != nil {
				refused.add(m.ID.Array, m.tasks(), err)
			}
		}
		return nil
	})
	if err == nil && len(refused) > 0 {
		slices.SortStableFunc(refused, func(a, b TaskError) int { return firstOf(a.Tasks) - firstOf(b.Tasks) })
		err = refused
	}
	return err
}

// denied is how Slurm says that a job is somebody else's: in two ways.
func denied(what string) error {
	if what == "cancel" || what == "requeue" {
		return errno.AccessDenied
	}
	return errno.UserIDMissing
}

func firstOf(t job.TaskSet) int {
	n, _ := t.First()
	return int(n)
}

// try runs a part of a command and takes back what it did if it fails.
func (w *work) try(do func() error) error {
	before := w.point()
	err := do()
	if err != nil {
		w.back(before)
		w.keepDenials()
	}
	return err
}

// split gives a waiting task a record of its own.
func (w *work) split(array, task uint32) (*job.Job, error) {
	m, ok := w.Job(array)
	if !ok {
		return nil, state.ErrUnknown
	}
	raw := w.NextJobID
	if m.Tasks.Len() == 1 {
		raw = array
	}
	if err := w.emit(state.TaskSplit{Array: array, Task: task, Raw: raw}); err != nil {
		return nil, err
	}
	own, _ := w.Job(raw)
	return own, nil
}
