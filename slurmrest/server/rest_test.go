package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/server"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func TestEveryAnswerHasItsStructure(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.submit(`"hold":true,"comment":"waits","mail_type":["END"],"tres_per_node":"gres/gpu:1"`)
	done := h.submit(`"tasks":2,"cpus_per_task":2,"tres_per_node":"gres/gpu:fake:1","shared":["none"]`)
	h.finish(h.run(done), job.ExitCode{Status: 3})
	h.run(h.submit(`"time_limit":5,"distribution":"block","profile":["TASK"]`))
	for _, v := range version.Served() {
		for _, tt := range []struct{ path, template string }{
			{"/slurm/V/jobs", "/slurm/V/jobs/"},
			{"/slurm/V/jobs/", "/slurm/V/jobs/"},
			{"/slurm/V/job/1", "/slurm/V/job/{job_id}"},
			{"/slurm/V/job/2", "/slurm/V/job/{job_id}"},
			{"/slurm/V/nodes/", "/slurm/V/nodes/"},
			{"/slurm/V/node/spot-1", "/slurm/V/node/{node_name}"},
			{"/slurm/V/partitions", "/slurm/V/partitions/"},
			{"/slurm/V/partition/MAIN", "/slurm/V/partition/{partition_name}"},
			{"/slurm/V/ping", "/slurm/V/ping/"},
			{"/slurm/V/diag/", "/slurm/V/diag/"},
			{"/slurm/V/licenses", "/slurm/V/licenses/"},
			{"/slurmdb/V/jobs?show_duplicates&show_batch_script", "/slurmdb/V/jobs/"},
			{"/slurmdb/V/job/2", "/slurmdb/V/job/{job_id}"},
			{"/slurmdb/V/ping", "/slurmdb/V/ping/"},
			{"/slurm/V/reservations", "/slurm/V/reservations/"},
			{"/slurm/V/resources/3", "/slurm/V/resources/{job_id}"},
		} {
			if !has(v.Name, tt.path) {
				continue
			}
			r := h.do(alice, "GET", strings.Replace(tt.path, "V", v.Name, 1), "", strings.Replace(tt.template, "V", v.Name, 1))
			if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s", tt.path, r.status, r.body)
			}
		}
	}
}

func TestJobRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	id := h.submit(`"partition":"main","tasks":2,"cpus_per_task":2,"memory_per_node":{"set":true,"number":200},"nice":5,` +
		`"standard_output":"out-%j-%x.txt","constraints":"","time_limit":{"set":true,"number":30},"comment":"hello","begin_time":2051222400,` +
		`"tres_per_node":"gres/gpu:1","argv":["job.sh","a"]`)
	j := h.job(id)
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"state", j.JobState, []string{"PENDING"}},
		{"user", j.UserName, "alice"},
		{"cpus", j.CPUs, wire.N(4)},
		{"tasks", j.Tasks, wire.N(2)},
		{"memory", j.MemoryPerNode, wire.N(200)},
		{"time limit", j.TimeLimit, wire.N(30)},
		{"output", j.StandardOutput, "/home/alice/out-%j-%x.txt"},
		{"output expanded", j.StdoutExpanded, "/home/alice/out-1-a.txt"},
		{"comment", j.Comment, "hello"},
		{"tres", j.TRESReqStr, "cpu=4,mem=200M,node=1,billing=4,gres/gpu=1"},
		{"command", j.Command, "job.sh"},
		{"cwd", j.CurrentWorkingDirectory, "/home/alice"},
		{"resources", j.JobResources, (*wire.JobRes)(nil)},
		{"max nodes", j.MaxNodes, wire.N(0)},
		{"nice", j.Nice, int64(5)},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	running := h.submit(`"tres_per_node":"gres/gpu:1"`)
	h.run(running)
	j = h.job(running)
	if !slices.Equal(j.JobState, []string{"RUNNING"}) || j.Nodes != "spot-1" || j.BatchHost != "spot-1" || j.JobResources == nil ||
		!slices.Equal(j.GRESDetail, []string{"gpu:1(IDX:0)"}) || j.TRESAllocStr != "cpu=1,mem=100M,node=1,billing=1,gres/gpu=1" {
		t.Errorf("running: %+v", j)
	}
	r := h.do(alice, "GET", "/slurm/v0.0.45/node/spot-1", "", "")
	var nodes wire.NodesResp
	h.must(wire.Unmarshal(r.body, &nodes))
	n := nodes.Nodes[0]
	if !slices.Equal(n.State, []string{"MIXED", "CLOUD"}) || n.GRES != "gpu:fake:2" || n.GRESUsed != "gpu:fake:1(IDX:0)" ||
		n.InstanceType != "fake.large" || !slices.Equal(n.Partitions, []string{"main", "off", "hidden"}) {
		t.Errorf("node %+v", n)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	id := h.submit(`"hold":true`)
	const submit = "/slurm/v0.0.45/job/submit"
	for _, tt := range []struct {
		name, method, path, body string
		uid                      uint32
		status, number           int
		text                     string // of the error, or of a plain answer
	}{
		{"not JSON", "POST", submit, "{bad", alice, 400, 0, "Failure during parsing"},
		{"nothing", "POST", submit, "", alice, 422, 9000, `Populated "script" field is required for job submission`},
		{"a list", "POST", submit, "[1]", alice, 500, 9209, "Rejecting list when dictionary expected"},
		{"no job", "POST", submit, `{"script":"#!/bin/sh"}`, alice, 422, 9000, `Specifying either "job" or "jobs" fields are required to submit job`},
		{"two", "POST", submit, `{"script":"#!/bin/sh","job":{},"jobs":[{}]}`, alice, 422, 9000, `Specify only one "job" or "jobs" fields but never both`},
		{"no environment", "POST", submit, `{"script":"#!/bin/sh","job":{"current_working_directory":"/"}}`, alice, 422, 2127, "Batch job submission failed"},
		{"no directory", "POST", submit, `{"script":"#!/bin/sh\n","job":{"environment":["A=b"]}}`, alice, 422, 2063, "Batch job submission failed"},
		{"no #!", "POST", submit, strings.Replace(submitting(""), "#!", "", 1), alice, 422, 2019, "Batch job submission failed"},
		{"partition", "POST", submit, submitting(`"partition":"nosuch"`), alice, 422, 2000, "Batch job submission failed"},
		{"inactive", "POST", submit, submitting(`"partition":"off"`), alice, 422, 2070, "Batch job submission failed"},
		{"gres", "POST", submit, submitting(`"tres_per_node":"gres/nosuch:1"`), alice, 422, 2072, "Batch job submission failed"},
		{"too much memory", "POST", submit, submitting(`"memory_per_node":99999999`), alice, 422, 2014, "Batch job submission failed"},
		{"nodes", "POST", submit, submitting(`"nodes":"abc"`), alice, 500, 9202, `Unknown format: "abc"`},
		{"time limit", "POST", submit, submitting(`"time_limit":"abc"`), alice, 500, 9202, `Expected integer but got "abc"`},
		{"for another", "POST", submit, submitting(`"user_id":"bob"`), alice, 422, 2010, "Batch job submission failed"},
		{"dependency", "POST", submit, submitting(`"dependency":"afterok:999999"`), alice, 422, 2038, "Batch job submission failed"},
		{"unknown job", "GET", "/slurm/v0.0.45/job/999", "", alice, 404, 2017, "Unable to query JobId=999"},
		{"no job id", "DELETE", "/slurm/v0.0.45/job/abc", "", alice, 422, 9000, "Rejecting request. Failure parsing parameters"},
		{"update of unknown", "POST", "/slurm/v0.0.45/job/999", `{"comment":"x"}`, alice, 404, 2017, "Job update requested failed"},
		{"update of another's", "POST", "/slurm/v0.0.45/job/1", `{"comment":"x"}`, bob, 422, 2010, "Job update requested failed"},
		{"drain by a user", "POST", "/slurm/v0.0.45/node/spot-1", `{"state":["DRAIN"],"reason":"x"}`, alice, 422, 2010, "Failure to update node spot-1"},
		{"reconfigure by a user", "GET", "/slurm/v0.0.45/reconfigure/", "", alice, 422, 2010, "slurm_reconfigure() failed"},
		{"time of a query", "GET", "/slurmdb/v0.0.45/jobs?start_time=junk", "", alice, 422, 9202, "Parsing of junk for timestamp failed"},
		{"update of what can't be", "POST", "/slurm/v0.0.45/job/1", `{"licenses":"x"}`, alice, 422, 2036, `Field "licenses" can not be changed`},
		{"mounts", "POST", submit, `{"script":"#!/bin/sh\n","job":{"environment":["A=b"],"current_working_directory":"/"},"sbatchd":{"container":{"mounts":["/a:/b"]}}}`, alice, 422, 2036, "--container-mounts is not supported"},
		{"bad extension", "POST", submit, `{"script":"#!/bin/sh\n","job":{"environment":["A=b"]},"sbatchd":7}`, alice, 500, 9202, "Unable to read the sbatchd field"},
		{"container bundle", "POST", submit, submitting(`"container":"/x"`), alice, 500, 10000, "Batch job submission failed"},
		{"several", "POST", submit, `{"script":"#!/bin/sh\n","jobs":[{},{}]}`, alice, 422, 2127, "Batch job submission failed"},
		{"kill without filter", "DELETE", "/slurm/v0.0.45/jobs", `{}`, alice, 422, 2173, "Invalid signal jobs request, at least one job id or filter is required."},
		{"unknown URL", "GET", "/slurm/v0.0.45/nosuch", "", alice, 404, 0, "Unable to find requested URL endpoint."},
		{"wrong method", "POST", "/slurm/v0.0.45/ping", "", alice, 404, 0, "Unable to find requested URL endpoint."},
		{"unknown version", "GET", "/slurm/v9.9.9/ping", "", alice, 404, 0, "Unable to find requested URL endpoint."},
		{"head", "HEAD", "/slurm/v0.0.45/ping", "", alice, 404, 0, ""},
		{"token for another", "POST", "/sbatchd/v1/token", `{"user":"bob"}`, alice, 422, 2002, "Unable to make a token"},
		{"script of another's", "GET", "/sbatchd/v1/script/1", "", bob, 422, 2002, "Access/permission denied"},
		{"leaks by a user", "GET", "/sbatchd/v1/leaks", "", alice, 422, 2036, "Requested operation not supported on this system"},
	} {
		r := h.do(tt.uid, tt.method, tt.path, tt.body, "")
		text := string(r.body)
		if tt.number != 0 {
			e := h.envelope(r)
			if len(e.Errors) == 0 || e.Errors[0].Number != tt.number {
				t.Errorf("%s: errors %+v, want %d", tt.name, e.Errors, tt.number)
				continue
			}
			text = e.Errors[0].Description
		} else if tt.text != "" && r.header.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: content type %s", tt.name, r.header.Get("Content-Type"))
		}
		if r.status != tt.status || !strings.HasPrefix(text, tt.text) {
			t.Errorf("%s: %d %q, want %d %q", tt.name, r.status, text, tt.status, tt.text)
		}
		if r.header.Get("Connection") != "Close" {
			t.Errorf("%s: connection stays open", tt.name)
		}
	}
	if n := h.Snapshot().JobCount(); n != 1 || h.job(id).Comment != "" {
		t.Errorf("refusals changed something: %d jobs", n)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	token, err := h.keys.Sign("alice", time.Minute, time.Now())
	h.must(err)
	old, err := h.keys.Sign("alice", -time.Minute, time.Now())
	h.must(err)
	for _, tt := range []struct {
		name   string
		header map[string]string
		path   string
		status int
	}{
		{"none", nil, "/slurm/v0.0.45/ping", 401},
		{"none, unknown URL", nil, "/nosuch", 401},
		{"name alone", map[string]string{"X-SLURM-USER-NAME": "alice"}, "/slurm/v0.0.45/ping", 401},
		{"token", map[string]string{"X-SLURM-USER-TOKEN": token}, "/slurm/v0.0.45/ping", 200},
		{"bearer", map[string]string{"Authorization": "Bearer " + token}, "/slurm/v0.0.45/ping", 200},
		{"both", map[string]string{"Authorization": "Bearer " + token, "X-SLURM-USER-TOKEN": token}, "/slurm/v0.0.45/ping", 401},
		{"expired", map[string]string{"X-SLURM-USER-TOKEN": old}, "/slurm/v0.0.45/jobs", 511},
		{"another's", map[string]string{"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": "bob"}, "/slurm/v0.0.45/jobs", 511},
		{"expired, of ours", map[string]string{"X-SLURM-USER-TOKEN": old}, "/sbatchd/v1/pools", 401},
		{"expired, unknown URL", map[string]string{"X-SLURM-USER-TOKEN": old}, "/nosuch", 404},
		{"expired, document", map[string]string{"X-SLURM-USER-TOKEN": old}, "/openapi/v3", 200},
		{"bogus, ping", map[string]string{"Authorization": "Bearer bogus"}, "/slurm/v0.0.42/ping", 200},
		{"bogus, accounting", map[string]string{"X-SLURM-USER-TOKEN": "bogus"}, "/slurmdb/v0.0.45/jobs", 502},
		{"health", nil, "/healthz", 200},
		{"metrics", nil, "/metrics", 200},
		{"document", map[string]string{"X-SLURM-USER-TOKEN": token}, "/openapi/v3", 200},
		{"document, none", nil, "/openapi/v3", 401},
		{"yaml only", map[string]string{"X-SLURM-USER-TOKEN": token, "Accept": "application/x-nothing"}, "/slurm/v0.0.45/ping", 415},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, http.NoBody)
		for k, v := range tt.header {
			r.Header.Set(k, v)
		}
		got := h.send(r, "")
		if got.status != tt.status {
			t.Errorf("%s: %d %.200s, want %d", tt.name, got.status, got.body, tt.status)
		}
		if tt.status == 401 && (string(got.body) != "Authentication failure" || got.header.Get("Content-Type") != "text/plain") {
			t.Errorf("%s: %s %q", tt.name, got.header, got.body)
		}
	}
}

