package stage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/runtime/stage"
)

// wire joins a node to a host as the agent link does, and can be cut.
type wire struct {
	host *stage.Host
	dir  stage.Dir

	mu   sync.Mutex
	left int // calls that still work, negative: all
	puts []string
	gets int
	info func(*agentapi.FileInfo) // changes what List says
}

var errCut = errors.New("cut")

func (w *wire) use() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return errCut
	}
	w.left--
	return nil
}

func (w *wire) Walk(ctx context.Context, _ string, visit func(*agentapi.FileInfo) error) error {
	if err := w.use(); err != nil {
		return err
	}
	return w.host.List(ctx, w.dir, func(i *agentapi.FileInfo) error {
		if w.info != nil {
			w.info(i)
		}
		return visit(i)
	})
}

func (w *wire) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := w.use(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.gets++
	w.mu.Unlock()
	var b bytes.Buffer
	err := w.host.Get(ctx, w.dir, path, 0, func(p []byte) error { b.Write(p); return nil })
	return io.NopCloser(&b), err
}

func (w *wire) PutFile(ctx context.Context, info *agentapi.FileInfo, r io.Reader) error {
	if err := w.use(); err != nil {
		return err
	}
	_, err := w.host.Put(ctx, w.dir, info, func() ([]byte, error) {
		buf := make([]byte, 1000)
		n, err := r.Read(buf)
		return buf[:n], err
	})
	if err == nil {
		w.mu.Lock()
		w.puts = append(w.puts, info.GetPath())
		w.mu.Unlock()
	}
	return err
}

type bed struct {
	*wire
	submit string
	copy   stage.Copy
}

// lay makes a submit directory with files, and an empty copy.
func lay(t *testing.T, files map[string]string) *bed {
	t.Helper()
	root := t.TempDir()
	b := &bed{submit: filepath.Join(root, "submit"), copy: stage.Copy{Dir: filepath.Join(root, "node"), State: filepath.Join(root, "state")}}
	for _, d := range []string{b.submit, b.copy.Dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b.submit, files)
	b.wire = &wire{host: stage.NewHost(stage.DefaultLimits), dir: stage.Dir{Path: b.submit, Owner: asuser.Self(), Job: 7}, left: -1}
	return b
}

