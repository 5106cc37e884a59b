package option

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is what sbatchd makes of one option of a script, or a fault in it.
type Finding struct {
	Line   int // from 1
	Option *Option
	Text   string // the option as written, or the fault
	Fault  bool   // sbatch would not take the script
}

// Lint reads a batch script's directives and srun lines as sbatch and srun would
// and says, line by line, what becomes of each option. name is the script's in
// messages.
func Lint(body []byte, name string, now time.Time) []Finding {
	l := &linter{in: Input{Tool: Sbatch, Name: name, Dir: "/", Now: now, Body: body}}
	if err := CheckScript(body); err != nil {
		l.fault(1, err)
		return l.findings
	}
	header := true
	number := 0
	for line := range bytes.Lines(body) {
		number++
		line = bytes.TrimRight(line, "\n")
		trimmed := bytes.TrimLeft(line, " \t")
		isComment := len(trimmed) == 0 || trimmed[0] == '#'
		switch {
		case isComment && header:
			l.directive(line, number)
		case isComment && (bytes.HasPrefix(line, magicSbatch) || bytes.HasPrefix(line, magicBurst)):
			l.note(number, string(line)+": no effect: it stands after the first command")
		case !isComment:
			header = false
			l.steps(trimmed, number)
		}
	}
	l.whole()
	return l.findings
}

type linter struct {
	in       Input
	findings []Finding
	first    int // line of the first directive
	faults   int
}

func (l *linter) note(line int, text string) {
	l.findings = append(l.findings, Finding{Line: line, Text: text})
}

func (l *linter) fault(line int, err error) {
	l.faults++
	l.findings = append(l.findings, Finding{Line: line, Text: err.Error(), Fault: true})
}

// directive looks at one line of comments.
func (l *linter) directive(line []byte, number int) {
	magic, set := magicSbatch, sets[Sbatch]()
	switch {
	case bytes.HasPrefix(line, magicSbatch):
	case bytes.HasPrefix(line, magicBurst):
		magic, set = magicBurst, burstSet()
	default:
		if rest := bytes.TrimLeft(line, "# \t"); bytes.HasPrefix(bytes.ToUpper(rest), magicSbatch[1:]) && bytes.Contains(rest, []byte("-")) {
			l.note(number, string(bytes.TrimSpace(line))+": no effect: it does not begin with #SBATCH, so it is a comment")
		}
		return
	}
	if l.first == 0 {
		l.first = number
	}
	var words []string
	for rest := line[len(magic):]; ; {
		word, left, ok, err := directiveWord(rest, l.in.Name, number)
		if err != nil {
			l.fault(number, err)
			return
		}
		if !ok {
			break
		}
		words, rest = append(words, word), left
	}
	if len(words) > 0 && (words[0] == "hetjob" || words[0] == "packjob") {
		words = words[1:]
	}
	l.options(directiveWords(words, set), Sbatch, number)
}

// options reports each option that was read, and the fault that ended the line.
func (l *linter) options(c component, tool Tool, number int) {
	in := l.in
	in.Tool = tool
	for _, s := range c.settings {
		text := "--" + s.o.Long
		if s.w.HasArg {
			text += "=" + s.w.Value
		}
		if tool == Srun {
			text = "srun " + text
		}
		f := Finding{Line: number, Option: s.o, Text: text}
		r := &reader{in: &in, source: Script}
		// A value that is a variable is known when the script runs.
		if err := r.apply(newValues(tool), []setting{s}); err != nil && !strings.Contains(s.w.Value, "$") {
			l.faults++
			f.Text, f.Fault = text+": "+err.Error(), true
		}
		l.findings = append(l.findings, f)
	}
	if c.err != nil && tool == Sbatch {
		l.fault(number, c.err)
	}
}

// steps looks at the srun of a command line.
func (l *linter) steps(line []byte, number int) {
	words := strings.Fields(string(line))
	at := slices.IndexFunc(words, func(w string) bool { return w == "srun" || strings.HasSuffix(w, "/srun") })
	if at < 0 || at > 0 && strings.HasPrefix(words[0], "#") {
		return
	}
	for i, w := range words[at+1:] {
		words[at+1+i] = strings.Trim(w, `"'`)
	}
	l.options(directiveWords(words[at+1:], sets[Srun]()), Srun, number)
}

// whole checks the options against each other, once each alone was right.
func (l *linter) whole() {
	if l.faults > 0 {
		return
	}
	if slices.ContainsFunc(l.findings, func(f Finding) bool { return f.Option != nil && f.Option.Do == Refused }) {
		return // said already, with its line
	}
	if _, err := Parse(l.in); err != nil {
		l.fault(max(l.first, 1), err)
	}
}

// String is the finding as a sentence: what the option does here.
func (f Finding) String() string {
	switch o := f.Option; {
	case f.Fault || o == nil:
		return f.Text
	case o.Why == "":
		return fmt.Sprintf("%s: %s", f.Text, o.Do)
	default:
		return fmt.Sprintf("%s: %s: %s", f.Text, o.Do, o.Why)
	}
}