func TestSubmitWarnsAndIsRepeatable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	held := h.envelope(h.do(alice, "POST", "/slurm/v0.0.45/job/submit", submitting(`"hold":true,"nosuchfield":1`), "/slurm/v0.0.45/job/submit"))
	var texts []string
	for _, w := range held.Warnings {
		texts = append(texts, w.Description)
	}
	want := []string{
		`Ignoring unknown field "nosuchfield" of type 64 bit integer in DATA_PARSER_JOB_DESC_MSG`,
		"Job submission resulted in non-zero return code: Job is in held state, pending scheduler release",
		"Job is in held state, pending scheduler release",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	refused := h.do(alice, "POST", "/slurm/v0.0.45/job/submit", submitting(`"tasks":"x"`), "")
	if refused.status != 200 || strings.Contains(string(refused.body), "job_id") || len(h.envelope(refused).Warnings) != 1 {
		t.Errorf("a number that is none: %d %s", refused.status, refused.body)
	}
	before := h.Snapshot().JobCount()
	var first string
	for i := range 3 {
		r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}),
			"POST", "/slurm/v0.0.44/job/submit/", strings.NewReader(submitting("")))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(wire.IdempotencyHeader, "key-1")
		got := h.send(r, "/slurm/v0.0.44/job/submit")
		id, _, _ := strings.Cut(string(got.body), ",")
		if i > 0 && id != first {
			t.Errorf("repeated: %s, first %s", id, first)
		}
		first = id
	}
	if n := h.Snapshot().JobCount() - before; n != 1 {
		t.Errorf("%d jobs for one key", n)
	}
}

