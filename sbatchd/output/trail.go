package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Target is a user's file that a stream is copied to.
type Target struct {
	Path  string      `json:"path"` // absolute, patterns expanded
	Owner asuser.Cred `json:"owner"`
	// Append leaves what is in the file; otherwise it is emptied once, when the
	// attempt is prepared.
	Append bool   `json:"append,omitempty"`
	Umask  uint32 `json:"umask,omitempty"`
}

// fileID tells one file from another whatever their names.
type fileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// extent is a run of bytes of a spool that lies in one piece in a file. It goes
// on until the next one, or the line that closes it.
type extent struct {
	At   int64  `json:"at"` // in the spool
	To   int64  `json:"to"` // in the file
	File fileID `json:"file"`
}

// line is one line of a trail. Each adds to what the lines before it say.
type line struct {
	Target   *Target `json:"target,omitempty"`
	Opened   *fileID `json:"opened,omitempty"` // made, and emptied if so wanted
	Extent   *extent `json:"extent,omitempty"`
	Closed   bool    `json:"closed,omitempty"` // the extent has ended
	Done     int64   `json:"done,omitempty"`   // bytes of the spool that are on the user's disk
	Finished bool    `json:"finished,omitempty"`
}

// trail is the log of one copy.
type trail struct {
	name string
	f    *os.File
	size int64
	now  line // everything together
}

// maxTrail is when a trail is written anew, in bytes.
const maxTrail = 64 << 10

// createTrail stores the first line; after a crash there is all of it or none.
func createTrail(name string, first line) (*trail, error) {
	t := &trail{name: name}
	t.add(first)
	return t, t.rewrite()
}

// openTrail reads a trail. What a crash left of a last line is cut off.
func openTrail(name string) (*trail, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t := &trail{name: name}
	for rest := data; ; {
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		var l line
		if !whole || json.Unmarshal(text, &l) != nil {
			break
		}
		t.add(l)
		rest = after
	}
	if t.now.Target == nil {
		return nil, fmt.Errorf("%s: no target", name)
	}
	return t, t.rewrite()
}

func (t *trail) add(l line) {
	if l.Target != nil {
		t.now.Target = l.Target
	}
	if l.Opened != nil {
		t.now.Opened = l.Opened
	}
	if l.Extent != nil {
		t.now.Extent = l.Extent
		t.now.Done = max(t.now.Done, l.Extent.At)
	}
	if l.Closed {
		t.now.Extent = nil
	}
	t.now.Done = max(t.now.Done, l.Done)
	t.now.Finished = t.now.Finished || l.Finished
}

// rewrite replaces the file by one line.
func (t *trail) rewrite() error {
	text, err := json.Marshal(t.now)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := writeSynced(t.name, text); err != nil {
		return err
	}
	t.close()
	f, err := os.OpenFile(t.name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	t.f, t.size = f, int64(len(text))
	return nil
}

// log adds a line, on the disk when it returns if sync is set.
func (t *trail) log(l line, sync bool) error {
	t.add(l)
	if t.f == nil || t.size > maxTrail {
		return t.rewrite()
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n, err := t.f.Write(append(text, '\n'))
	t.size += int64(n)
	if err == nil && sync {
		err = t.f.Sync()
	}
	if err != nil {
		t.close() // half a line may be there: the next is a rewrite
	}
	return err
}

func (t *trail) close() {
	if t.f != nil {
		_ = t.f.Close() // what had to be on the disk was synced
		t.f = nil
	}
}

// retire says that all is copied.
func (t *trail) retire(copied string) error {
	t.close()
	err := os.Rename(t.name, copied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
