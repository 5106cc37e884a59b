package option

import (
	"bytes"
)

// MaxScript is the size in bytes beyond which a script is not even read.
const MaxScript = 512 << 20

// CheckScript refuses what sbatch refuses to submit, in its words.
func CheckScript(body []byte) error {
	bad := func(texts ...string) error {
		e := &Error{Exit: ExitError}
		for _, t := range texts {
			e.Lines = append(e.Lines, Line{Err, t})
		}
		return e
	}
	switch {
	case len(body) == 0:
		return bad("Batch script is empty!")
	case len(bytes.TrimLeft(body, " \t\n\v\f\r")) == 0:
		return bad("Batch script contains only whitespace!")
	case !bytes.HasPrefix(body, []byte("#!")):
		return bad("This does not look like a batch script.  The first",
			"line must start with #! followed by the path to an interpreter.",
			"For instance: #!/bin/sh")
	case bytes.IndexByte(body, 0) >= 0:
		return bad("The Slurm controller does not allow scripts that",
			`contain a NULL character '\0'.`)
	case bytes.Contains(body, []byte("\r\n")):
		return bad(`Batch script contains DOS line breaks (\r\n)`,
			`instead of expected UNIX line breaks (\n).`)
	}
	return nil
}

// WrapScript returns the script that sbatch makes of --wrap.
func WrapScript(command string) []byte {
	return []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + command + "\n")
}

var (
	magicSbatch = []byte("#SBATCH")
	magicSlurm  = []byte("#SLURM")
	magicBurst  = []byte("#BURST")
)

// directives reads the #SBATCH and #BURST lines of a script, component by
// component, and after them those of PBS or LSF unless they are ignored. name
// is the script's in messages.
func directives(body []byte, name string, ignorePBS bool) (components []component, notices []Line, err error) {
	d := scanDirectives(body, name)
	if d.err != nil {
		return nil, nil, d.err
	}
	d.endComponent()
	for i, words := range d.words {
		c := directiveWords(words, sets[Sbatch]())
		if c.err == nil {
			ours := directiveWords(d.burst[i], burstSet())
			c = component{append(c.settings, ours.settings...), ours.err}
		}
		components = append(components, c)
	}
	if first := &components[0]; !ignorePBS && first.err == nil {
		foreign, err := foreignDirectives(body, name)
		first.settings, first.err = append(first.settings, foreign...), err
	}
	return components, d.notices, nil
}

// component is what one part of a heterogeneous job sets, in order, and the
// fault of spelling that ended the reading: sbatch finds a bad value before it
// if the value comes first.
type component struct {
	settings []setting
	err      error
}

func directiveWords(words []string, set *Set) component {
	c := component{settings: make([]setting, 0, len(words))}
	sc := set.Scan(words, false)
	for {
		w, ok, err := sc.Next()
		if err != nil {
			c.err = Misspelled(err, "sbatch", ExitUsage)
			return c
		}
		if !ok {
			break
		}
		c.settings = append(c.settings, setting{table[w.Key], w})
	}
	if rest := sc.Rest(); len(rest) > 0 {
		c.err = strayWord(rest[0])
	}
	return c
}

// strayWord refuses text that is no option. Slurm's sentence comes first; a
// second line helps with the two mistakes that people make.
func strayWord(word string) error {
	e := &Error{Exit: ExitUsage, Lines: []Line{{Err, "Invalid directive found in batch script: " + word}}}
	for _, c := range word {
		switch c {
		case '‐', '‑', '‒', '–', '—', '―', '−':
			e.Lines = append(e.Lines, Line{Err, "\"" + string(c) + "\" is not an ASCII minus sign (-)"})
		}
		break
	}
	return e
}

// scan collects the words of each component.
type scan struct {
	name    string
	words   [][]string
	burst   [][]string
	notices []Line
	err     error

	now, nowBurst []string
	slurm         bool // #SLURM was complained about
	packjob       bool // the old separator was
}

func (d *scan) endComponent() {
	d.words, d.burst = append(d.words, d.now), append(d.burst, d.nowBurst)
	d.now, d.nowBurst = nil, nil
}

func scanDirectives(body []byte, name string) *scan {
	d := &scan{name: name}
	for number := 1; len(body) > 0 && d.err == nil; number++ {
		var line []byte
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			line, body = body, nil
		}
		switch {
		case len(line) > 0 && line[0] == '#':
			d.line(line, number)
		case len(bytes.TrimLeft(line, " \t\v\f\r")) == 0:
		case bytes.TrimLeft(line, " \t\v\f\r")[0] != '#':
			return d
		}
	}
	return d
}

func (d *scan) line(line []byte, number int) {
	var rest []byte
	var into *[]string
	switch {
	case bytes.HasPrefix(line, magicSbatch):
		rest, into = line[len(magicSbatch):], &d.now
	case bytes.HasPrefix(line, magicSlurm):
		rest, into = line[len(magicSlurm):], &d.now
		if !d.slurm {
			d.slurm = true
			d.notices = append(d.notices, Line{Err,
				"Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch"})
		}
	case bytes.HasPrefix(line, magicBurst):
		rest, into = line[len(magicBurst):], &d.nowBurst
	default:
		return
	}
	for first := true; ; first = false {
		word, left, ok, err := directiveWord(rest, d.name, number)
		if err != nil || !ok {
			d.err = err
			return
		}
		rest = left
		if first && into == &d.now && (word == "hetjob" || word == "packjob") {
			if word == "packjob" && !d.packjob {
				d.packjob = true
				d.notices = append(d.notices, Line{Warning,
					`The "packjob" component separator is deprecated. Please use "hetjob" instead.`})
			}
			d.endComponent()
			into = &d.now
			continue
		}
		*into = append(*into, word)
	}
}

// directiveWord takes the next word off a directive. Quotes may surround all
// or part of it, a backslash makes the next character plain, and a bare #
// ends the line. ok is false at the end of the line.
func directiveWord(line []byte, name string, number int) (word string, rest []byte, ok bool, err error) {
	line = bytes.TrimLeft(line, " \t\v\f\r")
	if len(line) == 0 || line[0] == '#' {
		return "", nil, false, nil
	}
	if line[0] == ':' {
		return "", nil, false, fatal("%s: line %d: Unexpected `:` in [%s]", name, number, line)
	}
	if i := bytes.IndexAny(line, " \t\v\f\r\\\"'#"); i < 0 {
		return string(line), nil, true, nil
	} else if c := line[i]; c != '\\' && c != '"' && c != '\'' {
		if c == '#' {
			return string(line[:i]), nil, true, nil
		}
		return string(line[:i]), line[i:], true, nil
	}
	var text []byte
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line):
			i++
			text = append(text, line[i])
		case c == '\\':
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '#':
			return string(text), nil, true, nil
		case quote == 0 && isBlank(c):
			return string(text), line[i:], true, nil
		default:
			text = append(text, c)
		}
	}
	if quote != 0 {
		return "", nil, false, fatal("%s: line %d: Unmatched `%c` in [%s]", name, number, quote, line)
	}
	return string(text), nil, true, nil
}

func isBlank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || c == '\n'
}
