package job

import (
	"encoding/json"
	"errors"
	"iter"
	"sort"
	"strconv"
	"strings"
)

// TaskSet is a set of array indexes. It is immutable: what changes it makes
// another. 100,000 indexes that follow a rule take a few bytes, and the lowest
// one is taken out without a copy.
type TaskSet struct {
	from uint32 // indexes below it are not members
	runs []span // ascending, apart from each other
	size int
}

// span is lo, lo+step, ... hi; a single index has step 1.
type span struct{ lo, hi, step uint32 }

func (s span) len() int { return int((s.hi-s.lo)/s.step) + 1 }

func (s span) has(n uint32) bool { return n >= s.lo && n <= s.hi && (n-s.lo)%s.step == 0 }

// errTasks is a list of indexes that can't be read.
var errTasks = errors.New("invalid list of array indexes")

// ParseTasks reads --array as Slurm does: 1-5,7,10-20:2, perhaps in brackets,
// with %limit behind. Indexes are below most. limit is how many tasks may run at
// once, 0 for any number.
func ParseTasks(text string, most uint32) (set TaskSet, limit uint32, err error) {
	list, throttle, _ := strings.Cut(text, "%")
	list = strings.NewReplacer("[", "", "]", "").Replace(list)
	var parts []span
	for part := range strings.SplitSeq(list, ",") {
		if part == "" { // Slurm skips it
			continue
		}
		s, ok := parseSpan(part)
		if !ok || s.hi >= most {
			return TaskSet{}, 0, errTasks
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return TaskSet{}, 0, errTasks
	}
	return newTaskSet(parts), leading(throttle), nil
}

// parseSpan reads i, a-b or a-b:step. Blanks and a sign before a number are as
// good as none, as with C's strtol.
func parseSpan(text string) (span, bool) {
	rest, by, stepped := strings.Cut(text, ":")
	low, high, ranged := strings.Cut(rest, "-")
	lo, ok := index(low)
	s := span{lo, lo, 1}
	if ranged && ok {
		s.hi, ok = index(high)
	}
	if stepped && ok {
		s.step, ok = index(by)
		ok = ok && ranged && s.step > 0
	}
	if !ok || s.hi < s.lo {
		return s, false
	}
	s.hi -= (s.hi - s.lo) % s.step
	if s.lo == s.hi {
		s.step = 1
	}
	return s, true
}

func index(text string) (uint32, bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t"), "+")
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err == nil
}

// leading is the number a text begins with; what is none, or not above 0, is 0.
func leading(text string) uint32 {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.ParseUint(text[:end], 10, 31) // none is 0
	return uint32(n)
}

// newTaskSet joins spans that may overlap.
func newTaskSet(parts []span) TaskSet {
	apart := sort.SliceIsSorted(parts, func(i, j int) bool { return parts[i].lo < parts[j].lo })
	for i := 1; i < len(parts) && apart; i++ {
		apart = parts[i].lo > parts[i-1].hi
	}
	if apart && len(parts) == 1 {
		return TaskSet{runs: parts, size: parts[0].len()}
	}
	highest := uint32(0)
	for _, s := range parts {
		highest = max(highest, s.hi)
	}
	member := make([]bool, highest+1)
	for _, s := range parts {
		for n := s.lo; n <= s.hi; n += s.step {
			member[n] = true
		}
	}
	var b setBuilder
	for n, in := range member {
		if in {
			b.add(uint32(n))
		}
	}
	return b.set()
}

// TasksOf makes a set of indexes in rising order.
func TasksOf(rising iter.Seq[uint32]) TaskSet {
	var b setBuilder
	for n := range rising {
		b.add(n)
	}
	return b.set()
}

// setBuilder takes rising indexes and finds the steps between them.
type setBuilder struct {
	runs []span
	size int
}

func (b *setBuilder) add(n uint32) {
	b.size++
	if last := len(b.runs) - 1; last >= 0 {
		s := &b.runs[last]
		switch {
		case s.lo == s.hi:
			s.hi, s.step = n, n-s.lo
			return
		case n == s.hi+s.step:
			s.hi = n
			return
		case s.len() == 2 && s.step > 1: // two alone are no rule
			hi := s.hi
			s.hi, s.step = s.lo, 1
			b.runs = append(b.runs, span{hi, n, n - hi})
			return
		}
	}
	b.runs = append(b.runs, span{n, n, 1})
}

func (b *setBuilder) set() TaskSet {
	if last := len(b.runs) - 1; last >= 0 && b.runs[last].len() == 2 && b.runs[last].step > 1 {
		hi := b.runs[last].hi
		b.runs[last].hi, b.runs[last].step = b.runs[last].lo, 1
		b.runs = append(b.runs, span{hi, hi, 1})
	}
	return TaskSet{runs: b.runs, size: b.size}
}

// Len is the number of indexes.
func (t TaskSet) Len() int { return t.size }

// All walks the indexes in rising order.
func (t TaskSet) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, s := range t.runs {
			for n := s.lo; ; n += s.step {
				if n >= t.from && !yield(n) {
					return
				}
				if n == s.hi {
					break
				}
			}
		}
	}
}

