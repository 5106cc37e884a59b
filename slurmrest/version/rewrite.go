package version

import (
	"slices"
	"strings"
)

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
	case n.bare:
		start := w.pos
		w.skip()
		w.dst = append(w.dst, member(w.src[start:w.pos], "number")...)
	case w.src[w.pos] == '{':
		w.object(n)
	case w.src[w.pos] == '[':
		w.list(n)
	default:
		w.value(nil)
	}
}

func (w *rewriter) object(n *node) {
	whole := w.pos
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
	more := n.add
	if n.build != "" {
		more += expand(n.build, w.src[whole:w.pos])
	}
	if first && more != "" {
		more = more[1:]
	}
	w.dst = append(append(w.dst, more...), '}')
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
