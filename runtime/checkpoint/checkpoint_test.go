package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
)

const cluster = "11111111-2222-3333-4444-555555555555"

var quiet = slog.New(slog.DiscardHandler)

// faulty is a store whose writes fail from the cut-th on, as if the power went.
type faulty struct {
	checkpoint.Store
	mu   sync.Mutex
	left int // writes that still work; negative is no limit
	keys []string
}

var errCut = errors.New("cut")

func (f *faulty) write(key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return errCut
	}
	f.left--
	f.keys = append(f.keys, key)
	return nil
}

func (f *faulty) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := f.write(key); err != nil {
		return err
	}
	return f.Store.Put(ctx, key, r, size)
}

func (f *faulty) Create(ctx context.Context, key string, data []byte) error {
	if err := f.write(key); err != nil {
		return err
	}
	return f.Store.Create(ctx, key, data)
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	if err := f.write(key); err != nil {
		return err
	}
	return f.Store.Delete(ctx, key)
}

func newDir(t *testing.T) (checkpoint.Store, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	d, err := checkpoint.NewDir(root)
	if err != nil {
		t.Fatal(err)
	}
	return d, root
}

func spec(dir string, restart uint32) checkpoint.Spec {
	return checkpoint.Spec{Restart: restart, Reason: "interval", Dir: dir, Time: time.Unix(1700000000, 0)}
}

// fill makes a directory with every kind of entry.
func fill(t *testing.T, dir, content string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a", "empty"), 0o750))
	must(os.WriteFile(filepath.Join(dir, "model.bin"), bytes.Repeat([]byte(content), 5000), 0o640))
	must(os.WriteFile(filepath.Join(dir, "a", "epoch"), []byte(content), 0o600))
	must(os.WriteFile(filepath.Join(dir, "a", "same"), []byte("always the same"), 0o444))
	must(os.WriteFile(filepath.Join(dir, "none"), nil, 0o644))
	must(os.WriteFile(filepath.Join(dir, "odd\xffname\n"), []byte("x"), 0o644))
	_ = os.Remove(filepath.Join(dir, "latest"))
	must(os.Symlink("model.bin", filepath.Join(dir, "latest")))
	when := time.Unix(1600000000, 123456789)
	must(os.Chtimes(filepath.Join(dir, "model.bin"), when, when))
}

