package spec_test

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

func TestZeroAnswersFit(t *testing.T) {
	t.Parallel()
	const v = "/slurm/v0.0.45"
	for _, tt := range []struct {
		method, path string
		value        wire.Value
	}{
		{"GET", v + "/ping", &wire.PingArrayResp{Pings: make([]wire.ControllerPing, 1)}},
		{"GET", v + "/diag/", &wire.DiagResp{}},
		{"GET", v + "/jobs", &wire.JobInfoResp{Jobs: []wire.JobInfo{{JobResources: &wire.JobRes{Nodes: wire.JobResNodes{Allocation: make([]wire.JobResNode, 1)}}}}}},
		{"POST", v + "/job/submit", &wire.JobSubmitResponse{}},
		{"POST", v + "/job/{job_id}", &wire.JobPostResponse{Results: make([]wire.JobArrayResponseMsgEntry, 1)}},
		{"DELETE", v + "/job/{job_id}", &wire.KillJobResp{Status: make([]wire.KillJobsRespJob, 1)}},
		{"GET", v + "/nodes", &wire.NodesResp{Nodes: make([]wire.Node, 1)}},
		{"GET", v + "/partitions", &wire.PartitionResp{Partitions: make([]wire.PartitionInfo, 1)}},
		{"GET", "/slurmdb/v0.0.45/jobs", &wire.DBJobsResp{Jobs: []wire.DBJob{{Steps: make([]wire.DBStep, 1)}}}},
	} {
		if err := spec.Check("v0.0.45", tt.method, tt.path, wire.Append(nil, tt.value)); err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.path, err)
		}
	}
}

func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	const envelope = `"meta":{"client":{"group":"","source":"","user":""},"command":[],"plugin":{"accounting_storage":"","data_parser":"","name":"","type":""},` +
		`"slurm":{"cluster":"","release":"","version":{"major":"","micro":"","minor":""}}},"warnings":[],`
	const ping = `{"hostname":"h","latency":1,"primary":true,"responding":true,"status":"UP"}`
	for _, tt := range []struct{ body, want string }{
		{`{` + envelope + `"errors":[],"pings":[` + ping + `]}`, ""},
		{`{` + envelope + `"errors":[]}`, "pings is missing"},
		{`{` + envelope + `"errors":[{"description":"","error":"","error_number":1,"source":""}]}`, ""},
		{`{` + envelope + `"errors":[],"pings":[{}]}`, "pings[0].hostname is missing"},
		{`{` + envelope + `"errors":[],"pings":[` + strings.Replace(ping, "true", `"true"`, 1) + `]}`, "pings[0].primary is string"},
		{`{` + envelope + `"errors":[],"pings":[` + strings.Replace(ping, "1", "1.5", 1) + `]}`, "pings[0].latency is 1.5"},
		{`{` + envelope + `"errors":[],"pings":null}`, "pings is <nil>"},
		{`{` + envelope + `"errors":[],"pings":[],"extra":1}`, "extra is unknown"},
	} {
		err := spec.Check("v0.0.45", "GET", "/slurm/v0.0.45/ping/", []byte(tt.body))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.body, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q", tt.body, err, tt.want)
		}
	}
	if err := spec.Check("v0.0.45", "GET", "/slurm/v0.0.45/nothing", nil); err == nil {
		t.Error("an unknown operation passes")
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	doc, err := spec.OpenAPI("sbatchd", "26.05", func(_, p string) bool { return strings.HasPrefix(p, "/slurm/v0.0.45/") })
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := openapi3.NewLoader().LoadFromData(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Validate(t.Context(), openapi3.DisableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	few, err := spec.OpenAPI("sbatchd", "26.05", func(m, p string) bool { return m == "GET" && strings.HasSuffix(p, "/ping/") })
	if err != nil {
		t.Fatal(err)
	}
	if len(few) > len(doc)/2 || !strings.Contains(string(few), "/slurm/v0.0.44/ping/") {
		t.Errorf("%d bytes for ping alone, %d for all", len(few), len(doc))
	}
}
