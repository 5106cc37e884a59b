package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/server"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// listen serves a house on a unix socket until the test ends.
func (h *house) listen() client.Endpoint {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "rest", "s.sock")
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	l, err := server.Listen(ctx, partitions.Listen{Network: "unix", Address: path}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := h.server.Run(ctx, l); err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(func() { cancel(); wg.Wait() })
	return client.Endpoint{Network: "unix", Address: path}
}

func TestClientAndServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	e := h.listen()
	token, err := h.keys.Sign("alice", time.Minute, time.Now())
	h.must(err)
	c := client.New(e, client.WithToken(token))
	defer c.Close()
	ctx := t.Context()
	resp, err := c.Submit(ctx, &wire.JobSubmitReq{Script: "#!/bin/sh\n", Job: &wire.JobDescMsg{
		Name: "x", Environment: []string{"A=b"}, CurrentWorkingDirectory: "/tmp", Hold: new(true),
	}})
	if err != nil || resp.JobID != 1 || len(resp.Warnings) != 2 {
		t.Fatal(resp, err)
	}
	jobs, err := c.Jobs(ctx, client.JobsQuery{})
	if err != nil || len(jobs.Jobs) != 1 || jobs.Jobs[0].Name != "x" || !jobs.Jobs[0].Hold {
		t.Fatal(jobs, err)
	}
	if _, err := c.Update(ctx, "1", &wire.JobDescMsg{Hold: new(false)}); err != nil {
		t.Fatal(err)
	}
	if parts, err := c.Partitions(ctx); err != nil || len(parts.Partitions) != 2 {
		t.Fatal(parts, err)
	}
	if nodes, err := c.Nodes(ctx); err != nil || len(nodes.Nodes) != 2 {
		t.Fatal(nodes, err)
	}
	if _, err := server.Listen(ctx, partitions.Listen{Network: "unix", Address: e.Address}, nil); err == nil {
		t.Fatal("a taken socket was taken again")
	}
	bad := client.New(e, client.WithToken("bogus"))
	defer bad.Close()
	if _, err := bad.Nodes(ctx); err == nil || err.Error() != "Protocol authentication error" {
		t.Fatal(err)
	}
}

func TestListenReplacesADeadSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path) //nolint:noctx // a test's own socket
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	again, err := server.Listen(t.Context(), partitions.Listen{Network: "unix", Address: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	for _, bad := range []partitions.Listen{{Network: "tls", Address: "127.0.0.1:0"}, {Network: "udp", Address: "x"}} {
		if _, err := server.Listen(t.Context(), bad, nil); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

// BenchmarkSubmit measures durable submissions with 32 clients: over a unix
// socket, with tokens, into SQLite with fsync.
func BenchmarkSubmit(b *testing.B) {
	h := newHouse(b, nil)
	e := h.listen()
	token, err := h.keys.Sign("alice", time.Hour, time.Now())
	h.must(err)
	body := submitting("")
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.Address)
		},
	}}
	b.SetParallelism(16) // times GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequestWithContext(b.Context(), "POST", "http://s/slurm/v0.0.45/job/submit", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-SLURM-USER-TOKEN", token)
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil {
				b.Error(err)
				return
			}
			if resp.StatusCode != 200 {
				b.Error(errors.New(resp.Status))
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// frozen is a controller that only has a snapshot.
type frozen struct {
	server.Controller
	s *state.State
}

func (f frozen) Snapshot() *state.State { return f.s }

// BenchmarkJobs measures GET /jobs of 10,000 pending jobs, whole and as our
// commands ask for it.
func BenchmarkJobs(b *testing.B) {
	h := newHouse(b, nil)
	jobs := make([]*job.Job, 10_000)
	for i := range jobs {
		jobs[i] = &job.Job{
			ID: job.NewID(uint32(i + 1)), User: "alice", UID: alice, GID: alice, QOS: "normal", Priority: 1, Partition: "main",
			Submit: time.Unix(1_800_000_000, 0), Eligible: time.Unix(1_800_000_000, 0), Reason: job.ReasonResources,
			Spec: &job.Spec{
				Name: "train", Partitions: "main", WorkDir: "/home/alice/project", Output: "/home/alice/project/slurm-%j.out",
				Tasks: 1, CPUsPerTask: 1, TimeLimit: 60, TRESPerNode: "gres/gpu:1", Requeue: true, Argv: []string{"train.sh"},
			},
		}
	}
	s, err := state.Restore(h.Snapshot(), 1, jobs, nil, nil)
	h.must(err)
	srv := server.New(server.Config{
		Controller: frozen{s: s}, Auth: auth.New(auth.Config{Users: people{}, Now: time.Now}), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	for name, sparse := range map[string]string{"whole": "", "sparse": "1"} {
		b.Run(name, func(b *testing.B) {
			ctx := auth.WithPeer(b.Context(), auth.Credential{UID: alice, GID: alice})
			bytes := 0
			for b.Loop() {
				r := httptest.NewRequestWithContext(ctx, "GET", "/slurm/v0.0.45/jobs", http.NoBody)
				if sparse != "" {
					r.Header.Set(wire.SparseHeader, sparse)
				}
				w := httptest.NewRecorder()
				srv.Handler().ServeHTTP(w, r)
				bytes = w.Body.Len()
			}
			b.SetBytes(int64(bytes))
			b.ReportMetric(float64(bytes)/float64(len(jobs)), "B/job")
		})
	}
}