// tree is a directory as text, one line an entry.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		st, err := e.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %v %d", rel, st.Mode(), st.ModTime().UnixNano())
		switch st.Mode().Type() {
		case 0:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", data)
		case fs.ModeSymlink:
			to, _ := os.Readlink(name)
			line = fmt.Sprintf("%q -> %s", rel, to)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func save(t *testing.T, s *checkpoint.Set, sp checkpoint.Spec) *checkpoint.Manifest {
	t.Helper()
	m, err := s.Save(t.Context(), sp)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSaveAndRestore(t *testing.T) {
	store, _ := newDir(t)
	roundTrip(t, store)
}

func roundTrip(t *testing.T, store checkpoint.Store) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	s := checkpoint.New(store, cluster, 7, quiet)
	if _, err := s.Restore(t.Context(), checkpoint.Target{Dir: dir}); !errors.Is(err, checkpoint.ErrNone) {
		t.Fatalf("restore of nothing: %v", err)
	}
	if err := s.Begin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, "one")
	first := save(t, s, spec(dir, 0))
	fill(t, dir, "three")
	second := save(t, s, spec(dir, 0))
	if first.Number != 1 || second.Number != 2 {
		t.Errorf("numbers %d, %d, want 1, 2", first.Number, second.Number)
	}
	if want := int64(len("three") * 5001); second.Sent != want {
		t.Errorf("sent %d bytes the second time, want %d: what is the same is not sent again", second.Sent, want)
	}
	want := tree(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := s.Restore(t.Context(), checkpoint.Target{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("restored tree differs (-saved +restored):\n%s", diff)
	}
	if diff := cmp.Diff(second, m); diff != "" {
		t.Errorf("manifest differs (-saved +read):\n%s", diff)
	}
	elsewhere := filepath.Join(t.TempDir(), "new", "place")
	if _, err := s.Restore(t.Context(), checkpoint.Target{Dir: elsewhere}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree(t, elsewhere)); diff != "" {
		t.Errorf("restored tree differs (-saved +restored):\n%s", diff)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestCutAtEveryWrite(t *testing.T) {
	defer checkpoint.NoWaits()()
	dir := filepath.Join(t.TempDir(), "ckpt")
	for cut := 0; ; cut++ {
		store, _ := newDir(t)
		s := checkpoint.New(store, cluster, 7, quiet)
		fill(t, dir, "one")
		save(t, s, spec(dir, 0))
		want := tree(t, dir)
		fill(t, dir, "three")
		f := &faulty{Store: store, left: cut}
		_, err := checkpoint.New(f, cluster, 7, quiet).Save(t.Context(), spec(dir, 0))
		if err == nil {
			if cut < 3 {
				t.Fatalf("only %d writes", cut)
			}
			if last := f.keys[len(f.keys)-1]; !strings.HasSuffix(last, "/manifest.json") {
				t.Errorf("last write is %s, want the manifest", last)
			}
			return
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		back := filepath.Join(t.TempDir(), "back")
		m, err := s.Restore(t.Context(), checkpoint.Target{Dir: back})
		if err != nil {
			t.Fatal(err)
		}
		if m.Number != 1 {
			t.Errorf("cut at write %d: restored number %d, want 1", cut, m.Number)
		}
		if diff := cmp.Diff(want, tree(t, back)); diff != "" {
			t.Errorf("cut at write %d (-saved +restored):\n%s", cut, diff)
		}
		// The next attempt takes a fresh number and is whole.
		again := save(t, s, spec(dir, 1))
		if again.Number < 2 || cut > 0 && again.Number < 3 {
			t.Errorf("cut at write %d: number %d used again", cut, again.Number)
		}
	}
}

func TestDamageFallsBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	damages := map[string]func(file string) error{
		"flipped": func(file string) error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return os.WriteFile(file, data, 0o600)
		},
		"short":   func(file string) error { return os.Truncate(file, 3) },
		"missing": os.Remove,
	}
	for name, damage := range damages {
		for _, what := range []string{"data", "manifest"} {
			t.Run(name+" "+what, func(t *testing.T) {
				store, root := newDir(t)
				s := checkpoint.New(store, cluster, 7, quiet)
				fill(t, dir, "one")
				save(t, s, spec(dir, 0))
				want := tree(t, dir)
				fill(t, dir, "three")
				m := save(t, s, spec(dir, 0))
				at := slices.IndexFunc(m.Files, func(f checkpoint.File) bool { return f.Path == "model.bin" })
				key := m.Files[at].Object
				if what == "manifest" {
					key = "000002/manifest.json"
				}
				if err := damage(filepath.Join(root, cluster, "7", key)); err != nil {
					t.Fatal(err)
				}
				back := filepath.Join(t.TempDir(), "back")
				got, err := s.Restore(t.Context(), checkpoint.Target{Dir: back})
				if name == "flipped" && what == "manifest" && err == nil && got.Number == 2 {
					return // the flipped bit may hit a part that nothing depends on
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Number != 1 {
					t.Errorf("restored number %d, want 1", got.Number)
				}
				if diff := cmp.Diff(want, tree(t, back)); diff != "" {
					t.Errorf("(-saved +restored):\n%s", diff)
				}
			})
		}
	}
}

func TestStoreOutOfReachIsNotDamage(t *testing.T) {
	defer checkpoint.NoWaits()()
	dir := filepath.Join(t.TempDir(), "ckpt")
	store, _ := newDir(t)
	s := checkpoint.New(store, cluster, 7, quiet)
	fill(t, dir, "one")
	save(t, s, spec(dir, 0))
	fill(t, dir, "three")
	save(t, s, spec(dir, 0))
	want := tree(t, dir)
	bad := checkpoint.New(deaf{store}, cluster, 7, quiet)
	if _, err := bad.Restore(t.Context(), checkpoint.Target{Dir: dir}); !errors.Is(err, errCut) {
		t.Errorf("restore: %v, want the store's error", err)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("directory changed (-before +after):\n%s", diff)
	}
}

// deaf gives manifests but no data.
type deaf struct{ checkpoint.Store }

func (d deaf) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.Contains(key, "/data/") {
		return nil, errCut
	}
	return d.Store.Get(ctx, key)
}

func TestOlderRunsAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	fill(t, dir, "one")
	store, _ := newDir(t)
	s := checkpoint.New(store, cluster, 7, quiet)
	save(t, s, spec(dir, 0))
	if err := s.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), spec(dir, 0)); !errors.Is(err, checkpoint.ErrOld) {
		t.Errorf("save of run 0 after run 1 began: %v", err)
	}
	if err := s.Begin(t.Context(), 0); !errors.Is(err, checkpoint.ErrOld) {
		t.Errorf("begin of run 0 after run 1: %v", err)
	}
	save(t, s, spec(dir, 1))
	// A run that begins while an older one is saving: the older must not finish.
	late := &hooked{Store: store, before: func(key string) {
		if strings.Contains(key, "/data/") {
			if err := s.Begin(t.Context(), 2); err != nil {
				t.Error(err)
			}
		}
	}}
	fill(t, dir, "three")
	if _, err := checkpoint.New(late, cluster, 7, quiet).Save(t.Context(), spec(dir, 1)); !errors.Is(err, checkpoint.ErrOld) {
		t.Errorf("save overtaken by run 2: %v", err)
	}
	if m, err := s.Newest(t.Context()); err != nil || m.Number != 2 {
		t.Errorf("newest %v %v, want number 2", m, err)
	}
}

