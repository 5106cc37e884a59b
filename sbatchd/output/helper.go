package output

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The words that the copier and its helper exchange: a length, a JSON head, and
// after a write's head its data.
type request struct {
	Op   string `json:"op"` // hello, open, truncate, write, sync, close
	File int    `json:"file"`
	Path string `json:"path,omitempty"`
	Perm uint32 `json:"perm,omitempty"`
	Dirs bool   `json:"dirs,omitempty"` // open makes the folders the path lacks
	Off  int64  `json:"off,omitempty"`
	// Tail is where the file should end; a write to one that ends elsewhere
	// writes nothing. Negative: wherever.
	Tail int64 `json:"tail,omitempty"`
	// Compare says that bytes of Data may be there already: see helper.compare.
	Compare bool `json:"compare,omitempty"`
	Len     int  `json:"len,omitempty"`

	data []byte
}

type reply struct {
	N    int    `json:"n,omitempty"`    // bytes of the data that are now in the file
	Size int64  `json:"size,omitempty"` // of the file before
	Dev  uint64 `json:"dev,omitempty"`
	Ino  uint64 `json:"ino,omitempty"`
	Kind string `json:"kind,omitempty"` // file, null, other
	// Moved says that the file isn't as the copier thinks: nothing was written.
	Moved bool   `json:"moved,omitempty"`
	Errno int    `json:"errno,omitempty"`
	Err   string `json:"err,omitempty"`
}

// Kinds of targets.
const (
	kindFile  = "file"
	kindNull  = "null"  // /dev/null: bytes vanish
	kindOther = "other" // a terminal or a pipe: written in order, nothing to repeat
)

// maxChunk is the most data of one write, in bytes.
const maxChunk = 256 << 10

func send(w *bufio.Writer, head any, data []byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(text)))
	for _, b := range [][]byte{n[:], text, data} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

func receive(r *bufio.Reader, head any) error {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > 1<<20 {
		return fmt.Errorf("head of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, head)
}

// HelperMain is the helper process: it writes files as the user it runs as,
// told on its standard input, until that ends. main calls it for a hidden
// subcommand; it takes no arguments.
func HelperMain(args []string) int {
	if len(args) > 0 {
		fmt.Fprintln(os.Stderr, "output helper: takes no arguments")
		return 2
	}
	syscall.Umask(0) // modes come with the requests
	if err := serveHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "output helper:", err)
		return 1
	}
	return 0
}

func serveHelper(in io.Reader, out io.Writer) error {
	r, w := bufio.NewReaderSize(in, maxChunk), bufio.NewWriter(out)
	h := helper{files: map[int]*os.File{}, kinds: map[int]string{}}
	for {
		var q request
		if err := receive(r, &q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if q.Len < 0 || q.Len > maxChunk {
			return fmt.Errorf("data of %d bytes", q.Len)
		}
		q.data = make([]byte, q.Len)
		if _, err := io.ReadFull(r, q.data); err != nil {
			return err
		}
		var a reply
		if err := h.do(&q, &a); err != nil {
			a.Err = err.Error()
			if no, ok := errors.AsType[syscall.Errno](err); ok {
				a.Errno = int(no)
			}
		}
		if err := send(w, &a, nil); err != nil {
			return err
		}
	}
}

// helper is the helper's open files, by the number that the copier gave them.
type helper struct {
	files map[int]*os.File
	kinds map[int]string
}

func (h *helper) do(q *request, a *reply) error {
	switch q.Op {
	case "hello":
		return nil
	case "open":
		return h.open(q, a)
	}
	f := h.files[q.File]
	if f == nil {
		return fs.ErrInvalid
	}
	switch q.Op {
	case "truncate":
		if h.kinds[q.File] != kindFile {
			return nil
		}
		return f.Truncate(0)
	case "write":
		return h.write(f, q, a)
	case "sync":
		if h.kinds[q.File] != kindFile {
			return nil
		}
		return f.Sync()
	case "close":
		delete(h.files, q.File)
		return f.Close()
	}
	return fs.ErrInvalid
}

func (h *helper) open(q *request, a *reply) error {
	if old := h.files[q.File]; old != nil {
		_ = old.Close() // the number is used anew
		delete(h.files, q.File)
	}
	// Without O_NONBLOCK a pipe that nobody reads would hold up everything.
	f, err := os.OpenFile(q.Path, os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY, fs.FileMode(q.Perm))
	if errors.Is(err, fs.ErrNotExist) && q.Dirs {
		if err = os.MkdirAll(filepath.Dir(q.Path), 0o755); err == nil {
			f, err = os.OpenFile(q.Path, os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY, fs.FileMode(q.Perm))
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		// A file that its owner may write but not read.
		f, err = os.OpenFile(q.Path, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, fs.FileMode(q.Perm))
	}
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		_ = f.Close()
		return fs.ErrInvalid
	}
	a.Size, a.Dev, a.Ino = st.Size(), sys.Dev, sys.Ino
	const null = 1<<8 | 3 // the device's number
	switch {
	case st.Mode().IsRegular():
		a.Kind = kindFile
	case st.Mode()&fs.ModeCharDevice != 0 && sys.Rdev == null:
		a.Kind = kindNull
	default:
		a.Kind = kindOther
	}
	h.files[q.File], h.kinds[q.File] = f, a.Kind
	return nil
}

func (h *helper) write(f *os.File, q *request, a *reply) (err error) {
	switch h.kinds[q.File] {
	case kindNull:
		a.N = len(q.data)
		return nil
	case kindOther:
		_ = f.SetWriteDeadline(time.Now().Add(5 * time.Second)) // not all devices can
		a.N, err = f.Write(q.data)
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	a.Size = st.Size()
	if q.Tail >= 0 && a.Size != q.Tail {
		a.Moved = true
		return nil
	}
	skip := 0
	if q.Compare && q.Off < a.Size {
		skip, a.Moved = compare(f, q.data, q.Off)
		if a.Moved {
			a.N = skip
			return nil
		}
	}
	n, err := f.WriteAt(q.data[skip:], q.Off+int64(skip))
	a.N = skip + n
	return err
}

// compare finds how much of data is in the file already, written before a
// crash. Zeros are what a crash of the machine leaves of it; anything else is
// somebody else's.
func compare(f *os.File, data []byte, off int64) (skip int, foreign bool) {
	have := make([]byte, len(data))
	n, err := f.ReadAt(have, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false // can't be read: write over it
	}
	have = have[:n]
	for skip < n && have[skip] == data[skip] {
		skip++
	}
	return skip, len(bytes.Trim(have[skip:], "\x00")) > 0
}
