// Package slurmconf reads the syntax of slurm.conf: lines of Key=Value pairs,
// comments, continuation lines, quotes and Include. It knows no key's meaning;
// package partitions gives the lines theirs. Every value keeps its file and
// line, and all faults of all files are found in one pass.
//
// The rules are Slurm's:
//
//   - "#" starts a comment anywhere, even inside quotes; "\#" is a plain "#".
//   - "\" at the end of a line joins the next one; any other "\x" is x.
//   - A key is letters, digits, "_" and "."; blanks around "=" do not matter.
//   - A value is a run of non-blanks, or anything between two double quotes.
//   - "Include FILE" stands on a line of its own; a relative FILE is looked for
//     beside the first file, and %c in it is the ClusterName.
package slurmconf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Pair is one Key=Value.
type Pair struct {
	Key   string // as written; keys are case-insensitive
	Op    string // "" for "=", else the "+", "-", "*" or "/" before it
	Value string
	File  string
	Line  int // of the key, from 1
}

// Is reports whether the pair has that key, in any case.
func (p Pair) Is(key string) bool { return strings.EqualFold(p.Key, key) }

// Statement is one logical line: at least one pair.
type Statement []Pair

// Document is a config file with everything it includes, in reading order.
type Document struct {
	Files      []string
	Statements []Statement
}

// Fault is a line that can't be read.
type Fault struct {
	File string
	Line int // 0: the file as a whole
	Msg  string
}

// maxDepth bounds Includes inside Includes.
const maxDepth = 32

// maxFile bounds one file; real ones are far below.
const maxFile = 16 << 20

// Read reads the file at path and all that it includes. It goes on after a
// fault, so the Document holds whatever could be read.
func Read(path string) (*Document, []Fault) {
	r := &reader{base: filepath.Dir(path), doc: &Document{}}
	r.file(path, Fault{File: path})
	return r.doc, r.faults
}

type reader struct {
	base    string   // folder that relative Includes start from
	open    []string // files being read, outermost first
	cluster string   // last ClusterName seen
	doc     *Document
	faults  []Fault
}

func (r *reader) fault(file string, line int, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: file, Line: line, Msg: fmt.Sprintf(format, args...)})
}

// file reads one file; from is where it was asked for.
func (r *reader) file(path string, from Fault) {
	if slices.Contains(r.open, path) {
		r.fault(from.File, from.Line, "Include cycle: %s -> %s", strings.Join(r.open, " -> "), path)
		return
	}
	if len(r.open) == maxDepth {
		r.fault(from.File, from.Line, "Include files are nested more than %d deep", maxDepth)
		return
	}
	text, err := readFile(path)
	if err != nil {
		if len(r.open) > 0 {
			r.fault(from.File, from.Line, "Include %s: %v", path, err)
		} else {
			r.fault(from.File, from.Line, "%v", err)
		}
		return
	}
	r.doc.Files = append(r.doc.Files, path)
	r.open = append(r.open, path)
	r.text(path, text)
	r.open = r.open[:len(r.open)-1]
}

// readFile reads an ordinary file; its errors do not repeat the path.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, errors.New("is a directory")
	}
	if err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return nil, pe.Err
	}
	return text, err
}

// text cuts a file into logical lines.
func (r *reader) text(path string, text []byte) {
	var cur logical
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s := stripComment(strings.TrimRight(string(line), "\r\n"))
		s, more := continues(s)
		cur.add(s, n)
		if !more {
			r.logical(path, cur)
			cur = logical{}
		}
	}
	r.logical(path, cur)
}

// stripComment cuts s at the first "#" that has no "\" before it.
func stripComment(s string) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '#':
			return s[:i]
		}
	}
	return s
}

