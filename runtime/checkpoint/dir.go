package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

// tempMark begins the names of files that are not yet objects.
const tempMark = ".partial-"

// Dir is a Store in a local folder. An object is on the disk (fsync) when Put
// returns, and appears by a rename.
type Dir struct{ root string }

// NewDir makes the folder when it is missing, readable by its owner alone.
func NewDir(root string) (*Dir, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	return &Dir{root: root}, nil
}

func (d *Dir) file(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	if strings.HasPrefix(path.Base(key), tempMark) {
		return "", fmt.Errorf("bad object key %q", key)
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// Put implements Store.
func (d *Dir) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return d.write(ctx, key, r, size, os.Rename)
}

// Create implements Store: the last step is a link, which fails when the name
// is taken.
func (d *Dir) Create(ctx context.Context, key string, data []byte) error {
	return d.write(ctx, key, bytes.NewReader(data), int64(len(data)), func(tmp, name string) error {
		err := os.Link(tmp, name)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", key, ErrExists)
		}
		if err != nil {
			return err
		}
		return os.Remove(tmp)
	})
}

func (d *Dir) write(ctx context.Context, key string, r io.Reader, size int64, place func(tmp, name string) error) (err error) {
	name, err := d.file(key)
	if err != nil {
		return err
	}
	parent := filepath.Dir(name)
	if err := mkdirSynced(d.root, parent); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	f, err := os.CreateTemp(parent, tempMark)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to tell
		}
	}()
	n, err := io.Copy(f, &ctxReader{ctx, r})
	if err == nil && n != size {
		err = fmt.Errorf("got %d bytes of %d", n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = place(f.Name(), name)
	}
	if err == nil {
		err = atomicfile.Sync(parent)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// mkdirSynced makes dir below root and syncs each folder that got an entry.
func mkdirSynced(root, dir string) error {
	if _, err := os.Stat(dir); err == nil || dir == root {
		return err
	}
	parent := filepath.Dir(dir)
	if err := mkdirSynced(root, parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return atomicfile.Sync(parent)
}

// Get implements Store.
func (d *Dir) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	name, err := d.file(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, notFound(key, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{&ctxReader{ctx, f}, f}, nil
}

// Stat implements Store.
func (d *Dir) Stat(_ context.Context, key string) (Object, error) {
	name, err := d.file(key)
	if err != nil {
		return Object{}, err
	}
	st, err := os.Stat(name)
	if err == nil && !st.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Object{}, notFound(key, err)
	}
	return Object{Key: key, Size: st.Size(), Modified: st.ModTime()}, nil
}

// List implements Store.
func (d *Dir) List(ctx context.Context, prefix string) ([]Object, error) {
	under := path.Dir(prefix + "x")
	if under != "." {
		if err := CheckKey(under); err != nil {
			return nil, err
		}
	}
	var list []Object
	err := filepath.WalkDir(filepath.Join(d.root, under), func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile, or nothing there yet
		}
		if err != nil {
			return err
		}
		if e.IsDir() || strings.HasPrefix(e.Name(), tempMark) {
			return ctx.Err()
		}
		rel, err := filepath.Rel(d.root, name)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if !strings.HasPrefix(key, prefix) {
			return nil
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		list = append(list, Object{Key: key, Size: st.Size(), Modified: st.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Delete implements Store, and removes the folders that it leaves empty.
func (d *Dir) Delete(_ context.Context, key string) error {
	name, err := d.file(key)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	for dir := filepath.Dir(name); dir != d.root; dir = filepath.Dir(dir) {
		d.sweep(dir)
		if os.Remove(dir) != nil {
			break // still in use, the common case
		}
	}
	return nil
}

// sweep removes what interrupted writes left, if nothing else is in dir.
func (d *Dir) sweep(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return // the folder is gone
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), tempMark) {
			return
		}
	}
	for _, e := range list {
		_ = os.Remove(filepath.Join(dir, e.Name())) // only litter: the next sweep tries again
	}
}

func notFound(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return fmt.Errorf("%s: %w", key, err)
}

// ctxReader ends a copy when its context ends.
type ctxReader struct {
	ctx context.Context // lives for one copy
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
