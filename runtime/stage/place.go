package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"time"
)

// temporary opens a new file beside name that nobody takes for a result. The
// folders that lead there are made.
func temporary(root *os.Root, name string) (*os.File, string, error) {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return nil, "", err
		}
	}
	for {
		temp := path.Join(path.Dir(name), fmt.Sprintf(".sbatchd-%08x", rand.Uint32()))
		f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, temp, err
		}
	}
}

// dress gives a file or folder its mode and time.
func dress(root *os.Root, name string, mode fs.FileMode, mtime int64) error {
	if err := root.Chmod(name, mode.Perm()); err != nil {
		return err
	}
	when := time.Unix(0, mtime)
	return root.Chtimes(name, when, when)
}

// link makes a symlink appear in one step.
func link(root *os.Root, target, name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	for {
		temp := path.Join(path.Dir(name), fmt.Sprintf(".sbatchd-%08x", rand.Uint32()))
		err := root.Symlink(target, temp)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := root.Rename(temp, name); err != nil {
			return errors.Join(err, root.Remove(temp))
		}
		return nil
	}
}

// sparse writes to a file and leaves out blocks of zeros.
type sparse struct {
	f   *os.File
	off int64
}

const hole = 4096

func (s *sparse) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, hole-int(s.off%hole))
		piece := p[done : done+n]
		if n < hole || !zero(piece) {
			if _, err := s.f.WriteAt(piece, s.off); err != nil {
				return done, err
			}
		}
		done += n
		s.off += int64(n)
	}
	return len(p), nil
}

// end gives the file its size, if it ends in a hole.
func (s *sparse) end() error { return s.f.Truncate(s.off) }

func zero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
