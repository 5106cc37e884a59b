package cli

import (
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/format"
)

func (q *jobQuery) sortKeys() string {
	switch {
	case q.in.Given("sort"):
		return q.in.Str("sort")
	case q.in.Given("start"):
		return "S"
	}
	return "P,t,-p"
}

// sortJobs orders lines by keys: -o's letters, each perhaps with a sign. Of equal
// jobs the youngest comes first.
func sortJobs(fc *format.Context, jobs []format.Job, keys string) error {
	type key struct {
		cmp  func(a, b *format.Job) int
		down bool
	}
	var order []key
	for _, w := range strings.Split(keys, ",") {
		var k key
		name := strings.TrimSpace(w)
		if rest, ok := strings.CutPrefix(name, "-"); ok {
			name, k.down = rest, true
		} else {
			name = strings.TrimPrefix(name, "+")
		}
		if k.cmp = compareJobs(fc, name); k.cmp == nil {
			return failed("Invalid sort specification: %s", name)
		}
		order = append(order, k)
	}
	slices.SortStableFunc(jobs, func(a, b format.Job) int {
		for _, k := range order {
			c := k.cmp(&a, &b)
			if k.down {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return compare(b.JobID, a.JobID)
	})
	return nil
}

func compareJobs(fc *format.Context, name string) func(a, b *format.Job) int {
	number := func(f func(*format.Job) int64) func(a, b *format.Job) int {
		return func(a, b *format.Job) int { return compare(f(a), f(b)) }
	}
	switch name {
	case "i", "A", "F":
		return func(a, b *format.Job) int {
			x, y := a.ArrayJobID.Or(0), b.ArrayJobID.Or(0)
			if x == 0 {
				x = a.JobID
			}
			if y == 0 {
				y = b.JobID
			}
			if c := compare(x, y); c != 0 {
				return c
			}
			return compare(a.ArrayTaskID.Or(1<<40), b.ArrayTaskID.Or(1<<40))
		}
	case "K":
		return number(func(j *format.Job) int64 { return j.ArrayTaskID.Or(-1) })
	case "t", "T":
		return number(func(j *format.Job) int64 { return int64(format.StateNumber(j.JobState)) })
	case "p", "Q":
		return number(func(j *format.Job) int64 { return j.Priority.Or(0) })
	case "D":
		return number(func(j *format.Job) int64 { return j.NodeCount.Or(0) })
	case "C":
		return number(func(j *format.Job) int64 { return j.CPUs.Or(0) })
	case "c":
		return number(func(j *format.Job) int64 { return j.MinimumCPUsPerNode.Or(0) })
	case "S":
		return number(func(j *format.Job) int64 {
			if j.StartTime.Number == 0 {
				return 1 << 60
			}
			return j.StartTime.Number
		})
	case "e":
		return number(func(j *format.Job) int64 { return j.EndTime.Number })
	case "V":
		return number(func(j *format.Job) int64 { return j.SubmitTime.Number })
	case "M":
		return number(func(j *format.Job) int64 { return int64(j.Used(fc)) })
	case "l", "L":
		return number(func(j *format.Job) int64 { return int64(format.Limit(j.TimeLimit)) })
	case "m":
		return number(func(j *format.Job) int64 { return max(j.MemoryPerNode.Or(0), j.MemoryPerCPU.Or(0)) })
	case "U":
		return number(func(j *format.Job) int64 { return j.UserID })
	case "G":
		return number(func(j *format.Job) int64 { return j.GroupID })
	case "y":
		return number(func(j *format.Job) int64 { return j.Nice })
	case "cluster":
		return func(a, b *format.Job) int { return strings.Compare(a.Cluster, b.Cluster) }
	}
	if len(name) != 1 {
		return nil
	}
	for i := range format.JobFields {
		f := &format.JobFields[i]
		if f.Letter == name[0] {
			return func(a, b *format.Job) int { return strings.Compare(f.Value(fc, a), f.Value(fc, b)) }
		}
	}
	return nil
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func helpLetters[R any](e *Env, fields []format.Field[R]) error {
	for i := range fields {
		if f := &fields[i]; f.Letter != 0 && !f.Hidden {
			e.printf("%%%c: %s\n", f.Letter, f.Name)
		}
	}
	return nil
}

func helpNames[R any](e *Env, fields []format.Field[R]) error {
	for i := range fields {
		if !fields[i].Hidden {
			e.printf("%s\n", fields[i].Name)
		}
	}
	return nil
}

func helpStates(e *Env) error {
	for _, s := range format.JobStates {
		e.printf("%s\n", s.Name)
	}
	return nil
}
