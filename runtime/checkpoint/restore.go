package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Target says where a checkpoint is put back.
type Target struct {
	Dir string // absolute; replaced as a whole
	// Owner is whose rights the files are made with, so who owns them; nil is
	// the process's.
	Owner *asuser.Cred
}

// Restore puts the newest complete and sound checkpoint back, every hash
// checked, and returns its manifest. A damaged one is passed over for the one
// before. Until all is there the directory stays as it was. ErrNone says that
// there is nothing to restore; then nothing changed.
func (s *Set) Restore(ctx context.Context, t Target) (*Manifest, error) {
	v, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("restore to %s: %w", t.Dir, err)
	}
	var found *Manifest
	err = s.walk(ctx, v, func(m *Manifest) (bool, error) {
		err := asuser.Do(t.Owner, func() error { return s.place(ctx, m, t.Dir) })
		if errors.Is(err, ErrDamaged) {
			s.log.Warn("checkpoint is damaged, trying the one before", "number", m.Number, "err", err)
			return false, nil
		}
		found = m
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("restore to %s: %w", t.Dir, err)
	}
	if found == nil {
		return nil, ErrNone
	}
	return found, nil
}

// place fills a folder beside dir and exchanges the two.
func (s *Set) place(ctx context.Context, m *Manifest, dir string) error {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	temp := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".restoring")
	if err := clear(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	err := s.fill(ctx, m, temp)
	if err == nil {
		err = exchange(temp, dir)
	}
	return errors.Join(err, clear(temp))
}

// clear removes a folder whatever its modes.
func clear(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(name, 0o700) // RemoveAll tells if it was in vain
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// exchange puts temp where dir is. What was there is in temp afterwards.
func exchange(temp, dir string) error {
	if err := os.Rename(temp, dir); err == nil {
		return nil // nothing, or an empty folder, was there
	}
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if err == nil {
		return nil
	}
	// A file system without exchange: a cut between the two is mended by the
	// next Restore.
	old := temp + ".old"
	if err := clear(old); err != nil {
		return err
	}
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return clear(old)
}

func (s *Set) fill(ctx context.Context, m *Manifest, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read side
	for _, f := range m.Files {
		name := string(f.Path)
		switch f.Kind {
		case KindDir:
			if name != "." {
				err = root.Mkdir(name, 0o700)
			}
		case KindSymlink:
			err = root.Symlink(string(f.Target), name)
		case KindFile:
			err = retry(ctx, func() error { return s.fetch(ctx, root, f) })
		}
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%q twice: %w", name, ErrDamaged)
		}
		if err != nil {
			return err
		}
	}
	// Folders last and from the leaves up: making a file changes their times,
	// and a mode may forbid it.
	for i := len(m.Files) - 1; i >= 0; i-- {
		f := m.Files[i]
		if f.Kind != KindDir {
			continue
		}
		if err := dress(root, f); err != nil {
			return err
		}
	}
	return nil
}

func dress(root *os.Root, f File) error {
	if err := root.Chtimes(string(f.Path), f.Mtime, f.Mtime); err != nil {
		return err
	}
	return root.Chmod(string(f.Path), goMode(f.Mode))
}

// fetch writes one file and checks it against the manifest.
func (s *Set) fetch(ctx context.Context, root *os.Root, f File) error {
	local := func(err error) error { return fmt.Errorf("%w: %w", errLocal, err) }
	if err := root.Remove(string(f.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return local(err)
	}
	out, err := root.OpenFile(string(f.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return local(err)
	}
	werr := s.copyObject(ctx, out, f)
	if err := out.Close(); werr == nil && err != nil {
		werr = local(err)
	}
	if werr == nil {
		if err := dress(root, f); err != nil {
			werr = local(err)
		}
	}
	return werr
}

func (s *Set) copyObject(ctx context.Context, out *os.File, f File) error {
	in, err := s.store.Get(ctx, s.prefix+f.Object)
	if err == nil {
		defer in.Close() //nolint:errcheck // read side
		sum := sha256.New()
		w := &localWriter{w: out}
		var n int64
		n, err = io.Copy(io.MultiWriter(sum, w), io.LimitReader(in, f.Size+1))
		switch {
		case w.err != nil:
			return fmt.Errorf("%w: %w", errLocal, w.err)
		case err == nil && (n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256):
			return fmt.Errorf("%s: %s doesn't match its hash: %w: %w", f.Path, f.Object, ErrDamaged, errLocal)
		}
	}
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s: %w: %w", f.Path, err, ErrDamaged)
	}
	return err
}

// localWriter remembers that it was the disk, not the store, that failed.
type localWriter struct {
	w   io.Writer
	err error
}

func (l *localWriter) Write(b []byte) (int, error) {
	n, err := l.w.Write(b)
	if err != nil {
		l.err = err
	}
	return n, err
}