type hooked struct {
	checkpoint.Store
	before func(key string)
}

func (h *hooked) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	h.before(key)
	return h.Store.Put(ctx, key, r, size)
}

func TestAttemptsNeverShareANumber(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	fill(t, dir, "one")
	store, _ := newDir(t)
	var wg sync.WaitGroup
	numbers := make([]uint32, 8)
	for i := range numbers {
		wg.Go(func() {
			m, err := checkpoint.New(checkpoint.OverLink(receiver{store}), cluster, 7, quiet).Save(t.Context(), spec(dir, 0))
			if err != nil {
				t.Error(err)
				return
			}
			numbers[i] = m.Number
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	if diff := cmp.Diff([]uint32{1, 2, 3, 4, 5, 6, 7, 8}, numbers); diff != "" {
		t.Error(diff)
	}
}

// receiver is the controller's end of the link.
type receiver struct{ checkpoint.Store }

func (r receiver) Put(ctx context.Context, key string, data io.Reader, size int64) error {
	return checkpoint.Receive(ctx, r.Store, key, data, size)
}

func TestPrune(t *testing.T) {
	store, _ := newDir(t)
	prune(t, store)
}

func prune(t *testing.T, store checkpoint.Store) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	s := checkpoint.New(store, cluster, 7, quiet)
	for i := range 5 {
		fill(t, dir, strings.Repeat("x", i+1))
		save(t, s, spec(dir, 0))
	}
	want := tree(t, dir)
	if err := s.Prune(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var complete []uint32
	for _, st := range list {
		if st.Complete {
			complete = append(complete, st.Number)
		} else if st.Number == 3 && st.Bytes > 1000 {
			t.Errorf("number 3 still holds %d bytes", st.Bytes)
		}
	}
	if diff := cmp.Diff([]uint32{4, 5}, complete); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Restore(t.Context(), checkpoint.Target{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("(-saved +restored):\n%s", diff)
	}
	if m := save(t, s, spec(dir, 0)); m.Number != 6 || m.Sent != 0 {
		t.Errorf("number %d sent %d, want number 6 sent 0", m.Number, m.Sent)
	}
}

func TestHostileManifests(t *testing.T) {
	for name, entry := range map[string]string{
		"parent":   `{"path":"../x","kind":"dir"}`,
		"absolute": `{"path":"/etc/x","kind":"dir"}`,
		"object":   `{"path":"x","kind":"file","size":1,"sha256":"` + strings.Repeat("0", 64) + `","object":"000001/../../8/x"}`,
		"device":   `{"path":"x","kind":"device"}`,
		"through":  `{"path":"x","kind":"symlink","target":"/"},{"path":"x/y","kind":"dir"}`,
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := newDir(t)
			m := `{"version":1,"job":7,"number":1,"files":[{"path":".","kind":"dir","mode":493},` + entry + `]}`
			if err := store.Put(t.Context(), cluster+"/7/000001/manifest.json", strings.NewReader(m), int64(len(m))); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "d")
			_, err := checkpoint.New(store, cluster, 7, quiet).Restore(t.Context(), checkpoint.Target{Dir: dir})
			if err == nil {
				t.Error("accepted")
			}
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("directory was made: %v", err)
			}
		})
	}
}

