package hostlist

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// name is a host name cut into its text and its trailing number.
type name struct {
	prefix  string
	num     uint64
	width   int // digits of the number as written; 0 without one
	numeric bool
}

func split(s string) name {
	i := len(s)
	for i > 0 && isDigit(s[i-1]) {
		i--
	}
	num, ok := parseNumber(s[i:])
	if !ok {
		return name{prefix: s}
	}
	return name{prefix: s[:i], num: num, width: len(s) - i, numeric: true}
}

// Compress writes names as one expression, in the given order and with
// duplicates, as "scontrol show hostlist" does. Only neighbours join: equal
// text and consecutive numbers of fitting width. Parse reads it back to the
// same names, unless a name itself holds a comma, a blank or a bracket.
func Compress(names []string) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		first := split(names[i])
		end := i + 1
		for first.numeric && end < len(names) {
			next := split(names[end])
			if !next.numeric || next.prefix != first.prefix {
				break
			}
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if end == i+1 {
			b.WriteString(names[i])
		} else {
			writeGroup(&b, first.prefix, names[i:end])
		}
		i = end
	}
	return b.String()
}

// writeGroup writes at least two names that share a prefix.
func writeGroup(b *strings.Builder, prefix string, names []string) {
	b.WriteString(prefix)
	b.WriteByte('[')
	for i := 0; i < len(names); {
		cur := split(names[i])
		r := span{lo: cur.num, hi: cur.num, width: cur.width}
		end := i + 1
		for end < len(names) && r.takes(split(names[end])) {
			r.hi++
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(names[i][len(prefix):])
		if r.hi > r.lo {
			b.WriteByte('-')
			b.WriteString(names[end-1][len(prefix):])
		}
		i = end
	}
	b.WriteByte(']')
}

// takes reports whether n continues the range: its number is the next one and
// is written as the range would write it.
func (r span) takes(n name) bool {
	return n.num == r.hi+1 && n.width == max(r.width, digits(n.num)) && n.num-r.lo < MaxRange
}

func digits(n uint64) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// Compare orders two names as the controller sorts node lists: by text, then
// width of the number, then the number.
func Compare(a, b string) int {
	x, y := split(a), split(b)
	return cmp.Or(
		strings.Compare(x.prefix, y.prefix),
		cmp.Compare(x.width, y.width),
		cmp.Compare(x.num, y.num),
	)
}

// Sort sorts names in place by Compare; duplicates stay.
func Sort(names []string) { slices.SortFunc(names, Compare) }

// Set returns the names sorted and without duplicates, as a new slice.
func Set(names []string) []string {
	out := slices.Clone(names)
	Sort(out)
	return slices.Compact(out)
}

// CompressSet writes names sorted and unique, the form of every node list that
// the controller makes (NODELIST, SLURM_JOB_NODELIST, sinfo).
func CompressSet(names []string) string { return Compress(Set(names)) }

// Counts writes a number per host with repeats folded, as in
// SLURM_JOB_CPUS_PER_NODE: "72(x2),36".
func Counts(n []int) string {
	var b strings.Builder
	for i := 0; i < len(n); {
		end := i + 1
		for end < len(n) && n[end] == n[i] {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n[i]))
		if end-i > 1 {
			b.WriteString("(x" + strconv.Itoa(end-i) + ")")
		}
		i = end
	}
	return b.String()
}