// First is the lowest index.
func (t TaskSet) First() (uint32, bool) {
	if t.size == 0 {
		return 0, false
	}
	s := t.runs[0]
	if t.from <= s.lo {
		return s.lo, true
	}
	return s.lo + (t.from-s.lo+s.step-1)/s.step*s.step, true
}

// last is the highest index of a set that is not empty.
func (t TaskSet) last() uint32 { return t.runs[len(t.runs)-1].hi }

// step is the distance of neighbours where it is the same for all, else 1.
func (t TaskSet) step() uint32 {
	step, before := uint32(0), uint32(0)
	for i, s := range t.runs {
		if i == 0 {
			s.lo, _ = t.First()
		} else if step == 0 {
			step = s.lo - before
		} else if s.lo-before != step {
			return 1
		}
		if s.lo != s.hi {
			if step == 0 {
				step = s.step
			} else if step != s.step {
				return 1
			}
		}
		before = s.hi
	}
	return max(1, step)
}

// Has says whether n is in the set.
func (t TaskSet) Has(n uint32) bool {
	i := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].hi >= n })
	return n >= t.from && i < len(t.runs) && t.runs[i].has(n)
}

// Without is the set without n.
func (t TaskSet) Without(n uint32) TaskSet {
	if !t.Has(n) {
		return t
	}
	if first, _ := t.First(); first == n {
		out := TaskSet{from: n + 1, runs: t.runs, size: t.size - 1}
		if t.runs[0].hi == n {
			out.runs = t.runs[1:]
		}
		return out
	}
	i := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].hi >= n })
	s := t.runs[i]
	runs := append(make([]span, 0, len(t.runs)+1), t.runs[:i]...)
	if n > s.lo {
		runs = append(runs, tidy(span{s.lo, n - s.step, s.step}))
	}
	if n < s.hi {
		runs = append(runs, tidy(span{n + s.step, s.hi, s.step}))
	}
	return TaskSet{from: t.from, runs: append(runs, t.runs[i+1:]...), size: t.size - 1}
}

func tidy(s span) span {
	if s.lo == s.hi {
		s.step = 1
	}
	return s
}

// Equal says whether two sets have the same members.
func (t TaskSet) Equal(o TaskSet) bool { return t.size == o.size && t.String() == o.String() }

// With is the union of two sets.
func (t TaskSet) With(o TaskSet) TaskSet {
	switch {
	case t.size == 0:
		return o
	case o.size == 0:
		return t
	}
	return newTaskSet(append(t.spans(), o.spans()...))
}

// spans are the members as whole spans.
func (t TaskSet) spans() []span {
	out := append([]span(nil), t.runs...)
	if len(out) > 0 {
		first, _ := t.First()
		out[0] = tidy(span{first, out[0].hi, out[0].step})
	}
	return out
}

// Both is what two sets have in common.
func (t TaskSet) Both(o TaskSet) TaskSet {
	if o.size < t.size {
		t, o = o, t
	}
	return t.keep(o.Has)
}

// Minus is the set without the indexes of another.
func (t TaskSet) Minus(o TaskSet) TaskSet {
	if o.Len() == 1 {
		n, _ := o.First()
		return t.Without(n)
	}
	return t.keep(func(n uint32) bool { return !o.Has(n) })
}

func (t TaskSet) keep(want func(uint32) bool) TaskSet {
	return TasksOf(func(yield func(uint32) bool) {
		for n := range t.All() {
			if want(n) && !yield(n) {
				return
			}
		}
	})
}

// String prints the set as Slurm shows it: 1-5,9; by a rule such as 0-100:2
// where the whole set of more than five indexes follows it.
func (t TaskSet) String() string {
	if t.size == 0 {
		return ""
	}
	first, _ := t.First()
	if step := t.step(); step > 1 && t.size > 5 && t.last()-first > 10 {
		return span{first, t.last(), step}.text()
	}
	var b []byte
	flush := func(lo, hi uint32) {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, span{lo, hi, 1}.text()...)
	}
	lo, hi := first, first
	for _, s := range t.runs {
		if s.step == 1 {
			a := max(s.lo, first)
			if a > hi+1 {
				flush(lo, hi)
				lo = a
			}
			hi = s.hi
			continue
		}
		for n := max(s.lo, first); n <= s.hi; n += s.step {
			if n > hi+1 {
				flush(lo, hi)
				lo = n
			}
			hi = n
		}
	}
	flush(lo, hi)
	return string(b)
}

func (s span) text() string {
	out := strconv.FormatUint(uint64(s.lo), 10)
	if s.hi == s.lo {
		return out
	}
	out += "-" + strconv.FormatUint(uint64(s.hi), 10)
	if s.step > 1 {
		out += ":" + strconv.FormatUint(uint64(s.step), 10)
	}
	return out
}

// MarshalJSON stores the set as the text of its spans.
func (t TaskSet) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	for i, s := range t.spans() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.text())
	}
	return json.Marshal(b.String())
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *TaskSet) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if *t = (TaskSet{}); text == "" {
		return nil
	}
	set, _, err := ParseTasks(text, 1<<31)
	*t = set
	return err
}