func TestUpdateHoldAndCancel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	id := h.submit(`"hold":true`)
	update := func(body string) reply {
		return h.do(alice, "POST", "/slurm/v0.0.45/job/1", body, "/slurm/v0.0.45/job/{job_id}")
	}
	if r := update(`{"time_limit":{"set":true,"number":9},"comment":"via rest","name":"b"}`); r.status != 200 {
		t.Fatalf("update: %s", r.body)
	}
	if j := h.job(id); j.TimeLimit != wire.N(9) || j.Comment != "via rest" || j.Name != "b" || !j.Hold || j.StateReason != "JobHeldUser" {
		t.Errorf("updated: %+v", j)
	}
	if r := update(`{"partition":"nosuch"}`); r.status != 422 || h.envelope(r).Errors[0].Number != 2000 {
		t.Errorf("bad partition: %d %s", r.status, r.body)
	}
	if r := update(`{"hold":false}`); r.status != 200 || h.job(id).Hold {
		t.Errorf("release: %s", r.body)
	}
	h.run(id)
	cancel := func(path string) []wire.KillJobsRespJob {
		r := h.do(alice, "DELETE", path, "", "/slurm/v0.0.45/job/{job_id}")
		var resp wire.KillJobResp
		if err := wire.Unmarshal(r.body, &resp); err != nil || r.status != 200 {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		return resp.Status
	}
	if s := cancel("/slurm/v0.0.45/job/1?signal=USR1"); len(s) != 0 {
		t.Errorf("signal: %+v", s)
	}
	if s := cancel("/slurm/v0.0.45/job/1"); len(s) != 0 || !slices.Contains(h.job(id).JobState, "CANCELLED") {
		t.Errorf("cancel: %+v, state %v", s, h.job(id).JobState)
	}
	r := h.do(alice, "DELETE", "/slurm/v0.0.45/jobs/", `{"jobs":["2","999999"]}`, "/slurm/v0.0.45/jobs/")
	if !strings.Contains(string(r.body), `"code":2017`) || r.status != 200 {
		t.Errorf("bulk: %d %s", r.status, r.body)
	}
	r = h.do(bob, "DELETE", "/slurm/v0.0.45/job/1", "", "")
	if !strings.Contains(string(r.body), `"code":2002`) {
		t.Errorf("another's job: %d %s", r.status, r.body)
	}
	waiting := h.submit(`"hold":true,"name":"w"`)
	r = h.do(alice, "DELETE", "/slurm/v0.0.45/jobs/", `{"job_name":"w"}`, "/slurm/v0.0.45/jobs/")
	if r.status != 200 || !slices.Contains(h.job(waiting).JobState, "CANCELLED") {
		t.Errorf("by name: %d %s", r.status, r.body)
	}
}

