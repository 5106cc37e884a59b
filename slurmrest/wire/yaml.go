package wire

import (
	"bytes"
	"slices"
	"strconv"
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
	w := yamlWriter{d: decoder{data: json}, b: b}
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

// AppendYAMLElement appends one element of such a list.
func AppendYAMLElement(b, json []byte) []byte {
	w := yamlWriter{d: decoder{data: json}, b: append(b, '-')}
	w.value(1, 1)
	return w.b
}

type yamlWriter struct {
	d decoder
	b []byte
}

// value appends the next value behind a key or a dash. Members of an object are
// indented by inside levels, elements of a list by list levels.
func (w *yamlWriter) value(inside, list int) {
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
		w.b = appendYAMLText(append(w.b, "!!str"...), string(w.d.text()))
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

func (w *yamlWriter) members(level int) {
	for w.d.member() {
		w.indent(level)
		w.b = append(appendYAMLText(append(w.b, "!!str"...), string(w.d.key)), ':')
		w.value(level+1, level)
	}
}

func (w *yamlWriter) indent(level int) {
	for range level {
		w.b = append(w.b, "  "...)
	}
}

func (w *yamlWriter) number(text []byte) {
	if !bytes.ContainsAny(text, ".eE") {
		w.b = append(append(w.b, "!!int "...), text...)
		return
	}
	w.b = append(append(w.b, "!!float "...), text...)
}

// appendYAMLText appends a text, quoted where it would not be read as itself;
// the empty one is nothing.
func appendYAMLText(b []byte, s string) []byte {
	switch {
	case s == "":
		return b
	case plainYAML(s):
		return append(append(b, ' '), s...)
	}
	b = append(b, ' ', '"')
	for _, r := range s {
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
func plainYAML(s string) bool {
	if strings.ContainsAny(s[:1], "-?:,[]{}#&*!|>'\"%@` ") || s[len(s)-1] == ' ' || s[len(s)-1] == ':' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.Contains(s, ": ") && !strings.Contains(s, " #") && !yamlWord(s)
}

// yamlWord reports whether a reader that ignores tags would take the text for a
// number, a boolean or null.
func yamlWord(s string) bool {
	if _, err := strconv.ParseFloat(s, 64); err == nil || strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0o") {
		return true
	}
	return slices.Contains([]string{"~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"}, strings.ToLower(s))
}
