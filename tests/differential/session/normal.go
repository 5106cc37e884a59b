package session

import (
	"fmt"
	"regexp"
	"strings"
)

// The rules that make two runs comparable. Each replaces what has to differ by
// something as wide, so that columns still count.
//
//  1. Ids of the session's own jobs, five digits from 41000 on, become J0001, J0002
//     in the order of their appearance; a job's SLUID becomes s and 13 blanks.
//  2. Points in time of this decade become YYYY-MM-DDThh:mm:ss, seconds since the
//     epoch (ten digits) EPOCHEPOCH; those from 2031 on are the session's own.
//  3. A run time below ten seconds (0:03, 00:00:03) becomes 0:0s.
//  4. The process in AllocNode:Sid= and of srun's messages becomes PID.
//  5. The release in a version line becomes VERSION.
//  6. In JSON, keys are sorted, the values of volatile keys become 0 or *, and so does
//     the server's name for itself in meta.plugin.
var rules = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\bs[0-9A-Z]{13}\b`), "sSLUIDSLUIDSLU"},
	{regexp.MustCompile(`\b202\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\b`), "YYYY-MM-DDThh:mm:ss"},
	{regexp.MustCompile(`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] [ 0-3]\d [0-2]\d:[0-5]\d:[0-5]\d 202\d\b`), "Day Mon DD hh:mm:ss YYYY"},
	{regexp.MustCompile(`\b1[78]\d{8}\b`), "EPOCHEPOCH"},
	{regexp.MustCompile(`(AllocNode:Sid=\w+):\d+`), "${1}:PID"},
	{regexp.MustCompile(`\b(slurm|slurm-wlm) \d\d\.\d\d\.\d+\S*`), "slurm VERSION"},
}

var (
	jobID    = regexp.MustCompile(`4[1-9]\d{3}`)
	shortRun = regexp.MustCompile(`(?:00:)?0?0:0\d`)
)

// bounded replaces what stands by itself: where neither neighbour is a digit, a letter
// or one of the given characters.
func bounded(text string, find *regexp.Regexp, but string, replace func(string) string) string {
	var b strings.Builder
	part := func(i int) bool {
		if i < 0 || i >= len(text) {
			return false
		}
		c := text[i]
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte(but, c) >= 0
	}
	end := 0
	for _, at := range find.FindAllStringIndex(text, -1) {
		if part(at[0]-1) || part(at[1]) {
			continue
		}
		b.WriteString(text[end:at[0]] + replace(text[at[0]:at[1]]))
		end = at[1]
	}
	return b.String() + text[end:]
}

// learn remembers the ids of jobs that a text names for the first time.
func (r *run) learn(text string) {
	bounded(text, jobID, "", func(id string) string {
		r.known(id)
		return id
	})
}

// known is the number of a job among the session's.
func (r *run) known(id string) int {
	for i, have := range r.jobs {
		if have == id {
			return i + 1
		}
	}
	r.jobs = append(r.jobs, id)
	return len(r.jobs)
}

// normal applies the rules.
func (r *run) normal(text string) string {
	text = bounded(text, jobID, "", func(id string) string { return fmt.Sprintf("J%04d", r.known(id)) })
	text = bounded(text, shortRun, ":", func(d string) string { return d[:len(d)-1] + "s" })
	for _, rule := range rules {
		text = rule.find.ReplaceAllString(text, rule.with)
	}
	return text
}

// tell adds a step and its answer to the transcript.
func (r *run) tell(s Step, a Answer) {
	r.learn(a.Stdout + a.Stderr)
	fmt.Fprintf(&r.out, "%s\n", s.Prompt)
	out := a.Stdout
	if text, ok := canonical(out, s.Pick); ok {
		out = text
	}
	lines(&r.out, "", r.normal(out))
	lines(&r.out, "2> ", r.normal(a.Stderr))
	switch {
	case s.Kind == REST:
		fmt.Fprintf(&r.out, "[%d %s]\n", a.Code, a.Type)
	case a.Code != 0:
		fmt.Fprintf(&r.out, "[exit %d]\n", a.Code)
	}
}

// lines adds a text line by line; one without an end of line says so.
func lines(b *strings.Builder, prefix, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(b, "%s%s\n", prefix, line)
	}
	if !strings.HasSuffix(text, "\n") {
		fmt.Fprintf(b, "%s[no end of line]\n", prefix)
	}
}
