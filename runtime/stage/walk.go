package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// walk visits what is below a directory, parents first and in name order, "."
// left out. Pipes, sockets and devices are passed over, and so is what vanishes
// meanwhile or can't be entered by the user.
func walk(ctx context.Context, root *os.Root, patterns []string, visit func(*agentapi.FileInfo) error) error {
	return walkDir(ctx, root, ".", patterns, visit)
}

func walkDir(ctx context.Context, root *os.Root, dir string, patterns []string, visit func(*agentapi.FileInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := root.Open(dir)
	if dir != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // read side
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, base := range names {
		name := path.Join(dir, base)
		if ignored(name) {
			continue
		}
		info, err := look(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		mode := fs.FileMode(info.GetMode())
		if t := mode.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink || !wanted(patterns, name, mode.IsDir()) {
			continue
		}
		if err := visit(info); err != nil {
			return err
		}
		if mode.IsDir() {
			if err := walkDir(ctx, root, name, patterns, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// look describes one name, itself and not what it points to.
func look(root *os.Root, name string) (*agentapi.FileInfo, error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	info := &agentapi.FileInfo{Path: name, Exists: true, Mode: uint32(st.Mode()), MtimeUnixNano: st.ModTime().UnixNano()}
	switch st.Mode().Type() {
	case 0:
		info.Size = uint64(st.Size())
	case fs.ModeSymlink:
		if info.Link, err = root.Readlink(name); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// openFile opens a regular file for reading; anything else is refused without
// waiting for it.
func openFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// hashLink is what a symlink's content counts as.
func hashLink(target string) string {
	sum := sha256.Sum256([]byte("link\x00" + target))
	return hex.EncodeToString(sum[:])
}

// hashEntry is the hash of what is at a name now: a file's content or a link's
// target; empty for nothing, "dir" for a folder.
func hashEntry(ctx context.Context, root *os.Root, name string) (string, error) {
	info, err := look(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	switch fs.FileMode(info.GetMode()).Type() {
	case fs.ModeDir:
		return "dir", nil
	case fs.ModeSymlink:
		return hashLink(info.GetLink()), nil
	}
	f, err := openFile(root, name)
	if err != nil {
		return "", err
	}
	defer f.Close() // read side
	return hashFile(ctx, f)
}

func hashFile(ctx context.Context, f io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, &ctxReader{ctx, f}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
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
