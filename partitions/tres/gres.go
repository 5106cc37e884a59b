package tres

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Gres is a count of one generic resource, of one type or (Type empty) of any.
type Gres struct {
	Name, Type string
	Count      uint64
	// NoConsume marks a resource of a node that jobs do not use up.
	NoConsume bool
}

// GresRange is a count that may vary: a pool's "gpu:a100:1-8".
type GresRange struct {
	Name, Type string
	Min, Max   uint64
}

// ErrGres is returned for a text that is not a GRES list.
var ErrGres = errors.New("invalid GRES")

// ParseGres reads the GRES of an option or a node: "gpu", "gpu:2", "gpu:a100",
// "gpu:a100:2", "gpu:a100:no_consume:2", several joined by commas, each with or
// without "gres/" or "gres:" before it; "gpu=2" and "gpu:a100=2" are the TRES
// spelling of the same. A count defaults to 1 and takes k, m, g, t, p (powers of
// 1024). "none", "" and "(null)" are no GRES. The same name and type twice is an error.
func ParseGres(s string) ([]Gres, error) {
	if none(s) {
		return nil, nil
	}
	var list []Gres
	for item := range strings.SplitSeq(s, ",") {
		g, count, err := parseGresItem(item)
		if err != nil {
			return nil, err
		}
		g.Count = 1
		if count != "" {
			if g.Count, err = parseCount(count); err != nil {
				return nil, fmt.Errorf("%w: %q", ErrGres, item)
			}
		}
		for _, o := range list {
			if o.Name == g.Name && o.Type == g.Type {
				return nil, fmt.Errorf("%w: %q is given twice", ErrGres, item)
			}
		}
		list = append(list, g)
	}
	return list, nil
}

// ParseGresRange reads a pool's GRES: like ParseGres, but a count may be a range
// "1-8". A single count is both ends.
func ParseGresRange(s string) ([]GresRange, error) {
	if none(s) {
		return nil, nil
	}
	var list []GresRange
	for item := range strings.SplitSeq(s, ",") {
		g, count, err := parseGresItem(item)
		if err != nil {
			return nil, err
		}
		r := GresRange{Name: g.Name, Type: g.Type, Min: 1, Max: 1}
		if count != "" {
			lo, hi, isRange := strings.Cut(count, "-")
			r.Min, err = parseCount(lo)
			if r.Max = r.Min; err == nil && isRange {
				r.Max, err = parseCount(hi)
			}
			if err != nil || r.Max < r.Min || r.Max == 0 || g.NoConsume {
				return nil, fmt.Errorf("%w: %q", ErrGres, item)
			}
		}
		for _, o := range list {
			if o.Name == r.Name && o.Type == r.Type {
				return nil, fmt.Errorf("%w: %q is given twice", ErrGres, item)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

func none(s string) bool { return s == "" || s == "(null)" || strings.EqualFold(s, "none") }

// parseGresItem cuts one item into its words; the count is left as text.
func parseGresItem(item string) (g Gres, count string, err error) {
	rest := item
	for _, p := range [...]string{"gres/", "gres:"} {
		if len(rest) > len(p) && strings.EqualFold(rest[:len(p)], p) {
			rest = rest[len(p):]
			break
		}
	}
	rest, count, hasEq := strings.Cut(rest, "=")
	words := strings.Split(rest, ":")
	if !hasEq && len(words) > 1 && startsWithDigit(words[len(words)-1]) {
		count = words[len(words)-1]
		words = words[:len(words)-1]
	}
	if n := len(words); n > 1 && strings.EqualFold(words[n-1], "no_consume") {
		g.NoConsume = true
		words = words[:n-1]
	}
	g.Name = words[0]
	if len(words) == 2 {
		g.Type = words[1]
	}
	if len(words) > 2 || hasEq && count == "" || !isName(g.Name) || (len(words) == 2 && !isWord(g.Type)) {
		return Gres{}, "", fmt.Errorf("%w: %q", ErrGres, item)
	}
	return g, count, nil
}

// startsWithDigit tells a count from a type: "gpu:4g" counts, "gpu:a100" does
// not. A MIG type such as "1g.5gb" starts with a digit too but holds a dot.
func startsWithDigit(s string) bool {
	return s != "" && '0' <= s[0] && s[0] <= '9' && !strings.ContainsAny(s, "._")
}

// isName tells a resource's name from the words around it.
func isName(s string) bool {
	return isWord(s) && !isDigit(s[0]) && !strings.EqualFold(s, "gres")
}

func isWord(s string) bool {
	if s == "" || s[0] == '-' || s[0] == '+' || s[0] == '.' || none(s) || strings.EqualFold(s, "no_consume") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.', c == '+':
		default:
			return false
		}
	}
	return true
}

// ParseGPUs reads "[type:]count" lists of --gpus, --gpus-per-node and so on as
// GRES named gpu.
func ParseGPUs(s string) ([]Gres, error) {
	if none(s) {
		return nil, nil
	}
	var b strings.Builder
	for i, item := range strings.Split(s, ",") {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("gpu:" + item)
	}
	list, err := ParseGres(b.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrGres, s)
	}
	return list, nil
}

// String prints "gpu:a100:2", the form of a node's Gres.
func (g Gres) String() string {
	s := g.Name
	if g.Type != "" {
		s += ":" + g.Type
	}
	if g.NoConsume {
		s += ":no_consume"
	}
	return s + ":" + strconv.FormatUint(g.Count, 10)
}

// Request prints "gres/gpu:a100:2", the form of a job's TresPerNode.
func (g Gres) Request() string { return "gres/" + g.String() }

// String prints "gpu:a100:1-8", or a single count where both ends are equal.
func (r GresRange) String() string {
	s := Gres{Name: r.Name, Type: r.Type, Count: r.Min}.String()
	if r.Max > r.Min {
		s += "-" + strconv.FormatUint(r.Max, 10)
	}
	return s
}

// FormatGres prints a node's list; without GRES it is "(null)", as in Slurm.
func FormatGres(list []Gres) string {
	if len(list) == 0 {
		return "(null)"
	}
	return join(list, Gres.String)
}

// FormatGresRequest prints a job's list "gres/gpu:2,gres/shard:1"; empty for none.
func FormatGresRequest(list []Gres) string { return join(list, Gres.Request) }

func join[T any](list []T, f func(T) string) string {
	var b strings.Builder
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(v))
	}
	return b.String()
}

// FormatGresRange prints a pool's list; empty for none.
func FormatGresRange(list []GresRange) string { return join(list, GresRange.String) }
