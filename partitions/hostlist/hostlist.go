// Package hostlist reads and writes Slurm's host list expressions, such as
// "gpu[001-004,009]" or "rack[0-1]node[1-8]".
//
// Everyone who shows or accepts node names uses it: the commands, the REST
// handlers, the scheduler's node lists and the config loader. It knows names
// only: whether a node exists is the caller's question, and so are node sets
// and "feature{x}".
//
// Grammar, as Slurm 24.11 and later read it:
//
//	hostlist := item { ("," | blank) item }      empty items are ignored
//	item     := { text "[" range { "," range } "]" } [ text ]
//	range    := NUM | NUM "-" NUM                first <= last
//
// The width of a number with leading zeros is kept: "n[08-10]" is n08 n09 n10.
// Several brackets form a product. The last bracket varies fastest; the ones
// before it vary with the first one fastest, which is Slurm's order too.
package hostlist

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

const (
	// MaxRange is the most hosts one range may name, Slurm's own limit.
	MaxRange = 64 * 1024
	// MaxHosts is the most names Parse returns. A longer expression is an
	// error: its text is short, its expansion would fill the memory.
	MaxHosts = 1 << 18
)

// Error says why a host list was refused.
type Error struct {
	// Expr is the whole expression.
	Expr string
	// Diag is the line that Slurm logs first (with "error: " before it), or
	// empty where Slurm logs none.
	Diag string
}

// Error is the text that Slurm's commands print.
func (e *Error) Error() string { return "Invalid hostlist: " + e.Expr }

// Expr is a parsed and not yet expanded host list. The zero value names no host.
type Expr struct{ items []item }

// item is one comma separated element: texts and brackets in turn, then a suffix.
type item struct {
	groups []group
	suffix string
}

// group is a text and the bracket behind it.
type group struct {
	text   string
	ranges []span
}

// span is lo..hi, each printed with at least width digits.
type span struct {
	lo, hi uint64
	width  int
}

// Parse expands a host list, keeping order and duplicates. The error is an
// *Error, for a bad expression as for one of more than MaxHosts names.
func Parse(s string) ([]string, error) {
	x, err := ParseExpr(s)
	if err != nil {
		return nil, err
	}
	n := x.Count()
	if n > MaxHosts {
		return nil, &Error{Expr: s, Diag: fmt.Sprintf("too many hosts: %d, the limit is %d", n, MaxHosts)}
	}
	if n == 0 {
		return nil, nil
	}
	names := make([]string, 0, n)
	for name := range x.All() {
		names = append(names, name)
	}
	return names, nil
}

// ParseExpr checks a host list without expanding it, so its cost does not
// depend on the number of hosts. The error is an *Error.
func ParseExpr(s string) (Expr, error) {
	var x Expr
	for rest := s; rest != ""; {
		text, after, ok := nextItem(rest)
		if !ok {
			return Expr{}, &Error{Expr: s}
		}
		rest = after
		if text == "" {
			continue
		}
		it, diag, ok := parseItem(text)
		if !ok {
			return Expr{}, &Error{Expr: s, Diag: diag}
		}
		x.items = append(x.items, it)
	}
	return x, nil
}

// Count returns the number of names, duplicates included; it stops at the
// largest uint64.
func (x Expr) Count() uint64 {
	var sum uint64
	for _, it := range x.items {
		n := uint64(1)
		for _, g := range it.groups {
			n = mulSat(n, g.count())
		}
		if sum+n < sum {
			return math.MaxUint64
		}
		sum += n
	}
	return sum
}

// All yields the names in order, one at a time.
func (x Expr) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, it := range x.items {
			if !it.each(yield) {
				return
			}
		}
	}
}

// each yields the item's names and reports whether to go on.
func (it item) each(yield func(string) bool) bool {
	if len(it.groups) == 0 {
		return yield(it.suffix)
	}
	last := len(it.groups) - 1
	counts := make([]uint64, last+1)
	for i, g := range it.groups {
		counts[i] = g.count()
	}
	at := make([]uint64, last+1)
	var b []byte
	for {
		for at[last] = 0; at[last] < counts[last]; at[last]++ {
			b = b[:0]
			for i, g := range it.groups {
				b = append(b, g.text...)
				b = g.appendNumber(b, at[i])
			}
			b = append(b, it.suffix...)
			if !yield(string(b)) {
				return false
			}
		}
		i := 0
		for ; i < last; i++ {
			if at[i]++; at[i] < counts[i] {
				break
			}
			at[i] = 0
		}
		if i == last {
			return true
		}
	}
}

func (g group) count() uint64 {
	var n uint64
	for _, r := range g.ranges {
		n += r.hi - r.lo + 1
	}
	return n
}

// appendNumber appends the k-th number of the bracket.
func (g group) appendNumber(b []byte, k uint64) []byte {
	for _, r := range g.ranges {
		if n := r.hi - r.lo + 1; k >= n {
			k -= n
			continue
		}
		return appendPadded(b, r.lo+k, r.width)
	}
	return b
}

// nextItem cuts the first item off s at a comma or blank outside brackets. It
// fails on brackets that do not match or are nested.
func nextItem(s string) (text, rest string, ok bool) {
	open := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[':
			if open {
				return "", "", false
			}
			open = true
		case c == ']':
			if !open {
				return "", "", false
			}
			open = false
		case !open && (c == ',' || isBlank(c)):
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !open
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func parseItem(s string) (it item, diag string, ok bool) {
	for {
		open := strings.IndexByte(s, '[')
		if open < 0 {
			it.suffix = s
			return it, "", true
		}
		end := strings.IndexByte(s, ']')
		g := group{text: s[:open]}
		for text := range strings.SplitSeq(s[open+1:end], ",") {
			r, diag, ok := parseSpan(text)
			if !ok {
				return item{}, diag, false
			}
			g.ranges = append(g.ranges, r)
		}
		it.groups = append(it.groups, g)
		s = s[end+1:]
	}
}

func parseSpan(s string) (r span, diag string, ok bool) {
	first, second, isRange := strings.Cut(s, "-")
	lo, ok := parseNumber(first)
	if !ok {
		return span{}, "", false
	}
	r = span{lo: lo, hi: lo, width: len(first)}
	if isRange {
		if r.hi, ok = parseNumber(second); !ok {
			return span{}, "", false
		}
	}
	if r.hi < r.lo {
		return span{}, fmt.Sprintf("_parse_single_range: Invalid range: `%s'", s), false
	}
	if r.hi-r.lo >= MaxRange {
		return span{}, fmt.Sprintf("_parse_single_range: Too many hosts in range `%s'", s), false
	}
	return r, "", true
}

// maxDigits bounds a number so that it fits a uint64 with room to count.
const maxDigits = 18

func parseNumber(s string) (uint64, bool) {
	if s == "" || len(s) > maxDigits {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func appendPadded(b []byte, n uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], n, 10)
	for range width - len(d) {
		b = append(b, '0')
	}
	return append(b, d...)
}

func mulSat(a, b uint64) uint64 {
	if b != 0 && a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}
