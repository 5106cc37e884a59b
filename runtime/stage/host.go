package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Dir is a job's submit directory on the controller's side.
type Dir struct {
	Path  string // absolute
	Owner asuser.Cred
	Job   uint32   // names what can't take its own name
	In    []string // patterns of --stage-in, empty: all
}

// Host serves submit directories to agents, each with its user's rights. Whether
// an agent may ask for a job's directory is the caller's to decide.
type Host struct {
	limits Limits

	mu    sync.Mutex
	users map[uint32]chan struct{} // by uid: one slot for each access at work
}

// perUser is how many accesses of one user are at work at once: a dead file
// server holds that many of our threads, no more.
const perUser = 8

// NewHost serves with the given limits.
func NewHost(l Limits) *Host { return &Host{limits: l, users: map[uint32]chan struct{}{}} }

// as runs do with the user's rights on their directory.
func (h *Host) as(ctx context.Context, d Dir, do func(*os.Root) error) error {
	h.mu.Lock()
	slots := h.users[d.Owner.UID]
	if slots == nil {
		slots = make(chan struct{}, perUser)
		h.users[d.Owner.UID] = slots
	}
	h.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-slots }()
	err := asuser.Do(&d.Owner, func() error {
		root, err := os.OpenRoot(d.Path)
		if err != nil {
			return err
		}
		defer root.Close() // read side
		return do(root)
	})
	if err != nil {
		return fmt.Errorf("work directory %s: %w", d.Path, err)
	}
	return nil
}

// List tells of everything that goes to the node, parents first. Files that the
// user can't read stay where they are. A directory that isn't there is empty, as
// Slurm starts a job whose directory is missing.
func (h *Host) List(ctx context.Context, d Dir, send func(*agentapi.FileInfo) error) error {
	files, bytes, opened := 0, int64(0), false
	err := h.as(ctx, d, func(root *os.Root) error {
		opened = true
		return walk(ctx, root, d.In, func(info *agentapi.FileInfo) error {
			if !readable(root, info) {
				return nil
			}
			files, bytes = files+1, bytes+int64(info.GetSize())
			if err := h.limits.check(files, bytes); err != nil {
				return err
			}
			return send(toWire(info))
		})
	})
	if !opened && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readable tries to open a file that not everybody may read.
func readable(root *os.Root, info *agentapi.FileInfo) bool {
	mode := fs.FileMode(info.GetMode())
	if !mode.IsRegular() || mode.Perm()&0o444 == 0o444 {
		return true
	}
	f, err := openFile(root, info.GetPath())
	if err != nil {
		return !errors.Is(err, fs.ErrPermission)
	}
	_ = f.Close() // nothing was read
	return true
}

// Stat looks at one name; one that isn't there has Exists false.
func (h *Host) Stat(ctx context.Context, d Dir, name string) (*agentapi.FileInfo, error) {
	name, err := fromWire(name)
	if err != nil {
		return nil, err
	}
	info := &agentapi.FileInfo{Path: name}
	err = h.as(ctx, d, func(root *os.Root) error {
		found, err := look(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			info = found
		}
		return err
	})
	return toWire(info), err
}

// Get sends a regular file from offset on in pieces.
func (h *Host) Get(ctx context.Context, d Dir, name string, offset int64, send func([]byte) error) error {
	name, err := fromWire(name)
	if err != nil {
		return err
	}
	var f *os.File
	err = h.as(ctx, d, func(root *os.Root) (err error) {
		f, err = openFile(root, name)
		return err
	})
	if err != nil {
		return err
	}
	defer f.Close() // read side
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	buf := make([]byte, agentapi.ChunkBytes)
	for {
		n, err := (&ctxReader{ctx, f}).Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Put takes one result. next gives a file's content piece by piece and io.EOF
// after the last; it isn't called for folders and links. What the user changed
// since the job's copy was made stays, and the result gets another name. The
// answer says which.
func (h *Host) Put(ctx context.Context, d Dir, info *agentapi.FileInfo, next func() ([]byte, error)) (*agentapi.FileInfo, error) {
	info, err := entryFromWire(info)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(info.GetMode())
	done := &agentapi.FileInfo{Path: info.GetPath(), Exists: true, Mode: info.GetMode(), Size: info.GetSize(), MtimeUnixNano: info.GetMtimeUnixNano()}
	switch mode.Type() {
	case fs.ModeDir:
		err = h.as(ctx, d, func(root *os.Root) error { return putDir(root, info.GetPath(), mode) })
	case fs.ModeSymlink:
		done.Sha256 = hashLink(info.GetLink())
		err = h.as(ctx, d, func(root *os.Root) error {
			var same bool
			if done.Path, same, err = free(ctx, root, d, info, done.Sha256); err != nil || same {
				return err
			}
			return link(root, info.GetLink(), done.Path)
		})
	case 0:
		err = h.putFile(ctx, d, info, next, done)
	default:
		err = fmt.Errorf("%s: %v: %w", info.GetPath(), mode, fs.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return toWire(done), nil
}

func putDir(root *os.Root, name string, mode fs.FileMode) error {
	if st, err := root.Stat(name); err == nil && st.IsDir() {
		return nil
	}
	if err := root.MkdirAll(name, 0o777); err != nil {
		return err
	}
	return root.Chmod(name, mode.Perm()|0o700)
}

func (h *Host) putFile(ctx context.Context, d Dir, info *agentapi.FileInfo, next func() ([]byte, error), done *agentapi.FileInfo) (err error) {
	var f *draft
	if err := h.as(ctx, d, func(root *os.Root) (err error) {
		f, err = newDraft(root, info.GetPath())
		return err
	}); err != nil {
		return err
	}
	defer func() {
		derr := h.as(context.WithoutCancel(ctx), d, f.drop)
		if err == nil {
			err = derr
		}
	}()
	if done.Sha256, err = receive(f.File, info, next); err != nil {
		return err
	}
	return h.as(ctx, d, func(root *os.Root) error {
		name, same, err := free(ctx, root, d, info, done.Sha256)
		if err != nil || same {
			return err
		}
		done.Path = name
		return f.place(root, name, fs.FileMode(info.GetMode()), info.GetMtimeUnixNano())
	})
}

// receive fills a file and brings it to the disk.
func receive(f *os.File, info *agentapi.FileInfo, next func() ([]byte, error)) (string, error) {
	sum := sha256.New()
	w := &sparse{f: f}
	for {
		data, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			_, err = io.MultiWriter(sum, w).Write(data)
		}
		if err != nil {
			return "", err
		}
	}
	if w.off != int64(info.GetSize()) {
		return "", fmt.Errorf("%s: %d bytes came of %d: %w", info.GetPath(), w.off, info.GetSize(), io.ErrUnexpectedEOF)
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	if want := info.GetSha256(); want != "" && want != hash {
		return "", fmt.Errorf("%s: content doesn't match its hash", info.GetPath())
	}
	if err := w.end(); err != nil {
		return "", err
	}
	return hash, f.Sync()
}

// free finds the name that a result may take: its own if what is there is what
// the job's copy was made of, else one beside it. same says that it is there
// already.
func free(ctx context.Context, root *os.Root, d Dir, info *agentapi.FileInfo, hash string) (name string, same bool, err error) {
	name = info.GetPath()
	for n := 1; ; n++ {
		now, err := hashEntry(ctx, root, name)
		switch {
		case err != nil:
			return "", false, err
		case now == hash:
			return name, true, nil
		case now == "", now == info.GetBaseSha256():
			return name, false, nil
		}
		name = fmt.Sprintf("%s.job-%d", info.GetPath(), d.Job)
		if n > 1 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
	}
}
