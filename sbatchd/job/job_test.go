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

func TestID(t *testing.T) {
	for _, c := range []struct {
		text string
		want job.ID
		ok   bool
	}{
		{"123", job.NewID(123), true},
		{"100_4", job.ID{Array: 100, Task: 4}, true},
		{"0", job.ID{}, false},
		{"", job.ID{}, false},
		{"-1", job.ID{}, false},
		{"12x", job.ID{}, false},
		{"4294967296", job.ID{}, false},
		{"7_", job.ID{}, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := job.ParseID(c.text)
			if (err == nil) != c.ok || got != c.want {
				t.Fatalf("got %+v, %v", got, err)
			}
			if c.ok && got.String() != c.text {
				t.Errorf("printed %s", got)
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
