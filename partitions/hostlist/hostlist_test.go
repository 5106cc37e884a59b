package hostlist_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"plain", "node01", "node01"},
		{"padded", "n[01-03]", "n01 n02 n03"},
		{"grows", "n[8-11]", "n8 n9 n10 n11"},
		{"padded grows", "node[09-11]", "node09 node10 node11"},
		{"width of first", "n[001-2]", "n001 n002"},
		{"two items", "n[1-2],m3", "n1 n2 m3"},
		{"list and range", "node[1-3,5]", "node1 node2 node3 node5"},
		{"product", "r[0-1]n[1-2]", "r0n1 r0n2 r1n1 r1n2"},
		{"three brackets", "r[00-01]s[1-2]n[3-4]", "r00s1n3 r00s1n4 r01s1n3 r01s1n4 r00s2n3 r00s2n4 r01s2n3 r01s2n4"},
		{"letters kept", "a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"},
		{"one in a bracket", "n[1,2]x[3]", "n1x3 n2x3"},
		{"duplicates and order", "n[0-3,0-1]", "n0 n1 n2 n3 n0 n1"},
		{"empty items", "n1,,n2", "n1 n2"},
		{"blanks", "n1 n2\tn3\n", "n1 n2 n3"},
		{"numbers only", "[1-3]", "1 2 3"},
		{"suffix", "node[1-2]x", "node1x node2x"},
		{"suffix with digits", "b2u[05,02]n3", "b2u05n3 b2u02n3"},
		{"suffix dash", "n[1-2]-ib", "n1-ib n2-ib"},
		{"dotted", "10.0.0.[1-2]", "10.0.0.1 10.0.0.2"},
		{"underscore", "rack[0-1]_blade[0-1]", "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1"},
		{"public reports", "ml-[001-002,004],host[001,003-004,006]", "ml-001 ml-002 ml-004 host001 host003 host004 host006"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := hostlist.Parse(tt.in)
			if err != nil {
				t.Fatalf("Parse(%q): %v", tt.in, err)
			}
			if diff := cmp.Diff(strings.Fields(tt.want), got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, diag string }{
		{"descending", "n[3-1]", "_parse_single_range: Invalid range: `3-1'"},
		{"too many", "x[1-100000]", "_parse_single_range: Too many hosts in range `1-100000'"},
		{"one above the limit", "n[0-65536]", "_parse_single_range: Too many hosts in range `0-65536'"},
		{"huge", "node[0-2000000]", "_parse_single_range: Too many hosts in range `0-2000000'"},
		{"huge product", "n[0-65535]m[0-65535]", "too many hosts: 4294967296, the limit is 262144"},
		{"overflowing product", "n[0-65535]m[0-65535]a[0-65535]b[0-65535]c[0-65535]", "too many hosts: 18446744073709551615, the limit is 262144"},
		{"empty bracket", "n[]", ""},
		{"letters", "n[a-c]", ""},
		{"step", "n[1-3:2]", ""},
		{"open", "node[", ""},
		{"open later", "a,node[1-2", ""},
		{"only closed", "node1]", ""},
		{"nested", "n[1-[2]]", ""},
		{"empty element", "n[1,,2]", ""},
		{"no end", "n[1-]", ""},
		{"no start", "n[-1]", ""},
		{"three ends", "n[1-2-3]", ""},
		{"blank inside", "n[1, 2]", ""},
		{"sign", "n[+1]", ""},
		{"number too long", "n[1-9999999999999999999]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := hostlist.Parse(tt.in)
			var e *hostlist.Error
			if !errors.As(err, &e) {
				t.Fatalf("Parse(%q) = %v, %v; want an *Error", tt.in, got, err)
			}
			if want := "Invalid hostlist: " + tt.in; e.Error() != want || e.Diag != tt.diag {
				t.Errorf("got %q, diag %q; want %q, diag %q", e.Error(), e.Diag, want, tt.diag)
			}
		})
	}
}

