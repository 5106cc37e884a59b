package server_test

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// repeat submits under a key as alice.
func (h *house) repeat(key, body string) reply {
	h.t.Helper()
	r := httptest.NewRequestWithContext(auth.WithPeer(h.t.Context(), auth.Credential{UID: alice, GID: alice}),
		"POST", "/slurm/v0.0.45/job/submit", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.IdempotencyHeader, key)
	return h.send(r, "")
}

func TestRepeatedSubmissionGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for _, tt := range []struct{ key, body string }{
		{"plain", submitting("")}, {"held", submitting(`"hold":true`)}, {"warned", submitting(`"time_limit":100`)},
	} {
		first, again := h.repeat(tt.key, tt.body), h.repeat(tt.key, tt.body)
		if first.status != 200 || string(first.body) != string(again.body) {
			t.Errorf("%s: %d %s\nthen %s", tt.key, first.status, first.body, again.body)
		}
	}
	other := h.repeat("plain", submitting(`"comment":"another"`))
	if e := h.envelope(other); other.status != 422 || e.Errors[0].Number != 9000 || e.Errors[0].Description != "The idempotency key belongs to another submission" {
		t.Errorf("another body: %d %s", other.status, other.body)
	}
	if r := h.repeat(strings.Repeat("k", 129), submitting("")); r.status != 400 {
		t.Errorf("a long key: %d %s", r.status, r.body)
	}
	if n := h.Snapshot().JobCount(); n != 3 {
		t.Errorf("%d jobs for 3 keys", n)
	}
}

// cutting is a proxy that passes requests on and cuts the first connections
// before anything of their answers comes back.
type cutting struct {
	net.Listener
	target client.Endpoint
	cuts   atomic.Int32 // connections still to be cut
	cut    atomic.Int32 // connections that were
	wg     sync.WaitGroup
}

func (c *cutting) serve() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.pass(in) })
	}
}

func (c *cutting) pass(in net.Conn) {
	defer in.Close()
	out, err := (&net.Dialer{}).DialContext(context.Background(), c.target.Network, c.target.Address)
	if err != nil {
		return
	}
	defer out.Close()
	c.wg.Go(func() {
		io.Copy(out, in) //nolint:errcheck // ends when either side closes
		out.Close()
	})
	answer := make([]byte, 1)
	if _, err := out.Read(answer); err != nil { // the request was taken and answered
		return
	}
	if c.cuts.Add(-1) >= 0 {
		c.cut.Add(1)
		return
	}
	if _, err := in.Write(answer); err == nil {
		io.Copy(in, out) //nolint:errcheck // ends when either side closes
	}
}

func TestSubmitSurvivesCutConnections(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own
	h.must(err)
	proxy := &cutting{Listener: l, target: h.listen()}
	proxy.wg.Go(proxy.serve)
	defer func() { l.Close(); proxy.wg.Wait() }()
	token, err := h.keys.Sign("alice", time.Minute, time.Now())
	h.must(err)
	seen := map[int64]bool{}
	const jobs, cuts = 5, 3
	for range jobs {
		proxy.cuts.Store(cuts)
		c := client.New(client.Endpoint{Network: "tcp", Address: l.Addr().String()}, client.WithToken(token))
		resp, err := c.Submit(t.Context(), &wire.JobSubmitReq{Script: "#!/bin/sh\n", Job: &wire.JobDescMsg{
			Environment: []string{"A=b"}, CurrentWorkingDirectory: "/tmp", Hold: new(true),
		}})
		c.Close()
		if err != nil || seen[resp.JobID] {
			t.Fatalf("%+v, %v, after %v", resp, err, seen)
		}
		seen[resp.JobID] = true
	}
	if n := h.Snapshot().JobCount(); n != jobs || proxy.cut.Load() != jobs*cuts {
		t.Errorf("%d jobs after %d submissions and %d cuts", n, jobs, proxy.cut.Load())
	}
}