func TestDirRefusesBadKeys(t *testing.T) {
	store, _ := newDir(t)
	for _, key := range []string{"", "/a", "../a", "a/../../b", "a//b", "a/", ".", "..", "a\x00b"} {
		if err := store.Put(t.Context(), key, strings.NewReader(""), 0); err == nil {
			t.Errorf("put %q was accepted", key)
		}
		if _, err := store.Get(t.Context(), key); err == nil {
			t.Errorf("get %q was accepted", key)
		}
	}
}

func TestParseLocation(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     checkpoint.Location
		bad      string
	}{
		{name: "file", in: "file:///srv/ckpt", want: checkpoint.Location{Scheme: "file", Dir: "/srv/ckpt"}},
		{name: "s3", in: "s3://ckpt/a/b?endpoint=http://127.0.0.1:9000&region=eu", want: checkpoint.Location{Scheme: "s3", S3: checkpoint.S3Config{
			Endpoint: "127.0.0.1:9000", Plain: true, Region: "eu", Bucket: "ckpt", Prefix: "a/b", PathStyle: true,
		}}},
		{name: "aws", in: "s3://ckpt?region=us-east-1", want: checkpoint.Location{Scheme: "s3", S3: checkpoint.S3Config{
			Endpoint: "s3.amazonaws.com", Region: "us-east-1", Bucket: "ckpt",
		}}},
		{name: "relative", in: "file://srv/ckpt", bad: "want file:///folder"},
		{name: "secret", in: "s3://id:key@ckpt", bad: "credentials don't belong"},
		{name: "scheme", in: "gs://x", bad: "want file:// or s3://"},
		{name: "setting", in: "s3://x?colour=red", bad: `unknown setting "colour"`},
		{name: "endpoint", in: "s3://x?endpoint=host", bad: "want https://host"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := checkpoint.ParseLocation(tc.in)
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("error %v, want %q", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDirContract(t *testing.T) {
	s, root := newDir(t)
	contract(t, s)
	if list, err := os.ReadDir(root); err != nil || len(list) != 0 {
		t.Errorf("left in the folder: %v %v", list, err)
	}
}

func contract(t *testing.T, s checkpoint.Store) {
	if err := s.Create(t.Context(), "c/claim", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "c/claim", []byte("two")); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("second create: %v, want ErrExists", err)
	}
	if err := s.Put(t.Context(), "c/short", strings.NewReader("abc"), 5); err == nil {
		t.Error("a short put was accepted")
	}
	if _, err := s.Stat(t.Context(), "c/short"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a short put left something: %v", err)
	}
	for range 2 {
		if err := s.Delete(t.Context(), "c/claim"); err != nil {
			t.Error(err)
		}
	}
	if list, err := s.List(t.Context(), "c/"); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

func TestWithTheUsersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	top := t.TempDir()
	for p := top; p != os.TempDir() && len(p) > 1; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	alice := &asuser.Cred{UID: 12345, GID: 12346}
	home := filepath.Join(top, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 12345, 12346); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "ckpt")
	if err := asuser.Do(alice, func() error { fill(t, dir, "one"); return nil }); err != nil {
		t.Fatal(err)
	}
	store, _ := newDir(t)
	s := checkpoint.New(store, cluster, 7, quiet)
	sp := spec(dir, 0)
	sp.Owner = alice
	save(t, s, sp)
	want := tree(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), checkpoint.Target{Dir: dir, Owner: alice}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("(-saved +restored):\n%s", diff)
	}
	st, err := os.Stat(filepath.Join(dir, "model.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if sys := st.Sys().(*syscall.Stat_t); sys.Uid != 12345 || sys.Gid != 12346 {
		t.Errorf("owner %d:%d", sys.Uid, sys.Gid)
	}
	// A directory that is really a link to what only root may read.
	secret := filepath.Join(top, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	sp.Dir = filepath.Join(home, "link")
	if err := os.Symlink(secret, sp.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), sp); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("save of root's folder through a link: %v", err)
	}
	if _, err := s.Restore(t.Context(), checkpoint.Target{Dir: filepath.Join(top, "elsewhere"), Owner: alice}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("restore where alice may not write: %v", err)
	}
}
