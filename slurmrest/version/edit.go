package version

import (
	"slices"
	"strings"
)

// edit is one difference of an older version. Path is the field's place in its
// record, members joined by dots and list elements marked by [].
type edit struct {
	record string // schema of the record: job_info, node, ...
	path   string
	op     op
	json   string // of add, replace and build; the words of without, comma-separated
}

type op uint8

const (
	drop    op = iota // the field came later
	add               // the field is gone since
	replace           // the field had another type: a fixed value of it
	without           // a list of words: these came later and are left out
	build             // the field was made of others: a template (template.go)
	bare              // a number that had no wrapper yet
)

// node is the tree of edits below one place of a record.
type node struct {
	drop    bool
	bare    bool
	replace string
	without []string
	add     string // members to append, each with a leading comma
	build   string // the same with references to the object's members
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
		if e.op == add || e.op == build {
			steps = steps[:len(steps)-1]
		}
		for _, s := range steps {
			n = n.child(s)
		}
		n.put(e, last)
	}
	return records
}

// put enters an edit at its place; last is the field's own name.
func (n *node) put(e edit, last string) {
	switch e.op {
	case drop:
		n.drop = true
	case add:
		n.add += `,"` + last + `":` + e.json
	case replace:
		n.replace = e.json
	case without:
		n.without = append(n.without, strings.Split(e.json, ",")...)
	case build:
		n.child(last).drop = true // a present field of that name means something else
		n.build += `,"` + last + `":` + e.json
	case bare:
		n.bare = true
	}
}
