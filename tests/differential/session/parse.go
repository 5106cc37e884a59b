package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Class says beside what a session may run.
type Class int

// The classes, in the order in which they run.
const (
	Quiet    Class = iota // changes nothing and wants a cluster without jobs
	Together              // looks at nothing but its own jobs
	Alone                 // changes what others see
)

func (c Class) String() string { return [...]string{"quiet", "together", "alone"}[c] }

// Session is one of the list.
type Session struct {
	Name  string // file/name or file/name/cells
	File  string // without its ending, which is the command it is about
	Table string // of the table it is a row of, or empty
	Class Class
	Steps []Step
}

// Kind is what a step does.
type Kind int

// The kinds of steps.
const (
	Shell Kind = iota
	REST
	WriteFile
	ShowFile
	Wait
)

// Step is one step of a session. Its strings may hold $S and $J1.
type Step struct {
	Kind   Kind
	User   string   // alice, bob or root
	Text   string   // the command line; METHOD PATH; a file's name; id and states
	Body   string   // standard input, a request's body, a file's text
	Pick   []string // of the JSON it answers, only these values
	Prompt string   // the line as it is written, for the transcript
}

// MaxRows is how many sessions one table may make.
const MaxRows = 60

// Tag is a short name unlike any other session's.
func (s Session) Tag() string {
	sum := sha256.Sum256([]byte(s.Name))
	return "s" + hex.EncodeToString(sum[:3])
}

// Load reads all *.txt files of a folder.
func Load(dir string) ([]Session, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []Session
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", file, err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(cmp.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name)) })
	names, tags := map[string]bool{}, map[string]string{}
	for _, s := range all {
		if names[s.Name] {
			return nil, fmt.Errorf("two sessions are called %s", s.Name)
		}
		if other, taken := tags[s.Tag()]; taken {
			return nil, fmt.Errorf("%s and %s have the tag %s: rename one", other, s.Name, s.Tag())
		}
		names[s.Name], tags[s.Tag()] = true, s.Name
	}
	return all, nil
}

// parser reads one file.
type parser struct {
	file  string
	list  []Session
	at    *Session // being read
	table bool
	rows  bool // of the table being read
	cells []string
}

var (
	header = regexp.MustCompile(`^== (table )?(\S+)(?: (quiet|alone))?$`)
	shell  = regexp.MustCompile(`^(alice|bob)\$ (.+)$|^(root)# (.+)$`)
	rest   = regexp.MustCompile(`^(alice|bob|root)> (\S+ .+)$`)
)

// Parse reads the text of one file. Errors begin with the line's number.
func Parse(file, text string) ([]Session, error) {
	p := parser{file: file}
	for n, line := range strings.Split(text, "\n") {
		if err := p.line(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, fmt.Errorf("%d: %w", n+1, err)
		}
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("end: %w", err)
	}
	return p.list, nil
}

func (p *parser) line(line string) error {
	if m := header.FindStringSubmatch(line); m != nil {
		if err := p.end(); err != nil {
			return err
		}
		class := map[string]Class{"": Together, "quiet": Quiet, "alone": Alone}[m[3]]
		p.at, p.table, p.rows, p.cells = &Session{Name: p.file + "/" + m[2], File: p.file, Class: class}, m[1] != "", false, nil
		return nil
	}
	word, after, _ := strings.Cut(line, " ")
	switch {
	case strings.TrimSpace(line) == "", word == "#":
		return nil
	case p.at == nil:
		return fmt.Errorf("a session begins with == NAME, not %q", line)
	case p.rows && word == "|":
		p.cells = append(p.cells, after)
		return nil
	case line == "rows" && p.table:
		p.rows = true
		return nil
	case word == "|", word == "<", word == "pick":
		if len(p.at.Steps) == 0 {
			return fmt.Errorf("%q belongs to no step", line)
		}
		s := &p.at.Steps[len(p.at.Steps)-1]
		if word == "pick" {
			s.Pick = append(s.Pick, strings.Fields(after)...)
		} else {
			s.Body += after + "\n"
		}
		return nil
	}
	step, err := parseStep(line)
	p.at.Steps = append(p.at.Steps, step)
	return err
}

func parseStep(line string) (Step, error) {
	if m := shell.FindStringSubmatch(line); m != nil {
		return Step{Kind: Shell, User: m[1] + m[3], Text: m[2] + m[4], Prompt: line}, nil
	}
	if m := rest.FindStringSubmatch(line); m != nil {
		return Step{Kind: REST, User: m[1], Text: m[2], Prompt: line}, nil
	}
	word, after, ok := strings.Cut(line, " ")
	kind, known := map[string]Kind{"file": WriteFile, "show": ShowFile, "wait": Wait}[word]
	if !known || !ok {
		return Step{}, fmt.Errorf("no such step: %q", line)
	}
	return Step{Kind: kind, Text: after, Prompt: line}, nil
}

// end takes what was read into the list.
func (p *parser) end() error {
	s := p.at
	p.at = nil
	switch {
	case s == nil:
		return nil
	case len(s.Steps) == 0:
		return fmt.Errorf("%s has no steps", s.Name)
	case !p.table:
		p.list = append(p.list, *s)
		return nil
	case len(p.cells) == 0 || len(p.cells) > MaxRows:
		return fmt.Errorf("table %s has %d rows: 1 to %d are allowed", s.Name, len(p.cells), MaxRows)
	}
	for _, row := range p.cells {
		p.list = append(p.list, s.row(strings.Split(row, " || ")))
	}
	return nil
}

// row is the session of one row of a table.
func (s Session) row(cells []string) Session {
	fill := make([]string, 0, 2*len(cells))
	for i, c := range cells {
		fill = append(fill, fmt.Sprintf("{%d}", i+1), c)
	}
	r := strings.NewReplacer(fill...)
	out := Session{Name: s.Name + "/" + strings.ReplaceAll(strings.Join(cells, ","), " ", "_"), File: s.File, Table: s.Name, Class: s.Class}
	for _, step := range s.Steps {
		step.User, step.Text, step.Body, step.Prompt = r.Replace(step.User), r.Replace(step.Text), r.Replace(step.Body), r.Replace(step.Prompt)
		pick := make([]string, 0, len(step.Pick))
		for _, p := range step.Pick {
			pick = append(pick, strings.Fields(r.Replace(p))...)
		}
		step.Pick = pick
		out.Steps = append(out.Steps, step)
	}
	return out
}
