package server_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/server"
)

// crowd is a server whose controller has n pending jobs and nothing else.
func crowd(t testing.TB, n int) (*server.Server, *auth.Keys) {
	t.Helper()
	h := newHouse(t, nil)
	jobs := make([]*job.Job, n)
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
	return server.New(server.Config{
		Controller: frozen{s: s}, Auth: auth.New(auth.Config{Users: people{}, Keys: h.keys, Now: time.Now}), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	}), h.keys
}

// watched counts what is read and asks for the heap's height now and then.
type watched struct {
	io.Reader
	bytes, next int64
	peak        uint64
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.bytes += int64(n); w.bytes >= w.next {
		w.next += 16 << 20
		w.peak = max(w.peak, resident())
	}
	return n, err
}

// resident is what the process holds of the machine's memory, in bytes.
func resident() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// TestListingsAreStreamed lists 30,000 jobs over TCP, as JSON of the newest and
// of the oldest version and as YAML: the answer is never held as a whole. What
// the process grows by is garbage on its way to the collector.
func TestListingsAreStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("lists hundreds of megabytes")
	}
	const jobs = 30_000
	srv, keys := crowd(t, jobs)
	token, err := keys.Sign("alice", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: srv.Handler(), ReadHeaderTimeout: time.Minute}
	go web.Serve(l) //nolint:errcheck // closed below
	defer web.Close()
	for _, tt := range []struct{ path, accept, mark string }{
		{"/slurm/v0.0.45/jobs", "application/json", `"job_id":30000,`},
		{"/slurm/v0.0.40/jobs", "application/json", `"job_id":30000,`},
		{"/slurm/v0.0.45/jobs", "application/yaml", "!!str job_id: !!int 30000\n"},
	} {
		debug.FreeOSMemory()
		before := resident()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", tt.accept)
		r.Header.Set(auth.TokenHeader, token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Reader: resp.Body}
		var tail []byte
		buf := make([]byte, 64<<10)
		for err == nil {
			var n int
			n, err = w.Read(buf)
			tail = append(tail[max(0, len(tail)-8<<10):], buf[:n]...)
		}
		resp.Body.Close()
		grown := int64(w.peak) - int64(before)
		t.Logf("%s as %s: %d MB listed, grown by %.1f MB", tt.path, tt.accept, w.bytes>>20, float64(grown)/(1<<20))
		if err != io.EOF || !strings.Contains(string(tail), tt.mark) {
			t.Errorf("%s: %v, ends with %.200s", tt.path, err, tail[max(0, len(tail)-200):])
		}
		if grown > w.bytes/2 {
			t.Errorf("%s as %s: the process grew by %d bytes for an answer of %d", tt.path, tt.accept, grown, w.bytes)
		}
	}
}
