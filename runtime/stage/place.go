package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// draft is a file that is being written and has no name that anybody takes for
// a result: none at all where the file system can do that, so that a crash
// leaves nothing behind.
type draft struct {
	*os.File
	dir  *os.File // where it will be
	temp string   // its name in the root, empty: none yet
	name string
}

// newDraft begins a file that will be name. The folders that lead there are made.
func newDraft(root *os.Root, name string) (*draft, error) {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return nil, err
	}
	d := &draft{dir: dir, name: name}
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		d.File = os.NewFile(uintptr(fd), name)
		return d, nil
	}
	d.temp = tempName(name)
	if d.File, err = root.OpenFile(d.temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return d, nil
}

func tempName(name string) string {
	return path.Join(path.Dir(name), fmt.Sprintf(".sbatchd-%016x", rand.Uint64()))
}

// place gives the file its mode, time and name, replacing what has it.
func (d *draft) place(root *os.Root, name string, mode fs.FileMode, mtime int64) error {
	if d.temp == "" {
		temp := tempName(d.name)
		err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", d.Fd()), int(d.dir.Fd()), path.Base(temp), unix.AT_SYMLINK_FOLLOW)
		if err != nil {
			return &fs.PathError{Op: "link", Path: name, Err: err}
		}
		d.temp = temp
	}
	if err := dress(root, d.temp, mode, mtime); err != nil {
		return err
	}
	if err := root.Rename(d.temp, name); err != nil {
		return err
	}
	d.temp = ""
	return nil
}

// drop ends the work on a file, and removes it unless it was placed.
func (d *draft) drop(root *os.Root) error {
	err := errors.Join(d.Close(), d.dir.Close())
	if d.temp != "" {
		err = errors.Join(err, root.Remove(d.temp))
	}
	return err
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
		temp := tempName(name)
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
