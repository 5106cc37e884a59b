package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Link is the part of the agent link that reaches a job's submit directory.
type Link interface {
	Walk(ctx context.Context, prefix string, visit func(*agentapi.FileInfo) error) error
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	PutFile(ctx context.Context, info *agentapi.FileInfo, r io.Reader) error
}

// Copy is a job's work directory on the node.
type Copy struct {
	Dir   string       // absolute; exists and belongs to the user
	Owner *asuser.Cred // nil: the process's own rights
	// State is a file, out of the user's reach, that remembers what was given.
	State   string
	In, Out []string // patterns of --stage-in and --stage-out, empty: all
}

// transfers is how many files are on their way at once.
const transfers = 8

// given is what the node got of one entry, by path.
type given struct {
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime"` // nanoseconds since 1970, as it is on the node's disk
	SHA256 string `json:"sha256"`
}

// In fills a work directory. It may be repeated; what came over whole is not
// fetched again.
func In(ctx context.Context, c Copy, l Link) error {
	if err := in(ctx, c, l); err != nil {
		return fmt.Errorf("stage in %s: %w", c.Dir, err)
	}
	return nil
}

func in(ctx context.Context, c Copy, l Link) error {
	var list []*agentapi.FileInfo
	err := l.Walk(ctx, "", func(info *agentapi.FileInfo) error {
		info, err := entryFromWire(info)
		if err != nil {
			return err
		}
		if wanted(c.In, info.GetPath(), fs.FileMode(info.GetMode()).IsDir()) {
			list = append(list, info)
		}
		return nil
	})
	if err != nil {
		return err
	}
	before, err := loadState(c.State)
	if err != nil {
		return err
	}
	f := &fetcher{c: c, l: l, got: map[string]given{}, before: before}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	for _, info := range list {
		switch fs.FileMode(info.GetMode()).Type() {
		case fs.ModeDir:
			f.note(info.GetPath(), given{SHA256: "dir"})
			err = f.as(func(root *os.Root) error { return root.MkdirAll(info.GetPath(), 0o700) })
		case fs.ModeSymlink:
			f.note(info.GetPath(), given{Mtime: info.GetMtimeUnixNano(), SHA256: hashLink(info.GetLink())})
			err = f.as(func(root *os.Root) error { return link(root, info.GetLink(), info.GetPath()) })
		case 0:
			g.Go(func() error { return f.fetch(gctx, info) })
		}
		if err != nil || gctx.Err() != nil {
			break
		}
	}
	if gerr := g.Wait(); gerr != nil {
		err = gerr
	}
	// What came over is remembered also when not all did.
	if serr := saveState(c.State, f.got); err == nil {
		err = serr
	}
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if info := list[i]; fs.FileMode(info.GetMode()).IsDir() {
			err := f.as(func(root *os.Root) error {
				return dress(root, info.GetPath(), fs.FileMode(info.GetMode())|0o700, info.GetMtimeUnixNano())
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

type fetcher struct {
	c      Copy
	l      Link
	before map[string]given

	mu  sync.Mutex
	got map[string]given
}

func (f *fetcher) note(name string, g given) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got[name] = g
}

func (f *fetcher) as(do func(*os.Root) error) error { return f.c.as(do) }

func (c Copy) as(do func(*os.Root) error) error {
	return asuser.Do(c.Owner, func() error {
		root, err := os.OpenRoot(c.Dir)
		if err != nil {
			return err
		}
		defer root.Close() // read side
		return do(root)
	})
}

// fetch brings one file.
func (f *fetcher) fetch(ctx context.Context, info *agentapi.FileInfo) error {
	name := info.GetPath()
	if old, ok := f.before[name]; ok && old.Size == int64(info.GetSize()) && old.Mtime == info.GetMtimeUnixNano() {
		err := f.as(func(root *os.Root) error {
			now, err := look(root, name)
			if err == nil && (int64(now.GetSize()) != old.Size || now.GetMtimeUnixNano() != old.Mtime) {
				err = fs.ErrNotExist
			}
			return err
		})
		if err == nil {
			f.note(name, old)
			return nil
		}
	}
	var out *draft
	if err := f.as(func(root *os.Root) (err error) { out, err = newDraft(root, name); return err }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	hash, size, err := f.receive(ctx, name, out.File)
	err = f.as(func(root *os.Root) error {
		perr := err
		if perr == nil {
			perr = out.place(root, name, fs.FileMode(info.GetMode()), info.GetMtimeUnixNano())
		}
		return errors.Join(perr, out.drop(root))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the user removed it since it was listed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.note(name, given{Size: size, Mtime: info.GetMtimeUnixNano(), SHA256: hash})
	return nil
}

// receive fills a file from the link.
func (f *fetcher) receive(ctx context.Context, name string, out *os.File) (hash string, size int64, err error) {
	r, err := f.l.Get(ctx, wireText(name))
	if err != nil {
		return "", 0, err
	}
	defer r.Close() // read side
	sum := sha256.New()
	w := &sparse{f: out}
	if _, err := io.Copy(io.MultiWriter(sum, w), &ctxReader{ctx, r}); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(sum.Sum(nil)), w.off, w.end()
}

// Out brings back what the job made or changed, and says how much that was. It
// may be repeated, also while the job runs: only what is new since the last time
// goes over. One file that can't be brought back doesn't hold up the others.
func Out(ctx context.Context, c Copy, l Link) (files int, bytes int64, err error) {
	base, err := loadState(c.State)
	if err != nil {
		return 0, 0, fmt.Errorf("stage out %s: %w", c.Dir, err)
	}
	s := &sender{c: c, l: l, base: base}
	if err := s.run(ctx); err != nil {
		return s.files, s.bytes, fmt.Errorf("stage out %s: %w", c.Dir, err)
	}
	return s.files, s.bytes, nil
}

type sender struct {
	c Copy
	l Link

	mu    sync.Mutex
	base  map[string]given
	files int
	bytes int64
	errs  []error
}

func (s *sender) run(ctx context.Context) error {
	var list []*agentapi.FileInfo
	err := s.c.as(func(root *os.Root) error {
		return walk(ctx, root, s.c.Out, func(info *agentapi.FileInfo) error {
			list = append(list, info)
			return nil
		})
	})
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	inner := map[string]bool{} // folders that come with what they hold
	for _, info := range list {
		inner[path.Dir(info.GetPath())] = true
		s.mu.Lock()
		old, had := s.base[info.GetPath()]
		s.mu.Unlock()
		mode := fs.FileMode(info.GetMode())
		if mode.IsDir() {
			continue
		}
		if had && mode.IsRegular() && old.Size == int64(info.GetSize()) && old.Mtime == info.GetMtimeUnixNano() {
			continue
		}
		g.Go(func() error { return s.send(gctx, info) })
	}
	if err := g.Wait(); err != nil {
		return errors.Join(err, s.save())
	}
	for _, info := range list {
		if fs.FileMode(info.GetMode()).IsDir() && !inner[info.GetPath()] {
			if _, had := s.base[info.GetPath()]; !had {
				s.one(ctx, info, nil, "dir")
			}
		}
	}
	return errors.Join(append(s.errs, s.save())...)
}

// save remembers what was brought back, so that it isn't again.
func (s *sender) save() error { return saveState(s.c.State, s.base) }

// send brings back one file or link, if its content differs from what was given.
func (s *sender) send(ctx context.Context, info *agentapi.FileInfo) error {
	if fs.FileMode(info.GetMode()).Type() == fs.ModeSymlink {
		s.one(ctx, info, nil, hashLink(info.GetLink()))
		return ctx.Err()
	}
	var f *os.File
	err := s.c.as(func(root *os.Root) (err error) { f, err = openFile(root, info.GetPath()); return err })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the job still runs, and took it away
	}
	if err != nil {
		s.failed(info, err)
		return ctx.Err()
	}
	defer f.Close() // read side
	hash, err := hashFile(ctx, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.failed(info, err)
		return ctx.Err()
	}
	s.one(ctx, info, f, hash)
	return ctx.Err()
}

// one puts an entry on the submit side. A file that changes meanwhile fails, as
// its hash says, and goes with the next time.
func (s *sender) one(ctx context.Context, info *agentapi.FileInfo, f *os.File, hash string) {
	now := given{Size: int64(info.GetSize()), Mtime: info.GetMtimeUnixNano(), SHA256: hash}
	s.mu.Lock()
	old, had := s.base[info.GetPath()]
	s.mu.Unlock()
	if !had || old.SHA256 != hash {
		info.BaseSha256 = old.SHA256
		var r io.Reader
		if f != nil {
			info.Sha256 = hash
			r = io.LimitReader(f, int64(info.GetSize()))
		}
		if err := s.l.PutFile(ctx, toWire(info), r); err != nil {
			s.failed(info, err)
			return
		}
		s.mu.Lock()
		s.files, s.bytes = s.files+1, s.bytes+int64(info.GetSize())
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.base[info.GetPath()] = now
	s.mu.Unlock()
}

func (s *sender) failed(info *agentapi.FileInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) < 10 {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", info.GetPath(), err))
	}
}

func loadState(name string) (map[string]given, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]given{}, nil
	}
	if err != nil {
		return nil, err
	}
	stored, m := map[string]given{}, map[string]given{}
	err = json.Unmarshal(data, &stored)
	for k, g := range stored {
		path, perr := realText(k)
		err = errors.Join(err, perr)
		m[path] = g
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func saveState(name string, m map[string]given) error {
	stored := make(map[string]given, len(m))
	for k, g := range m {
		stored[wireText(k)] = g // JSON is text
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	temp := name + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, name)
}
