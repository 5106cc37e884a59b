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

	"golang.org/x/sync/errgroup"
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
		err := (&placing{s, m, t.Owner}).place(ctx, t.Dir)
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

// placing is one checkpoint being put back. Local files are touched with the
// owner's rights, the store with the process's.
type placing struct {
	*Set
	m     *Manifest
	owner *asuser.Cred
}

func (p *placing) as(do func() error) error { return asuser.Do(p.owner, do) }

// place fills a folder beside dir and exchanges the two.
func (p *placing) place(ctx context.Context, dir string) error {
	var temp string
	err := p.as(func() error {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		temp = filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".restoring")
		if err := clear(temp); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		return os.Mkdir(temp, 0o700)
	})
	if err != nil {
		return err
	}
	err = p.fill(ctx, temp)
	return p.as(func() error {
		if err == nil {
			err = exchange(temp, dir)
		}
		return errors.Join(err, clear(temp))
	})
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

func (p *placing) fill(ctx context.Context, dir string) error {
	var root *os.Root
	if err := p.as(func() (err error) { root, err = os.OpenRoot(dir); return err }); err != nil {
		return err
	}
	defer root.Close() // read side
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	for _, f := range p.m.Files {
		err := gctx.Err()
		switch {
		case err != nil:
		case f.Kind == KindDir && f.Path != ".":
			err = p.as(func() error { return root.Mkdir(string(f.Path), 0o700) })
		case f.Kind == KindSymlink:
			err = p.as(func() error { return root.Symlink(string(f.Target), string(f.Path)) })
		case f.Kind == KindFile:
			g.Go(func() error { return retry(gctx, func() error { return p.fetch(gctx, root, f) }) })
		}
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%q twice: %w", f.Path, ErrDamaged)
		}
		if err != nil {
			if gerr := g.Wait(); gerr != nil {
				return gerr
			}
			return err
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	// Folders last and from the leaves up: making a file changes their times,
	// and a mode may forbid it.
	return p.as(func() error {
		for i := len(p.m.Files) - 1; i >= 0; i-- {
			if f := p.m.Files[i]; f.Kind == KindDir {
				if err := dress(root, f); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func dress(root *os.Root, f File) error {
	if err := root.Chtimes(string(f.Path), f.Mtime, f.Mtime); err != nil {
		return err
	}
	return root.Chmod(string(f.Path), goMode(f.Mode))
}

// fetch writes one file and checks it against the manifest.
func (p *placing) fetch(ctx context.Context, root *os.Root, f File) error {
	local := func(do func() error) error {
		if err := p.as(do); err != nil {
			return fmt.Errorf("%w: %w", errLocal, err)
		}
		return nil
	}
	var out *os.File
	err := local(func() error {
		err := root.Remove(string(f.Path)) // of the try before
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			out, err = root.OpenFile(string(f.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = p.copyObject(ctx, out, f)
	if cerr := out.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("%w: %w", errLocal, cerr)
	}
	if err != nil {
		return err
	}
	return local(func() error { return dress(root, f) })
}

func (s *Set) copyObject(ctx context.Context, out *os.File, f File) error {
	ctx, touch, stop := watched(ctx)
	defer stop()
	in, err := s.store.Get(ctx, s.prefix+f.Object)
	if err == nil {
		defer in.Close() // read side
		sum := sha256.New()
		w := &localWriter{w: out}
		var n int64
		n, err = io.Copy(io.MultiWriter(sum, w), touching{io.LimitReader(in, f.Size+1), touch})
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