// put writes files; a content that begins with "-> " is a link, a name that ends
// in a slash is a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		to, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		case isLink:
			err = os.Symlink(to, p)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree is what is below a directory, in the form that put takes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case e.IsDir():
			if list, err := os.ReadDir(p); err == nil && len(list) == 0 {
				out[name+"/"] = ""
			}
		case e.Type() == fs.ModeSymlink:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			out[name] = "-> " + to
		default:
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[name] = string(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bed) in(t *testing.T) {
	t.Helper()
	if err := stage.In(t.Context(), b.copy, b.wire); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) out(t *testing.T) int {
	t.Helper()
	n, _, err := stage.Out(t.Context(), b.copy, b.wire)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestThereAndBack(t *testing.T) {
	files := map[string]string{
		"train.py": "print()", "data/a.csv": strings.Repeat("1,2\n", 5000), "data/deep/er/": "", "latest": "-> data/a.csv",
		"away": "-> /scratch/none", "empty": "", "odd\xff name\n": "x",
	}
	b := lay(t, files)
	when := time.Unix(1600000000, 123456789)
	if err := os.Chmod(filepath.Join(b.submit, "train.py"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(b.submit, "train.py"), when, when); err != nil {
		t.Fatal(err)
	}
	b.in(t)
	same(t, "on the node", files, tree(t, b.copy.Dir))
	st, err := os.Stat(filepath.Join(b.copy.Dir, "train.py"))
	if err != nil || st.Mode().Perm() != 0o750 || !st.ModTime().Equal(when) {
		t.Errorf("train.py: %v %v %v", st.Mode(), st.ModTime(), err)
	}
	if n := b.out(t); n != 0 {
		t.Errorf("%d files came back, want none: %q", n, b.puts)
	}

	results := map[string]string{"out/model.bin": strings.Repeat("w", 100_000), "data/a.csv": "changed", "new": "-> out", "made/empty/": "", "odd\xff name\n": "y"}
	put(t, b.copy.Dir, results)
	if err := os.Remove(filepath.Join(b.copy.Dir, "empty")); err != nil {
		t.Fatal(err)
	}
	touched := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(b.copy.Dir, "train.py"), touched, touched); err != nil {
		t.Fatal(err)
	}
	if n := b.out(t); n != 5 {
		t.Errorf("%d files came back, want 5: %q", n, b.puts)
	}
	want := map[string]string{}
	for _, m := range []map[string]string{files, results} {
		for k, v := range m {
			want[k] = v
		}
	}
	same(t, "submit directory", want, tree(t, b.submit))
	if n := b.out(t); n != 0 {
		t.Errorf("%d files came back the second time", n)
	}
}

func TestUsersChangesStay(t *testing.T) {
	b := lay(t, map[string]string{"notes": "first", "code": "v1", "gone": "x", "link": "-> code"})
	b.in(t)
	put(t, b.submit, map[string]string{"notes": "by the user", "fresh": "by the user"})
	for _, name := range []string{"gone", "link"} {
		if err := os.Remove(filepath.Join(b.submit, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b.submit, map[string]string{"link": "-> notes"})
	if err := os.Remove(filepath.Join(b.copy.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	put(t, b.copy.Dir, map[string]string{"notes": "by the job", "fresh": "by the job too", "gone": "changed", "code": "v2", "link": "-> fresh"})
	b.out(t)
	same(t, "submit directory", map[string]string{
		"notes": "by the user", "notes.job-7": "by the job", "fresh": "by the user", "fresh.job-7": "by the job too",
		"gone": "changed", "code": "v2", "link": "-> notes", "link.job-7": "-> fresh",
	}, tree(t, b.submit))
	// A later result takes the place of ours, not of theirs.
	put(t, b.copy.Dir, map[string]string{"notes": "by the job, later"})
	b.out(t)
	got := tree(t, b.submit)
	if got["notes"] != "by the user" || got["notes.job-7"] != "by the job, later" || len(got) != 8 {
		t.Errorf("submit directory: %v", got)
	}
}

func TestCutAnywhere(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("d%d/f%d", i%3, i)] = fmt.Sprint("content ", i)
	}
	for _, cut := range []int{0, 1, 2, 6, 11, 12, 13} {
		b := lay(t, files)
		b.left = cut
		if err := stage.In(t.Context(), b.copy, b.wire); cut < 13 != errors.Is(err, errCut) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		had := b.gets
		b.left = -1
		b.in(t)
		same(t, "on the node", files, tree(t, b.copy.Dir))
		if b.gets > len(files)+8 { // what was on its way comes again
			t.Errorf("cut at %d: %d files were fetched, %d of them before the cut", cut, b.gets, had)
		}
		results := map[string]string{}
		for i := range 12 {
			results[fmt.Sprintf("r%d/f%d", i%3, i)] = fmt.Sprint("result ", i)
		}
		put(t, b.copy.Dir, results)
		b.left = cut
		if _, _, err := stage.Out(t.Context(), b.copy, b.wire); cut < 12 != errors.Is(err, errCut) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		b.left = -1
		b.out(t)
		if len(b.puts) != len(results) {
			t.Errorf("cut at %d: %d results were sent, want %d", cut, len(b.puts), len(results))
		}
		got := tree(t, b.submit)
		for name, want := range results {
			if got[name] != want {
				t.Errorf("cut at %d: %s is %q, want %q", cut, name, got[name], want)
			}
		}
		if len(got) != len(files)+len(results) {
			t.Errorf("cut at %d: left behind: %v", cut, got)
		}
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	files := map[string]string{
		"a": "x", ".ssh/id": "secret", ".nfs0001": "x", "sub/.nfs2": "x", "sub/.ssh/x": "deeper ones are the user's own", "sub/.sbatchd-1": "x", ".cache/x": "x",
		"big/data": "x",
	}
	b := lay(t, files)
	if err := syscall.Mkfifo(filepath.Join(b.submit, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.in(t)
	same(t, "on the node", map[string]string{"a": "x", "sub/.ssh/x": files["sub/.ssh/x"], "big/data": "x"}, tree(t, b.copy.Dir))

	b = lay(t, map[string]string{"a": "x", "data/x": "x", "data/y/z": "x", "src/main.py": "x", "src/x.txt": "x"})
	b.copy.In = []string{"data/", "src/*.py"}
	b.in(t)
	same(t, "chosen", map[string]string{"data/x": "x", "data/y/z": "x", "src/main.py": "x"}, tree(t, b.copy.Dir))
	put(t, b.copy.Dir, map[string]string{"results/r": "x", "tmp/t": "x"})
	b.copy.Out = []string{"results"}
	b.out(t)
	same(t, "brought back", []string{"results/r"}, b.puts)
}

func TestLimits(t *testing.T) {
	for name, l := range map[string]stage.Limits{"files": {Files: 2, Bytes: 1000}, "bytes": {Files: 100, Bytes: 10}} {
		b := lay(t, map[string]string{"a": "12345", "b": "12345", "c": "1"})
		b.host = stage.NewHost(l)
		err := stage.In(t.Context(), b.copy, b.wire)
		if !errors.Is(err, stage.ErrTooLarge) || !strings.Contains(err.Error(), "--stage-in") {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
	}
}

func TestSparse(t *testing.T) {
	b := lay(t, nil)
	f, err := os.Create(filepath.Join(b.submit, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	for _, step := range []error{f.Truncate(size), func() error { _, err := f.WriteAt([]byte("x"), 5<<20); return err }(), f.Close()} {
		if step != nil {
			t.Fatal(step)
		}
	}
	b.in(t)
	st, err := os.Stat(filepath.Join(b.copy.Dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if used := st.Sys().(*syscall.Stat_t).Blocks * 512; st.Size() != size || used > 1<<20 {
		t.Errorf("%d bytes use %d, want a sparse file of %d", st.Size(), used, size)
	}
}

func TestHostilePaths(t *testing.T) {
	b := lay(t, map[string]string{"a": "x"})
	outside := filepath.Join(filepath.Dir(b.submit), "outside")
	put(t, outside, map[string]string{"secret": "x"})
	put(t, b.submit, map[string]string{"link": "-> " + outside, "up": "-> ../outside"})
	for _, name := range []string{"../outside/secret", "/etc/passwd", "a/../../outside/secret", "link/secret", "up/secret", "", ".", "a\x00"} {
		if err := b.host.Get(t.Context(), b.dir, name, 0, func([]byte) error { return nil }); err == nil {
			t.Errorf("get %q was served", name)
		}
		info := &agentapi.FileInfo{Path: name, Mode: 0o644, Size: 1}
		sent := false
		_, err := b.host.Put(t.Context(), b.dir, info, func() ([]byte, error) {
			if sent {
				return nil, io.EOF
			}
			sent = true
			return []byte("y"), nil
		})
		if err == nil {
			t.Errorf("put %q was taken", name)
		}
	}
	same(t, "outside", map[string]string{"secret": "x"}, tree(t, outside))

	// And the other way: a controller must not write outside the node's copy.
	b.info = func(i *agentapi.FileInfo) {
		if i.GetPath() == "a" {
			i.Path = "../outside/planted"
		}
	}
	if err := stage.In(t.Context(), b.copy, b.wire); err == nil {
		t.Error("a path that leaves the directory was taken")
	}
	b.info = func(i *agentapi.FileInfo) {
		if i.GetPath() == "up" {
			i.Path, i.Mode, i.Link = "link/planted", 0o644, ""
		}
	}
	if err := stage.In(t.Context(), b.copy, b.wire); err == nil {
		t.Error("a path through a link was taken")
	}
	same(t, "outside", map[string]string{"secret": "x"}, tree(t, outside))
}

func TestWrongContentIsRefused(t *testing.T) {
	b := lay(t, nil)
	next := func(data string) func() ([]byte, error) {
		return func() ([]byte, error) {
			if data == "" {
				return nil, io.EOF
			}
			d := data
			data = ""
			return []byte(d), nil
		}
	}
	for name, info := range map[string]*agentapi.FileInfo{
		"short": {Path: "f", Mode: 0o644, Size: 5},
		"long":  {Path: "f", Mode: 0o644, Size: 1},
		"hash":  {Path: "f", Mode: 0o644, Size: 3, Sha256: strings.Repeat("0", 64)},
		"pipe":  {Path: "f", Mode: uint32(fs.ModeNamedPipe), Size: 3},
	} {
		if _, err := b.host.Put(t.Context(), b.dir, info, next("abc")); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	same(t, "submit directory", map[string]string{}, tree(t, b.submit))
}

func TestOtherUsersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	b := lay(t, map[string]string{"mine": "x"})
	alice := asuser.Cred{UID: 12345, GID: 12346}
	for p := filepath.Dir(b.submit); p != os.TempDir() && len(p) > 1; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{b.submit, filepath.Join(b.submit, "mine"), b.copy.Dir} {
		if err := os.Chown(p, int(alice.UID), int(alice.GID)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b.submit, map[string]string{"shadow": "-> /etc/shadow", "secret": "root's"})
	if err := os.Chmod(filepath.Join(b.submit, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.dir.Owner, b.copy.Owner = alice, &alice
	if err := b.host.List(t.Context(), b.dir, func(i *agentapi.FileInfo) error {
		if i.GetPath() == "secret" {
			t.Error("a file that alice can't read was listed")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"shadow", "secret"} {
		if err := b.host.Get(t.Context(), b.dir, name, 0, func([]byte) error { return nil }); err == nil {
			t.Errorf("%s was served to alice", name)
		}
	}
	if err := os.Remove(filepath.Join(b.submit, "secret")); err != nil {
		t.Fatal(err)
	}
	b.in(t)
	put(t, b.copy.Dir, map[string]string{"result": "r"})
	if err := os.Chown(filepath.Join(b.copy.Dir, "result"), int(alice.UID), int(alice.GID)); err != nil {
		t.Fatal(err)
	}
	b.out(t)
	for _, p := range []string{filepath.Join(b.copy.Dir, "mine"), filepath.Join(b.submit, "result")} {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if s := st.Sys().(*syscall.Stat_t); s.Uid != alice.UID || s.Gid != alice.GID {
			t.Errorf("%s belongs to %d:%d", p, s.Uid, s.Gid)
		}
	}
}

func TestFilesThatVanish(t *testing.T) {
	b := lay(t, map[string]string{"a": "x", "b": "x"})
	b.info = func(i *agentapi.FileInfo) {
		if i.GetPath() == "b" {
			if err := os.Remove(filepath.Join(b.submit, "b")); err != nil {
				t.Error(err)
			}
		}
	}
	b.in(t)
	same(t, "on the node", map[string]string{"a": "x"}, tree(t, b.copy.Dir))
	b.dir.Path = filepath.Join(b.submit, "missing")
	b.copy.Dir = t.TempDir()
	b.in(t)
	same(t, "of a missing directory", map[string]string{}, tree(t, b.copy.Dir))
}
