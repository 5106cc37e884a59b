package job

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Depends is what a job waits for: all of the list, or any of it.
type Depends struct {
	Any  bool  `json:"any,omitempty"`
	List []Dep `json:"list"` // what is met is no longer in it
}

// Dep is one thing a job waits for.
type Dep struct {
	Type string `json:"type"` // one of the DepX constants
	// Job is a job's or an array's id, 0 for singleton. Task is an index of the
	// array, or NoTask; Array says that all of the array is meant.
	Job   uint32 `json:"job,omitempty"`
	Task  uint32 `json:"task"`
	Array bool   `json:"array,omitempty"`
	// Delay is in minutes after the other's start.
	Delay uint32 `json:"delay,omitempty"`
	// Failed says that it can never be met.
	Failed bool `json:"failed,omitempty"`
}

// Types of a Dep, as --dependency has them.
const (
	DepAfter     = "after"            // the other began, or will not
	DepAny       = "afterany"         // it ended
	DepOK        = "afterok"          // it ended with 0
	DepNotOK     = "afternotok"       // it ended otherwise
	DepCorr      = "aftercorr"        // the other array's task of the same index ended with 0
	DepBuffer    = "afterburstbuffer" // it ended and staged out; there are no burst buffers here
	DepSingleton = "singleton"        // no earlier job of the user's has its name
)

// Errors of ParseDepends.
var (
	errDepends = errors.New("invalid dependency")
	// ErrExpand: the legacy type that grows another job.
	ErrExpand = errors.New("expand is not supported")
)

// ParseDepends reads --dependency: type:id[+minutes][:id...] joined by commas (all)
// or question marks (any). An id without a type means afterany. Whether the ids
// exist is not looked at. Nothing is nil.
func ParseDepends(text string) (*Depends, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no dependency is a value
	}
	d := &Depends{Any: strings.Contains(text, "?")}
	if d.Any && strings.Contains(outside(text), ",") {
		return nil, errDepends
	}
	sep := byte(',')
	if d.Any {
		sep = '?'
	}
	for _, term := range cut(text, sep) {
		if err := d.parse(strings.TrimSpace(term)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// outside is text without what is in brackets.
func outside(text string) string {
	var b strings.Builder
	for _, part := range cut(text, '[') {
		_, rest, ok := strings.Cut(part, "]")
		if !ok {
			rest = part
		}
		b.WriteString(rest)
	}
	return b.String()
}

// cut splits at a byte outside brackets.
func cut(text string, sep byte) []string {
	var out []string
	depth, start := 0, 0
	for i := range len(text) {
		switch {
		case text[i] == sep && depth == 0:
			out = append(out, text[start:i])
			start = i + 1
		case text[i] == '[':
			depth++
		case text[i] == ']':
			depth--
		}
	}
	return append(out, text[start:])
}

// parse reads one term.
func (d *Depends) parse(term string) error {
	kind, ids, typed := strings.Cut(term, ":")
	if !typed && kind != "" && kind[0] >= '0' && kind[0] <= '9' {
		return d.id(DepAny, term)
	}
	switch kind = strings.ToLower(kind); kind {
	case DepSingleton:
		if typed {
			return errDepends
		}
		d.add(Dep{Type: kind, Task: NoTask})
		return nil
	case "expand":
		return ErrExpand
	case DepAfter, DepAny, DepOK, DepNotOK, DepCorr, DepBuffer:
	default:
		return errDepends
	}
	for _, id := range cut(ids, ':') {
		if err := d.id(kind, strings.TrimSpace(id)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Depends) id(kind, text string) error {
	text, delay, delayed := strings.Cut(text, "+")
	ref, err := ParseRef(text)
	if err != nil {
		return errDepends
	}
	dep := Dep{Type: kind, Job: ref.ID, Task: NoTask}
	if delayed {
		n, err := strconv.ParseUint(delay, 10, 31)
		if err != nil {
			return errDepends
		}
		dep.Delay = uint32(n)
	}
	if ref.Tasks.Len() == 0 {
		d.add(dep)
		return nil
	}
	if ref.Tasks.Len()+len(d.List) > maxDeps {
		return errDepends
	}
	for n := range ref.Tasks.All() {
		dep.Task = n
		d.add(dep)
	}
	return nil
}

// maxDeps bounds the tasks a job may wait for one by one.
const maxDeps = 4096

func (d *Depends) add(dep Dep) {
	if !slices.Contains(d.List, dep) {
		d.List = append(d.List, dep)
	}
}

// String prints what is left with its state, as Slurm does:
// afterok:12(unfulfilled),after:13_*+5(failed).
func (d *Depends) String() string {
	if d == nil {
		return ""
	}
	var b strings.Builder
	for i, dep := range d.List {
		if i > 0 && d.Any {
			b.WriteByte('?')
		} else if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(dep.String())
	}
	return b.String()
}

// String prints one.
func (d Dep) String() string {
	s := d.Type
	if d.Type != DepSingleton {
		s += ":" + strconv.FormatUint(uint64(d.Job), 10)
		switch {
		case d.Task != NoTask:
			s += "_" + strconv.FormatUint(uint64(d.Task), 10)
		case d.Array:
			s += "_*"
		}
		if d.Delay > 0 {
			s += "+" + strconv.FormatUint(uint64(d.Delay), 10)
		}
	}
	if d.Failed {
		return s + "(failed)"
	}
	return s + "(unfulfilled)"
}