// continues reports whether the line ends in a "\" that is not itself escaped,
// and cuts it off. Blanks after it do not count.
func continues(s string) (string, bool) {
	t := strings.TrimRight(s, " \t")
	n := len(t) - len(strings.TrimRight(t, `\`))
	if n%2 == 0 {
		return s, false
	}
	return t[:len(t)-1], true
}

// logical is a line put together from continued ones, escapes still in it.
type logical struct {
	text   string
	starts []start
}

// start says that text from offset on stands in that line.
type start struct{ offset, line int }

func (l *logical) add(s string, line int) {
	l.starts = append(l.starts, start{len(l.text), line})
	l.text += s
}

// line returns the physical line of an offset.
func (l *logical) line(offset int) int {
	n := 0
	for _, s := range l.starts {
		if s.offset <= offset {
			n = s.line
		}
	}
	return n
}

// logical reads one logical line.
func (r *reader) logical(path string, l logical) {
	trimmed := strings.TrimLeft(l.text, " \t")
	if trimmed == "" {
		return
	}
	at := len(l.text) - len(trimmed)
	if name, ok := includeOf(trimmed); ok {
		r.include(path, l.line(at), name)
		return
	}
	var st Statement
	for at < len(l.text) {
		p, next, ok := nextPair(l.text, at)
		if !ok {
			r.fault(path, l.line(at), "Parse error: %q", unescape(strings.TrimRight(l.text[at:], " \t")))
			break
		}
		p.File, p.Line = path, l.line(at)
		if p.Is("ClusterName") {
			r.cluster = p.Value
		}
		st = append(st, p)
		at = skipBlanks(l.text, next)
	}
	if len(st) > 0 {
		r.doc.Statements = append(r.doc.Statements, st)
	}
}

// includeOf returns the file of an Include line.
func includeOf(s string) (string, bool) {
	const word = "include"
	if len(s) <= len(word) || !strings.EqualFold(s[:len(word)], word) || !isBlank(s[len(word)]) {
		return "", false
	}
	name := strings.TrimSpace(s[len(word):])
	if strings.HasPrefix(name, "=") {
		return "", false
	}
	if len(name) > 1 && name[0] == '"' && name[len(name)-1] == '"' {
		name = name[1 : len(name)-1]
	}
	return unescape(name), true
}

func (r *reader) include(path string, line int, name string) {
	if strings.Contains(name, "%c") {
		if r.cluster == "" {
			r.fault(path, line, "Include %s: ClusterName must stand before it", name)
			return
		}
		name = strings.ReplaceAll(name, "%c", r.cluster)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.base, name)
	}
	r.file(name, Fault{File: path, Line: line})
}

// nextPair reads a pair at offset at and returns where it ends.
func nextPair(s string, at int) (p Pair, end int, ok bool) {
	i := at
	for i < len(s) && isKeyByte(s[i]) {
		i++
	}
	p.Key = s[at:i]
	i = skipBlanks(s, i)
	if i < len(s) && strings.IndexByte("+-*/", s[i]) >= 0 {
		p.Op = s[i : i+1]
		i++
	}
	if p.Key == "" || i == len(s) || s[i] != '=' {
		return Pair{}, at, false
	}
	i = skipBlanks(s, i+1)
	if i < len(s) && s[i] == '"' {
		if n := strings.IndexByte(s[i+1:], '"'); n >= 0 {
			end = i + 1 + n + 1
			if end == len(s) || isBlank(s[end]) {
				p.Value = unescape(s[i+1 : end-1])
				return p, end, true
			}
		}
	}
	end = i
	for end < len(s) && !isBlank(s[end]) {
		if s[end] == '\\' && end+1 < len(s) {
			end++
		}
		end++
	}
	p.Value = unescape(s[i:end])
	return p, end, end > i
}

func skipBlanks(s string, i int) int {
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	return i
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' }

func isKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.'
}

// unescape drops each "\" and keeps what it stood before.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Quote writes a value so that Read reads it back: in quotes where blanks need
// them, with "#" and "\" escaped. A double quote or line break in it is an error,
// the syntax has no way to write one.
func Quote(value string) (string, error) {
	if strings.ContainsAny(value, "\"\n\r") {
		return "", fmt.Errorf("value %q holds a quote or a line break", value)
	}
	s := strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(value)
	if s == "" || strings.ContainsAny(s, " \t\v\f") {
		s = `"` + s + `"`
	}
	return s, nil
}
