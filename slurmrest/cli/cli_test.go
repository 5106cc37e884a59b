package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/cli"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

var now = time.Date(2026, 11, 30, 8, 23, 27, 0, time.UTC)

// controller answers as the real one does, from records set by tests.
type controller struct {
	mu     sync.Mutex
	jobs   []wire.JobInfo
	nodes  []wire.Node
	parts  []wire.PartitionInfo
	acct   []wire.DBJob
	own    map[string]any // path under /sbatchd/v1 -> answer
	refuse errno.Errno    // of submissions
	fault  string         // its description, from the controller's own source

	// play is what becomes of a submitted job; nil: nothing.
	play func(c *controller, req *wire.JobSubmitReq)

	submitted []wire.JobSubmitReq
	calls     []string // method, path and query of what changes things
	bodies    []string
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method != http.MethodGet {
		c.calls = append(c.calls, strings.TrimSuffix(r.Method+" "+path+"?"+r.URL.RawQuery, "?"))
		c.bodies = append(c.bodies, string(body))
	}
	rest, ok := strings.CutPrefix(path, "/sbatchd/v1")
	if ok {
		c.serveOwn(w, r, rest)
		return
	}
	if path == "/slurmdb/v0.0.45/jobs" {
		c.calls = append(c.calls, "GET "+path+"?"+r.URL.RawQuery)
		answer(w, &wire.DBJobsResp{Jobs: c.acct})
		return
	}
	path = strings.TrimPrefix(path, "/slurm/v0.0.45")
	id, isJob := strings.CutPrefix(path, "/job/")
	switch {
	case path == "/jobs":
		answer(w, &wire.JobInfoResp{Jobs: c.jobs})
	case path == "/nodes":
		answer(w, &wire.NodesResp{Nodes: c.nodes})
	case strings.HasPrefix(path, "/node/"):
		answer(w, &wire.Response{})
	case path == "/partitions":
		answer(w, &wire.PartitionResp{Partitions: c.parts})
	case path == "/ping":
		p := &wire.PingArrayResp{Pings: []wire.ControllerPing{{Hostname: "login01", Primary: true, Responding: true}}}
		p.Meta.Slurm.Cluster = "base"
		answer(w, p)
	case path == "/reconfigure":
		refuse(w, errno.UserIDMissing, "", "")
	case path == "/jobs/requeue":
		answer(w, &wire.JobsRequeueResp{Status: [][]wire.JobArrayResponseMsgEntry{{{ErrorCode: int64(errno.JobPending)}}}})
	case path == "/job/submit":
		c.submit(w, body)
	case isJob && r.Method == http.MethodDelete:
		resp := &wire.KillJobResp{}
		if c.find(id) == nil {
			resp.Status = append(resp.Status, wire.KillJobsRespJob{Error: wire.KillJobsRespJobError{Code: int64(errno.InvalidJobID)}})
		}
		answer(w, resp)
	case isJob && c.find(id) == nil:
		refuse(w, errno.InvalidJobID, "", "")
	case isJob && r.Method == http.MethodPost:
		answer(w, &wire.JobPostResponse{})
	case isJob:
		answer(w, &wire.JobInfoResp{Jobs: c.find(id)})
	default:
		http.NotFound(w, r)
	}
}

