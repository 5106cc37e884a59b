package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

// FuzzRequest: whatever a user sends, it is answered, with less than a server
// error of our own, and the answer is short.
func FuzzRequest(f *testing.F) {
	for _, tt := range []struct{ method, path, mime, body string }{
		{"POST", "/slurm/v0.0.45/job/submit", "application/json", submitting(`"hold":true`)},
		{"POST", "/slurm/v0.0.40/job/submit", "application/yaml", "script: \"#!/bin/sh\"\njob: {name: x, tasks: -1}\n"},
		{"POST", "/slurm/v0.0.45/job/1", "application/json", `{"time_limit":"1:30","required_nodes":"node[0-2000000]"}`},
		{"DELETE", "/slurm/v0.0.45/job/1_[1-99999999]?signal=9", "", ""},
		{"DELETE", "/slurm/v0.0.45/jobs", "application/json", `{"jobs":["1_[0-4000000000]"],"nodes":["n[1-99999999]"]}`},
		{"GET", "/slurm/v0.0.45/jobs?update_time=99999999999999999999&flags=%00", "", ""},
		{"GET", "/slurmdb/v0.0.45/jobs?step=1_[1-9999999]&node=n[1-2000000]&start_time=now-1e9days", "", ""},
		{"POST", "/slurmdb/v0.0.45/qos", "application/json", `{"qos":[{"name":"x","limits":{"max":{"tres":{"total":[{"type":"cpu","count":-1}]}}}}]}`},
		{"POST", "/slurm/v0.0.45/nodes", "application/json", `{"name":"spot-[1-2000000]","state":["DRAIN"]}`},
		{"POST", "/slurm/v0.0.45/job/submit", "application/x-www-form-urlencoded", "script=%ff&job=%00"},
	} {
		f.Add(tt.method, tt.path, tt.mime, tt.body)
	}
	h := newHouse(f, nil)
	f.Fuzz(func(t *testing.T, method, path, mime, body string) {
		if !strings.HasPrefix(path, "/slurm") || strings.ContainsAny(path, " \r\n\t\x7f") || strings.Contains(path, "reconfigure") ||
			!strings.Contains(" GET POST DELETE ", " "+method+" ") {
			t.Skip()
		}
		r, ok := request(method, path, body)
		if !ok {
			t.Skip()
		}
		r = r.WithContext(auth.WithPeer(t.Context(), auth.Credential{UID: alice, GID: alice}))
		r.Header.Set("Content-Type", mime)
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		if w.Body.Len() > 1<<22 || strings.Contains(w.Body.String(), "panic") {
			t.Errorf("%s %s %q: %d, %d bytes", method, path, body, w.Code, w.Body.Len())
		}
	})
}

// request makes a request; ok is false where the URL is none.
func request(method, path, body string) (r *http.Request, ok bool) {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, false
	}
	r = httptest.NewRequest(method, "/", strings.NewReader(body)) //nolint:noctx // the caller gives one
	r.URL, r.RequestURI = u, path
	return r, true
}
