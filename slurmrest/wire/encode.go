package wire

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Append writes v as JSON behind b, every field of it.
func Append(b []byte, v Value) []byte {
	e := encoder{b: b}
	v.encode(&e)
	return e.b
}

// AppendSparse writes v without the fields that are zero and numbers without
// their wrapper, which is what our own commands ask for: reading both forms
// gives the same value.
func AppendSparse(b []byte, v Value) []byte {
	e := encoder{b: b, sparse: true}
	v.encode(&e)
	return e.b
}

func marshal(v Value) []byte { return Append(nil, v) }

// encoder appends JSON to b. Keys come quoted with their colon.
type encoder struct {
	b      []byte
	sparse bool
}

func (e *encoder) open()      { e.b = append(e.b, '{') }
func (e *encoder) close()     { e.b = append(e.b, '}') }
func (e *encoder) openList()  { e.b = append(e.b, '[') }
func (e *encoder) closeList() { e.b = append(e.b, ']') }

// elem puts a comma where the last byte doesn't open an object or list.
func (e *encoder) elem() {
	if c := e.b[len(e.b)-1]; c != '{' && c != '[' {
		e.b = append(e.b, ',')
	}
}

func (e *encoder) key(k string) {
	e.elem()
	e.b = append(e.b, k...)
}

func (e *encoder) str(k, v string) {
	if e.sparse && v == "" {
		return
	}
	e.key(k)
	e.b = AppendString(e.b, v)
}

func (e *encoder) bool(k string, v bool) {
	if e.sparse && !v {
		return
	}
	e.key(k)
	e.b = strconv.AppendBool(e.b, v)
}

func (e *encoder) int(k string, v int64) {
	if e.sparse && v == 0 {
		return
	}
	e.key(k)
	e.b = strconv.AppendInt(e.b, v, 10)
}

func (e *encoder) float(k string, v float64) {
	if e.sparse && v == 0 {
		return
	}
	e.key(k)
	e.b = appendFloat(e.b, v)
}

func (e *encoder) boolPtr(k string, v *bool) {
	if v == nil {
		return
	}
	e.key(k)
	e.b = strconv.AppendBool(e.b, *v)
}

func (e *encoder) intPtr(k string, v *int64) {
	if v == nil {
		return
	}
	e.key(k)
	e.b = strconv.AppendInt(e.b, *v, 10)
}

func (e *encoder) num(k string, v Num) {
	if e.sparse {
		e.sparseNum(k, v)
		return
	}
	e.key(k)
	e.b = appendNum(e.b, v)
}

// sparseNum writes a Num in its short forms: nothing, a word, a bare number.
func (e *encoder) sparseNum(k string, v Num) {
	switch {
	case v.Infinite:
		e.key(k)
		e.b = append(e.b, `"infinite"`...)
	case v.Set:
		e.key(k)
		e.b = strconv.AppendInt(e.b, v.Number, 10)
	}
}

func (e *encoder) numFloat(k string, v NumFloat) {
	if e.sparse && v == (NumFloat{}) {
		return
	}
	e.key(k)
	e.b = appendNumFloat(e.b, v)
}

func (e *encoder) strs(k string, v []string) {
	if e.sparse && len(v) == 0 {
		return
	}
	e.key(k)
	e.openList()
	for i, s := range v {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = AppendString(e.b, s)
	}
	e.closeList()
}

func (e *encoder) null(k string) {
	if !e.sparse {
		e.key(k)
		e.b = append(e.b, "null"...)
	}
}

func (e *encoder) raw(k string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	e.key(k)
	e.b = append(e.b, v...)
}

// list opens a list of n objects; a sparse encoder leaves out an empty one.
func (e *encoder) list(k string, n int) bool {
	if e.sparse && n == 0 {
		return false
	}
	e.key(k)
	e.openList()
	return true
}

// mark writes the key of an object and unmark takes it back when the object
// turned out empty in a sparse encoder.
func (e *encoder) mark(k string) (start, body int) {
	start = len(e.b)
	e.key(k)
	return start, len(e.b)
}

func (e *encoder) unmark(start, body int) {
	if e.sparse && len(e.b) == body+2 {
		e.b = e.b[:start]
	}
}

const hexDigits = "0123456789abcdef"

// AppendString writes s as a JSON string behind b. Bytes that are not UTF-8
// become the replacement character.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(b, s[start:i]...)
			b = append(b, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
