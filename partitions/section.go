package partitions

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// section holds the pairs of one record, or the global ones, and reads them as
// values. A value that can't be read is a fault and counts as not given.
type section struct {
	l     *loader
	kind  *kind
	name  string // of the record
	at    Position
	pairs map[string]slurmconf.Pair // by lower-case key
}

func posOf(p slurmconf.Pair) Position { return Position{File: p.File, Line: p.Line} }

// has reports whether a key is given.
func (s *section) has(key string) bool {
	_, ok := s.get(key)
	return ok
}

// get returns the pair of a key. Asking for a key that is not in the kind's
// table of acted keys is a mistake in the program.
func (s *section) get(name string) (slurmconf.Pair, bool) {
	low := strings.ToLower(name)
	if k := s.kind.keys[low]; k == nil || !k.acted {
		panic("partitions: key " + s.kind.name + " " + name + " is not in the table")
	}
	p, ok := s.pairs[low]
	return p, ok
}

// fault reports something wrong with a key's value.
func (s *section) fault(key, format string, args ...any) {
	p, ok := s.get(key)
	at, text := s.at, fmt.Sprintf(format, args...)
	if ok {
		at = posOf(p)
		text = p.Key + "=" + p.Value + ": " + text
	}
	s.l.fault(at, "%s", text)
}

// warn reports something odd about a key's value.
func (s *section) warn(key, format string, args ...any) {
	at := s.at
	if p, ok := s.get(key); ok {
		at = posOf(p)
	}
	s.l.warn(at, format, args...)
}

// str returns the value, or def if the key is not given.
func (s *section) str(key, def string) string {
	if p, ok := s.get(key); ok {
		return p.Value
	}
	return def
}

// list cuts a comma list; "", "ALL" and "(null)" are no list where all is set.
func (s *section) list(key string, all bool) []string {
	v := s.str(key, "")
	if all && (strings.EqualFold(v, "ALL") || v == "(null)") {
		return nil
	}
	return splitList(v)
}

