package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// taskOutput is where the tasks of a step write: this terminal, with labels
// perhaps, or files named by a pattern.
type taskOutput struct {
	to      io.Writer // nil: files
	only    int       // the one rank that is heard, -1: all
	label   int       // digits of the label, 0: none
	live    func() error
	partial map[uint32][]byte // unfinished lines

	name  func(task uint32) string
	files map[string]io.WriteCloser
	open  func(name string) (io.WriteCloser, error)
}

// open prepares the step's outputs from --output, --error and --label.
func (l *launcher) open() error {
	l.out = l.destination(l.v.Str("output"), l.e.Stdout)
	errors := l.v.Str("error")
	if errors == "" && l.v.Str("output") != "" {
		l.err = l.out
		return nil
	}
	l.err = l.destination(errors, l.e.Stderr)
	return nil
}

// destination reads a mode (all, none, a rank) or a pattern.
func (l *launcher) destination(mode string, terminal io.Writer) *taskOutput {
	o := &taskOutput{only: -1, partial: map[uint32][]byte{}, live: func() error { return nil }}
	if l.v.Given("label") {
		o.label = len(strconv.Itoa(max(l.req.NTasks-1, 0)))
	}
	if terminal == l.e.Stdout {
		o.live = l.e.flush
	}
	switch rank, err := strconv.ParseUint(mode, 10, 31); {
	case mode == "" || strings.EqualFold(mode, "all"):
		o.to = terminal
	case strings.EqualFold(mode, "none"):
		return nil
	case err == nil:
		o.to, o.only = terminal, int(rank)
	default:
		o.files = map[string]io.WriteCloser{}
		o.name = func(task uint32) string { return l.e.Path(l.fill(mode, task)) }
		o.open = l.create
	}
	return o
}

// create opens an output file of a step.
func (l *launcher) create(name string) (io.WriteCloser, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if l.v.Str("open-mode") == "append" {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	return os.OpenFile(name, flags, 0o666)
}

// fill replaces the patterns of a file name.
func (l *launcher) fill(pattern string, task uint32) string {
	if strings.Contains(pattern, `\`) {
		return strings.ReplaceAll(pattern, `\`, "")
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		end := i + 1
		for end < len(pattern) && pattern[end] >= '0' && pattern[end] <= '9' {
			end++
		}
		if end == len(pattern) {
			b.WriteString(pattern[i:])
			break
		}
		value, numeric, ok := l.patternValue(pattern[end], task)
		if !ok {
			b.WriteString(pattern[i : end+1])
		} else if width, err := strconv.Atoi(pattern[i+1 : end]); err == nil && numeric {
			b.WriteString(strings.Repeat("0", max(min(width, 10)-len(value), 0)) + value)
		} else {
			b.WriteString(value)
		}
		i = end
	}
	return b.String()
}

func (l *launcher) patternValue(c byte, task uint32) (value string, numeric, ok bool) {
	or := func(name, other string) string {
		if v := l.e.Getenv(name); v != "" {
			return v
		}
		return other
	}
	switch c {
	case '%':
		return "%", false, true
	case 'A':
		return or("SLURM_ARRAY_JOB_ID", l.job), true, true
	case 'a':
		return or("SLURM_ARRAY_TASK_ID", "4294967294"), true, true
	case 'J':
		return fmt.Sprintf("%s.%d", l.job, l.info.Step), false, true
	case 'j':
		return l.job, true, true
	case 's':
		return strconv.FormatUint(uint64(l.info.Step), 10), true, true
	case 'N':
		return l.info.Node, false, true
	case 'n':
		return "0", true, true
	case 't':
		return strconv.FormatUint(uint64(task), 10), true, true
	case 'u':
		return l.e.Users.Name(int64(l.e.UID)), false, true
	case 'x':
		return or("SLURM_JOB_NAME", l.req.Name), false, true
	case 'r':
		return or("SLURM_RESTART_COUNT", "0"), true, true
	}
	return "", false, false
}

// write passes a piece of a task's output on, whole lines at a time if they are
// labelled.
func (o *taskOutput) write(task uint32, data []byte) error {
	if o.only >= 0 && uint32(o.only) != task {
		return nil
	}
	to := o.to
	if to == nil {
		name := o.name(task)
		f, ok := o.files[name]
		if !ok {
			var err error
			if f, err = o.open(name); err != nil {
				return fmt.Errorf("Could not open stdout file: %w", err) //nolint:staticcheck // Slurm's sentence
			}
			o.files[name] = f
		}
		to = f
	}
	if o.label == 0 {
		if _, err := to.Write(data); err != nil {
			return err
		}
		return o.live()
	}
	data = append(o.partial[task], data...)
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			break
		}
		if _, err := fmt.Fprintf(to, "%*d: %s", o.label, task, data[:i+1]); err != nil {
			return err
		}
		data = data[i+1:]
	}
	o.partial[task] = append([]byte(nil), data...)
	return o.live()
}

// close writes unfinished lines and closes files.
func (o *taskOutput) close() error {
	for task, rest := range o.partial {
		if len(rest) > 0 && o.to != nil {
			if _, err := fmt.Fprintf(o.to, "%*d: %s\n", o.label, task, rest); err != nil {
				return err
			}
		}
		delete(o.partial, task)
	}
	for name, f := range o.files {
		delete(o.files, name)
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
