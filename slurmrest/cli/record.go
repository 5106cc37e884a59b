package cli

import (
	"strconv"
	"strings"
)

// record builds one record of scontrol show: words of Key=Value on lines that
// are indented, or all on one line.
type record struct {
	b    strings.Builder
	one  bool // --oneliner
	open bool // a word stands on this line
}

// end starts a new line.
func (r *record) end() {
	if r.one {
		r.b.WriteByte(' ')
	} else {
		r.b.WriteString("\n   ")
	}
	r.open = false
}

// word adds Key=Value.
func (r *record) word(key, value string) {
	if r.open {
		r.b.WriteByte(' ')
	}
	r.b.WriteString(key)
	r.b.WriteByte('=')
	r.b.WriteString(value)
	r.open = true
}

// line adds words and ends the line; arguments are keys and values in turn.
func (r *record) line(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		r.word(pairs[i], pairs[i+1])
	}
	r.end()
}

// last adds words and leaves the line open.
func (r *record) last(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		r.word(pairs[i], pairs[i+1])
	}
}

// optional adds a line unless value is empty.
func (r *record) optional(key, value string) {
	if value != "" {
		r.line(key, value)
	}
}

// String closes the record.
func (r *record) String() string {
	if r.one {
		return r.b.String() + "\n"
	}
	return r.b.String() + "\n\n"
}

func null(s string) string {
	if s == "" {
		return "(null)"
	}
	return s
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func yesNo(on bool) string {
	if on {
		return "YES"
	}
	return "NO"
}
