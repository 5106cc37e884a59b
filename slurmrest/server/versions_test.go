package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

// has reports whether a version has a GET of the path with V for its name.
func has(v, path string) bool {
	want := strings.TrimSuffix(strings.Replace(path, "V", v, 1), "/")
	want, _, _ = strings.Cut(want, "?")
	return slices.ContainsFunc(spec.Operations(v), func(o spec.Operation) bool {
		p := strings.TrimSuffix(o.Path, "/")
		base, _, templated := strings.Cut(p, "{")
		return o.Method == http.MethodGet && (p == want || templated && strings.HasPrefix(want, base))
	})
}

func TestEveryOperationOfEveryVersionIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	if got := len(version.Served()); got != 6 {
		t.Fatalf("%d versions", got)
	}
	values := strings.NewReplacer("{job_id}", "1", "{node_name}", "spot-1", "{partition_name}", "main", "{reservation_name}", "r",
		"{account_name}", "a", "{cluster_name}", "test", "{name}", "alice", "{qos}", "normal", "{id}", "1")
	for _, v := range version.Served() {
		operations := spec.Operations(v.Name)
		if len(operations) < 55 {
			t.Errorf("%s: %d operations", v.Name, len(operations))
		}
		for _, o := range operations {
			if strings.HasSuffix(o.Path, "/reconfigure/") {
				continue // changes the house under the other requests
			}
			r := h.do(alice, o.Method, values.Replace(o.Path), "", "")
			if r.status == http.StatusNotModified {
				continue // has no body
			}
			e := h.envelope(r)
			switch {
			case r.header.Get("Content-Type") != "application/json":
				t.Errorf("%s %s: %d %s", o.Method, o.Path, r.status, r.body)
			case r.status != http.StatusOK && len(e.Errors) == 0:
				t.Errorf("%s %s: %d without an error: %s", o.Method, o.Path, r.status, r.body)
			}
		}
	}
}

func TestOperationsOfOtherVersionsAreUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, path := range []string{
		"/slurm/v0.0.44/conf", "/slurm/v0.0.43/resources/1", "/slurmdb/v0.0.41/ping", "/slurm/v0.0.39/ping", "/slurm/v0.0.46/ping",
	} {
		if r := h.do(alice, "GET", path, "", ""); r.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestOldFormsOfAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, v := range []string{"v0.0.40", "v0.0.41", "v0.0.42"} {
		submit := h.do(alice, "POST", "/slurm/"+v+"/job/submit", submitting(`"hold":true,"oversubscribe":true,"power_flags":[]`), "/slurm/"+v+"/job/submit")
		for _, w := range h.envelope(submit).Warnings {
			if strings.Contains(w.Description, "power_flags") || strings.Contains(w.Description, "oversubscribe") && v != "v0.0.42" {
				t.Errorf("%s: %s", v, w.Description)
			}
		}
	}
	for _, v := range []string{"v0.0.40", "v0.0.41", "v0.0.42", "v0.0.45"} {
		h.do(alice, "POST", "/slurm/"+v+"/job/1", `{"comment":"x"}`, "/slurm/"+v+"/job/{job_id}")
		unknown := h.do(alice, "DELETE", "/slurm/"+v+"/job/999", "", "/slurm/"+v+"/job/{job_id}")
		if errors := h.envelope(unknown).Errors; (len(errors) == 1) != (v < "v0.0.42") {
			t.Errorf("%s: %s", v, unknown.body)
		}
	}
}

