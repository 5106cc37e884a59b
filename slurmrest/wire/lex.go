package wire

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// errSyntax stands for every text that is not JSON.
var errSyntax = errors.New("not JSON")

// maxDepth bounds nesting, as Slurm does.
const maxDepth = 32

// decoder reads JSON and keeps what Slurm would say about it. A syntax error
// sticks: every later call is a no-op.
type decoder struct {
	data []byte
	pos  int
	err  error

	key   []byte   // of the present member
	path  [][]byte // names down to the present value; nil in a list
	count []int    // elements seen, one for each open list or object
	// former names the present field for those of an older version; was is the
	// member's own name where it was another.
	former map[string]string
	was    string
	// answer: read what a server says, which may know more words than we.
	answer bool

	errors   []Error
	warnings []Warning
	refused  bool
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errSyntax
	}
	d.pos = len(d.data)
}

// peek skips blanks and comments, which Slurm's reader knows, and returns the
// next byte, 0 at the end.
func (d *decoder) peek() byte {
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; c {
		case ' ', '\t', '\n', '\r':
			d.pos++
		case '/':
			d.comment()
		default:
			return c
		}
	}
	return 0
}

// comment passes // to the end of its line, or /* to its end.
func (d *decoder) comment() {
	rest, end := d.data[d.pos:], ""
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		end = "\n"
	case bytes.HasPrefix(rest, []byte("/*")):
		end = "*/"
	default:
		d.fail()
		return
	}
	i := bytes.Index(rest[2:], []byte(end))
	if i < 0 {
		d.fail()
		return
	}
	d.pos += 2 + i + len(end)
}

// open enters an object. Where the value is no object it is skipped and Slurm's
// complaint kept.
func (d *decoder) open() bool {
	switch d.peek() {
	case '{':
		return d.enter()
	case 'n':
		d.skip()
	default:
		d.mismatch("object", "", "dictionary")
	}
	return false
}

// list enters a list, in the same way.
func (d *decoder) list() bool {
	switch d.peek() {
	case '[':
		return d.enter()
	case 'n':
		d.skip()
	default:
		d.mismatch("array", "", "list")
	}
	return false
}

func (d *decoder) enter() bool {
	if len(d.count) >= maxDepth {
		d.fail()
		return false
	}
	d.pos++
	d.count = append(d.count, 0)
	return true
}

// member steps to the next member of the object just opened and sets key.
func (d *decoder) member() bool {
	if !d.next('}') {
		return false
	}
	if d.peek() != '"' {
		d.fail()
		return false
	}
	d.key = d.text()
	if d.peek() != ':' {
		d.fail()
		return false
	}
	d.pos++
	d.path = append(d.path, d.key)
	if d.was = ""; len(d.former) > 0 {
		if now := d.former[string(d.key)]; now != "" {
			d.was, d.key = string(d.key), []byte(now)
		}
	}
	return d.err == nil
}

// element steps to the next element of the list just opened.
func (d *decoder) element() bool {
	if !d.next(']') {
		return false
	}
	d.path = append(d.path, nil)
	return true
}

// next leaves the open object or list at its end, or passes the comma.
func (d *decoder) next(end byte) bool {
	if d.err != nil || len(d.count) == 0 {
		return false
	}
	n := &d.count[len(d.count)-1]
	if *n > 0 {
		d.path = d.path[:len(d.path)-1]
	}
	switch c := d.peek(); {
	case c == end:
		d.pos++
		d.count = d.count[:len(d.count)-1]
		return false
	case *n == 0:
	case c == ',':
		d.pos++
		if d.peek() == end { // Slurm's reader doesn't mind
			d.pos++
			d.count = d.count[:len(d.count)-1]
			return false
		}
	default:
		d.fail()
		return false
	}
	*n++
	return true
}

// null eats a null.
func (d *decoder) null() bool {
	if d.peek() == 'n' {
		d.word("null")
		return true
	}
	return false
}

func (d *decoder) word(w string) {
	if len(d.data)-d.pos < len(w) || string(d.data[d.pos:d.pos+len(w)]) != w {
		d.fail()
		return
	}
	d.pos += len(w)
}

// skip passes one value of any kind.
func (d *decoder) skip() {
	switch d.peek() {
	case '{':
		for ok := d.enter(); ok && d.member(); {
			d.skip()
		}
	case '[':
		for ok := d.enter(); ok && d.element(); {
			d.skip()
		}
	case '"':
		d.text()
	case 't':
		d.word("true")
	case 'f':
		d.word("false")
	case 'n':
		d.word("null")
	default:
		d.numeral()
	}
}

// numeral passes a number and returns its text.
func (d *decoder) numeral() []byte {
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			d.pos++
			continue
		}
		break
	}
	s := d.data[start:d.pos]
	if len(s) == 0 || !validNumeral(s) {
		d.fail()
		return nil
	}
	return s
}

// validNumeral checks JSON's grammar of numbers.
func validNumeral(s []byte) bool {
	digits := func() bool {
		n := 0
		for len(s) > 0 && s[0] >= '0' && s[0] <= '9' {
			s = s[1:]
			n++
		}
		return n > 0
	}
	if len(s) > 0 && s[0] == '-' {
		s = s[1:]
	}
	if len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' {
		return false
	}
	if !digits() {
		return false
	}
	if len(s) > 0 && s[0] == '.' {
		s = s[1:]
		if !digits() {
			return false
		}
	}
	if len(s) > 0 && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(s) == 0
}

// text passes a string and returns its value; it points into the input where
// the string has no escapes.
func (d *decoder) text() []byte {
	d.pos++ // the opening quote
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			s := d.data[start:d.pos]
			d.pos++
			return s
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			d.fail()
			return nil
		default:
			d.pos++
		}
	}
	d.fail()
	return nil
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (d *decoder) escaped(start int) []byte {
	out := append([]byte(nil), d.data[start:d.pos]...)
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		switch {
		case c == '"':
			d.pos++
			return out
		case c < ' ':
			d.fail()
			return nil
		case c != '\\':
			out = append(out, c)
			d.pos++
			continue
		}
		if d.pos+1 >= len(d.data) {
			break
		}
		esc := d.data[d.pos+1]
		d.pos += 2
		if r := escapes[esc]; r != 0 {
			out = append(out, r)
			continue
		}
		r, ok := d.hex()
		if esc != 'u' || !ok {
			break
		}
		if utf16.IsSurrogate(r) {
			r = d.surrogate(r)
		}
		out = utf8.AppendRune(out, r)
	}
	d.fail()
	return nil
}

// surrogate joins a pair; a lone half becomes the replacement character.
func (d *decoder) surrogate(high rune) rune {
	save := d.pos
	if d.pos+1 < len(d.data) && d.data[d.pos] == '\\' && d.data[d.pos+1] == 'u' {
		d.pos += 2
		if low, ok := d.hex(); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return r
			}
		}
	}
	d.pos = save
	return utf8.RuneError
}

func (d *decoder) hex() (rune, bool) {
	if d.pos+4 > len(d.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[d.pos:d.pos+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	d.pos += 4
	return rune(n), true
}

// end checks that nothing follows the value.
func (d *decoder) end() {
	if d.err == nil && d.peek() != 0 || d.pos < len(d.data) {
		d.fail()
	}
}
