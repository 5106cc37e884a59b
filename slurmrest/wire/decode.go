package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Result is what reading a request left to say: errors that refuse it and
// warnings that go into the answer.
type Result struct {
	Errors   []Error
	Warnings []Warning
	// Refused is set where a value had a type that can't be converted. Slurm
	// keeps the complaint as a warning, answers 200 and does nothing.
	Refused bool
}

// Read reads a request body. The error is errno.RESTFailParsing where the text
// is not JSON; what is JSON but not what Slurm expects is in the Result.
func Read(body []byte, into Target) (Result, error) { return ReadFormer(body, into, nil) }

// ReadFormer reads the body of an older version, some of whose fields have
// another name by now; "" stands for none.
func ReadFormer(body []byte, into Target, former map[string]string) (Result, error) {
	d := decoder{data: body, former: former}
	if d.peek() == 0 && d.err == nil && d.pos == len(body) {
		return Result{}, nil // no body: nothing given
	}
	into.decode(&d) // what follows the value is not looked at, as in Slurm
	if d.err != nil {
		return Result{}, fmt.Errorf("%w: at byte %d", errno.RESTFailParsing, d.pos)
	}
	return Result{Errors: d.errors, Warnings: d.warnings, Refused: d.refused}, nil
}

// Unmarshal reads an answer of a server, which may know more fields than we.
func Unmarshal(body []byte, into Target) error { return unmarshal(body, into) }

func unmarshal(b []byte, into Target) error {
	d := decoder{data: b, answer: true}
	into.decode(&d)
	d.end()
	return d.first()
}

// first returns the first complaint as an error.
func (d *decoder) first() error {
	if d.err != nil {
		return d.err
	}
	if len(d.errors) > 0 {
		return fmt.Errorf("%s: %s", d.errors[0].Source, d.errors[0].Description)
	}
	if d.refused {
		w := d.warnings[len(d.warnings)-1]
		return fmt.Errorf("%s: %s", w.Source, w.Description)
	}
	return nil
}

// source is the path of the present value, as Slurm writes it: #/job/nodes/.
func (d *decoder) source() string {
	var b strings.Builder
	b.WriteByte('#')
	for i, p := range d.path {
		if p == nil && i < len(d.count) {
			fmt.Fprintf(&b, "[%d]", d.count[i]-1)
			continue
		}
		b.WriteByte('/')
		b.Write(p)
	}
	b.WriteByte('/')
	return b.String()
}

// kinds names a JSON value in OpenAPI's and in Slurm's words.
func (d *decoder) kinds() (openAPI, slurm string) {
	switch d.peek() {
	case '{':
		return "type=object", "dictionary"
	case '[':
		return "type=array", "list"
	case '"':
		return "type=string", "string"
	case 't', 'f':
		return "type=boolean", "boolean"
	case 'n':
		return "type=null", "null"
	}
	save := d.pos
	s := d.numeral()
	d.pos = save
	if strings.ContainsAny(string(s), ".eE") {
		return "type=number format=double", "64 bit floating point number"
	}
	return "type=integer format=int64", "64 bit integer"
}

// mismatch keeps Slurm's complaint about a value of a wrong type and passes it.
func (d *decoder) mismatch(openAPI, format, slurm string) {
	_, got := d.kinds()
	switch {
	case slurm == "dictionary":
		d.skip()
		d.refuse(errno.DataExpectedDict, "Rejecting "+got+" when dictionary expected")
	default:
		d.refused = true
		d.warnMismatch(openAPI, format, slurm)
		d.skip()
	}
}

// warnMismatch keeps the complaint alone.
func (d *decoder) warnMismatch(openAPI, format, slurm string) {
	if format != "" {
		openAPI += " format=" + format
	}
	got, gotSlurm := d.kinds()
	start := d.pos
	look := *d // the value's text, without moving on
	look.skip()
	if look.err != nil {
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.data[start:look.pos]); err != nil {
		compact.Reset() // can't be: it was read before
	}
	text := strings.ReplaceAll(string(clip(compact.Bytes())), "/", `\/`)
	d.warnings = append(d.warnings, Warning{
		Description: fmt.Sprintf("Expected OpenAPI type=%s (Slurm type=%s) but got OpenAPI %s (Slurm type=%s): %s",
			openAPI, slurm, got, gotSlurm, text),
		Source: d.source(),
	})
}

