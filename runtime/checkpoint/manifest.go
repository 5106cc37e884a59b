package checkpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxManifest bounds what is read as a manifest, in bytes.
const maxManifest = 256 << 20

// Manifest describes one checkpoint: what it holds and where the bytes are.
type Manifest struct {
	Version int       `json:"version"` // of this format: 1
	Job     uint32    `json:"job"`
	Restart uint32    `json:"restart"`
	Number  uint32    `json:"number"` // 1, 2, ...
	Reason  string    `json:"reason"` // reclaim, preempt, interval or user
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir"` // the directory that was saved
	Files   []File    `json:"files"`
	Total   int64     `json:"total"`             // bytes of all regular files
	Sent    int64     `json:"sent"`              // bytes that were not in an older checkpoint
	Skipped []Path    `json:"skipped,omitempty"` // sockets, pipes and devices
	// SHA256 is the hash of the stored manifest, in hex. It isn't part of it.
	SHA256 string `json:"-"`
}

// Path is a slash separated path below the directory, "." for itself. Names
// that aren't UTF-8 survive JSON.
type Path string

// notText begins the JSON form of a path that isn't UTF-8.
const notText = "\x00base64:"

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return []byte(p), nil
	}
	return []byte(notText + base64.StdEncoding.EncodeToString([]byte(p))), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(text []byte) error {
	s := string(text)
	if enc, ok := strings.CutPrefix(s, notText); ok {
		raw, err := base64.StdEncoding.DecodeString(enc)
		if err != nil {
			return fmt.Errorf("path: %w", err)
		}
		s = string(raw)
	}
	*p = Path(s)
	return nil
}

// Kinds of a File.
const (
	KindFile    = "file"
	KindDir     = "dir"
	KindSymlink = "symlink"
)

// File is one entry of a checkpoint, parents before children.
type File struct {
	Path   Path      `json:"path"`
	Kind   string    `json:"kind"`
	Mode   uint32    `json:"mode"` // permission bits, with setuid, setgid and sticky
	Mtime  time.Time `json:"mtime"`
	Size   int64     `json:"size,omitempty"`
	SHA256 string    `json:"sha256,omitempty"`
	Target Path      `json:"target,omitempty"` // of a symlink
	Object string    `json:"object,omitempty"` // key below the job's, e.g. 000003/data/000012
}

// check refuses a manifest that would write outside its directory or read
// outside its job.
func (m *Manifest) check(jobID, number uint32) error {
	if m.Version != 1 {
		return fmt.Errorf("manifest version %d is unknown", m.Version)
	}
	if m.Job != jobID || m.Number != number {
		return fmt.Errorf("manifest is of job %d number %d", m.Job, m.Number)
	}
	for i, f := range m.Files {
		p := string(f.Path)
		if (i == 0) != (p == ".") || p != "." && !fs.ValidPath(strings.ToValidUTF8(p, "?")) {
			return fmt.Errorf("bad path %q", p)
		}
		switch f.Kind {
		case KindDir, KindSymlink:
		case KindFile:
			n, ok := numberOf(f.Object)
			if !ok || n > number || len(f.SHA256) != 64 || CheckKey(f.Object) != nil {
				return fmt.Errorf("bad entry for %q", p)
			}
		default:
			return fmt.Errorf("unknown kind of entry %q", f.Kind)
		}
	}
	return nil
}

func parseManifest(data []byte, jobID, number uint32) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if err := m.check(jobID, number); err != nil {
		return nil, err
	}
	return m, nil
}

// Keys below <cluster>/<job>/.
func numberKey(n uint32) string          { return fmt.Sprintf("%06d", n) }
func claimKey(n uint32) string           { return numberKey(n) + "/claim" }
func manifestKey(n uint32) string        { return numberKey(n) + "/manifest.json" }
func dataKey(n uint32, index int) string { return fmt.Sprintf("%06d/data/%06d", n, index) }
func runKey(restart uint32) string       { return fmt.Sprintf("run-%06d", restart) }
func isManifest(key string) bool         { return path.Base(key) == "manifest.json" }
func runOf(key string) (uint32, bool)    { return digits(key, "run-") }
func digits(s, p string) (uint32, bool)  { s, ok := strings.CutPrefix(s, p); return number(s, ok) }
func numberOf(key string) (uint32, bool) { n, _, ok := strings.Cut(key, "/"); return number(n, ok) }
func number(s string, ok bool) (uint32, bool) {
	if !ok || len(s) < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil
}
