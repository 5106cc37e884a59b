package output_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

func attempt(id, restart uint32) job.Attempt { return job.Attempt{Job: id, Restart: restart} }

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	path := filepath.Join(dir, "slurm-1.out")
	if err := os.WriteFile(path, []byte("from last week, much longer than the rest\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.prepare(t, key(1, 0, "out"), self(path))
	wantFile(t, path, "")
	r.append(t, key(1, 0, "out"), 0, "hello\n")
	waitFor(t, func() bool { got, _ := os.ReadFile(path); return string(got) == "hello\n" }, func() string { return "not copied while the job runs" })
	r.prepare(t, key(1, 0, "out"), self(path)) // again: empties nothing
	r.append(t, key(1, 0, "out"), 6, "world\n")
	r.finish(t, attempt(1, 0))
	wantFile(t, path, "hello\nworld\n")
	r.finish(t, attempt(1, 0))

	// The next attempt appends, the one after starts anew.
	again := self(path)
	again.Append = true
	r.prepare(t, key(1, 1, "out"), again)
	r.append(t, key(1, 1, "out"), 0, "again\n")
	r.finish(t, attempt(1, 1))
	wantFile(t, path, "hello\nworld\nagain\n")
	r.prepare(t, key(1, 2, "out"), self(path))
	r.finish(t, attempt(1, 2))
	wantFile(t, path, "")
}

func TestWarm(t *testing.T) {
	r := start(t, t.TempDir(), 0)
	r.c.Warm(asuser.Self())
	waitFor(t, func() bool { return len(children(os.Getpid())) > 0 }, func() string { return "no helper was started" })
	r.stop()
	waitFor(t, func() bool { return len(children(os.Getpid())) == 0 }, func() string { return "the helper is still there" })
}

func TestFilesMode(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	target := self(filepath.Join(dir, "o"))
	target.Umask = 0o027
	r.prepare(t, key(1, 0, "out"), target)
	if st, err := os.Stat(target.Path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v %v, want mode 0640", st.Mode(), err)
	}
}

func TestBothStreamsInOneFile(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	path := filepath.Join(dir, "both")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.prepare(t, key(1, 0, "out"), self(path))
	r.append(t, key(1, 0, "out"), 0, "early\n")
	waitFor(t, func() bool { got, _ := os.ReadFile(path); return string(got) == "early\n" }, func() string { return "not copied" })
	r.prepare(t, key(1, 0, "err"), self(path))
	wantFile(t, path, "early\n")
	var off [2]int64
	for n := range 30 {
		for i, s := range []string{"out", "err"} {
			off[i] = r.append(t, key(1, 0, s), []int64{6, 0}[i]+off[i], fmt.Sprintf("%s %d\n", s, n)).Size - []int64{6, 0}[i]
		}
	}
	r.finish(t, attempt(1, 0))
	checkMerged(t, path, "out", 30)
	checkMerged(t, path, "err", 30)
}

// checkMerged wants the lines "<who> 0" to "<who> n-1" in a file, in order and
// once each, among others' lines.
func checkMerged(t *testing.T, path, who string, n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, who+" ") {
			if line != fmt.Sprintf("%s %d\n", who, next) {
				t.Fatalf("line %q, want number %d", line, next)
			}
			next++
		}
	}
	if next != n {
		t.Errorf("%d lines of %s, want %d", next, who, n)
	}
}

func TestUserTouchesTheFile(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	path := filepath.Join(dir, "o")
	k := key(1, 0, "out")
	r.prepare(t, k, self(path))
	copied := func(off int64, data, want string) {
		t.Helper()
		r.append(t, k, off, data)
		waitFor(t, func() bool { got, _ := os.ReadFile(path); return string(got) == want }, func() string {
			got, _ := os.ReadFile(path)
			return fmt.Sprintf("file is %q, want %q", got, want)
		})
	}
	copied(0, "one\n", "one\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	copied(4, "two\n", "two\n")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("note\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	copied(8, "three\n", "two\nnote\nthree\n")
	r.stop()
	// An editor replaces the file while the controller is away.
	if err := os.WriteFile(path+"~", []byte("edited\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
	r = start(t, filepath.Join(dir, "spool"), 0)
	copied(14, "four\n", "edited\nfour\n")
	r.finish(t, attempt(1, 0))
}

func TestTargetsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a folder":   filepath.Join(dir, "folder"),
		"under file": "/etc/passwd/x",
	} {
		err := r.c.Prepare(t.Context(), key(1, 0, "out"), self(path))
		if !errors.Is(err, output.ErrTarget) {
			t.Errorf("%s: %v, want ErrTarget", name, err)
		}
	}
	if err := r.c.Prepare(t.Context(), key(1, 0, "out"), self("relative")); err == nil {
		t.Error("a relative path was accepted")
	}
	// A folder that is missing is made, as Slurm does since 24.11.
	made := filepath.Join(dir, "missing", "too", "o")
	if err := r.c.Prepare(t.Context(), key(1, 0, "err"), self(made)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(made); err != nil {
		t.Error(err)
	}
}

func TestDevNull(t *testing.T) {
	r := start(t, t.TempDir(), 0)
	r.prepare(t, key(1, 0, "out"), self("/dev/null"))
	r.append(t, key(1, 0, "out"), 0, "gone\n")
	r.finish(t, attempt(1, 0))
	if got := content(t, r.Spool, key(1, 0, "out")); got != "gone\n" {
		t.Errorf("spool holds %q", got)
	}
}

func TestUnwritableFileIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	r := start(t, filepath.Join(dir, "spool"), 0)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sub, "o")
	r.prepare(t, key(1, 0, "out"), self(path))
	r.append(t, key(1, 0, "out"), 0, "one\n")
	waitFor(t, func() bool { got, _ := os.ReadFile(path); return string(got) == "one\n" }, func() string { return "not copied" })
	r.stop()
	if err := os.Rename(sub, sub+".away"); err != nil {
		t.Fatal(err)
	}
	r = start(t, filepath.Join(dir, "spool"), 0)
	r.append(t, key(1, 0, "out"), 4, "two\n")
	if text := <-r.warns; !strings.Contains(text, path) || !strings.Contains(text, "no such file") {
		t.Errorf("warned %q", text)
	}
	if err := os.Rename(sub+".away", sub); err != nil {
		t.Fatal(err)
	}
	r.finish(t, attempt(1, 0))
	if text := <-r.warns; text != "" {
		t.Errorf("after recovery warned %q", text)
	}
	wantFile(t, path, "one\ntwo\n")
}

func TestWrittenAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && len(p) > 1; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 12345, 12346); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	r := start(t, filepath.Join(dir, "spool"), 0)
	target := output.Target{Path: filepath.Join(home, "o"), Owner: asuser.Cred{UID: 12345, GID: 12346, Groups: []uint32{12346}}}
	r.prepare(t, key(1, 0, "out"), target)
	r.append(t, key(1, 0, "out"), 0, "hi\n")
	r.finish(t, attempt(1, 0))
	wantFile(t, target.Path, "hi\n")
	st, err := os.Stat(target.Path)
	if err != nil {
		t.Fatal(err)
	}
	if s := st.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 {
		t.Errorf("owner %d:%d, want 12345:12346", s.Uid, s.Gid)
	}
	for _, path := range []string{filepath.Join(home, "link"), filepath.Join(dir, "elsewhere")} {
		target.Path = path
		if err := r.c.Prepare(t.Context(), key(2, 0, "out"), target); !errors.Is(err, output.ErrTarget) || !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v, want permission denied", path, err)
		}
	}
	wantFile(t, secret, "root's")
}