func TestCompress(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"n5", "n5"},
		{"n1,n2,n3", "n[1-3]"},
		{"n1,n3,n5", "n[1,3,5]"},
		{"n01,n02,n10", "n[01-02,10]"},
		{"n1,n02,n3", "n[1,02,3]"},
		{"n9,n10,n11", "n[9-11]"},
		{"n09,n10,n11", "n[09-11]"},
		{"n099,n100", "n[099-100]"},
		{"n99,n100", "n[99-100]"},
		{"n999,n1000", "n[999-1000]"},
		{"tux2,tux1,tux2", "tux[2,1-2]"},
		{"a,b,c", "a,b,c"},
		{"n1,m1,n2", "n1,m1,n2"},
		{"n1,n1,n1", "n[1,1,1]"},
		{"n1-ib,n2-ib", "n1-ib,n2-ib"},
		{"rack0n1,rack0n2,rack1n1,rack1n2", "rack0n[1-2],rack1n[1-2]"},
		{"n[1-3],n[2-5]", "n[1-3,2-5]"},
		{"n[1-3],n4", "n[1-4]"},
		{"gpu-a1,gpu-a2", "gpu-a[1-2]"},
		{"n,n1,n2", "n,n[1-2]"},
		{"n0,n00,n000", "n[0,00,000]"},
		{"n1,n2,n4,n5,n6,n9", "n[1-2,4-6,9]"},
		{"r[0-1]n[0-3]", "r0n[0-3],r1n[0-3]"},
		{"n001,n2", "n[001,2]"},
		{"3,4,5", "[3-5]"},
		{"7", "7"},
		{"10.0.0.1,10.0.0.2", "10.0.0.[1-2]"},
		{"n1a2,n1a3", "n1a[2-3]"},
		{"n10,n1,n2", "n[10,1-2]"},
		{"n5,n4,n3", "n[5,4,3]"},
		{"n[9-10],n[100]", "n[9-10,100]"},
		{"n1,n01", "n[1,01]"},
		{"node3,node1,node2", "node[3,1-2]"},
		{"a-1,a-2", "a-[1-2]"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			names, err := hostlist.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := hostlist.Compress(names); got != tt.want {
				t.Errorf("Compress(%v) = %q, want %q", names, got, tt.want)
			}
		})
	}
}

func TestSortedAndSet(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, sorted, set string }{
		{"tux2,tux1,tux2", "tux[1-2,2]", "tux[1-2]"},
		{"n10,n1,n2", "n[1-2,10]", "n[1-2,10]"},
		{"b2,a1,b1,a2", "a[1-2],b[1-2]", "a[1-2],b[1-2]"},
		{"n02,n1,n01,n2", "n[1-2,01-02]", "n[1-2,01-02]"},
		{"node01,node01", "node[01,01]", "node01"},
		{"n2,n,n1", "n,n[1-2]", "n,n[1-2]"},
		{"n100,n99,n101", "n[99-101]", "n[99-101]"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			names := strings.Split(tt.in, ",")
			if got := hostlist.CompressSet(names); got != tt.set {
				t.Errorf("CompressSet = %q, want %q", got, tt.set)
			}
			if strings.Join(names, ",") != tt.in {
				t.Errorf("CompressSet changed its argument to %v", names)
			}
			hostlist.Sort(names)
			if got := hostlist.Compress(names); got != tt.sorted {
				t.Errorf("sorted = %q, want %q", got, tt.sorted)
			}
		})
	}
}

func TestExprIsLazy(t *testing.T) {
	t.Parallel()
	x, err := hostlist.ParseExpr("n[0-65535]m[0-65535],x")
	if err != nil {
		t.Fatal(err)
	}
	if got := x.Count(); got != 1<<32+1 {
		t.Errorf("Count = %d", got)
	}
	var got []string
	for name := range x.All() {
		if got = append(got, name); len(got) == 2 {
			break
		}
	}
	if !slices.Equal(got, []string{"n0m0", "n0m1"}) {
		t.Errorf("first names: %v", got)
	}
}

func TestCompressSplitsWhatParseWouldRefuse(t *testing.T) {
	t.Parallel()
	names, err := hostlist.Parse("n[1-60000],n[60001-120000]")
	if err != nil {
		t.Fatal(err)
	}
	got := hostlist.Compress(names)
	if want := "n[1-65536,65537-120000]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := hostlist.Parse(got); err != nil {
		t.Error(err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   []int
		want string
	}{
		{nil, ""},
		{[]int{4}, "4"},
		{[]int{72, 72, 36}, "72(x2),36"},
		{[]int{2, 2, 2, 1}, "2(x3),1"},
		{[]int{1, 2, 1}, "1,2,1"},
	}
	for _, tt := range tests {
		if got := hostlist.Counts(tt.in); got != tt.want {
			t.Errorf("Counts(%v) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"n[1-3]", "a,b c", "r[0-1]n[1-2]x", "n[", "[08-100]", "n[1-[2]]", "n0001,n2", "n[3-1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := hostlist.ParseExpr(s)
		if err != nil || x.Count() > 1000 {
			return
		}
		names, err := hostlist.Parse(s)
		if err != nil {
			t.Fatalf("ParseExpr accepts %q, Parse says %v", s, err)
		}
		text := hostlist.Compress(names)
		again, err := hostlist.Parse(text)
		if err != nil {
			t.Fatalf("%q -> %q: %v", s, text, err)
		}
		if !slices.Equal(names, again) {
			t.Fatalf("%q -> %v -> %q -> %v", s, names, text, again)
		}
		set := hostlist.Set(names)
		if !slices.IsSortedFunc(set, hostlist.Compare) {
			t.Fatalf("set of %q is not sorted: %v", s, set)
		}
	})
}
