package wire

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// YAML as Slurm writes it: block style, every value with its tag. The input of
// these functions is JSON that this package has written.

// YAMLStart opens a document whose top is an object; YAMLEnd closes it.
const (
	YAMLStart = "%YAML 1.1\n--- !!map\n"
	YAMLEnd   = "...\n"
)

// AppendYAML appends a whole document.
func AppendYAML(b, json []byte) []byte {
	b = AppendYAMLMembers(append(b, YAMLStart...), json)
	return append(b, YAMLEnd...)
}

// AppendYAMLMembers appends the members of a JSON object at the outermost level.
func AppendYAMLMembers(b, json []byte) []byte {
	w := YAMLWriter{d: decoder{data: json}, b: b}
	w.d.peek()
	w.d.enter()
	w.members(0)
	return w.b
}

// AppendYAMLKey appends the key of a list whose elements follow one by one, or
// the empty list.
func AppendYAMLKey(b []byte, key string, empty bool) []byte {
	b = append(append(append(b, "!!str "...), key...), ": !!seq"...)
	if empty {
		b = append(b, " []"...)
	}
	return append(b, '\n')
}

// YAMLWriter appends elements of such a list; the zero value is ready for use.
type YAMLWriter struct {
	d decoder
	b []byte
}

// Element appends one element, whose JSON it is given, to b.
func (w *YAMLWriter) Element(b, json []byte) []byte {
	w.d = decoder{data: json, path: w.d.path[:0], count: w.d.count[:0]}
	w.b = append(b, '-')
	w.value(1, 1)
	return w.b
}

// value appends the next value behind a key or a dash. Members of an object are
// indented by inside levels, elements of a list by list levels.
func (w *YAMLWriter) value(inside, list int) {
	w.b = append(w.b, ' ')
	switch w.d.peek() {
	case '{':
		w.b = append(w.b, "!!map"...)
		w.d.enter()
		if w.d.peek() == '}' {
			w.b = append(w.b, " {}"...)
		}
		w.b = append(w.b, '\n')
		w.members(inside)
		return
	case '[':
		w.b = append(w.b, "!!seq"...)
		w.d.enter()
		if w.d.peek() == ']' {
			w.b = append(w.b, " []"...)
		}
		w.b = append(w.b, '\n')
		for w.d.element() {
			w.indent(list)
			w.b = append(w.b, '-')
			w.value(list+1, list+1)
		}
		return
	case '"':
		w.b = appendYAMLText(append(w.b, "!!str"...), w.d.text())
	case 't':
		w.d.word("true")
		w.b = append(w.b, "!!bool true"...)
	case 'f':
		w.d.word("false")
		w.b = append(w.b, "!!bool false"...)
	case 'n':
		w.d.word("null")
		w.b = append(w.b, "!!null null"...)
	default:
		w.number(w.d.numeral())
	}
	w.b = append(w.b, '\n')
}

func (w *YAMLWriter) members(level int) {
	for w.d.member() {
		w.indent(level)
		w.b = append(appendYAMLText(append(w.b, "!!str"...), w.d.key), ':')
		w.value(level+1, level)
	}
}

func (w *YAMLWriter) indent(level int) {
	for range level {
		w.b = append(w.b, "  "...)
	}
}

func (w *YAMLWriter) number(text []byte) {
	if !bytes.ContainsAny(text, ".eE") {
		w.b = append(append(w.b, "!!int "...), text...)
		return
	}
	w.b = append(append(w.b, "!!float "...), text...)
}

// appendYAMLText appends a text, quoted where it would not be read as itself;
// the empty one is nothing.
func appendYAMLText(b, s []byte) []byte {
	switch {
	case len(s) == 0:
		return b
	case plainYAML(s):
		return append(append(b, ' '), s...)
	}
	b = append(b, ' ', '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		s = s[size:]
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'x', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// plainYAML reports whether a text is the same string without quotes.
func plainYAML(s []byte) bool {
	if bytes.IndexByte([]byte("-?:,[]{}#&*!|>'\"%@` "), s[0]) >= 0 || s[len(s)-1] == ' ' || s[len(s)-1] == ':' {
		return false
	}
	for i, c := range s {
		if c < ' ' || c > '~' || c == ':' && s[i+1] == ' ' || c == '#' && s[i-1] == ' ' {
			return false
		}
	}
	return !yamlWord(s)
}

// yamlWord reports whether a reader that ignores tags would take the text for a
// number, a boolean or null.
func yamlWord(s []byte) bool {
	const longest = 30 // of what reads as a number
	if c := s[0]; c >= '0' && c <= '9' || c == '.' || c == '+' || c == '~' {
		return len(s) <= longest
	}
	switch len(s) {
	case 1, 2, 3, 4, 5, 8:
		switch strings.ToLower(string(s)) {
		case "null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity":
			return true
		}
	}
	return false
}