func splitList(v string) []string {
	var list []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// options reads "a,b=c" lists, as SchedulerParameters; keys in lower case.
func (s *section) options(key string) map[string]string {
	m := map[string]string{}
	for _, item := range s.list(key, false) {
		k, v, _ := strings.Cut(item, "=")
		m[strings.ToLower(k)] = v
	}
	return m
}

// weights reads "cpu=1.0,mem=0.25G" lists: the factor of one unit, memory in MiB.
func (s *section) weights(key string) map[string]float64 {
	items := s.list(key, false)
	if len(items) == 0 {
		return nil
	}
	m := map[string]float64{}
	for _, item := range items {
		name, v, ok := strings.Cut(item, "=")
		name = strings.ToLower(name)
		div := 1.0
		if n := len(v); name == tres.Mem && n > 0 {
			for unit, per := range map[byte]float64{'k': 1.0 / 1024, 'm': 1, 'g': 1024, 't': 1 << 20} {
				if v[n-1]|0x20 == unit {
					v, div = v[:n-1], per
					break
				}
			}
		}
		f, err := strconv.ParseFloat(v, 64)
		if !ok || err != nil || f < 0 {
			s.fault(key, "%q is not a TRES and its weight", item)
			continue
		}
		m[name] = f / div
	}
	return m
}

// enum returns the allowed word that the value is, in any case.
func (s *section) enum(key, def string, allowed ...string) string {
	p, ok := s.get(key)
	if !ok {
		return def
	}
	for _, a := range allowed {
		if strings.EqualFold(a, p.Value) {
			return a
		}
	}
	s.fault(key, "must be one of %s", strings.Join(allowed, ", "))
	return def
}

// enums reads a comma list of allowed words.
func (s *section) enums(key string, allowed ...string) []string {
	var out []string
next:
	for _, item := range s.list(key, false) {
		for _, a := range allowed {
			if strings.EqualFold(a, item) {
				out = append(out, a)
				continue next
			}
		}
		s.fault(key, "%q is not one of %s", item, strings.Join(allowed, ", "))
	}
	return out
}

// flag reads Slurm's yes and no.
func (s *section) flag(key string, def bool) bool {
	p, ok := s.get(key)
	if !ok {
		return def
	}
	switch strings.ToLower(p.Value) {
	case "yes", "up", "true", "1":
		return true
	case "no", "down", "false", "0":
		return false
	}
	s.fault(key, "must be YES or NO")
	return def
}

// number reads a whole number from lo to hi.
func (s *section) number(key string, def, lo, hi int) int {
	p, ok := s.get(key)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(p.Value)
	if err != nil || n < lo || n > hi {
		s.fault(key, "must be a whole number from %d to %d", lo, hi)
		return def
	}
	return n
}

// limit is number for keys that may be UNLIMITED.
func (s *section) limit(key string, def int) int {
	if isUnlimited(s.str(key, "")) {
		return Unlimited
	}
	return s.number(key, def, 0, Unlimited)
}

func isUnlimited(v string) bool {
	return v == "-1" || strings.EqualFold(v, "UNLIMITED") || strings.EqualFold(v, "INFINITE")
}

// memory reads a size; UNLIMITED is 0.
func (s *section) memory(key string) tres.Memory {
	p, ok := s.get(key)
	if !ok || isUnlimited(p.Value) {
		return 0
	}
	m, err := tres.ParseMemory(p.Value)
	if err != nil {
		s.fault(key, "not a memory size")
	}
	return m
}

var durationUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// seconds reads a number of seconds, or one with s, m, h or d behind it.
// UNLIMITED, INFINITE and -1 are Never where never allows it.
func (s *section) seconds(key string, def time.Duration, never bool) time.Duration {
	p, ok := s.get(key)
	if !ok {
		return def
	}
	if never && isUnlimited(p.Value) {
		return Never
	}
	text, unit := p.Value, time.Second
	if n := len(text); n > 0 {
		if u, ok := durationUnits[text[n-1]|0x20]; ok {
			text, unit = text[:n-1], u
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || time.Duration(n) > tres.Forever/unit {
		s.fault(key, "must be a number of seconds")
		return def
	}
	return time.Duration(n) * unit
}

// minutes reads a time limit.
func (s *section) minutes(key string, def tres.Minutes) tres.Minutes {
	p, ok := s.get(key)
	if !ok || strings.EqualFold(p.Value, "NONE") {
		return def
	}
	m, err := tres.ParseTimeLimit(p.Value)
	if err != nil {
		s.fault(key, "not a time limit")
		return def
	}
	return m
}

// span reads a duration in the form of a time limit; plain numbers are minutes.
func (s *section) span(key string, def time.Duration) time.Duration {
	p, ok := s.get(key)
	if !ok {
		return def
	}
	d, err := tres.ParseDuration(p.Value)
	if err != nil {
		s.fault(key, "not a time")
		return def
	}
	return d
}

// money reads an amount.
func (s *section) money(key string) Money {
	p, ok := s.get(key)
	if !ok {
		return Money{}
	}
	m, err := ParseMoney(p.Value)
	if err != nil {
		s.fault(key, "not an amount of money, such as 3.00 (US dollars) or 60CNY")
	}
	return m
}

// path returns a file name; a relative one starts at the config's folder.
func (s *section) path(key string) string {
	v := s.str(key, "")
	if v == "" || filepath.IsAbs(v) {
		return v
	}
	return filepath.Join(s.l.dir, v)
}

// file is path for a file that must be there.
func (s *section) file(key string) string {
	path := s.path(key)
	if path != "" {
		if err := readable(path); err != nil {
			s.fault(key, "%v", err)
		}
	}
	return path
}

var versionPattern = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)

// version reads dotted numbers, such as a driver's 550.54.14.
func (s *section) version(key string) string {
	v := s.str(key, "")
	if v != "" && !versionPattern.MatchString(v) {
		s.fault(key, "not a version, such as 550.54.14")
		return ""
	}
	return v
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// checkName reports a name that could not be used in a command or a host list.
func (s *section) checkName() {
	if !namePattern.MatchString(s.name) {
		s.l.fault(s.at, "%s=%s: a name is letters, digits, '_', '-' and '.'", s.kind.name, s.name)
	}
}