func TestAccounting(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	id := h.submit("")
	a := h.run(id)
	h.must(h.Requeue(t.Context(), auth.Identity{User: "alice", UID: alice, GID: alice, Role: auth.User}, job.RefTo(id), false))
	h.finish(a, job.ExitCode{Signal: 15})
	a = h.run(id)
	h.finish(a, job.ExitCode{Status: 3})
	db := func(query string) []wire.DBJob {
		r := h.do(alice, "GET", "/slurmdb/v0.0.45/jobs?"+query, "", "/slurmdb/v0.0.45/jobs/")
		var resp wire.DBJobsResp
		h.must(wire.Unmarshal(r.body, &resp))
		return resp.Jobs
	}
	jobs := db("step=1")
	if len(jobs) != 1 || !slices.Equal(jobs[0].State.Current, []string{"FAILED"}) || jobs[0].ExitCode.ReturnCode != wire.N(3) ||
		jobs[0].RestartCnt != 1 || len(jobs[0].Steps) != 1 || jobs[0].Steps[0].Step.ID != "1.batch" || jobs[0].Nodes != "spot-1" ||
		jobs[0].Time.User.Seconds != 2 {
		t.Errorf("newest: %+v", jobs)
	}
	all := db("step=1&show_duplicates=true&skip_steps=true")
	if len(all) != 2 || !slices.Equal(all[0].State.Current, []string{"REQUEUED"}) || all[0].RestartCnt != 0 || len(all[1].Steps) != 0 {
		t.Errorf("all: %+v", all)
	}
	if got := db("users=bob"); len(got) != 0 {
		t.Errorf("bob's: %+v", got)
	}
	r := h.do(alice, "GET", "/slurmdb/v0.0.45/job/999", "", "/slurmdb/v0.0.45/job/{job_id}")
	if e := h.envelope(r); r.status != 200 || len(e.Warnings) != 1 || e.Warnings[0].Description != "slurmdb_jobs_get() found nothing" {
		t.Errorf("unknown: %d %s", r.status, r.body)
	}
}

func TestRelayedJobSeesItsOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.submit("")
	r := h.do(bob, "POST", "/slurm/v0.0.45/job/submit", strings.Replace(submitting(""), "alice", "bob", 1), "")
	if r.status != 200 {
		t.Fatalf("%s", r.body)
	}
	ctx := auth.WithRelay(t.Context(), auth.Relay{Node: "spot-1", Job: 1, User: "alice", UID: alice, GID: alice})
	get := func(method, path, body string) reply {
		req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		return h.send(req, "")
	}
	var jobs wire.JobInfoResp
	h.must(wire.Unmarshal(get("GET", "/slurm/v0.0.45/jobs", "").body, &jobs))
	if len(jobs.Jobs) != 1 || jobs.Jobs[0].UserName != "alice" {
		t.Errorf("sees %d jobs", len(jobs.Jobs))
	}
	if r := get("GET", "/slurm/v0.0.45/job/2", ""); r.status != 404 {
		t.Errorf("bob's job: %d", r.status)
	}
	if r := get("POST", "/slurm/v0.0.45/node/spot-1", `{"state":["DRAIN"],"reason":"x"}`); r.status != 422 {
		t.Errorf("drain: %d %s", r.status, r.body)
	}
	if r := get("GET", "/sbatchd/v1/config", ""); r.status != 422 {
		t.Errorf("config: %d %s", r.status, r.body)
	}
	if r := get("POST", "/sbatchd/v1/token", `{}`); r.status != 422 {
		t.Errorf("token: %d %s", r.status, r.body)
	}
}

// logs is output that says what it was asked for.
type logs struct{}

func (logs) Log(_ context.Context, job, restart uint32, stream string, follow bool) (io.ReadCloser, error) {
	text := "log"
	if follow {
		text = "followed"
	}
	return io.NopCloser(strings.NewReader(text + " of " + stream)), nil
}

func TestBurstEndpoints(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *server.Config) {
		c.Logs = logs{}
		c.Bill = func(r store.JobRecord, _ map[string]node.Instance) wire.Bill {
			return wire.Bill{JobID: r.Job.ID.Raw, User: r.Job.User}
		}
	})
	h.submit(`"hold":true`)
	for _, tt := range []struct {
		method, path, body, want string
		uid                      uint32
	}{
		{"GET", "/sbatchd/v1/pools", "", `"name":"spot"`, alice},
		{"GET", "/sbatchd/v1/logs/1?follow&stream=err", "", "followed of err", alice},
		{"GET", "/sbatchd/v1/bill/1", "", `{"job_id":1,"name":"","user":"alice"`, alice},
		{"GET", "/sbatchd/v1/explain/1", "", `"reason":"JobHeldUser"`, alice},
		{"GET", "/sbatchd/v1/script/1", "", "#!/bin/sh\ntrue\n", alice},
		{"GET", "/sbatchd/v1/config", "", `"ClusterName":"test"`, alice},
		{"POST", "/sbatchd/v1/token", `{"lifespan_seconds":60}`, `{"token":"ey`, alice},
		{"POST", "/sbatchd/v1/token", `{"user":"bob","lifespan_seconds":-1}`, `{"token":"ey`, 0},
		{"GET", "/slurm/v0.0.45/reconfigure", "", `"errors":[]`, 0},
		{"GET", "/slurm/v0.0.45/partition/nosuch", "", "Unable to find partition nosuch", alice},
		{"GET", "/slurm/v0.0.45/jobs/state?job_id=1", "", `{"jobs":[{"job_id":"1","state":["PENDING"]}],`, alice},
		{"GET", "//slurm//v0.0.45/ping//", "", `"status":"UP"`, alice},
		{"GET", "/slurm/v0.0.44/ping", "", `"pinged":"UP"`, alice},
		{"GET", "/metrics", "", "slurm_jobs_pending 1", alice},
	} {
		r := h.do(tt.uid, tt.method, tt.path, tt.body, "")
		if r.status != 200 || !strings.Contains(string(r.body), tt.want) {
			t.Errorf("%s %s: %d %.300s, want %s", tt.method, tt.path, r.status, r.body, tt.want)
		}
	}
}

func TestSparse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.submit(`"hold":true`)
	full := h.do(alice, "GET", "/slurm/v0.0.45/jobs", "", "")
	r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}), "GET", "/slurm/v0.0.45/jobs", http.NoBody)
	r.Header.Set(wire.SparseHeader, "1")
	sparse := h.send(r, "")
	var a, b wire.JobInfoResp
	h.must(wire.Unmarshal(full.body, &a))
	h.must(wire.Unmarshal(sparse.body, &b))
	if diff := cmp.Diff(a.Jobs, b.Jobs); diff != "" || len(sparse.body) > len(full.body)/2 {
		t.Errorf("%d bytes of %d: %s", len(sparse.body), len(full.body), diff)
	}
}
