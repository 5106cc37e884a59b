package partitions

import "fmt"

// Position is a place in a config file.
type Position struct {
	File string
	Line int // from 1; 0 is the file as a whole
}

// String prints "file:line", or the file alone.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Fault is one thing wrong with a config file. Load joins all of them into its
// error; Config.Warnings holds those that do no harm.
type Fault struct {
	File string
	Line int // from 1; 0 is the file as a whole
	Msg  string
}

// Error prints "file:line: message".
func (f Fault) Error() string { return Position{f.File, f.Line}.String() + ": " + f.Msg }
