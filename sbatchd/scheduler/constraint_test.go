package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/node"
)

func TestParseConstraint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want alternatives
		same bool
		bad  bool
	}{
		{text: "a", want: alternatives{{"a"}}},
		{text: "a&b", want: alternatives{{"a", "b"}}},
		{text: "a,b", want: alternatives{{"a", "b"}}},
		{text: "a|b&c", want: alternatives{{"a"}, {"b", "c"}}},
		{text: "(a|b)&c", want: alternatives{{"a", "c"}, {"b", "c"}}},
		{text: "[us-west-2a|us-west-2b]", want: alternatives{{"us-west-2a"}, {"us-west-2b"}}, same: true},
		{text: "a&[b|c]", want: alternatives{{"a", "b"}, {"a", "c"}}, same: true},
		{text: "[a|b]&[c|d]", bad: true},
		{text: "a&", bad: true},
		{text: "a*2", bad: true},
		{text: "[a|b", bad: true},
		{text: "a]", bad: true},
		{text: "(((((a)))))", bad: true},
	}
	for _, tt := range tests {
		c, err := parseConstraint(tt.text)
		if (err != nil) != tt.bad {
			t.Errorf("%q: %v", tt.text, err)
		}
		if d := cmp.Diff(tt.want, c.any); d != "" || c.same != tt.same {
			t.Errorf("%q: same %v\n%s", tt.text, c.same, d)
		}
	}
}

func FuzzParseConstraint(f *testing.F) {
	for _, s := range []string{"a", "a&b|c", "[a|b]", "(a|b)&(c|d)&(e|f)", "[(x|y)&z*2]", "a*4", "'nvidia_gpu&intel_cpu'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConstraint(text)
		if err == nil && len(c.any) > maxAlternatives {
			t.Errorf("%d alternatives", len(c.any))
		}
		c.holds([]string{"a"})
	})
}

// TestMatching gives two nodes to [fast|slow]: both must be of one kind.
func TestMatching(t *testing.T) {
	t.Parallel()
	var rooms []room
	for _, n := range []*node.Node{{Name: "n1", Features: []string{"fast"}}, {Name: "n2", Features: []string{"slow"}}, {Name: "n3", Features: []string{"slow"}}} {
		n.CPUs = 4
		rooms = append(rooms, room{node: n, cpus: 4})
	}
	c, err := parseConstraint("[fast|slow]")
	if err != nil {
		t.Fatal(err)
	}
	got, ok := Need{NodesMin: 2, NodesMax: 2, Tasks: 2, CPUsPerTask: 1, Features: c}.place(rooms)
	if !ok || len(got) != 2 || got[0].Node != "n2" || got[1].Node != "n3" {
		t.Errorf("placed on %v, %v", got, ok)
	}
}
