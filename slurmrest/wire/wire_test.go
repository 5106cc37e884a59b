package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func TestNum(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want wire.Num
		bad  bool
	}{
		{in: `5`, want: wire.N(5)},
		{in: `5.0`, want: wire.N(5)},
		{in: `"5"`, want: wire.N(5)},
		{in: `"infinite"`, want: wire.Infinite},
		{in: `"UNLIMITED"`, want: wire.Infinite},
		{in: `null`},
		{in: `""`},
		{in: `{}`},
		{in: `{"set":true,"number":60}`, want: wire.N(60)},
		{in: `{"set":true,"infinite":false,"number":60}`, want: wire.N(60)},
		{in: `{"number":60}`, want: wire.N(60)},
		{in: `{"set":false,"number":60}`},
		{in: `{"set":true,"infinite":true,"number":60}`, want: wire.Infinite},
		{in: `{"set":true,"number":18446744073709551615}`, want: wire.N(int64(9223372036854775807))},
		{in: `"abc"`, bad: true},
		{in: `[1]`, bad: true},
	}
	for _, tt := range tests {
		var got wire.Num
		err := json.Unmarshal([]byte(tt.in), &got)
		if (err != nil) != tt.bad {
			t.Errorf("%s: error %v", tt.in, err)
			continue
		}
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.in, got, tt.want)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back wire.Num
		if err := json.Unmarshal(again, &back); err != nil || back != got {
			t.Errorf("%s: read back as %+v, %v", again, back, err)
		}
	}
}

func TestReadSubmit(t *testing.T) {
	t.Parallel()
	body := `{"script":"#!/bin/sh\ntrue\n","job":{
		"name":"caf\u00e9 \ud83d\ude00","tasks":"4","time_limit":"5","memory_per_node":200,"hold":"true",
		"environment":["PATH=/bin","A=b"],"excluded_nodes":"n[1,3],m2","required_nodes":["n1","n2"],
		"mail_type":["end","FAIL"],"priority":null,"comment":"","nosuchfield":1,"also":{"x":[1,2]}}}`
	var req wire.JobSubmitReq
	res, err := wire.Read([]byte(body), &req)
	if err != nil {
		t.Fatal(err)
	}
	j := req.Job
	if j.Name != "café 😀" || *j.Tasks != 4 || j.TimeLimit != wire.N(5) || j.MemoryPerNode != wire.N(200) || !*j.Hold {
		t.Errorf("read %+v", j)
	}
	for name, lists := range map[string][2][]string{
		"environment":    {j.Environment, {"PATH=/bin", "A=b"}},
		"excluded_nodes": {j.ExcludedNodes, {"n[1,3]", "m2"}},
		"required_nodes": {j.RequiredNodes, {"n1", "n2"}},
		"mail_type":      {j.MailType, {"END", "FAIL"}},
	} {
		if diff := cmp.Diff(lists[1], lists[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if !j.Given("comment") || j.Given("priority") || j.Given("partition") || j.Requeue != nil {
		t.Error("what was given is not known")
	}
	want := []wire.Warning{
		{Description: `Ignoring unknown field "nosuchfield" of type 64 bit integer in DATA_PARSER_JOB_DESC_MSG`, Source: "#/job/nosuchfield/"},
		{Description: `Ignoring unknown field "also" of type dictionary in DATA_PARSER_JOB_DESC_MSG`, Source: "#/job/also/"},
	}
	if diff := cmp.Diff(want, res.Warnings); diff != "" || res.Refused || len(res.Errors) > 0 {
		t.Errorf("%s%v", diff, res.Errors)
	}
}

func TestReadComplains(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body string
		want wire.Result
	}{
		{
			`{"job":{"tasks":"x"}}`,
			wire.Result{Refused: true, Warnings: []wire.Warning{{
				Description: `Expected OpenAPI type=integer format=int32 (Slurm type=64 bit integer) but got OpenAPI type=string (Slurm type=string): "x"`,
				Source:      "#/job/tasks/",
			}}},
		},
		{
			`{"job":{"time_limit":"abc"}}`,
			wire.Result{Errors: []wire.Error{{
				Description: `Expected integer but got "abc"`, ErrorNumber: 9202, Error: "Unable to convert Data type", Source: "#/job/time_limit/",
			}}},
		},
		{
			`{"jobs":[{},{"mail_type":["NEVER"]}]}`,
			wire.Result{Errors: []wire.Error{{
				Description: `Unknown flag "NEVER"`, ErrorNumber: 9207, Error: "Data parser unable to parse invalid flag", Source: "#/jobs[1]/mail_type/",
			}}},
		},
	}
	tests = append(tests, []struct {
		body string
		want wire.Result
	}{
		{"", wire.Result{}},
		{" \n", wire.Result{}},
		{`[1]`, wire.Result{Errors: []wire.Error{{
			Description: "Rejecting list when dictionary expected", ErrorNumber: 9209,
			Error: "Data parser expected a dictionary or object", Source: "#/",
		}}}},
		{`{"job":{"environment":{"PATH":"/bin"}}}`, wire.Result{Warnings: []wire.Warning{{
			Description: `Expected OpenAPI type=array (Slurm type=list) but got OpenAPI type=object (Slurm type=dictionary): {"PATH":"\/bin"}`,
			Source:      "#/job/environment/",
		}}}},
	}...)
	for _, tt := range tests {
		var req wire.JobSubmitReq
		got, err := wire.Read([]byte(tt.body), &req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(wire.Error{}, wire.Warning{})); diff != "" {
			t.Errorf("%s: %s", tt.body, diff)
		}
	}
}

func TestReadRefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"{", "{bad", `{"a"}`, `{"a":}`, `{"a":01}`, `{"a":"` + "\n" + `"}`,
		`{"a":tru}`, `{"a":1 "b":2}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{'a':1}`, "\ufeff{}", `/{}`, `{"job":{"name":"x}`,
		strings.Repeat(`{"a":[`, 200), `{"job":` + strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60) + `}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{,}`, `name=x`,
	} {
		var req wire.JobSubmitReq
		if _, err := wire.Read([]byte(body), &req); !errors.Is(err, errno.RESTFailParsing) {
			t.Errorf("%q: error %v", body, err)
		}
	}
}