// refuse keeps an error about the present value.
func (d *decoder) refuse(e errno.Errno, description string) {
	d.errors = append(d.errors, Error{
		Description: description, ErrorNumber: int64(e), Error: e.Error(), Source: d.source(),
	})
}

func clip(b []byte) []byte {
	const most = 200
	return b[:min(len(b), most)]
}

// unknown passes a field that the schema doesn't have, with Slurm's warning.
func (d *decoder) unknown(schema string) {
	key := string(d.key)
	if now, ok := d.former[key]; ok && now == "" {
		d.skip()
		return
	}
	_, kind := d.kinds()
	d.skip()
	if d.err != nil {
		return
	}
	d.warnings = append(d.warnings, Warning{
		Description: fmt.Sprintf("Ignoring unknown field %q of type %s in DATA_PARSER_%s", key, kind, schema),
		Source:      d.source(),
	})
}

// scalar returns the text of a string, number or boolean.
func (d *decoder) scalar() (s string, ok bool) {
	switch d.peek() {
	case '"':
		return string(d.text()), true
	case 't':
		d.word("true")
		return "true", true
	case 'f':
		d.word("false")
		return "false", true
	case '{', '[', 'n', 0:
		return "", false
	}
	return string(d.numeral()), true
}

func (d *decoder) str(v *string) {
	if d.null() {
		return
	}
	if s, ok := d.scalar(); ok {
		*v = s
		return
	}
	d.mismatch("string", "", "string")
}

func (d *decoder) bool(v *bool) {
	if d.null() {
		return
	}
	start := d.pos
	if s, ok := d.scalar(); ok {
		switch strings.ToLower(s) {
		case "true", "yes", "on", "1":
			*v = true
			return
		case "false", "no", "off", "0", "":
			*v = false
			return
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			*v = f != 0
			return
		}
		d.pos = start
	}
	d.mismatch("boolean", "", "boolean")
}

func (d *decoder) boolPtr(v **bool) {
	var b bool
	d.bool(&b)
	*v = &b
}

// whole reads a number without fraction out of a scalar's text.
func whole(s string) (int64, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return int64(min(n, math.MaxInt64)), true
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= math.MinInt64 && f <= math.MaxInt64 {
		return int64(f), true
	}
	return 0, false
}

func (d *decoder) int(v *int64) {
	if d.null() {
		return
	}
	start := d.pos
	if s, ok := d.scalar(); ok {
		switch n, ok := whole(s); {
		case ok:
			*v = n
			return
		case s == "true":
			*v = 1
			return
		case s == "false":
			*v = 0
			return
		}
		d.pos = start
	}
	d.mismatch("integer", "int32", "64 bit integer")
}

func (d *decoder) intPtr(v **int64) {
	var i int64
	d.int(&i)
	*v = &i
}

func (d *decoder) float(v *float64) {
	if d.null() {
		return
	}
	start := d.pos
	if s, ok := d.scalar(); ok {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			*v = f
			return
		}
		d.pos = start
	}
	d.mismatch("number", "double", "64 bit floating point number")
}

func (d *decoder) num(v *Num) {
	var f NumFloat
	var whole64 int64
	d.wrapper(&f, &whole64)
	*v = Num{Set: f.Set, Infinite: f.Infinite, Number: whole64}
}

func (d *decoder) numFloat(v *NumFloat) {
	var i int64
	d.wrapper(v, &i)
}

// wrapper reads a number wrapper in any of its forms; n is its whole number.
func (d *decoder) wrapper(v *NumFloat, n *int64) {
	*v, *n = NumFloat{}, 0
	switch d.peek() {
	case 'n':
		d.word("null")
	case '{':
		d.wrapperObject(v, n)
	case '[':
		start := d.pos
		d.skip()
		if d.err == nil {
			d.refuse(errno.DataConvFailed, fmt.Sprintf("Expected integer but got %s", clip(d.data[start:d.pos])))
		}
	default:
		s, ok := d.scalar()
		if !ok {
			d.fail()
			return
		}
		d.bare(s, v, n)
	}
}

func (d *decoder) wrapperObject(v *NumFloat, n *int64) {
	set, number := true, false
	d.enter()
	for d.member() {
		switch string(d.key) {
		case "set":
			d.bool(&set)
		case "infinite":
			d.bool(&v.Infinite)
		case "number":
			number = true
			var inner NumFloat
			d.wrapper(&inner, n)
			v.Number = inner.Number
		default:
			d.unknown("UINT_NO_VAL")
		}
	}
	v.Set = set && number && !v.Infinite
	if !v.Set {
		v.Number, *n = 0, 0
	}
}

