package option

import (
	"errors"
	"fmt"
	"strings"
)

// Level says how Slurm's log prints a line.
type Level uint8

// Levels; Raw lines carry no program name.
const (
	Info Level = iota
	Warning
	Err
	Fatal
	Raw
)

// Line is one line for standard error.
type Line struct {
	Level Level
	Text  string
}

// Print returns the line as the program prog prints it, with its newline.
func (l Line) Print(prog string) string {
	switch l.Level {
	case Warning:
		return prog + ": warning: " + l.Text + "\n"
	case Err:
		return prog + ": error: " + l.Text + "\n"
	case Fatal:
		return prog + ": fatal: " + l.Text + "\n"
	case Raw:
		return l.Text + "\n"
	default:
		return prog + ": " + l.Text + "\n"
	}
}

// Exit statuses. A bad option ends sbatch with -1, which the shell sees as
// 255; other faults end it with 1, or with SLURM_EXIT_ERROR.
const (
	ExitUsage = 255
	ExitError = 1
)

// Error is a fault in options or script: what to print, and the exit status.
type Error struct {
	Lines []Line
	Exit  int
}

func (e *Error) Error() string {
	texts := make([]string, len(e.Lines))
	for i, l := range e.Lines {
		texts[i] = l.Text
	}
	return strings.Join(texts, "; ")
}

// usage is a bad value: one error line, exit status 255.
func usage(format string, a ...any) error {
	return &Error{Exit: ExitUsage, Lines: []Line{{Err, fmt.Sprintf(format, a...)}}}
}

// failure is a bad value that Slurm ends with exit status 1.
func failure(format string, a ...any) error {
	return &Error{Exit: ExitError, Lines: []Line{{Err, fmt.Sprintf(format, a...)}}}
}

// fatal is the log's fatal(): exit status 1.
func fatal(format string, a ...any) error {
	return &Error{Exit: ExitError, Lines: []Line{{Fatal, fmt.Sprintf(format, a...)}}}
}

// invalid is the usual refusal of an option's value.
func invalid(o *Option) error { return usage("Invalid --%s specification", o.Long) }

// Misspelled turns a scanner's error into the two lines that prog prints for
// it, with the given exit status; other errors pass unchanged.
func Misspelled(err error, prog string, exit int) error {
	var g *getoptError
	if !errors.As(err, &g) {
		return err
	}
	return &Error{Exit: exit, Lines: []Line{
		{Info, g.text},
		{Raw, fmt.Sprintf("Try %q for more information", prog+" --help")},
	}}
}
