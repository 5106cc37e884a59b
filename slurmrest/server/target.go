package server

import (
	"cmp"
	"math"
	"slices"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// target is a job id of a path or body: 123, 123_4, 123_[1-3], 123+1.
type target struct {
	text string
	job.Ref
}

// parseTarget reads a job id.
func parseTarget(text string) (target, bool) {
	ref, err := job.ParseRef(text)
	return target{text, ref}, err == nil
}

// match reports whether the target means a job, or some of an array's waiting
// tasks that the job stands for.
func (t target) match(j *job.Job) bool {
	switch {
	case t.Part != job.AllParts:
		return j.Het != nil && j.Het.Leader == t.ID && j.Het.Offset == t.Part
	case t.Tasks.Len() == 0:
		return j.ID.Raw == t.ID || j.ID.Array == t.ID || j.Het != nil && j.Het.Leader == t.ID
	case j.ID.Array != t.ID:
		return false
	case j.Tasks.Len() > 0:
		return j.Tasks.Both(t.Tasks).Len() > 0
	}
	return t.Tasks.Has(j.ID.Task)
}

// find lists the jobs that a target means.
func (t target) find(s *state.State) []*job.Job {
	if j, ok := s.Job(t.ID); ok && t.Tasks.Len() == 0 && j.ID.Array != t.ID {
		list := append([]*job.Job{j}, slices.Collect(s.Parts(j))...)
		return slices.DeleteFunc(list, func(j *job.Job) bool { return !t.match(j) })
	}
	list := slices.DeleteFunc(slices.Collect(s.Array(t.ID)), func(j *job.Job) bool { return !t.match(j) })
	// As in Slurm: first the record with the array's id, then the youngest.
	age := func(j *job.Job) int64 {
		if j.ID.Raw == t.ID {
			return math.MaxInt64
		}
		return int64(j.ID.Raw)
	}
	slices.SortFunc(list, func(a, b *job.Job) int { return cmp.Compare(age(b), age(a)) })
	return list
}

// target reads the job id of the path; where it is none the answer is given.
func (c *call) target() (target, bool) {
	text := mux.Vars(c.r)["job_id"]
	t, ok := parseTarget(text)
	if !ok {
		c.fail(errno.RESTInvalidQuery, "Rejecting request. Failure parsing parameters", "op_handler_job")
		c.reply(nil)
	}
	return t, ok
}
