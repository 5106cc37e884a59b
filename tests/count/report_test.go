package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseGroups(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args string
		want []group
		err  bool
	}{
		{name: "one", args: "unit: ./...", want: []group{{"unit", []string{"./..."}}}},
		{name: "two", args: "unit: -race ./... -- e2e: -tags e2e ./tests/e2e", want: []group{
			{"unit", []string{"-race", "./..."}}, {"e2e", []string{"-tags", "e2e", "./tests/e2e"}},
		}},
		{name: "no name", args: "./...", err: true},
		{name: "no arguments", args: "unit:", err: true},
		{name: "nothing", args: "", err: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseGroups(strings.Fields(tt.args))
			if tt.args == "" {
				got, err = parseGroups([]string{""})
			}
			if (err != nil) != tt.err {
				t.Fatalf("error %v, want one: %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(group{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	const stream = `
{"Action":"run","Package":"github.com/sbatchd/sbatchd/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/sbatchd/sbatchd/a","Test":"TestOne","Output":"chatter\n"}
{"Action":"pass","Package":"github.com/sbatchd/sbatchd/a","Test":"TestOne","Elapsed":0.1}
{"Action":"output","Package":"github.com/sbatchd/sbatchd/a","Test":"TestTwo","Output":"    a_test.go:9: wants root: not here\n"}
{"Action":"output","Package":"github.com/sbatchd/sbatchd/a","Test":"TestTwo","Output":"--- SKIP: TestTwo (0.00s)\n"}
{"Action":"skip","Package":"github.com/sbatchd/sbatchd/a","Test":"TestTwo","Elapsed":0}
{"Action":"pass","Package":"github.com/sbatchd/sbatchd/a","Elapsed":0.2}
{"Action":"output","Package":"github.com/sbatchd/sbatchd/b","Test":"TestBad","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"github.com/sbatchd/sbatchd/b","Test":"TestBad","Elapsed":0}
{"Action":"fail","Package":"github.com/sbatchd/sbatchd/b","Elapsed":0}
{"ImportPath":"github.com/sbatchd/sbatchd/c","Action":"build-output","Output":"c.go:1: syntax error\n"}
{"ImportPath":"github.com/sbatchd/sbatchd/c","Action":"build-fail"}
`
	const want = `ok  a                                               2 tests    0.2s
--- FAIL github.com/sbatchd/sbatchd/b TestBad (0.0s)
    b_test.go:3: got 1, want 2
c.go:1: syntax error
--- FAIL github.com/sbatchd/sbatchd/c does not build
== summary
unit: ran 2 tests, 2 failed, 1 skipped, in 0s
skipped: a TestTwo: wants root: not here
tests: 1 passed, 2 failed, 1 skipped
`
	var out bytes.Buffer
	r := newReport("unit", &out, false)
	if err := r.read(strings.NewReader(strings.TrimPrefix(stream, "\n"))); err != nil {
		t.Fatal(err)
	}
	if summary(&out, []*report{r}) {
		t.Error("a run with failures counts as passed")
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
