// Package tres reads and prints the quantities Slurm deals in: memory sizes,
// time limits, points in time, generic resources (GRES) and trackable resources
// (TRES), exactly in Slurm's syntax.
//
// The option table, the REST handlers, the config loader and every printer use
// it, so that one text means one thing everywhere. It decides nothing: whether
// "0" asks for no limit or "3.5" for an error message is told by the caller. It
// reads no clock; functions that need the time take it.
package tres

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Names of the resources that every job has. GRES are "gres/NAME" and
// "gres/NAME:TYPE", licenses "license/NAME".
const (
	CPU     = "cpu"
	Mem     = "mem" // MiB
	Energy  = "energy"
	Node    = "node"
	Billing = "billing"
	GPU     = "gres/gpu"
)

// TRES counts trackable resources by name. Mem is in MiB. A missing name counts
// as zero; nil is a valid empty set. Methods never change their operands.
type TRES map[string]uint64

// ErrTRES is returned for a text that is not a TRES list.
var ErrTRES = errors.New("invalid TRES")

// fixedOrder is Slurm's numbering of its static TRES, which is also the order
// they are printed in. The others follow, sorted by name.
var fixedOrder = map[string]int{
	CPU: 1, Mem: 2, Energy: 3, Node: 4, Billing: 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}

// Unlimited is the count that accounting stores for "no limit", printed as -1.
const Unlimited uint64 = math.MaxUint64

// ParseTRES reads "cpu=4,mem=16G,node=1,gres/gpu:a100=2". Memory takes K, M, G,
// T (plain: MiB), other counts K to P (powers of 1024); -1 is Unlimited. Names are
// case-insensitive, kept in lower case up to a ":"; a name given twice is an error.
func ParseTRES(s string) (TRES, error) {
	t := TRES{}
	if strings.TrimSpace(s) == "" {
		return t, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%w: %q", ErrTRES, item)
		}
		name = canonicalName(name)
		if _, twice := t[name]; twice {
			return nil, fmt.Errorf("%w: %s is given twice", ErrTRES, name)
		}
		n, err := parseTRESCount(name, value)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", ErrTRES, item)
		}
		t[name] = n
	}
	return t, nil
}

func parseTRESCount(name, value string) (uint64, error) {
	if value == "-1" {
		return Unlimited, nil
	}
	if name == Mem || name == "vmem" {
		m, err := ParseMemory(value)
		return uint64(m), err
	}
	return parseCount(value)
}

// canonicalName lowers the name but not the type behind a colon, which is the
// admin's own word.
func canonicalName(s string) string {
	name, typ, ok := strings.Cut(s, ":")
	if !ok {
		return strings.ToLower(name)
	}
	return strings.ToLower(name) + ":" + typ
}

// parseCount reads a number with an optional k, m, g, t or p (powers of 1024).
func parseCount(s string) (uint64, error) {
	var shift uint
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kmgtp", s[n-1]|0x20); i >= 0 {
			shift = 10 * uint(i+1)
			s = s[:n-1]
		}
	}
	if s == "" || s[0] == '+' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64>>shift {
		return 0, strconv.ErrRange
	}
	return n << shift, nil
}

// Names returns the names in Slurm's order: cpu, mem, energy, node, billing,
// fs/disk, vmem, pages, then the rest by name.
func (t TRES) Names() []string {
	return slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		x, y := order(a), order(b)
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	})
}

func order(name string) int {
	if n, ok := fixedOrder[name]; ok {
		return n
	}
	return len(fixedOrder) + 1
}

// String prints "cpu=1,mem=100M,node=1,billing=1,gres/gpu=1". Counts of zero are
// left out, as Slurm leaves them out of a job's TRES.
func (t TRES) String() string { return t.format(false) }

// Limits prints like String but keeps zeros: in a limit, zero is a limit.
func (t TRES) Limits() string { return t.format(true) }

func (t TRES) format(zeros bool) string {
	var b strings.Builder
	for _, name := range t.Names() {
		n := t[name]
		if n == 0 && !zeros {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(formatCount(name, n))
	}
	return b.String()
}

func formatCount(name string, n uint64) string {
	switch {
	case n == Unlimited:
		return "-1"
	case name == Mem || name == "vmem":
		if n == 0 {
			return "0"
		}
		return Memory(n).String()
	}
	return strconv.FormatUint(n, 10)
}

// Clone returns a copy; the copy of nil is empty and can be written to.
func (t TRES) Clone() TRES {
	if t == nil {
		return TRES{}
	}
	return maps.Clone(t)
}

// Add returns t + o. A sum that would overflow is Unlimited.
func (t TRES) Add(o TRES) TRES {
	sum := t.Clone()
	for name, n := range o {
		if sum[name]+n < n {
			sum[name] = Unlimited
			continue
		}
		sum[name] += n
	}
	return sum
}

// Sub returns t - o, at least zero for each name; names that reach zero go.
func (t TRES) Sub(o TRES) TRES {
	rest := t.Clone()
	for name, n := range o {
		if rest[name] <= n {
			delete(rest, name)
			continue
		}
		rest[name] -= n
	}
	return rest
}

// Fits reports whether t holds at least o of every name.
func (t TRES) Fits(o TRES) bool {
	for name, n := range o {
		if t[name] < n {
			return false
		}
	}
	return true
}

// Equal reports whether both hold the same, zeros and missing names being equal.
func (t TRES) Equal(o TRES) bool { return t.Fits(o) && o.Fits(t) }

// AddGres adds GRES to t in place: "gres/gpu" counts all types and
// "gres/gpu:TYPE" those of one.
func (t TRES) AddGres(list []Gres) {
	for _, g := range list {
		t["gres/"+g.Name] += g.Count
		if g.Type != "" {
			t["gres/"+g.Name+":"+g.Type] += g.Count
		}
	}
}
