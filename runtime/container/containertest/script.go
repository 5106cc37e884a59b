package containertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/container"
)

func testExitCode(t *testing.T, s *suite) {
	for _, tt := range []struct {
		script       string
		code, signal int
	}{
		{"exit 0", 0, 0},
		{"exit 7", 7, 0},
		{"exit 137", 137, 0},
		{"kill -KILL $$", 0, 9},
		{"kill -TERM $$; sleep 100", 0, 15},
	} {
		e, _ := s.run(t, s.spec(tt.script))
		wantExit(t, e, tt.code, tt.signal)
		if e.At.IsZero() || e.Elapsed <= 0 {
			t.Errorf("%s: no times in %+v", tt.script, e)
		}
	}
}

func testOutput(t *testing.T, s *suite) {
	const script = "echo one; echo two >&2; echo three"
	spec := s.spec(script)
	if err := os.WriteFile(spec.Stdout, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out := s.run(t, spec)
	if want := "before\none\ntwo\nthree\n"; out != want {
		t.Errorf("one file: %q, want %q", out, want)
	}

	spec = s.spec(script)
	spec.Stderr = spec.Stdout
	if _, out := s.run(t, spec); out != "one\ntwo\nthree\n" {
		t.Errorf("equal paths: %q", out)
	}

	spec = s.spec(script)
	spec.Stderr = filepath.Join(s.dir, "err")
	if _, out := s.run(t, spec); out != "one\nthree\n" {
		t.Errorf("two files: stdout %q", out)
	}
	if err := read(t, spec.Stderr); err != "two\n" {
		t.Errorf("two files: stderr %q", err)
	}

	spec = s.spec("cat; echo again >>/dev/stdout")
	spec.Stdin = filepath.Join(s.dir, "in")
	spec.Truncate = true
	for _, file := range []string{spec.Stdin, spec.Stdout} {
		if err := os.WriteFile(file, []byte("from "+filepath.Base(file)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, out := s.run(t, spec); out != "from in\nagain\n" {
		t.Errorf("stdin and truncate: %q", out)
	}
}

// userDir makes a folder that only the user may write to.
func (s *suite) userDir(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.Users {
		if err := os.Chown(dir, int(s.user().UID), int(s.user().GID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func testOutputAsUser(t *testing.T, s *suite) {
	dir := s.userDir(t, "work", 0o700)
	spec := s.spec("echo one; echo two >&2; pwd")
	spec.Cwd, spec.Mounts, spec.StdioAsUser = dir, []container.Mount{{Source: dir, Target: dir}}, true
	spec.Stdout, spec.Stderr = filepath.Join(dir, "out"), filepath.Join(dir, "missing", "err")
	e, out := s.run(t, spec)
	wantExit(t, e, 0, 0)
	if out != "one\n"+dir+"\n" {
		t.Errorf("stdout %q", out)
	}
	if s.Users {
		var stat unix.Stat_t
		if err := unix.Stat(spec.Stderr, &stat); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d:%d %o", stat.Uid, stat.Gid, stat.Mode&0o777)
		if got != "4711:4712 644" {
			t.Errorf("stderr's owner and mode: %s", got)
		}
	}
}

func testOutputRefused(t *testing.T, s *suite) {
	dir := s.userDir(t, "work", 0o700)
	spec := s.spec("echo never")
	spec.Mounts, spec.StdioAsUser = []container.Mount{{Source: dir, Target: dir}}, true
	// A missing folder is made; a file in its place is not removed.
	if err := os.WriteFile(filepath.Join(dir, "no"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	spec.Stdout = filepath.Join(dir, "no", "out")
	_, err := s.runtime.Start(within(t), spec)
	wantError(t, err, container.ErrUser)
	var start *container.StartError
	if !errors.As(err, &start) {
		t.Fatalf("error %v, want a StartError", err)
	}
	wantExit(t, start.Exit, 0, 53)
	if want := "Could not open stdout file " + spec.Stdout + ": Not a directory"; start.Message != want {
		t.Errorf("message %q, want %q", start.Message, want)
	}
	_, err = s.runtime.Load(within(t), spec.ID)
	wantError(t, err, container.ErrNotFound)
}

func testSurroundings(t *testing.T, s *suite) {
	dir := s.userDir(t, "work", 0o700)
	spec := s.spec(`echo $COLOR $#; pwd; umask; ulimit -n; cat /proc/self/comm; touch /tmp/$$ && rm /tmp/$$ && echo tmp; echo $0 "$@"`)
	spec.Argv = append(spec.Argv, "script", "a b", "c")
	spec.Cwd, spec.Mounts = dir, []container.Mount{{Source: dir, Target: dir}}
	spec.Umask = 0o027
	spec.Rlimits = []container.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 321}}
	e, out := s.run(t, spec)
	wantExit(t, e, 0, 0)
	if diff := cmp.Diff("green 2\n"+dir+"\n0027\n321\ncat\ntmp\nscript a b c\n", out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}

	spec = s.spec("pwd")
	spec.Cwd = "/no/such/folder"
	e, out = s.run(t, spec)
	wantExit(t, e, 0, 0)
	want := "error: couldn't chdir to `/no/such/folder': No such file or directory: going to /tmp instead\n/tmp\n"
	if out = unstamped(out); out != want {
		t.Errorf("without its folder: %q, want %q", out, want)
	}
}

// stamp is the time before a line of slurmstepd's.
var stamp = regexp.MustCompile(`(?m)^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\] `)

func unstamped(out string) string { return stamp.ReplaceAllString(out, "") }

func testUser(t *testing.T, s *suite) {
	if !s.Users {
		t.Skip("SKIP users: this driver runs everything as itself")
	}
	spec := s.spec("id -u; id -g; for g in $(id -G); do echo $g; done | sort -n; grep Cap[EP] /proc/self/status")
	_, out := s.run(t, spec)
	want := "4711\n4712\n4712\n4713\n4714\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	var stat unix.Stat_t
	if err := unix.Stat(spec.Stdout, &stat); err != nil {
		t.Fatal(err)
	}
	if stat.Uid != 4711 || stat.Mode&0o077 != 0 {
		t.Errorf("output of uid %d, mode %o", stat.Uid, stat.Mode&0o777)
	}
	if s.Image != "" {
		spec := s.spec("id -un; id -gn; grep ^alice: /etc/passwd")
		if _, out := s.run(t, spec); out != "alice\nstaff\nalice:x:4711:4712::/home/alice:/bin/sh\n" {
			t.Errorf("names in the container: %q", out)
		}
	}
}

func testBadScript(t *testing.T, s *suite) {
	dir := s.userDir(t, "work", 0o755)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		path, message string
		code          int
	}{
		{write("interpreter", "#!/no/such/shell -x\n", 0o755), "execve(): bad interpreter(/no/such/shell -x): No such file or directory", 2},
		{write("mode", "#!/bin/sh\n", 0o644), "execve(): " + dir + "/mode: Permission denied", 13},
		{write("format", "echo hello\n", 0o755), "execve(): " + dir + "/format: Exec format error", 8},
		{dir + "/missing", "execve(): " + dir + "/missing: No such file or directory", 2},
		{"no-such-program", "execve(): no-such-program: No such file or directory", 2},
	} {
		spec := s.spec("")
		spec.Argv = []string{tt.path}
		spec.Mounts = []container.Mount{{Source: dir, Target: dir, ReadOnly: s.Image != ""}}
		e, out := s.run(t, spec)
		wantExit(t, e, tt.code, 0)
		if want := "error: " + tt.message + "\n"; unstamped(out) != want {
			t.Errorf("%s: output %q, want %q", tt.path, out, want)
		}
	}
	spec := s.spec("exit 0")
	spec.Argv[0] = "sh"
	e, out := s.run(t, spec)
	wantExit(t, e, 0, 0)
	if strings.Contains(out, "error") {
		t.Errorf("a program by its name: %q", out)
	}
}
