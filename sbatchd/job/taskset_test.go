package job_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// TestParseTasks has what a real Slurm 26.05 answered to each --array.
func TestParseTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		want  string // as squeue shows it; empty: refused
		limit uint32
	}{
		{"0-4", "0-4", 0},
		{"1,2,2", "1-2", 0},
		{"007-009", "7-9", 0},
		{"1-10:3", "1,4,7,10", 0},
		{"1-9:4", "1,5,9", 0},
		{"1-11:2", "1,3,5,7,9,11", 0},
		{"0-12:2", "0-12:2", 0},
		{"0-12:3", "0,3,6,9,12", 0},
		{"0-20:5", "0,5,10,15,20", 0},
		{"0-25:5", "0-25:5", 0},
		{"0-400:100", "0,100,200,300,400", 0},
		{"0-1000:2", "0-1000:2", 0},
		{"1-200:3%4", "1-199:3", 4},
		{"1-3,10-20:5", "1-3,10,15,20", 0},
		{"1-3,7-8%4", "1-3,7-8", 4},
		{"1-3:5", "1", 0},
		{"[1-3]", "1-3", 0},
		{"[1-3],5", "1-3,5", 0},
		{"[1-3]%2", "1-3", 2},
		{"[1-3", "1-3", 0},
		{"1-3,", "1-3", 0},
		{",1-3", "1-3", 0},
		{" 1-3", "1-3", 0},
		{"+3", "3", 0},
		{"1-3%", "1-3", 0},
		{"1-3%-1", "1-3", 0},
		{"1-5%abc", "1-5", 0},
		{"1-3%2%3", "1-3", 2},
		{"1%2-3", "1", 2},
		{"100000", "100000", 0},
		{"100001", "", 0},
		{"0-200000", "", 0},
		{"1-3:0", "", 0},
		{"5-1", "", 0},
		{"-1", "", 0},
		{"abc", "", 0},
		{"1 - 3", "", 0},
		{"0x10", "", 0},
		{"1,2;3", "", 0},
		{"0-4294967295", "", 0},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			set, limit, err := job.ParseTasks(c.text, 100001)
			if (err == nil) != (c.want != "") || set.String() != c.want || err == nil && limit != c.limit {
				t.Errorf("%q %%%d, %v; want %q %%%d", set, limit, err, c.want, c.limit)
			}
		})
	}
}

// TestTaskSet compares a set with a plain one through random changes.
func TestTaskSet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		plain := map[uint32]bool{}
		step := 1 + rnd.Uint32N(4)
		for n := rnd.Uint32N(5); n < 60; n += step {
			if rnd.IntN(5) > 0 {
				plain[n] = true
			}
		}
		members := func() []uint32 {
			var out []uint32
			for n := range uint32(80) {
				if plain[n] {
					out = append(out, n)
				}
			}
			return out
		}
		set := job.TasksOf(slices.Values(members()))
		for len(plain) > 0 {
			want := members()
			if got := slices.Collect(set.All()); !slices.Equal(got, want) || set.Len() != len(want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
			if first, ok := set.First(); !ok || first != want[0] {
				t.Fatalf("seed %d: first %d of %v", seed, first, want)
			}
			data, err := json.Marshal(set)
			var back job.TaskSet
			if err != nil || json.Unmarshal(data, &back) != nil || back.String() != set.String() || back.Len() != set.Len() {
				t.Fatalf("seed %d: %s became %v", seed, data, back)
			}
			again, _, err := job.ParseTasks(set.String(), 100)
			if err != nil || !slices.Equal(slices.Collect(again.All()), want) {
				t.Fatalf("seed %d: %s read as %v", seed, set, again)
			}
			n := want[0]
			if rnd.IntN(2) == 0 {
				n = want[rnd.IntN(len(want))]
			}
			if !set.Has(n) || set.Without(n).Has(n) || set.Has(n+100) {
				t.Fatalf("seed %d: %d in and out of %s", seed, n, set)
			}
			set = set.Without(n)
			delete(plain, n)
		}
		if set.Len() != 0 || set.String() != "" {
			t.Fatalf("seed %d: %s is left", seed, set)
		}
	}
}

// TestTaskSetSmall: the size of an array is not that of its set.
func TestTaskSetSmall(t *testing.T) { //nolint:paralleltest // it counts allocations
	set, _, err := job.ParseTasks("1-100000", 100001)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { set.Without(1) }); n > 0 {
		t.Errorf("the lowest index costs %v allocations", n)
	}
	data, err := json.Marshal(set.Without(1).Without(500))
	if err != nil || string(data) != `"2-499,501-100000"` {
		t.Errorf("%s %v", data, err)
	}
	even, _, err := job.ParseTasks("0-100000:2,1", 100001)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(even); err != nil || len(data) > 20 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func FuzzParseTasks(f *testing.F) {
	for _, s := range []string{"1-5,9%2", "[0-3]", "1-10:3", "4294967295", "0-100000000", "1,,2", strings.Repeat("1,", 50)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, _, err := job.ParseTasks(text, 1001)
		if err != nil {
			return
		}
		back, _, err := job.ParseTasks(set.String(), 1001)
		if err != nil || back.String() != set.String() {
			t.Errorf("%q: %s, again %s, %v", text, set, back, err)
		}
	})
}
