package version

import "strings"

// A template is JSON in which $a.b stands for a member of the object being
// rewritten, as the newest version has it, and $a.b[...] for a list of what the
// brackets make of each element of a list.

// expand fills a template in from an object's JSON.
func expand(template string, object []byte) string {
	var b strings.Builder
	for {
		text, rest, ok := strings.Cut(template, "$")
		b.WriteString(text)
		if !ok {
			return b.String()
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return !name(r) })
		if end < 0 {
			end = len(rest)
		}
		value := object
		for step := range strings.SplitSeq(rest[:end], ".") {
			value = member(value, step)
		}
		rest = rest[end:]
		if inner, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
			b.WriteString(each(inner, value))
			rest = after
		} else {
			b.Write(value)
		}
		template = rest
	}
}

func name(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.'
}

// each fills a template in for each element of a list.
func each(template string, list []byte) string {
	var b strings.Builder
	b.WriteByte('[')
	w := rewriter{src: list, pos: 1}
	for len(list) > 1 && list[0] == '[' && list[w.pos] != ']' {
		if list[w.pos] == ',' {
			w.pos++
			b.WriteByte(',')
		}
		start := w.pos
		w.skip()
		b.WriteString(expand(template, list[start:w.pos]))
	}
	b.WriteByte(']')
	return b.String()
}

// member is the JSON of an object's member; null where there is none.
func member(object []byte, name string) []byte {
	w := rewriter{src: object, pos: 1}
	for len(object) > 1 && object[0] == '{' && object[w.pos] != '}' {
		if object[w.pos] == ',' {
			w.pos++
		}
		start := w.pos
		w.skip()
		key := object[start+1 : w.pos-1]
		w.pos++
		start = w.pos
		w.skip()
		if string(key) == name {
			return object[start:w.pos]
		}
	}
	return []byte("null")
}
