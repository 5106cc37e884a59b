package scheduler

import (
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

type depState uint8

const (
	depMet depState = iota
	depWait
	depNever
)

// dependency evaluates --dependency: terms joined by commas (all) or question
// marks (any).
func dependency(s *state.State, j *job.Job, now time.Time) depState {
	text := j.Spec.Dependency
	if text == "" {
		return depMet
	}
	any := strings.Contains(text, "?")
	sep := ","
	if any {
		sep = "?"
	}
	worst, best := depMet, depNever
	for term := range strings.SplitSeq(text, sep) {
		d := depTerm(s, j, term, now)
		worst, best = max(worst, d), min(best, d)
	}
	if any {
		return best
	}
	return worst
}

func depTerm(s *state.State, j *job.Job, term string, now time.Time) depState {
	kind, ids, _ := strings.Cut(term, ":")
	if kind == "singleton" {
		return singleton(s, j)
	}
	if _, err := strconv.ParseUint(kind, 10, 32); err == nil {
		kind, ids = "afterany", term
	}
	worst := depMet
	for text := range strings.SplitSeq(ids, ":") {
		text, delay, _ := strings.Cut(text, "+")
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return depNever
		}
		other, ok := s.Job(uint32(n))
		if !ok {
			continue // it had left memory before this job was submitted
		}
		worst = max(worst, depOn(kind, other, delay, now))
	}
	return worst
}

func depOn(kind string, other *job.Job, delay string, now time.Time) depState {
	ended := other.State.Final() && !other.Flags.Has(job.Completing)
	ok := other.State == job.Completed && other.ExitCode.OK()
	switch kind {
	case "after":
		minutes, _ := strconv.Atoi(delay) // empty is 0
		if other.State.Final() {
			return depMet
		}
		began := other.State == job.Running && !other.Flags.Has(job.Configuring) || other.State == job.Suspended
		if began && !now.Before(other.Start.Add(time.Duration(minutes)*time.Minute)) {
			return depMet
		}
		return depWait
	case "afterany":
		if ended {
			return depMet
		}
	case "afterok":
		if ended && ok {
			return depMet
		}
		if ended {
			return depNever
		}
	case "afternotok":
		if ended && !ok {
			return depMet
		}
		if ended {
			return depNever
		}
	default:
		return depNever
	}
	return depWait
}

// singleton waits for all earlier jobs of the same name and user.
func singleton(s *state.State, j *job.Job) depState {
	for o := range s.Jobs() {
		if o.ID.Raw < j.ID.Raw && o.UID == j.UID && o.Spec.Name == j.Spec.Name &&
			(!o.State.Final() || o.Flags.Has(job.Completing)) {
			return depWait
		}
	}
	return depMet
}

// CheckDependency says whether a --dependency text can be accepted: its types
// are known and its jobs exist.
func CheckDependency(s *state.State, text string) bool {
	if text == "" {
		return true
	}
	if strings.Contains(text, ",") && strings.Contains(text, "?") {
		return false
	}
	for term := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '?' }) {
		kind, ids, has := strings.Cut(term, ":")
		if kind == "singleton" && !has {
			continue
		}
		if _, err := strconv.ParseUint(kind, 10, 32); err == nil {
			kind, ids = "afterany", term
		}
		switch kind {
		case "after", "afterany", "afterok", "afternotok":
		default:
			return false
		}
		for id := range strings.SplitSeq(ids, ":") {
			id, _, _ = strings.Cut(id, "+")
			n, err := strconv.ParseUint(id, 10, 32)
			if err != nil || n == 0 {
				return false
			}
			if _, ok := s.Job(uint32(n)); !ok && (kind == "afterok" || kind == "afternotok") {
				return false
			}
		}
	}
	return true
}

// DependsOn lists the jobs a --dependency text names.
func DependsOn(text string) []uint32 {
	var out []uint32
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(",?:", r) }) {
		word, _, _ = strings.Cut(word, "+")
		if id, err := strconv.ParseUint(word, 10, 32); err == nil {
			out = append(out, uint32(id))
		}
	}
	return out
}
