package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listen := write(t, filepath.Join(dir, "rest.conf"), "RestListen=tcp:127.0.0.1:6820\n")
	ours := write(t, filepath.Join(dir, "slurm.conf"), "ClusterName=x # RestListen=unix:/no\nInclude rest.conf\nrestlisten = unix:/run/a.sock,tls:0.0.0.0:7000\n")
	runtime := filepath.Join(dir, "run")
	if err := os.MkdirAll(filepath.Join(runtime, "sbatchd"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := write(t, filepath.Join(dir, "other.conf"), "ClusterName=site\n")
	for _, tt := range []struct {
		name    string
		env     []string
		want    []string
		decided bool
		bad     bool
	}{
		{name: "server", env: []string{"SBATCHD_SERVER", "unix:///run/s.sock", "SBATCHD_CONF", ours}, want: []string{"unix:///run/s.sock"}, decided: true},
		{name: "https", env: []string{"SBATCHD_SERVER", "https://burst.example.org"}, want: []string{"https://burst.example.org:6820"}, decided: true},
		{name: "bad server", env: []string{"SBATCHD_SERVER", "ftp://x"}, bad: true},
		{name: "conf", env: []string{"SBATCHD_CONF", ours}, want: []string{"http://127.0.0.1:6820", "unix:///run/a.sock", "https://localhost:7000"}, decided: true},
		{name: "conf without listeners", env: []string{"SBATCHD_CONF", other}, want: []string{"unix:///run/sbatchd/sbatchd.sock"}, decided: true},
		{name: "no such conf", env: []string{"SBATCHD_CONF", filepath.Join(dir, "none")}, bad: true},
		{name: "runtime folder, then a conf that is ours", env: []string{"XDG_RUNTIME_DIR", runtime, "SLURM_CONF", listen}, want: []string{"unix://" + runtime + "/sbatchd/sbatchd.sock", "http://127.0.0.1:6820"}},
		{name: "no runtime folder", env: []string{"XDG_RUNTIME_DIR", dir, "SLURM_CONF", listen}, want: []string{"http://127.0.0.1:6820"}},
		{name: "another Slurm's conf", env: []string{"XDG_RUNTIME_DIR", dir, "SLURM_CONF", other}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list, decided, err := client.Candidates(env(tt.env...))
			if (err != nil) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if tt.bad {
				return
			}
			var got []string
			for _, e := range list {
				got = append(got, e.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || decided != tt.decided {
				t.Errorf("decided %v: %s", decided, diff)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	_, err := client.Find(t.Context(), env("SBATCHD_SERVER", "unix:"+filepath.Join(t.TempDir(), "none.sock")))
	if !errors.Is(err, errno.ControllerConnect) || !strings.HasPrefix(err.Error(), "Unable to contact slurm controller (connect failure)") {
		t.Fatal(err)
	}
}

// serve starts a server on a unix socket and returns a client of it.
func serve(t *testing.T, h http.Handler, opts ...client.Option) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path) //nolint:noctx // a test's own socket
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Second}}
	srv.Start()
	t.Cleanup(srv.Close)
	c, err := client.Find(t.Context(), env("SBATCHD_SERVER", "unix://"+path, "SLURM_JWT", "tok"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestSubmitSurvivesACut(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var keys [2]string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"script":"#!/bin/sh"`) || r.Header.Get("X-SLURM-USER-TOKEN") != "tok" {
			t.Errorf("got %s %s %v", body, r.Header, err)
		}
		n := calls.Add(1)
		if n <= 2 {
			keys[n-1] = r.Header.Get(wire.IdempotencyHeader)
		}
		switch n {
		case 1: // taken, but the answer never comes
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		case 2:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"errors":[{"error_number":%d}]}`, errno.Busy)
		default:
			fmt.Fprint(w, `{"job_id":7,"step_id":"batch","warnings":[],"errors":[]}`)
		}
	}))
	resp, err := c.Submit(t.Context(), &wire.JobSubmitReq{Script: "#!/bin/sh", Job: &wire.JobDescMsg{}})
	if err != nil || resp.JobID != 7 {
		t.Fatal(resp, err)
	}
	if calls.Load() != 3 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("%d calls, keys %q", calls.Load(), keys)
	}
}

func TestWhatIsNotRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}), client.WithPatience(200*time.Millisecond))
	if _, err := c.Update(t.Context(), "7", &wire.JobDescMsg{Hold: new(true)}); !errors.Is(err, errno.ControllerReceive) {
		t.Errorf("update: %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("an update was sent %d times", n)
	}
	if _, err := c.Ping(t.Context()); !errors.Is(err, errno.ControllerReceive) {
		t.Errorf("ping: %v", err)
	}
	if n := calls.Load(); n < 3 {
		t.Errorf("a look was not repeated: %d calls in all", n)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		typ    string
		body   string
		want   errno.Errno
		text   string
	}{
		{422, "application/json", `{"errors":[{"description":"Batch job submission failed","error_number":2000,"error":"x","source":"s"}],"warnings":[{"description":"w"}]}`, errno.InvalidPartition, "Invalid partition name specified"},
		{404, "application/json", `{"errors":[{"description":"d","error_number":2017}]}`, errno.InvalidJobID, "Invalid job id specified"},
		{401, "text/plain", "Authentication failure", errno.ProtocolAuthenticationError, "Protocol authentication error"},
		{404, "text/plain", "no such page", errno.RESTUnknownURL, errno.RESTUnknownURL.Error()},
		{500, "application/json", `not json`, errno.Unspecified, "Unspecified error"},
	} {
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.typ)
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body)
		}))
		_, err := c.Job(t.Context(), "7")
		if !errors.Is(err, tt.want) || err.Error() != tt.text {
			t.Errorf("%d %s: error %v, want %v", tt.status, tt.body, err, tt.want)
		}
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != tt.status {
			t.Errorf("%d: %#v", tt.status, err)
		}
	}
}

func TestPathsAndQueries(t *testing.T) {
	t.Parallel()
	var got []string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.String())
		fmt.Fprint(w, `{}`)
	}))
	ctx := t.Context()
	for _, call := range []func() error{
		func() error { _, err := c.Jobs(ctx, client.JobsQuery{Since: time.Unix(5, 0)}); return err },
		func() error { _, err := c.Kill(ctx, "7_[1-3]", "USR1", "BATCH_JOB"); return err },
		func() error { _, err := c.KillJobs(ctx, &wire.KillJobsMsg{UserName: "alice"}); return err },
		func() error { _, err := c.Requeue(ctx, []string{"7"}, "Hold"); return err },
		func() error { _, err := c.Node(ctx, "a/b"); return err },
		func() error { _, err := c.DBJobs(ctx, map[string][]string{"users": {"alice"}}); return err },
		func() error { return c.Get(ctx, "/sbatchd/v1/pools", nil, new(wire.Pools)) },
		func() error { return c.Post(ctx, "/sbatchd/v1/token", wire.TokenRequest{}, new(wire.Token)) },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /slurm/v0.0.45/jobs/?update_time=5",
		"DELETE /slurm/v0.0.45/job/7_%5B1-3%5D?flags=BATCH_JOB&signal=USR1",
		"DELETE /slurm/v0.0.45/jobs/",
		"POST /slurm/v0.0.45/jobs/requeue",
		"GET /slurm/v0.0.45/node/a%2Fb",
		"GET /slurmdb/v0.0.45/jobs/?users=alice",
		"GET /sbatchd/v1/pools",
		"POST /sbatchd/v1/token",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Ping(ctx); !errors.Is(err, errno.ProtocolSocketImplTimeout) {
		t.Error(err)
	}
}
