// Package errno holds Slurm's error numbers with Slurm's own names and texts.
//
// Whatever leaves the queue towards a user is one of these; scripts grep the
// texts, so they are data (errno.tsv, from Slurm 26.05) and never rewritten.
// The package knows nothing of HTTP: the server maps numbers to status codes.
package errno

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"syscall"
	"unicode/utf8"
)

//go:generate go run ./gen

// Errno is one of Slurm's error numbers. Numbers between 1 and 999 are the
// system's own (EPERM is 1), as in Slurm.
type Errno int

type entry struct {
	number int
	name   string
	text   string
}

// system is the first number that is Slurm's own and not the kernel's.
const system = 1000

const (
	// NotPermitted is the system's EPERM, which Slurm's REST server answers with 403.
	NotPermitted = Errno(syscall.EPERM)
	// Busy is the system's EAGAIN, which tells a command to try again soon.
	Busy = Errno(syscall.EAGAIN)
)

// Error returns Slurm's exact text for e.
func (e Errno) Error() string {
	if t, ok := lookup(e); ok && t.text != "" {
		return t.text
	}
	if e > 0 && e < system {
		return strerror(syscall.Errno(e))
	}
	return "Unknown error " + strconv.Itoa(int(e))
}

// Name returns Slurm's name, for instance ESLURM_INVALID_PARTITION_NAME, or
// the empty string when Slurm has none.
func (e Errno) Name() string {
	t, _ := lookup(e)
	return t.name
}

// ParseNumber reads a number as Slurm prints it. It fails on anything that is
// not a number of the table or of the system.
func ParseNumber(s string) (Errno, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("error number %q: %w", s, err)
	}
	e := Errno(n)
	if _, ok := lookup(e); !ok && (n < 1 || n >= system) {
		return 0, fmt.Errorf("error number %d is not one of Slurm's", n)
	}
	return e, nil
}

// ParseName finds the number of a Slurm name.
func ParseName(name string) (Errno, bool) {
	for _, t := range table {
		if t.name == name {
			return Errno(t.number), true
		}
	}
	return 0, false
}

// Of returns the Slurm error inside err, if there is one.
func Of(err error) (Errno, bool) {
	if e, ok := errors.AsType[Errno](err); ok {
		return e, true
	}
	return 0, false
}

// All returns every number of the table in rising order.
func All() []Errno {
	all := make([]Errno, len(table))
	for i, t := range table {
		all[i] = Errno(t.number)
	}
	return all
}

func lookup(e Errno) (entry, bool) {
	i := sort.Search(len(table), func(i int) bool { return table[i].number >= int(e) })
	if i < len(table) && table[i].number == int(e) {
		return table[i], true
	}
	return entry{}, false
}

// strerror is the C library's text: Go's with a capital first letter.
func strerror(n syscall.Errno) string {
	s := n.Error()
	r, size := utf8.DecodeRuneInString(s)
	if r >= 'a' && r <= 'z' {
		return string(r-'a'+'A') + s[size:]
	}
	return s
}
