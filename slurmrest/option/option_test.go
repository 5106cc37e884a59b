package option_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/option"
)

var now = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func input(script string, args ...string) option.Input {
	return option.Input{Tool: option.Sbatch, Args: args, Body: []byte(script), Name: "job.sh", Dir: "/home/alice", Now: now}
}

// outcome prints what parsing came to, as testdata writes it.
func outcome(all []*option.Values, err error, num bool) []string {
	var e *option.Error
	if errors.As(err, &e) {
		var lines []string
		for _, l := range e.Lines {
			lines = append(lines, strings.TrimSuffix(l.Print("sbatch"), "\n"))
		}
		return []string{fmt.Sprintf("! %d %s", e.Exit, strings.Join(lines, " | "))}
	}
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, v := range all {
		line := "->"
		for _, o := range v.All() {
			if num {
				line += fmt.Sprintf(" %s=%d", o.Long, v.Num(o.Long))
			} else {
				line += " " + o.Long + "=" + v.Str(o.Long)
			}
		}
		out = append(out, line)
	}
	return out
}

func TestScripts(t *testing.T) {
	data, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(data), "\n== ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		script, want := "#!/bin/bash\n", []string(nil)
		for _, l := range strings.Split(strings.TrimRight(rest, "\n"), "\n") {
			if strings.HasPrefix(l, "->") || strings.HasPrefix(l, "! ") {
				want = append(want, l)
			} else {
				script += l + "\n"
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := option.Parse(input(script))
			if diff := cmp.Diff(want, outcome(all, err, false)); diff != "" {
				t.Errorf("%s(-want +got)\n%s", script, diff)
			}
		})
	}
}

