package slurmconf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
)

// write makes files in a fresh folder and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// show prints a document one statement a line, "file:line Key=Value" per pair.
func show(dir string, doc *slurmconf.Document) string {
	var b strings.Builder
	for _, st := range doc.Statements {
		for i, p := range st {
			if i > 0 {
				b.WriteString(" | ")
			}
			rel, err := filepath.Rel(dir, p.File)
			if err != nil {
				rel = p.File
			}
			fmt.Fprintf(&b, "%s:%d %s%s=%s", rel, p.Line, p.Key, p.Op, p.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
	}{
		{"empty", "", ""},
		{"comments and blanks", "# hello\n\n   \t\n  # again\n", ""},
		{"one", "ClusterName=x", "a:1 ClusterName=x\n"},
		{"blanks around", "  ClusterName  =  x  \n", "a:1 ClusterName=x\n"},
		{"several pairs", "NodeName=n1 CPUs=4\tRealMemory=100\n", "a:1 NodeName=n1 | a:1 CPUs=4 | a:1 RealMemory=100\n"},
		{"trailing comment", "A=1 # why\nB=2#x\n", "a:1 A=1\na:2 B=2\n"},
		{"comment in quotes", "A=\"x # y\"\n", "a:1 A=\"x\n"},
		{"escaped hash", "A=x\\#y\n", "a:1 A=x#y\n"},
		{"escaped blank", "A=x\\ y B=1\n", "a:1 A=x y | a:1 B=1\n"},
		{"quotes", "A=\"x y\" B=\"\" C=z\n", "a:1 A=x y | a:1 B= | a:1 C=z\n"},
		{"quote in a value", "A=x\"y B=1\n", "a:1 A=x\"y | a:1 B=1\n"},
		{"equals in a value", "A=b=c,d=e\n", "a:1 A=b=c,d=e\n"},
		{"continuation", "A=1 \\\n  B=2 \\\n  C=3\nD=4\n", "a:1 A=1 | a:2 B=2 | a:3 C=3\na:4 D=4\n"},
		{"continuation in a value", "A=1,\\\n2\n", "a:1 A=1,2\n"},
		{"comment ends a continuation", "A=1 # x \\\nB=2\n", "a:1 A=1\na:2 B=2\n"},
		{"comment inside a continuation", "A=1 \\\n# gone\nB=2\n", "a:1 A=1\na:3 B=2\n"},
		{"continuation at the end", "A=1 \\", "a:1 A=1\n"},
		{"escaped backslash at the end", "A=1\\\\\nB=2\n", "a:1 A=1\\\na:2 B=2\n"},
		{"crlf", "A=1\r\nB=2\r\n", "a:1 A=1\na:2 B=2\n"},
		{"operators", "A+=1 B-=2\n", "a:1 A+=1 | a:1 B-=2\n"},
		{"no newline at the end", "A=1\nB=2", "a:1 A=1\na:2 B=2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{"a": tt.in})
			doc, faults := slurmconf.Read(filepath.Join(dir, "a"))
			if len(faults) > 0 {
				t.Errorf("faults: %v", faults)
			}
			if diff := cmp.Diff(tt.want, show(dir, doc)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestInclude(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"a":      "ClusterName=x\nInclude b.conf\ninclude\t\"c-%c\"\nZ=1\n",
		"b.conf": "# b\nB=1\nInclude d\n",
		"c-x":    "C=1\n",
		"d":      "D=1\n",
	})
	doc, faults := slurmconf.Read(filepath.Join(dir, "a"))
	if len(faults) > 0 {
		t.Fatalf("faults: %v", faults)
	}
	want := "a:1 ClusterName=x\nb.conf:2 B=1\nd:1 D=1\nc-x:1 C=1\na:4 Z=1\n"
	if diff := cmp.Diff(want, show(dir, doc)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := len(doc.Files); got != 4 {
		t.Errorf("%d files: %v", got, doc.Files)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  []string
		rest  string
	}{
		{"word without value", map[string]string{"a": "A=1\nB\nC=2 D E=3\nF=4\n"}, []string{`a:2: Parse error: "B"`, `a:3: Parse error: "D E=3"`}, "a:1 A=1\na:3 C=2\na:4 F=4\n"},
		{"no value", map[string]string{"a": "A=\n"}, []string{`a:1: Parse error: "A="`}, ""},
		{"no key", map[string]string{"a": "=1\n"}, []string{`a:1: Parse error: "=1"`}, ""},
		{"line of a continued fault", map[string]string{"a": "A=1 \\\nB\n"}, []string{`a:2: Parse error: "B"`}, "a:1 A=1\n"},
		{"missing include", map[string]string{"a": "A=1\nInclude nope\nB=1\n"}, []string{"a:2: Include DIR/nope: no such file or directory"}, "a:1 A=1\na:3 B=1\n"},
		{"missing file", map[string]string{}, []string{"a:0: no such file or directory"}, ""},
		{"include of a folder", map[string]string{"a": "Include .\n"}, []string{"a:1: Include DIR: is a directory"}, ""},
		{"cycle", map[string]string{"a": "Include b\n", "b": "B=1\nInclude a\n"}, []string{"b:2: Include cycle: DIR/a -> DIR/b -> DIR/a"}, "b:1 B=1\n"},
		{"self", map[string]string{"a": "Include ./a\n"}, []string{"a:1: Include cycle: DIR/a -> DIR/a"}, ""},
		{"%c too early", map[string]string{"a": "Include c-%c\nClusterName=x\n"}, []string{"a:1: Include c-%c: ClusterName must stand before it"}, "a:2 ClusterName=x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, tt.files)
			doc, faults := slurmconf.Read(filepath.Join(dir, "a"))
			var got []string
			for _, f := range faults {
				rel, err := filepath.Rel(dir, f.File)
				if err != nil {
					rel = f.File
				}
				got = append(got, fmt.Sprintf("%s:%d: %s", rel, f.Line, strings.ReplaceAll(f.Msg, dir, "DIR")))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.rest, show(dir, doc)); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"x", "", "a b", "a#b", `a\b`, `a \# b`, `ends\`} {
		q, err := slurmconf.Quote(v)
		if err != nil {
			t.Fatal(err)
		}
		dir := write(t, map[string]string{"a": "K=" + q + " L=1\n"})
		doc, faults := slurmconf.Read(filepath.Join(dir, "a"))
		if len(faults) > 0 || len(doc.Statements) != 1 || doc.Statements[0][0].Value != v || len(doc.Statements[0]) != 2 {
			t.Errorf("%q written as %s reads as %s %v", v, q, show(dir, doc), faults)
		}
	}
	if _, err := slurmconf.Quote(`a"b`); err == nil {
		t.Error("a quote can be written")
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"A=1\nB=\"x y\" C=2 # c\n", "Include a\n", "A=1 \\\nB=2", "A\\=1", "A=\"", "include \"", "K=a\\"} {
		f.Add(s)
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "a")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(strings.ToLower(s), "include") && strings.Contains(s, "/") {
			return // no reading outside of the folder
		}
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		doc, _ := slurmconf.Read(path)
		for _, st := range doc.Statements {
			for _, p := range st {
				if p.Key == "" || p.Line < 1 {
					t.Fatalf("pair %+v of %q", p, s)
				}
				if q, err := slurmconf.Quote(p.Value); err == nil && q == "" {
					t.Fatalf("value %q is written empty", p.Value)
				}
			}
		}
	})
}
