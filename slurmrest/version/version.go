// Package version makes older versions of Slurm's REST API out of the newest.
//
// The types of package wire are the newest version's. What an older version
// lacks, has besides, or shapes otherwise is a table of edits for each record
// (table.go), taken from the published structures; Rewrite applies it to the
// record's JSON in one pass. So handlers are written once. The server is the
// only caller.
package version

import (
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Version is one served API version.
type Version struct {
	Name    string // v0.0.44
	records map[string]*node
	fields  map[string][]string // of requests: fields this version doesn't know
}

// served lists the versions, newest first, as Slurm 26.05 serves them; the newest
// has no edits, each older one those of its successor and its own.
var served = []*Version{
	{Name: wire.Newest},
	{Name: "v0.0.44", records: compile(edits44), fields: fields44},
	{Name: "v0.0.43", records: compile(edits44, edits43), fields: fields44},
	{Name: "v0.0.42", records: compile(edits44, edits43, edits42), fields: fields44},
}

// Served lists the versions that are served, newest first.
func Served() []*Version { return served }

// Newest reports whether records of this version need no rewriting.
func (v *Version) Newest() bool { return v.records == nil }

// Lacks reports whether a request's field is unknown in this version.
func (v *Version) Lacks(schema, field string) bool { return slices.Contains(v.fields[schema], field) }

// edit is one difference of an older version. Path is the field's place in its
// record, members joined by dots and list elements marked by [].
type edit struct {
	record string // schema of the record: job_info, node, ...
	path   string
	op     op
	json   string // of add and replace; the words of without, comma-separated
}

type op uint8

const (
	drop    op = iota // the field came later
	add               // the field is gone since
	replace           // the field had another type: a fixed value of it
	without           // a list of words: these came later and are left out
)

// node is the tree of edits below one place of a record.
type node struct {
	drop    bool
	replace string
	without []string
	add     string // members to append, each with a leading comma
	members map[string]*node
	element *node
}

func (n *node) child(step string) *node {
	if step == "[]" {
		if n.element == nil {
			n.element = &node{}
		}
		return n.element
	}
	if n.members == nil {
		n.members = map[string]*node{}
	}
	if n.members[step] == nil {
		n.members[step] = &node{}
	}
	return n.members[step]
}

func compile(tables ...[]edit) map[string]*node {
	records := map[string]*node{}
	for _, e := range slices.Concat(tables...) {
		n := records[e.record]
		if n == nil {
			n = &node{}
			records[e.record] = n
		}
		steps := strings.Split(strings.ReplaceAll(e.path, "[]", ".[]"), ".")
		last := steps[len(steps)-1]
		if e.op == add {
			steps = steps[:len(steps)-1]
		}
		for _, s := range steps {
			n = n.child(s)
		}
		switch e.op {
		case drop:
			n.drop = true
		case add:
			n.add += `,"` + last + `":` + e.json
		case replace:
			n.replace = e.json
		case without:
			n.without = append(n.without, strings.Split(e.json, ",")...)
		}
	}
	return records
}

// Rewrite appends src, one record of the named schema in the newest version's
// JSON as wire writes it, to dst in this version's.
func (v *Version) Rewrite(dst, src []byte, schema string) []byte {
	n := v.records[schema]
	if n == nil {
		return append(dst, src...)
	}
	w := rewriter{src: src, dst: dst}
	w.value(n)
	return w.dst
}

// rewriter copies compact JSON that wire has written, so it knows no blanks and
// no syntax errors.
type rewriter struct {
	src []byte
	pos int
	dst []byte
}

func (w *rewriter) value(n *node) {
	switch {
	case n == nil:
		start := w.pos
		w.skip()
		w.dst = append(w.dst, w.src[start:w.pos]...)
	case n.replace != "":
		w.skip()
		w.dst = append(w.dst, n.replace...)
	case w.src[w.pos] == '{':
		w.object(n)
	case w.src[w.pos] == '[':
		w.list(n)
	default:
		w.value(nil)
	}
}

func (w *rewriter) object(n *node) {
	w.pos++
	w.dst = append(w.dst, '{')
	first := true
	for w.src[w.pos] != '}' {
		if w.src[w.pos] == ',' {
			w.pos++
		}
		start := w.pos
		w.skip() // the key
		key := w.src[start:w.pos]
		child := n.members[string(key[1:len(key)-1])]
		w.pos++ // the colon
		if child != nil && child.drop {
			w.skip()
			continue
		}
		if !first {
			w.dst = append(w.dst, ',')
		}
		first = false
		w.dst = append(append(w.dst, key...), ':')
		w.value(child)
	}
	w.pos++
	if more := n.add; more != "" {
		if first {
			more = more[1:]
		}
		w.dst = append(w.dst, more...)
	}
	w.dst = append(w.dst, '}')
}

func (w *rewriter) list(n *node) {
	w.pos++
	w.dst = append(w.dst, '[')
	first := true
	for w.src[w.pos] != ']' {
		if w.src[w.pos] == ',' {
			w.pos++
		}
		start := w.pos
		if n.without != nil {
			w.skip()
			word := strings.Trim(string(w.src[start:w.pos]), `"`)
			if slices.Contains(n.without, word) {
				continue
			}
			w.pos = start
		}
		if !first {
			w.dst = append(w.dst, ',')
		}
		first = false
		w.value(n.element)
	}
	w.pos++
	w.dst = append(w.dst, ']')
}

// skip passes one value.
func (w *rewriter) skip() {
	switch w.src[w.pos] {
	case '"':
		for w.pos++; w.src[w.pos] != '"'; w.pos++ {
			if w.src[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
	case '{', '[':
		depth := 0
		for {
			switch w.src[w.pos] {
			case '"':
				w.skip()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			w.pos++
			if depth == 0 {
				return
			}
		}
	default:
		for w.pos < len(w.src) {
			switch w.src[w.pos] {
			case ',', '}', ']':
				return
			}
			w.pos++
		}
	}
}