func TestValues(t *testing.T) {
	data, err := os.ReadFile("testdata/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		args, want, ok := strings.Cut(line, " -> ")
		if !ok {
			continue
		}
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all, err := option.Parse(input("#!/bin/sh\n", strings.Fields(args)...))
			got := outcome(all, err, true)[0]
			if !strings.HasPrefix(want, "!") {
				want = "-> " + want
			}
			if got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	script := "#!/bin/sh\n#SBATCH -J script -t 5 -p script --mem=1G\n"
	tests := []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"script", nil, nil, "-> job-name=script mem=1G partition=script time=5"},
		{"environment over script", []string{"SBATCH_JOB_NAME=env", "SBATCH_TIMELIMIT=7"}, nil, "-> job-name=env mem=1G partition=script time=7"},
		{"command line over all", []string{"SBATCH_JOB_NAME=env"}, []string{"-Jcli", "-Hp", "x"}, "-> hold= job-name=cli mem=1G partition=x time=5"},
		{"not a variable of sbatch", []string{"SBATCH_NTASKS=5", "SLURM_NTASKS=5", "SBATCH_COMMENT=x"}, nil, "-> job-name=script mem=1G partition=script time=5"},
		{"a kind of memory on the command line drops the others", nil, []string{"--mem-per-cpu=2G"}, "-> job-name=script mem-per-cpu=2G partition=script time=5"},
		{"a flag by variable", []string{"SBATCH_OVERCOMMIT=yes", "SBATCH_USE_MIN_NODES="}, nil, "-> job-name=script mem=1G overcommit= partition=script time=5 use-min-nodes="},
		{"a variable turns a flag off", []string{"SBATCH_OVERCOMMIT=no", "SBATCH_WAIT=0"}, nil, "-> job-name=script mem=1G partition=script time=5"},
		{"optional argument by variable", []string{"SBATCH_EXCLUSIVE="}, nil, "-> exclusive=node job-name=script mem=1G partition=script time=5"},
		{"ours by variable", []string{"SBATCH_TRUST=own"}, nil, "-> job-name=script mem=1G partition=script time=5 trust=own"},
		{"bad value in a variable", []string{"SBATCH_TIMELIMIT=junk"}, nil, "! 255 sbatch: error: Invalid --time specification"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := input(script, tt.args...)
			in.Environ = tt.env
			all, err := option.Parse(in)
			if got := outcome(all, err, false)[0]; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	getenv := func(string) string { return "" }
	e, err := option.First(option.Sbatch, []string{"-vv", "-J", "x", ":", "-n2", "job.sh", "--flag", "a b"}, getenv)
	if err != nil {
		t.Fatal(err)
	}
	want := option.Early{Verbose: 2, Rest: []string{"job.sh", "--flag", "a b"}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	if e, err = option.First(option.Sbatch, []string{"--wrap=hostname"}, getenv); err != nil || !e.HasWrap || e.Wrap != "hostname" {
		t.Errorf("wrap: %+v, %v", e, err)
	}
}

func TestCheckScript(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"good", "#!/bin/sh\ntrue\n", ""},
		{"lone carriage return", "#!/bin/sh\rtrue\n", ""},
		{"empty", "", "Batch script is empty!"},
		{"blank", " \n\t\n", "Batch script contains only whitespace!"},
		{"no shebang", "echo\n", "This does not look like a batch script.  The first; line must start with #! followed by the path to an interpreter.; For instance: #!/bin/sh"},
		{"NUL", "#!/bin/sh\n\x00\r\n", `The Slurm controller does not allow scripts that; contain a NULL character '\0'.`},
		{"DOS", "#!/bin/sh\r\n", `Batch script contains DOS line breaks (\r\n); instead of expected UNIX line breaks (\n).`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := option.CheckScript([]byte(tt.body))
			if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	all, err := option.Parse(input("#!/bin/sh\n#SLURM -J x\n#SLURM -N 4\n#SBATCH packjob\n#SBATCH -n 1 -N 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range all[0].Notices {
		got = append(got, strings.TrimSpace(l.Print("sbatch")))
	}
	want := []string{
		"sbatch: error: Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch",
		`sbatch: warning: The "packjob" component separator is deprecated. Please use "hetjob" instead.`,
		"sbatch: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTable keeps the table free of slips that no compiler finds.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, tool := range []option.Tool{option.Sbatch, option.Salloc, option.Srun} {
		shorts := map[byte]string{}
		for _, o := range option.Table() {
			if o.Tools&tool == 0 {
				continue
			}
			if o.Short != 0 {
				if other := shorts[o.Short]; other != "" {
					t.Errorf("%s: -%c is --%s and --%s", tool, o.Short, other, o.Long)
				}
				shorts[o.Short] = o.Long
			}
			if o.Help == "" {
				t.Errorf("--%s has no help", o.Long)
			}
			if (o.Do == option.Acts) != (o.Why == "") {
				t.Errorf("--%s: %s, why %q", o.Long, o.Do, o.Why)
			}
			if (o.Arg == option.None) != (o.Meta == "") {
				t.Errorf("--%s: argument %q", o.Long, o.Meta)
			}
		}
	}
}

// TestNames holds the table against the options that Slurm itself lists.
func TestNames(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]option.Tool{"sbatch": option.Sbatch, "srun": option.Srun, "salloc": option.Salloc}
	for _, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		tool, ok := tools[words[0]]
		if !ok {
			continue
		}
		want := map[string]option.Arg{}
		for _, w := range words[1:] {
			switch {
			case strings.HasSuffix(w, "[=]"):
				want[strings.TrimSuffix(w, "[=]")] = option.Optional
			case strings.HasSuffix(w, "="):
				want[strings.TrimSuffix(w, "=")] = option.Required
			default:
				want[w] = option.None
			}
		}
		got := map[string]option.Arg{}
		for _, o := range option.Table() {
			if o.Tools&tool != 0 && !o.Ours {
				got[o.Long] = o.ArgOf(tool)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Slurm +ours)\n%s", words[0], diff)
		}
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("OPTIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(option.Document(), string(data)); diff != "" {
		t.Errorf("OPTIONS.md is not current: make generate\n%s", diff)
	}
}

func BenchmarkParse40(b *testing.B) {
	script := "#!/bin/bash\n"
	for range 5 {
		script += "#SBATCH --job-name=train # the name\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n" +
			"#SBATCH --cpus-per-task 8\n#SBATCH --mem=64G\n#SBATCH -t 1-02:03:04\n#SBATCH --gres=gpu:a100:4\n#SBATCH --output=\"logs/%x-%j.out\"\n"
	}
	script += "srun python train.py\n"
	in := input(script, "job.sh")
	in.Environ = []string{"HOME=/home/alice", "SLURM_CONF=/x", "PATH=/bin"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := option.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
