package checkpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// transfers is how many files are on their way at once.
const transfers = 4

// errLocal marks faults on our own side, which asking the store again can't mend.
var errLocal = errors.New("local file")

// Spec says what to save.
type Spec struct {
	Restart uint32 // which run of the job saves
	Reason  string // reclaim, preempt, interval or user
	Dir     string // absolute
	Time    time.Time
	// Owner is whose rights the files are read with; nil is the process's.
	Owner *asuser.Cred
}

// Save stores a new checkpoint and returns its manifest. When it returns an
// error the checkpoint is not complete, and the number is not used again.
// ErrOld is returned when a later run of the job has begun.
func (s *Set) Save(ctx context.Context, spec Spec) (*Manifest, error) {
	m, err := s.save(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("save checkpoint of %s: %w", spec.Dir, err)
	}
	return m, nil
}

func (s *Set) save(ctx context.Context, spec Spec) (*Manifest, error) {
	v, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if v.begun && v.run > spec.Restart {
		return nil, ErrOld
	}
	known := map[string]File{} // by hash: what needn't be sent
	sizes := map[int64]bool{}
	prev, err := s.newest(ctx, v)
	switch {
	case err == nil && prev.Restart > spec.Restart:
		return nil, ErrOld
	case err == nil:
		for _, f := range prev.Files {
			if f.Kind == KindFile {
				known[f.SHA256], sizes[f.Size] = f, true
			}
		}
	case !errors.Is(err, ErrNone):
		return nil, err
	}
	num, err := s.claim(ctx, v, spec.Restart, rand.Text())
	if err != nil {
		return nil, err
	}
	m := &Manifest{
		Version: 1, Job: s.job, Restart: spec.Restart, Number: num, Reason: spec.Reason,
		Time: spec.Time.UTC(), Dir: spec.Dir,
	}
	p := &packer{set: s, m: m, known: known, sizes: sizes}
	// The walk and the opening happen with the user's rights; sending what is
	// open happens on other goroutines.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	if err := asuser.Do(spec.Owner, func() error { return p.walk(gctx, g, spec.Dir) }); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		m.Total += f.Size
		if n, _ := numberOf(f.Object); n == num {
			m.Sent += f.Size
		}
	}
	return m, s.finish(ctx, m)
}

// finish writes the manifest, unless a later run has begun meanwhile.
func (s *Set) finish(ctx context.Context, m *Manifest) error {
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	if v.begun && v.run > m.Restart {
		return ErrOld
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	m.SHA256 = hex.EncodeToString(sum[:])
	return retry(ctx, func() error {
		return s.store.Put(ctx, s.prefix+manifestKey(m.Number), bytes.NewReader(data), int64(len(data)))
	})
}

// packer collects one checkpoint. files grows on the walking goroutine; each
// upload writes only its own entry.
type packer struct {
	set   *Set
	m     *Manifest
	known map[string]File
	sizes map[int64]bool
}

func (p *packer) walk(ctx context.Context, g *errgroup.Group, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() // read side
	var list []*File
	err = p.visit(ctx, g, root, ".", &list)
	// The uploads fill the entries.
	if gerr := g.Wait(); gerr != nil {
		return gerr
	}
	for _, f := range list {
		p.m.Files = append(p.m.Files, *f)
	}
	return err
}

// visit adds one name and what is below it. What vanishes meanwhile is left out.
func (p *packer) visit(ctx context.Context, g *errgroup.Group, root *os.Root, name string, list *[]*File) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := p.add(ctx, g, root, name, list)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		return nil
	}
	return err
}

func (p *packer) add(ctx context.Context, g *errgroup.Group, root *os.Root, name string, list *[]*File) error {
	st, err := root.Lstat(name)
	if err != nil {
		return err
	}
	f := &File{Path: Path(name), Mode: unixMode(st.Mode()), Mtime: st.ModTime().UTC()}
	switch st.Mode().Type() {
	case fs.ModeDir:
		f.Kind = KindDir
		*list = append(*list, f)
		return p.below(ctx, g, root, name, list)
	case fs.ModeSymlink:
		to, err := root.Readlink(name)
		if err != nil {
			return err
		}
		f.Kind, f.Target = KindSymlink, Path(to)
	case 0:
		h, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f.Kind = KindFile
		key := dataKey(p.m.Number, len(*list))
		g.Go(func() error {
			defer h.Close() // read side
			return p.file(ctx, f, h, key)
		})
	default:
		p.m.Skipped = append(p.m.Skipped, Path(name))
		return nil
	}
	*list = append(*list, f)
	return nil
}

func (p *packer) below(ctx context.Context, g *errgroup.Group, root *os.Root, name string, list *[]*File) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // read side
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := p.visit(ctx, g, root, path.Join(name, n), list); err != nil {
			return err
		}
	}
	return nil
}

// file sends one open file, or finds that an older object holds its content.
func (p *packer) file(ctx context.Context, f *File, h *os.File, key string) error {
	if st, err := h.Stat(); err == nil && p.sizes[st.Size()] {
		sum := sha256.New()
		if _, err := io.Copy(sum, &ctxReader{ctx, h}); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if old, ok := p.known[hex.EncodeToString(sum.Sum(nil))]; ok && old.Size == st.Size() {
			f.Size, f.SHA256, f.Object = old.Size, old.SHA256, old.Object
			return nil
		}
	}
	// A file that shrinks while it is sent is sent again as it is then.
	for tries := 0; ; tries++ {
		err := retry(ctx, func() error { return p.send(ctx, f, h, key) })
		if !errors.Is(err, errLocal) || tries == 3 || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("%s: %w", path.Join(p.m.Dir, string(f.Path)), err)
			}
			return nil
		}
	}
}

func (p *packer) send(ctx context.Context, f *File, h *os.File, key string) error {
	st, err := h.Stat()
	if err == nil {
		_, err = h.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	ctx, touch, stop := watched(ctx)
	defer stop()
	r := &hashReader{r: touching{io.LimitReader(h, st.Size()), touch}, want: st.Size(), sum: sha256.New()}
	if err := p.set.store.Put(ctx, p.set.prefix+key, r, st.Size()); err != nil {
		if r.err != nil {
			return fmt.Errorf("%w: %w", errLocal, r.err)
		}
		return err
	}
	if r.n != st.Size() {
		return fmt.Errorf("%w: %d bytes read of %d", errLocal, r.n, st.Size())
	}
	f.Size, f.Mtime, f.Object = st.Size(), st.ModTime().UTC(), key
	f.SHA256 = hex.EncodeToString(r.sum.Sum(nil))
	return nil
}

// hashReader hashes what passes and turns an early end into an error, so that
// a store never takes half a file for a whole one.
type hashReader struct {
	r    io.Reader
	sum  hash.Hash
	n    int64
	want int64
	err  error // of the file, not of the store
}

func (h *hashReader) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	h.n += int64(n)
	h.sum.Write(b[:n]) // never fails
	if errors.Is(err, io.EOF) && h.n < h.want {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		h.err = err
	}
	return n, err
}

func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&flag != 0 {
			mode |= bit
		}
	}
	return mode
}

func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}