// TestMediaTypes has what Slurm 26.05 answered to the same headers.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	const unknown = "HTTP Accept header content type is unknown or unsupported"
	for _, tt := range []struct {
		accept, mime, text string
		status             int
	}{
		{"application/json", "application/json", "", 200},
		{"application/yaml", "application/yaml", "", 200},
		{"application/x-yaml", "application/x-yaml", "", 200},
		{"text/yaml", "text/yaml", "", 200},
		{"APPLICATION/YAML", "application/yaml", "", 200},
		{"application/jsonrequest", "application/jsonrequest", "", 200},
		{"*/*", "application/json", "", 200},
		{"application/json; charset=utf-8", "application/json", "", 200},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json", "", 200},
		{"text/html,application/yaml", "application/yaml", "", 200},
		{"application/json,application/yaml", "application/json", "", 200},
		{"application/yaml,application/json", "application/yaml", "", 200},
		{"application/json;q=0.5,application/yaml;q=0.9", "application/json", "", 200},
		{"application/json;q=0.9,application/yaml;q=0.5", "application/yaml", "", 200},
		{"application/json,application/yaml;q=0.5", "application/yaml", "", 200},
		{"application/yaml;q=abc", "application/yaml", "", 200},
		{"text/plain", "text/plain", unknown, 415},
		{"text/*", "text/plain", unknown, 415},
		{"application/*", "text/plain", unknown, 415},
		{"garbage", "text/plain", unknown, 415},
		{"application/x-www-form-urlencoded", "text/plain", "Requested operation not supported on this system", 422},
	} {
		r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}), "GET", "/slurm/v0.0.45/ping", http.NoBody)
		r.Header.Set("Accept", tt.accept)
		got := h.send(r, "")
		if got.status != tt.status || got.header.Get("Content-Type") != tt.mime || tt.text != "" && string(got.body) != tt.text {
			t.Errorf("%s: %d %s %.100s", tt.accept, got.status, got.header.Get("Content-Type"), got.body)
		}
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	const unknown = "MIME type is unknown to any loaded plugins"
	const yamlBody = `# a comment
script: |
  #!/bin/sh
  true
job:
  name: "007"
  hold: true
  time_limit: 12
  tasks: "2"
  current_working_directory: /tmp
  environment: [PATH=/bin, 'A=b: c']
`
	for _, tt := range []struct {
		mime, body, text string
		status           int
	}{
		{"application/json", submitting(`"hold":true`), `"job_id":`, 200},
		{"*/*", submitting(`"hold":true`), `"job_id":`, 200},
		{"application/yaml", yamlBody, `"job_id":`, 200},
		{"text/yaml", submitting(`"hold":true`), `"job_id":`, 200},
		{"application/json; charset=utf-8", "{}", unknown, 415},
		{"text/plain", "{}", unknown, 415},
		{"", "{}", "Unspecified error", 500},
		{"application/yaml", "job: [bad", "Unable to convert Data type", 500},
		{"application/yaml", "script: &a x\njob: *a", "Unable to convert Data type", 500},
		{"application/yaml", "script: x\njob:\n  <<: {a: 1}", "Unable to convert Data type", 500},
		{"application/yaml", strings.Repeat("[", 100) + strings.Repeat("]", 100), "Unable to convert Data type", 500},
		{"application/yaml", strings.Repeat("# x\n", 2<<20), "", 413},
		{"application/x-www-form-urlencoded", "{}", "Unspecified error", 500},
		{"application/x-www-form-urlencoded", "script=abc&job=1", "Rejecting string when dictionary expected", 500},
	} {
		r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}), "POST", "/slurm/v0.0.45/job/submit", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.mime)
		got := h.send(r, "")
		if got.status != tt.status || !strings.Contains(string(got.body), tt.text) {
			t.Errorf("%s %.60q: %d %s", tt.mime, tt.body, got.status, got.body)
		}
	}
	if j := h.job(3); j.Name != "007" || j.TimeLimit.Number != 12 || j.Tasks.Number != 2 || !j.Hold {
		t.Errorf("out of YAML: %+v", j)
	}
}

func TestYAMLSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.submit(`"hold":true,"comment":"a: b\\n#c \"d\" \\u00e9\\u0001 - "`)
	h.submit(`"hold":true,"name":"yes","argv":["x","1.5",""," y"]`)
	for _, path := range []string{
		"/slurm/v0.0.45/jobs", "/slurm/v0.0.40/job/1", "/slurm/v0.0.45/nodes", "/slurm/v0.0.45/diag", "/slurmdb/v0.0.45/jobs?users=bob",
		"/slurm/v0.0.45/job/99", "/slurm/v0.0.45/jobs/state",
	} {
		var got [2]any
		for i, mime := range []string{"application/json", "application/yaml"} {
			r := httptest.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}), "GET", path, http.NoBody)
			r.Header.Set("Accept", mime)
			body := h.send(r, "").body
			decode := json.Unmarshal
			if i == 1 {
				decode = yaml.Unmarshal
			}
			if err := decode(body, &got[i]); err != nil {
				t.Fatalf("%s %s: %v\n%.500s", path, mime, err, body)
			}
			text, err := json.Marshal(got[i]) // numbers become of one kind
			h.must(err)
			h.must(json.Unmarshal(text, &got[i]))
		}
		if diff := cmp.Diff(got[0], got[1], cmp.FilterPath(func(p cmp.Path) bool {
			return strings.Contains(p.GoString(), "last_") || strings.Contains(p.GoString(), "req_time") || strings.Contains(p.GoString(), "_ts") ||
				strings.Contains(p.GoString(), "bf_when")
		}, cmp.Ignore())); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestOpenAPIIsCompleteAndValid(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, path := range []string{"/openapi/v3", "/openapi", "/openapi.json", "/openapi.yaml", "/openapi/v3/"} {
		r := h.do(alice, "GET", path, "", "")
		doc, err := openapi3.NewLoader().LoadFromData(r.body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if path != "/openapi/v3" {
			continue
		}
		h.must(doc.Validate(t.Context(), openapi3.DisableExamplesValidation()))
		for _, v := range version.Served() {
			for _, o := range spec.Operations(v.Name) {
				if item := doc.Paths.Value(o.Path); item == nil || item.GetOperation(o.Method) == nil {
					t.Errorf("%s %s is not in the document", o.Method, o.Path)
				}
			}
		}
	}
}
