package option

import (
	"strings"
)

// Arg says whether an option takes an argument.
type Arg uint8

// The three kinds of getopt_long.
const (
	None Arg = iota
	Required
	Optional
)

// Name is one spelling of an option as the scanner sees it. Several names may
// share a Key: aliases and old spellings.
type Name struct {
	Long  string // without dashes; empty if there is only a short form
	Short byte   // 0 if there is only a long form
	Arg   Arg
	Key   int  // what Word.Key says when this option was met
	Exact bool // abbreviations do not count while another option matches
}

// Set holds the names of one command, ready for scanning.
type Set struct {
	names []Name
	long  map[string]int
	short [256]int16
}

// NewSet prepares names; later ones with the same spelling win.
func NewSet(names []Name) *Set {
	s := &Set{names: names, long: make(map[string]int, len(names))}
	for i, n := range names {
		if n.Long != "" {
			s.long[n.Long] = i
		}
		if n.Short != 0 {
			s.short[n.Short] = int16(i + 1)
		}
	}
	return s
}

// Word is one option met on a command line.
type Word struct {
	Key    int
	Value  string
	HasArg bool
}

// Scanner walks over arguments by getopt_long's rules: exact or unambiguous
// long names, --name=value and --name value, clustered short options with a
// glued or following value, and optional values only glued.
type Scanner struct {
	set     *Set
	args    []string
	at      int
	cluster string // what is left of a word of short options
	permute bool
	rest    []string
}

// Scan starts over args. Without permute it stops at the first word that is
// not an option, as sbatch, srun and salloc do; with it such words are set
// aside and the rest is searched too, as the other commands do.
func (s *Set) Scan(args []string, permute bool) Scanner {
	return Scanner{set: s, args: args, permute: permute}
}

// Next returns the next option. ok is false at the end; the words that are no
// options are then in Rest. The error text is glibc's, without program name.
func (s *Scanner) Next() (w Word, ok bool, err error) {
	if s.cluster != "" {
		return s.shortOption()
	}
	for s.at < len(s.args) {
		a := s.args[s.at]
		switch {
		case a == "--":
			s.rest = append(s.rest, s.args[s.at+1:]...)
			s.at = len(s.args)
			return Word{}, false, nil
		case strings.HasPrefix(a, "--"):
			s.at++
			return s.longOption(a[2:])
		case len(a) > 1 && a[0] == '-':
			s.at++
			s.cluster = a[1:]
			return s.shortOption()
		case !s.permute:
			s.rest = append(s.rest, s.args[s.at:]...)
			s.at = len(s.args)
			return Word{}, false, nil
		}
		s.rest = append(s.rest, a)
		s.at++
	}
	return Word{}, false, nil
}

// Rest returns the words that are no options, once Next has said it is done.
func (s *Scanner) Rest() []string { return s.rest }

func (s *Scanner) longOption(word string) (Word, bool, error) {
	name, value, glued := strings.Cut(word, "=")
	i, ok := s.set.long[name]
	if !ok {
		var err error
		if i, err = s.set.abbreviation(name, word); err != nil {
			return Word{}, false, err
		}
	}
	n := &s.set.names[i]
	switch {
	case n.Arg == None && glued:
		return Word{}, false, &getoptError{"option '--" + n.Long + "' doesn't allow an argument"}
	case n.Arg == Required && !glued:
		if s.at >= len(s.args) {
			return Word{}, false, &getoptError{"option '--" + n.Long + "' requires an argument"}
		}
		value, glued = s.args[s.at], true
		s.at++
	}
	return Word{Key: n.Key, Value: value, HasArg: glued}, true, nil
}

func (s *Set) abbreviation(name, word string) (int, error) {
	found, exact := -1, -1
	var all []string
	for i := range s.names {
		n := &s.names[i]
		if name == "" || !strings.HasPrefix(n.Long, name) {
			continue
		}
		if n.Exact {
			switch {
			case exact < 0:
				exact = i
			case exact < len(s.names) && s.names[exact].Key != n.Key:
				exact = len(s.names) // several: none
			}
			continue
		}
		if found < 0 || s.names[found].Key != n.Key || s.names[found].Arg != n.Arg {
			all = append(all, n.Long)
		}
		if found < 0 {
			found = i
		}
	}
	switch {
	case len(all) > 1:
		return 0, &getoptError{"option '--" + word + "' is ambiguous; possibilities: '--" + strings.Join(all, "' '--") + "'"}
	case found >= 0:
		return found, nil
	case exact >= 0 && exact < len(s.names):
		return exact, nil
	}
	return 0, &getoptError{"unrecognized option '--" + word + "'"}
}

func (s *Scanner) shortOption() (Word, bool, error) {
	c := s.cluster[0]
	s.cluster = s.cluster[1:]
	i := int(s.set.short[c]) - 1
	if i < 0 {
		s.cluster = ""
		return Word{}, false, &getoptError{"invalid option -- '" + string(rune(c)) + "'"}
	}
	n := &s.set.names[i]
	w := Word{Key: n.Key}
	switch {
	case n.Arg == None:
	case s.cluster != "":
		w.Value, w.HasArg, s.cluster = s.cluster, true, ""
	case n.Arg == Required:
		if s.at >= len(s.args) {
			return Word{}, false, &getoptError{"option requires an argument -- '" + string(rune(c)) + "'"}
		}
		w.Value, w.HasArg = s.args[s.at], true
		s.at++
	}
	return w, true, nil
}

// getoptError is a fault in how options are spelled.
type getoptError struct{ text string }

func (e *getoptError) Error() string { return e.text }
