package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/server"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

const slurmConf = `ClusterName=test
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/tmp/x.sock
StateSaveLocation=/var/lib/x
GresTypes=gpu
DefMemPerCPU=100
ProviderName=here Type=local Trust=own
PoolName=spot Provider=here CPUs=4 RealMemory=4000 Gres=gpu:fake:2 Capacity=spot MaxNodes=2 Runtime=process Workdir=shared MaxPrice=2.5USD
PartitionName=main Pools=spot Default=YES MaxTime=60 DefaultTime=10
PartitionName=off Pools=spot State=INACTIVE
PartitionName=hidden Pools=spot Hidden=YES
`

const (
	alice = 1000
	bob   = 1001
)

// people is the user database of the tests.
type people struct{}

func (people) ByName(_ context.Context, name string) (auth.Account, error) {
	for _, uid := range []uint32{0, alice, bob} {
		if a, _ := (people{}).ByUID(context.Background(), uid); a.Name == name { //nolint:errcheck // all are known
			return a, nil
		}
	}
	return auth.Account{}, auth.ErrUnknownUser
}

func (people) ByUID(_ context.Context, uid uint32) (auth.Account, error) {
	name, ok := map[uint32]string{0: "root", alice: "alice", bob: "bob"}[uid]
	if !ok {
		return auth.Account{}, auth.ErrUnknownUser
	}
	return auth.Account{Name: name, UID: uid, GID: uid, Groups: []uint32{uid}}, nil
}

// house is a server over a real queue and store.
type house struct {
	*queue.Queue
	t       testing.TB
	handler http.Handler
	server  *server.Server
	keys    *auth.Keys
}

func newHouse(t testing.TB, edit func(*server.Config)) *house {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "slurm.conf")
	key := filepath.Join(dir, "jwt.key")
	for p, text := range map[string]string{path: slurmConf, key: "0123456789abcdef0123456789abcdef"} {
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "state.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	q, err := queue.Open(t.Context(), cfg, journal, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.LoadKeys(auth.Parameters{JWTKey: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{q.Run, q.Schedule} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("owner stopped: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	sc := server.Config{
		Controller: q, Auth: auth.New(auth.Config{Keys: keys, Users: people{}, Now: time.Now}),
		Now: time.Now, Log: log, Hostname: "login1", Release: "0.1",
		Reload: func() (*partitions.Config, error) { return partitions.Load(path) },
	}
	if edit != nil {
		edit(&sc)
	}
	s := server.New(sc)
	return &house{Queue: q, t: t, handler: s.Handler(), server: s, keys: keys}
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request as a user known by peer credentials; template is the
// operation to check the answer against, "" for none.
func (h *house) do(uid uint32, method, path, body, template string) reply {
	h.t.Helper()
	ctx := auth.WithPeer(h.t.Context(), auth.Credential{UID: uid, GID: uid})
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return h.send(r, template)
}

func (h *house) send(r *http.Request, template string) reply {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	if template != "" {
		version := strings.Split(template, "/")[2]
		if err := spec.Check(version, r.Method, template, body); err != nil {
			h.t.Errorf("%s %s: %v\n%.2000s", r.Method, r.URL, err, body)
		}
	}
	return reply{res.StatusCode, res.Header, body}
}

const submitBody = `{"script":"#!/bin/sh\ntrue\n","job":{"name":"a","environment":["PATH=/bin"],"current_working_directory":"/home/alice"%s}}`

func submitting(more string) string {
	if more != "" {
		more = "," + more
	}
	return strings.Replace(submitBody, "%s", more, 1)
}

// submit submits a job of alice's and returns its id.
func (h *house) submit(more string) uint32 {
	h.t.Helper()
	r := h.do(alice, "POST", "/slurm/v0.0.45/job/submit", submitting(more), "/slurm/v0.0.45/job/submit")
	var resp wire.JobSubmitResponse
	if err := wire.Unmarshal(r.body, &resp); err != nil || r.status != 200 || resp.JobID == 0 {
		h.t.Fatalf("submit: %d %s %v", r.status, r.body, err)
	}
	return uint32(resp.JobID)
}

func (h *house) job(id uint32) wire.JobInfo {
	h.t.Helper()
	r := h.do(alice, "GET", "/slurm/v0.0.45/job/"+strconv.Itoa(int(id)), "", "/slurm/v0.0.45/job/{job_id}")
	var resp wire.JobInfoResp
	if err := wire.Unmarshal(r.body, &resp); err != nil || len(resp.Jobs) != 1 {
		h.t.Fatalf("job %d: %d %s %v", id, r.status, r.body, err)
	}
	return resp.Jobs[0]
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// run brings a pending job to a running script on a booted node.
func (h *house) run(id uint32) job.Attempt {
	h.t.Helper()
	changed, stop := h.Watch()
	defer stop()
	deadline := time.After(10 * time.Second)
	for {
		if j, ok := h.Snapshot().Job(id); ok && j.State == job.Running {
			break
		}
		select {
		case <-changed:
		case <-deadline:
			j, _ := h.Snapshot().Job(id)
			h.t.Fatalf("job %d never got nodes: %+v", id, j)
		}
	}
	j, _ := h.Snapshot().Job(id)
	name := j.Run.Nodes[0].Node
	if n, _ := h.Snapshot().Node(name); n.Flags.Has(node.PoweringUp) && n.Instance == "" {
		tag := "cafe-" + name + "-" + strconv.Itoa(int(n.Incarnation))
		ok, err := h.Intend(h.t.Context(), node.Instance{Tag: tag, Node: name, Pool: "spot", Incarnation: n.Incarnation})
		if err != nil || !ok {
			h.t.Fatalf("intend: %v %v", ok, err)
		}
		h.must(h.Learn(h.t.Context(), tag, func(i *node.Instance) {
			i.State, i.ProviderID, i.InstanceType = node.Created, "x1", "fake.large"
		}))
		h.must(h.NodeUp(h.t.Context(), node.Registration{Node: name, Tag: tag}))
	}
	n, _ := h.Snapshot().Node(name)
	ok, err := h.Ordered(h.t.Context(), j.Attempt(), []job.Host{{Node: name, Instance: n.Instance, PriceMicros: 1_000_000, Currency: "USD", Share: 1}})
	if err != nil || !ok {
		h.t.Fatalf("ordered: %v %v", ok, err)
	}
	h.must(h.Started(h.t.Context(), j.Attempt(), "sha256:1", "550", 0))
	return j.Attempt()
}

func (h *house) finish(a job.Attempt, code job.ExitCode) {
	h.t.Helper()
	h.must(h.Ended(h.t.Context(), a, job.Exit{Code: code, Reason: job.ExitScript, Usage: job.Usage{ElapsedMs: 1000, UserUs: 2_500_000}}))
	h.must(h.Finished(h.t.Context(), a))
}

// names of an answer's errors and warnings.
type envelope struct {
	Errors []struct {
		Description string `json:"description"`
		Number      int    `json:"error_number"`
		Error       string `json:"error"`
		Source      string `json:"source"`
	} `json:"errors"`
	Warnings []struct{ Description, Source string } `json:"warnings"`
}

func (h *house) envelope(r reply) envelope {
	h.t.Helper()
	var e envelope
	if err := json.NewDecoder(bytes.NewReader(r.body)).Decode(&e); err != nil {
		h.t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return e
}