// What Slurm's reader takes beyond JSON: comments, a comma too many, anything
// behind the value.
func TestReadTakesWhatSlurmTakes(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"script":"a",}`, `{"script":"a"} x`, "{\"script\":\"a\"}\x00", `/* c */ {"script":"a" /* d */}`, "{// e\n\"script\":\"a\"}",
	} {
		var req wire.JobSubmitReq
		if res, err := wire.Read([]byte(body), &req); err != nil || req.Script != "a" || len(res.Warnings) > 0 {
			t.Errorf("%q: script %q, %v %v", body, req.Script, res, err)
		}
	}
}

func TestReadFormerFields(t *testing.T) {
	t.Parallel()
	former := map[string]string{"exclusive": "shared", "oversubscribe": "shared", "power_flags": ""}
	for _, tt := range []struct {
		body string
		want []string
	}{
		{`{"oversubscribe":true,"power_flags":[]}`, []string{"oversubscribe"}},
		{`{"oversubscribe":false}`, nil},
		{`{"exclusive":["true"]}`, []string{"none"}},
		{`{"exclusive":["user"]}`, []string{"user"}},
		{`{"exclusive":["false"]}`, nil},
		{`{"shared":"mcs"}`, []string{"mcs"}},
	} {
		var d wire.JobDescMsg
		res, err := wire.ReadFormer([]byte(tt.body), &d, former)
		if diff := cmp.Diff(tt.want, d.Shared); err != nil || diff != "" || len(res.Warnings)+len(res.Errors) > 0 {
			t.Errorf("%s: %+v %v %s", tt.body, res, err, diff)
		}
	}
	var d wire.JobDescMsg
	if res, err := wire.Read([]byte(`{"oversubscribe":true}`), &d); err != nil || len(res.Warnings) != 1 {
		t.Errorf("the newest version knows a field that is gone: %+v %v", res, err)
	}
}

// fill sets every exported field of a value to something that isn't zero.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"x":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("text \"" + strings.Repeat("é\n", int(*n%3)) + "\x01")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(*n)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	default:
		panic(v.Kind())
	}
}

// clearInfinite makes the Nums that fill has set legal: infinite or a number.
func clearInfinite(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *wire.Num:
		x.Infinite = false
		return
	case *wire.NumFloat:
		x.Infinite = false
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				clearInfinite(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				clearInfinite(v.Index(i))
			}
		}
	case reflect.Pointer:
		clearInfinite(v.Elem())
	}
}

func TestEveryFieldComesBack(t *testing.T) {
	t.Parallel()
	for _, v := range []interface {
		wire.Value
		wire.Target
	}{
		&wire.JobInfoResp{}, &wire.NodesResp{}, &wire.PartitionResp{}, &wire.DiagResp{}, &wire.PingArrayResp{},
		&wire.JobSubmitResponse{}, &wire.JobPostResponse{}, &wire.KillJobsResp{}, &wire.DBJobsResp{}, &wire.JobsRequeueResp{},
		&wire.JobSubmitReq{}, &wire.UpdateNodeMsg{}, &wire.KillJobsMsg{},
	} {
		name := reflect.TypeOf(v).Elem().Name()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n int64
			fill(reflect.ValueOf(v).Elem(), &n)
			clearInfinite(reflect.ValueOf(v).Elem())
			for form, text := range map[string][]byte{"full": wire.Append(nil, v), "sparse": wire.AppendSparse(nil, v)} {
				if !json.Valid(text) {
					t.Fatalf("%s: not JSON: %.300s", form, text)
				}
				back := reflect.New(reflect.TypeOf(v).Elem()).Interface().(wire.Target)
				if err := wire.Unmarshal(text, back); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(v, back, cmpopts.IgnoreUnexported(wire.JobSubmitReq{}, wire.JobDescMsg{}, wire.UpdateNodeMsg{}, wire.KillJobsMsg{})); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
		})
	}
}

func TestSparseLeavesOutZero(t *testing.T) {
	t.Parallel()
	j := wire.JobInfo{JobID: 7, JobState: []string{"PENDING"}}
	if got := string(wire.AppendSparse(nil, &j)); got != `{"job_id":7,"job_state":["PENDING"]}` {
		t.Errorf("got %s", got)
	}
	full := wire.Append(nil, &j)
	if !bytes.Contains(full, []byte(`"nodes":""`)) || !bytes.Contains(full, []byte(`"mail_type":[]`)) ||
		!bytes.Contains(full, []byte(`"time_limit":{"set":false,"infinite":false,"number":0}`)) {
		t.Errorf("a field is missing: %s", full)
	}
}

func TestRequestSendsWhatIsGiven(t *testing.T) {
	t.Parallel()
	u := wire.JobDescMsg{Partition: "gpu", Hold: new(false), TimeLimit: wire.N(5)}
	u.Give("comment")
	want := `{"comment":"","hold":false,"partition":"gpu","time_limit":{"set":true,"infinite":false,"number":5}}`
	if got := string(wire.Append(nil, &u)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestStringsStayJSON(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a\"b\\c", "\x00\x1f\x7f", "\xff\xfeé", "tab\tnl\n", "<&>", "\u2028"} {
		text := wire.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%q: %s: %v", s, text, err)
			continue
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); back != want && !strings.Contains(s, "\xff") {
			t.Errorf("%q came back as %q", s, back)
		}
	}
}

func BenchmarkAppendJob(b *testing.B) {
	j := wire.JobInfo{JobID: 7, Name: "train", JobState: []string{"RUNNING"}, UserName: "alice", StandardOutput: "/home/alice/slurm-7.out"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.Append(buf[:0], &j)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkReadSubmit(b *testing.B) {
	body := []byte(`{"script":"#!/bin/bash\n` + strings.Repeat("echo hello world\\n", 100) +
		`","job":{"name":"bench","tasks":1,"environment":["PATH=/usr/bin:/bin","HOME=/home/alice"],"current_working_directory":"/home/alice","partition":"main"}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var req wire.JobSubmitReq
		if _, err := wire.Read(body, &req); err != nil {
			b.Fatal(err)
		}
	}
}
