package session_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

const text = `# a file
== one quiet
file job.sh
| #!/bin/sh
| true
alice$ sbatch job.sh
< typed
pick a b[].c

== table time alone
bob$ sbatch -t {1} {2}
rows
| 1:00 || x y
| 5
`

func TestParse(t *testing.T) {
	got, err := session.Parse("sbatch", text)
	if err != nil {
		t.Fatal(err)
	}
	want := []session.Session{
		{Name: "sbatch/one", File: "sbatch", Class: session.Quiet, Steps: []session.Step{
			{Kind: session.WriteFile, Text: "job.sh", Body: "#!/bin/sh\ntrue\n", Prompt: "file job.sh"},
			{Kind: session.Shell, User: "alice", Text: "sbatch job.sh", Body: "typed\n", Pick: []string{"a", "b[].c"}, Prompt: "alice$ sbatch job.sh"},
		}},
		{Name: "sbatch/time/1:00,x_y", File: "sbatch", Table: "sbatch/time", Class: session.Alone, Steps: []session.Step{
			{User: "bob", Text: "sbatch -t 1:00 x y", Pick: []string{}, Prompt: "bob$ sbatch -t 1:00 x y"},
		}},
		{Name: "sbatch/time/5", File: "sbatch", Table: "sbatch/time", Class: session.Alone, Steps: []session.Step{
			{User: "bob", Text: "sbatch -t 5 {2}", Pick: []string{}, Prompt: "bob$ sbatch -t 5 {2}"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no session":    "alice$ true\n",
		"no steps":      "== one\n== two\nalice$ true\n",
		"unknown step":  "== one\nrun true\n",
		"unknown user":  "== one\ncarol$ true\n",
		"no rows":       "== table one\nalice$ true\n",
		"too many rows": "== table one\nalice$ true\nrows\n" + strings.Repeat("| x\n", session.MaxRows+1),
		"input of none": "== one\n< x\n",
	} {
		if list, err := session.Parse("f", text); err == nil {
			t.Errorf("%s: got %v", name, list)
		}
	}
}

// echo is a site where each command prints its own line, and requests their body.
type echo struct {
	dir string
	run []string
}

func (e *echo) Run(_ context.Context, c session.Command) (session.Answer, error) {
	e.run = append(e.run, c.User+": "+c.Line)
	return session.Answer{Stdout: c.Line + "\n", Stderr: c.Stdin}, nil
}

func (e *echo) REST(_ context.Context, _, _, _, body string) (session.Answer, error) {
	return session.Answer{Stdout: body, Code: 200, Type: "application/json"}, nil
}

func (e *echo) Host(path string) string { return filepath.Join(e.dir, path) }

// transcript runs one step that prints a text.
func transcript(t *testing.T, steps string) (string, *echo) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files away")
	}
	list, err := session.Parse("f", "== one\n"+steps)
	if err != nil {
		t.Fatal(err)
	}
	site := &echo{dir: t.TempDir()}
	got, err := list[0].Run(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	return got, site
}

func TestNormal(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"job", "  41007 41008 41007", "  J0001 J0002 J0001"},
		{"step and task", "41007.0 41007_3", "J0001.0 J0001_3"},
		{"not a job", "140000 4100 99999", "140000 4100 99999"},
		{"past", "2026-11-30T13:14:15", "YYYY-MM-DDThh:mm:ss"},
		{"future", "2031-01-01T00:00:00", "2031-01-01T00:00:00"},
		{"short", "0:03 00:00:03 0:15 0:0", "0:0s 00:00:0s 0:15 0:0"},
		{"limit", "1:00:05", "1:00:05"},
		{"sluid", "|s0SDM8P83QFE00|", "|sSLUIDSLUIDSLU|"},
		{"process", "AllocNode:Sid=login01:4711", "AllocNode:Sid=login01:PID"},
		{"version", "slurm-wlm 26.05.5", "slurm VERSION"},
	} {
		got, _ := transcript(t, "alice$ "+c.in+"\n")
		if want := "alice$ " + c.in + "\n" + c.want + "\n"; got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, body, pick, want string }{
		{"sorted", `{"b": 1, "a": [{"c": 41009}]}`, "", "{\n \"a\": [\n  {\n   \"c\": J0001\n  }\n ],\n \"b\": 1\n}\n"},
		{"volatile", `{"pid": 12, "client": {"user": "x"}}`, "", "{\n \"client\": {\n  \"user\": \"*\"\n },\n \"pid\": 0\n}\n"},
		{"picked", `{"a": [{"c": 1}, {"c": "x"}], "d": 2}`, "a[].c a[1].c e", "a[].c: 1\na[].c: \"x\"\na[1].c: \"x\"\ne: absent\n"},
	} {
		got, _ := transcript(t, "alice> POST /x\n| "+c.body+"\npick "+c.pick+"\n")
		if want := "alice> POST /x\n" + c.want + "[200 application/json]\n"; got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}

// A session's jobs are cancelled at its end, and its steps see their ids.
func TestJobs(t *testing.T) {
	got, site := transcript(t, "alice$ job 41003\nfile of-$J1\n| $J1 $S\nshow of-$J1\n")
	if !strings.HasSuffix(got, "show of-$J1\nJ0001 "+(session.Session{Name: "f/one"}).Tag()+"\n") {
		t.Errorf("got %q", got)
	}
	if want := []string{"alice: job 41003", "root: scancel -f -Q 41003"}; !cmp.Equal(site.run, want) {
		t.Errorf("ran %q, want %q", site.run, want)
	}
}

func TestDiff(t *testing.T) {
	got := session.Diff("alice$ a\none\ntwo\nalice$ b\nx\n", "alice$ a\none\nTWO\nalice$ b\nx\ny\n")
	if want := "  alice$ a\n- two\n+ TWO\n  alice$ b\n+ y\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := session.Diff("same\n", "same\n"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestArchive(t *testing.T) {
	want := []session.Transcript{{Name: "a/b c", Text: "alice$ x\n-- not a name\n"}, {Name: "d", Text: ""}}
	if got := session.ReadArchive(session.Archive("Written.\n", want)); !cmp.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The list itself is fit to be run.
func TestSessions(t *testing.T) {
	list, err := session.Load(filepath.Join("..", "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 600 {
		t.Errorf("%d sessions: at least 600 are wanted", len(list))
	}
	commands := map[string]int{}
	for _, s := range list {
		commands[s.File]++
	}
	for file, n := range commands {
		if n < 10 {
			t.Errorf("%d sessions of %s: at least 10 are wanted", n, file)
		}
	}
	for _, name := range strings.Fields("sbatch srun salloc squeue scancel sinfo scontrol sacct sacctmgr sstat sdiag sprio sshare sreport strigger sattach sbcast scrontab seff rest") {
		if commands[name] == 0 {
			t.Errorf("no sessions of %s", name)
		}
	}
}