func (c *controller) serveOwn(w http.ResponseWriter, r *http.Request, path string) {
	v, ok := c.own[path]
	if text, plain := v.(string); plain {
		io.WriteString(w, text)
		return
	}
	if !ok {
		refuse(w, errno.InvalidJobID, "", "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func (c *controller) find(id string) (out []wire.JobInfo) {
	id, task, _ := strings.Cut(id, "_")
	for _, j := range c.jobs {
		if (fmt.Sprint(j.JobID) == id || j.ArrayJobID.Set && fmt.Sprint(j.ArrayJobID.Number) == id) &&
			(task == "" || !j.ArrayTaskID.Set || fmt.Sprint(j.ArrayTaskID.Number) == task) {
			out = append(out, j)
		}
	}
	return out
}

func (c *controller) submit(w http.ResponseWriter, body []byte) {
	var req wire.JobSubmitReq
	if err := wire.Unmarshal(body, &req); err != nil {
		refuse(w, errno.RESTFailParsing, err.Error(), "")
		return
	}
	c.submitted = append(c.submitted, req)
	if c.refuse != 0 {
		refuse(w, c.refuse, c.fault, "#/job/")
		return
	}
	if c.play != nil {
		c.play(c, &req)
	}
	resp := &wire.JobSubmitResponse{JobID: 41006}
	resp.Meta.Slurm.Cluster = "base"
	if strings.Contains(string(req.Sbatchd), `"test_only":true`) {
		resp.JobSubmitUserMsg = "Job 41006 to start at 2026-11-30T09:00:00 using 1 processors on nodes node01 in partition main"
	}
	answer(w, resp)
}

func answer(w http.ResponseWriter, v wire.Value) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(wire.Append(nil, v))
}

func refuse(w http.ResponseWriter, n errno.Errno, description, source string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	w.Write(wire.Append(nil, &wire.Response{Errors: []wire.Error{{ErrorNumber: int64(n), Error: n.Error(), Description: description, Source: source}}}))
}

// users are those of the test's host.
type users struct{}

func (users) ID(name string) (int64, bool) {
	id, ok := map[string]int64{"root": 0, "alice": 1000, "bob": 1001, "1000": 1000}[name]
	return id, ok
}

func (users) Name(id int64) string {
	if id == 1000 {
		return "alice"
	}
	return fmt.Sprint(id)
}

func (users) GroupID(name string) (int64, bool) { return users{}.ID(name) }
func (users) Groups() []string                  { return []string{"alice"} }

// session is a shell in which tests run commands.
type session struct {
	*testing.T
	dir   string
	env   []string
	stdin string
	uid   int
	ctl   *controller
	addr  string // host:port of the controller
	exec  func(argv, environ []string) (int, error)
}

func newSession(t *testing.T, ctl *controller) *session {
	t.Helper()
	srv := httptest.NewServer(ctl)
	t.Cleanup(srv.Close)
	return &session{T: t, dir: t.TempDir(), uid: 1000, ctl: ctl, addr: srv.Listener.Addr().String()}
}

func (s *session) file(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *session) read(name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

func (s *session) run(args ...string) (stdout, stderr string, status int) {
	s.Helper()
	var out, errs bytes.Buffer
	e := &cli.Env{
		Prog: args[0], Args: args[1:], Stdin: strings.NewReader(s.stdin), Stdout: &out, Stderr: &errs,
		Environ: append([]string{"HOME=/home/alice"}, s.env...), Dir: s.dir, Host: "login01", UID: s.uid, Umask: 0o22, Local: time.UTC,
		Now:      func() time.Time { return now },
		Sleep:    func(context.Context, time.Duration) error { return nil },
		ReadFile: os.ReadFile,
		Create:   func(name string) (io.WriteCloser, error) { return os.Create(name) },
		Users:    users{},
		Exec:     func(_ context.Context, argv, environ []string) (int, error) { return s.exec(argv, environ) },
		Signals:  func(context.Context) <-chan int { return make(chan int) },
		Connect: func(context.Context) (*client.Client, error) {
			if s.addr == "" {
				return nil, errno.ControllerConnect
			}
			return client.New(client.Endpoint{Network: "tcp", Address: s.addr}, client.WithPatience(0)), nil
		},
	}
	status = cli.Main(s.Context(), e)
	return strings.ReplaceAll(out.String(), s.dir, "DIR"), strings.ReplaceAll(errs.String(), s.dir, "DIR"), status
}

// expect runs a command line and compares all of its answer.
func (s *session) expect(stdout, stderr string, status int, args ...string) {
	s.Helper()
	out, errs, code := s.run(args...)
	name := strings.Join(args, " ")
	if diff := cmp.Diff(stdout, out); diff != "" {
		s.Errorf("%s: standard output (-want +got)\n%s", name, diff)
	}
	if diff := cmp.Diff(stderr, errs); diff != "" {
		s.Errorf("%s: standard error (-want +got)\n%s", name, diff)
	}
	if code != status {
		s.Errorf("%s: exit status %d, want %d", name, code, status)
	}
}

func pending() wire.JobInfo {
	j := wire.JobInfo{
		Account: "physics", JobID: 41262, Name: "pend", Partition: "main", UserName: "alice", UserID: 1000, GroupName: "alice", GroupID: 1000,
		JobState: []string{"PENDING"}, StateReason: "JobHeldUser", QOS: "normal", NodeCount: wire.N(1), CPUs: wire.N(2), CPUsPerTask: wire.N(2), Tasks: wire.N(1),
		MinimumCPUsPerNode: wire.N(2), MemoryPerNode: wire.N(300), TimeLimit: wire.N(1564), CurrentWorkingDirectory: "/home/alice/work",
		SubmitTime: wire.N(now.Unix()), LastSchedEvaluation: wire.N(now.Unix()), Priority: wire.N(0), Requeue: true, BatchFlag: true,
		TRESReqStr: "cpu=2,mem=300M,node=1,billing=2", TRESPerTask: "cpu=2", AllocatingNode: "login01", Comment: "cc", Cluster: "base",
		SubmitLine: "sbatch -H --wrap true", StdoutExpanded: "/home/alice/work/slurm-41262.out", StdinExpanded: "/dev/null",
	}
	return j
}

func running() wire.JobInfo {
	j := pending()
	j.JobID, j.Name, j.JobState, j.StateReason = 41250, "runner", []string{"RUNNING"}, "None"
	j.Nodes, j.BatchHost, j.Priority = "node01", "node01", wire.N(1)
	j.StartTime, j.EndTime, j.EligibleTime = wire.N(now.Unix()-1), wire.N(now.Unix()+3599), wire.N(now.Unix()-1)
	j.TimeLimit, j.TRESAllocStr = wire.N(60), j.TRESReqStr
	return j
}

// serveUnix listens on a socket in a short folder, since their names are short.
func serveUnix(t *testing.T, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	t.Cleanup(func() { srv.Close() })
	go srv.Serve(l)
	return l.Addr().String()
}
