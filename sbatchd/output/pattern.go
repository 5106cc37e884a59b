package output

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// Names is what the patterns of --output, --error and --input stand for.
type Names struct {
	ID      job.ID
	Restart uint32
	User    string
	JobName string
	Node    string // first node of the step; its domain is left out
	Index   uint32 // of the node in the job
	Task    uint32 // rank
	Step    string // empty: the batch script
	SLUID   string
}

// DefaultPattern is Slurm's output file for a job without --output.
func DefaultPattern(id job.ID) string {
	if id.Array != 0 {
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}

// Path is the absolute file that a pattern stands for.
func Path(pattern, workDir string, n Names) string {
	p := Expand(pattern, n)
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(workDir, p)
}

// maxPad is the widest zero padding of a number.
const maxPad = 10

// Expand replaces the patterns in a file name as Slurm does: a backslash
// anywhere turns all of it off, a number after % pads with zeros, and what
// isn't a pattern stays.
func Expand(pattern string, n Names) string {
	if strings.Contains(pattern, `\`) {
		return strings.ReplaceAll(pattern, `\`, "")
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		width, err := strconv.Atoi("0" + rest[:digits])
		if err != nil || width > maxPad {
			width = maxPad
		}
		letter := byte(0)
		if digits < len(rest) {
			letter = rest[digits]
		}
		text, ok := n.expand(letter, width, digits)
		if !ok {
			b.WriteByte('%')
			pattern = rest
			continue
		}
		b.WriteString(text)
		pattern = rest[digits+1:]
	}
}

func (n Names) expand(letter byte, width, digits int) (string, bool) {
	num := func(v uint32) string { return fmt.Sprintf("%0*d", width, v) }
	array := n.ID.Raw
	if n.ID.Array != 0 {
		array = n.ID.Array
	}
	task := n.ID.Task
	switch letter {
	case '%':
		return "%", digits == 0
	case 'A':
		return num(array), true
	case 'a':
		return num(task), true
	case 'b':
		return num(task % 10), true
	case 'J':
		if n.Step != "" {
			return num(n.ID.Raw) + "." + n.Step, true
		}
		return num(n.ID.Raw), true
	case 'j':
		return num(n.ID.Raw), true
	case 'N':
		host, _, _ := strings.Cut(n.Node, ".")
		return host, true
	case 'n':
		return num(n.Index), true
	case 'r':
		return num(n.Restart), true
	case 'S':
		return n.SLUID, n.SLUID != ""
	case 's':
		if n.Step == "" {
			return "batch", true
		}
		if v, err := strconv.ParseUint(n.Step, 10, 32); err == nil {
			return num(uint32(v)), true
		}
		return n.Step, true
	case 't':
		return num(n.Task), true
	case 'u':
		return n.User, true
	case 'x':
		return n.JobName, true
	}
	return "", false
}
