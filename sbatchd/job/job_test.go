package job_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestTransitionMatrix(t *testing.T) {
	const golden = "testdata/transitions.txt"
	got := job.Matrix()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}

func TestParseRef(t *testing.T) {
	for _, c := range []struct {
		text, want string // want is empty where text is refused
	}{
		{"123", "123"},
		{"100_4", "100_[4]"},
		{"100_[1-3,7]", "100_[1-3,7]"},
		{"100_[1-3%2]", "100_[1-3]"},
		{"100_*", "100"},
		{"100+2", "100+2"},
		{"0", ""},
		{"", ""},
		{"-1", ""},
		{"12x", ""},
		{"4294967296", ""},
		{"7_", ""},
		{"7_x", ""},
		{"7_[1-x]", ""},
		{"7_[0-2000000000]", ""},
		{"7+", ""},
		{"7+x", ""},
		{"7_1+1", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := job.ParseRef(c.text)
			if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestShownState(t *testing.T) {
	for _, c := range []struct {
		state      job.State
		flags      job.Flags
		long, code string
	}{
		{job.Pending, 0, "PENDING", "PD"},
		{job.Running, job.Configuring, "CONFIGURING", "CF"},
		{job.Running, 0, "RUNNING", "R"},
		{job.Completed, job.Completing, "COMPLETING", "CG"},
		{job.Pending, job.Completing | job.Requeued, "COMPLETING", "CG"},
		{job.OutOfMemory, 0, "OUT_OF_MEMORY", "OOM"},
	} {
		j := &job.Job{State: c.state, Flags: c.flags}
		if j.ShownState() != c.long || j.ShownCode() != c.code {
			t.Errorf("%s+%v shows %s %s, want %s %s", c.state, c.flags.Names(), j.ShownState(), j.ShownCode(), c.long, c.code)
		}
	}
}