// bare reads the word or number that stands instead of a wrapper.
func (d *decoder) bare(s string, v *NumFloat, n *int64) {
	switch strings.ToLower(s) {
	case "":
		return
	case "infinite", "infinity", "unlimited":
		v.Infinite = true
		return
	case "true", "false":
		s = map[string]string{"true": "1", "false": "0"}[strings.ToLower(s)]
	}
	i, okInt := whole(s)
	f, err := strconv.ParseFloat(s, 64)
	if !okInt || err != nil {
		d.refuse(errno.DataConvFailed, fmt.Sprintf("Expected integer but got %q", s))
		return
	}
	v.Set, v.Number, *n = true, f, i
}

func (d *decoder) strs(v *[]string) {
	*v = nil
	switch d.peek() {
	case 'n':
		d.word("null")
	case '[':
		d.strings(v)
	case '{': // {"NAME":"value"} of older versions: taken, with a warning
		d.warnMismatch("array", "", "list")
		d.enter()
		for d.member() {
			name := string(d.key)
			var s string
			d.str(&s)
			*v = append(*v, name+"="+s)
		}
	default:
		if s, ok := d.scalar(); ok {
			*v = append(*v, s)
			return
		}
		d.mismatch("array", "", "list")
	}
}

func (d *decoder) strings(v *[]string) {
	d.enter()
	for d.element() {
		var s string
		d.str(&s)
		*v = append(*v, s)
	}
}

// csv reads a list, or a comma list in one string. Commas inside brackets
// belong to a host list and don't separate.
func (d *decoder) csv(v *[]string) {
	*v = nil
	switch d.peek() {
	case 'n':
		d.word("null")
	case '[':
		d.strings(v)
	case '{':
		d.mismatch("array", "", "list")
	default:
		s, ok := d.scalar()
		if !ok {
			d.fail()
			return
		}
		*v = splitCSV(s)
	}
}

func splitCSV(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ',' && depth == 0:
			if i > start {
				out = append(out, s[start:i])
			}
			start = i + 1
		case s[i] == '[':
			depth++
		case s[i] == ']':
			depth--
		}
	}
	return out
}

// flags reads a list of words that must be in allowed; case doesn't matter.
// Answers of a server may hold words that are newer than we are.
func (d *decoder) flags(v *[]string, allowed []string) {
	var words []string
	switch d.peek() {
	case '[', 'n', '"':
		d.csv(&words)
	case 't', 'f':
		if !d.renamed(&words) {
			d.notAList()
			return
		}
	default:
		d.notAList()
		return
	}
	*v = nil
next:
	for _, w := range words {
		if d.was == "exclusive" {
			switch w {
			case "true":
				w = "none"
			case "false":
				continue
			}
		}
		for _, a := range allowed {
			if a == w || strings.EqualFold(a, w) {
				*v = append(*v, a)
				continue next
			}
		}
		if d.answer {
			*v = append(*v, w)
			continue
		}
		d.refuse(errno.DataFlagsInvalid, fmt.Sprintf("Unknown flag %q", w))
	}
}

// notAList refuses a value where a list of words should be.
func (d *decoder) notAList() {
	_, kind := d.kinds()
	d.skip()
	d.refuse(errno.DataFlagsInvalidType, fmt.Sprintf("Expected list but got %s", kind))
}

// renamed reads the boolean of a field that is a word of a list by now, such as
// "oversubscribe":true; ok is false where the field was no such thing.
func (d *decoder) renamed(words *[]string) bool {
	if d.was == "" {
		return false
	}
	var on bool
	d.bool(&on)
	if on {
		*words = []string{d.was}
	}
	return true
}

// room makes space for the records of an answer's one long list, once the first
// of them shows how long a record is; growing would copy them again and again.
func room[T any](d *decoder, list []T, start int) []T {
	const outermost = 2 // the answer and its list
	if len(list) != 1 || len(d.count) != outermost {
		return list
	}
	return slices.Grow(list, (len(d.data)-d.pos)/max(1, d.pos-start)+1)
}

func (d *decoder) raw(v *json.RawMessage) {
	d.peek()
	start := d.pos
	d.skip()
	if d.err == nil {
		*v = d.data[start:d.pos]
	}
}
