package cli

import (
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// jobRef is a job id as users type it: 7, 7_1, 7_[1-3,5], 7_*, 7+1, each perhaps
// with a step: 7.0, 7.batch.
type jobRef struct {
	id    int64
	tasks string // indexes as typed; empty: the whole job; "*": all tasks
	het   int64  // component, -1: none
	step  string
	text  string
}

// parseJobRef reads one id. Ids are positive.
func parseJobRef(text string) (jobRef, bool) {
	r := jobRef{het: -1, text: text}
	rest, step, stepped := strings.Cut(text, ".")
	if stepped {
		if step == "" {
			return r, false
		}
		r.step = step
	}
	if id, het, ok := strings.Cut(rest, "+"); ok {
		n, err := strconv.ParseUint(het, 10, 31)
		if err != nil {
			return r, false
		}
		r.het, rest = int64(n), id
	}
	id, tasks, tasked := strings.Cut(rest, "_")
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil || n == 0 {
		return r, false
	}
	r.id = int64(n)
	if !tasked {
		return r, true
	}
	r.tasks = strings.TrimSuffix(strings.TrimPrefix(tasks, "["), "]")
	if r.tasks == "*" {
		return r, true
	}
	list, _, _ := strings.Cut(r.tasks, "%")
	return r, len(indexes(list, 1)) > 0
}

// base is the id without its step, as the API takes it.
func (r jobRef) base() string {
	id, _, _ := strings.Cut(r.text, ".")
	if r.tasks == "*" {
		return strconv.FormatInt(r.id, 10)
	}
	return id
}

// matches says whether a record is the job meant, or one of its tasks or
// components.
func (r jobRef) matches(j *wire.JobInfo) bool {
	array, het := j.ArrayJobID.Or(0), j.HetJobID.Or(0)
	if j.JobID != r.id && array != r.id && het != r.id {
		return false
	}
	if r.het >= 0 {
		return j.HetJobOffset.Or(-1) == r.het
	}
	if r.tasks == "" || r.tasks == "*" {
		return true
	}
	list, _, _ := strings.Cut(r.tasks, "%")
	if j.ArrayTaskID.Set {
		return inIndexes(list, j.ArrayTaskID.Number)
	}
	held, _, _ := strings.Cut(j.ArrayTaskString, "%")
	for _, n := range indexes(list, 1<<16) {
		if inIndexes(held, n) {
			return true
		}
	}
	return false
}

// one makes of a record for many waiting tasks the one that was named.
func (r jobRef) one(j *wire.JobInfo) {
	n, err := strconv.ParseInt(r.tasks, 10, 64)
	if err == nil && !j.ArrayTaskID.Set && j.ArrayTaskString != "" {
		j.ArrayTaskID, j.ArrayTaskString = wire.N(n), ""
	}
}

// splitIDs splits a list of ids at commas and blanks outside brackets.
func splitIDs(text string) []string {
	var out []string
	depth, start := 0, 0
	flush := func(end int) {
		if w := strings.TrimSpace(text[start:end]); w != "" {
			out = append(out, w)
		}
		start = end + 1
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',', ' ', '\t', '\n':
			if depth <= 0 {
				flush(i)
			}
		}
	}
	flush(len(text))
	return out
}

// indexes expands a list such as 1-5:2,9 to at most most numbers; none if it is
// no such list.
func indexes(list string, most int) []int64 {
	var out []int64
	for _, part := range strings.Split(list, ",") {
		low, high, step, ok := indexRange(part)
		if !ok {
			return nil
		}
		for n := low; n <= high && len(out) < most; n += step {
			out = append(out, n)
		}
	}
	return out
}

func inIndexes(list string, n int64) bool {
	for _, part := range strings.Split(list, ",") {
		if low, high, step, ok := indexRange(part); ok && n >= low && n <= high && (n-low)%step == 0 {
			return true
		}
	}
	return false
}

func indexRange(part string) (low, high, step int64, ok bool) {
	span, by, stepped := strings.Cut(strings.TrimSpace(part), ":")
	a, b, ranged := strings.Cut(span, "-")
	l, err := strconv.ParseUint(a, 10, 31)
	h, s := l, uint64(1)
	if err == nil && ranged {
		h, err = strconv.ParseUint(b, 10, 31)
	}
	if err == nil && stepped {
		s, err = strconv.ParseUint(by, 10, 31)
	}
	return int64(l), int64(h), int64(s), err == nil && h >= l && s > 0
}

// hosts expands a host list.
func hosts(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	return hostlist.Parse(list)
}
