package output_test

import (
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

func TestExpand(t *testing.T) {
	plain := output.Names{ID: job.NewID(128), User: "alice", JobName: "train", Node: "gpu-3.example.org", Restart: 2}
	task := plain
	task.ID = job.ID{Raw: 131, Array: 128, Task: 23}
	step := plain
	step.Step, step.Task, step.Index = "4", 7, 1
	for _, c := range []struct {
		name, in string
		n        output.Names
		want     string
	}{
		{"job", "slurm-%j.out", plain, "slurm-128.out"},
		{"padded", "%4j", plain, "0128"},
		{"padding is capped", "%40j", plain, "0000000128"},
		{"endless number", "%99999999999999999999j", plain, "0000000128"},
		{"zero width", "%0j", plain, "128"},
		{"name and user", "%x-%u", plain, "train-alice"},
		{"padded text", "%9x", plain, "train"},
		{"array of none", "%A_%a", plain, "128_4294967294"},
		{"array", "%A_%a-%j", task, "128_23-131"},
		{"index mod 10", "%b", task, "3"},
		{"padded index", "%3a", task, "023"},
		{"node", "%N", plain, "gpu-3"},
		{"batch", "%J %s %t %n", plain, "128 batch 0 0"},
		{"step", "%J %s %t %n %2s", step, "128.4 4 7 1 04"},
		{"restart", "%r", plain, "2"},
		{"percent", "100%%", plain, "100%"},
		{"percent twice", "%%j", plain, "%j"},
		{"unknown", "%q %5q", plain, "%q %5q"},
		{"at the end", "x%", plain, "x%"},
		{"number at the end", "x%5", plain, "x%5"},
		{"percent then pattern", "%5%j", plain, "%5128"},
		{"backslash", `a\%j-%x`, plain, "a%j-%x"},
		{"backslash at the end", `%j\`, plain, "%j"},
		{"empty", "", plain, ""},
		{"others' letters", "%d%é", plain, "%d%é"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := output.Expand(c.in, c.n); got != c.want {
				t.Errorf("%q is %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestPath(t *testing.T) {
	n := output.Names{ID: job.NewID(7)}
	for _, c := range []struct{ in, want string }{
		{"logs/%j.out", "/home/a/logs/7.out"},
		{"/tmp/%j", "/tmp/7"},
		{"/dev/null", "/dev/null"},
		{"", ""},
		{output.DefaultPattern(job.NewID(7)), "/home/a/slurm-7.out"},
		{output.DefaultPattern(job.ID{Raw: 9, Array: 7, Task: 1}), "/home/a/slurm-7_4294967294.out"},
	} {
		if got := output.Path(c.in, "/home/a", n); got != c.want {
			t.Errorf("%q is %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"slurm-%j.out", "%4A_%a%%", `\%j`, "%", "%9", "%%%", "%18446744073709551616j"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		output.Expand(in, output.Names{ID: job.NewID(1)})
	})
}
