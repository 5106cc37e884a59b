package session

import (
	"fmt"
	"strings"
)

// Transcript is what one session came to.
type Transcript struct {
	Name string
	Text string
}

// Archive writes transcripts as a txtar archive.
func Archive(comment string, list []Transcript) string {
	var b strings.Builder
	b.WriteString(comment)
	for _, t := range list {
		fmt.Fprintf(&b, "-- %s --\n%s", t.Name, t.Text)
	}
	return b.String()
}

// ReadArchive reads them again.
func ReadArchive(text string) []Transcript {
	var list []Transcript
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if name, end := strings.CutSuffix(name, " --"); ok && end {
			list = append(list, Transcript{Name: name})
		} else if len(list) > 0 {
			list[len(list)-1].Text += line
		}
	}
	return list
}
