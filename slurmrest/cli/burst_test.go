package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/step"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func TestSacct(t *testing.T) {
	t.Parallel()
	j := wire.DBJob{JobID: 41347, Name: "acct", Partition: "main", Account: "physics", User: "alice", Nodes: "node01"}
	j.State.Current = []string{"COMPLETED"}
	j.TRES.Allocated = []wire.TRES{{Type: "cpu", Count: 2}}
	j.Steps = make([]wire.DBStep, 1)
	j.Steps[0].Step.ID, j.Steps[0].Step.Name, j.Steps[0].State = "41347.batch", "batch", []string{"COMPLETED"}
	j.Steps[0].TRES.Allocated = j.TRES.Allocated
	s := newSession(t, &controller{acct: []wire.DBJob{j}})
	const header = "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n" +
		"------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
	s.expect(header+
		"41347              acct       main    physics          2  COMPLETED      0:0 \n"+
		"41347.batch       batch               physics          2  COMPLETED      0:0 \n", "", 0, "sacct", "-j", "41347")
	s.expect("41347|COMPLETED\n", "", 0, "sacct", "-XnPj41347", "-o", "jobid,state")
	s.expect("JobID;State\n41347;COMPLETED\n41347.batch;COMPLETED\n", "", 0, "sacct", "-P", "--delimiter=;", "-o", "jobid,state")
	s.expect("JobID|State|ExitCode|\n41347|COMPLETED|0:0|\n41347.batch|COMPLETED|0:0|\n", "", 0, "sacct", "-bp", "--dupl", "-j", "41347", "--starttime", "2026-11-01")
	if last := s.ctl.calls[len(s.ctl.calls)-1]; last != "GET /slurmdb/v0.0.45/jobs?show_duplicates=true&start_time=1793491200&step=41347" {
		t.Errorf("query %s", last)
	}
	s.expect("41347.batch|batch\n", "", 0, "sacct", "-nP", "-j", "41347.batch", "-o", "jobid,jobname")
	s.expect("", "sacct: error: Invalid field requested: \"nosuch\"\n", 1, "sacct", "-o", "nosuch")
	s.expect("", "sacct: fatal: unrecognized job state value 'NOPE'\n", 1, "sacct", "-s", "NOPE")
	s.expect("", "Invalid time specification (pos=0): junk\n", 1, "sacct", "-S", "junk")
	s.expect("", "sacct: error: Invalid user id: nosuchuser\n", 1, "sacct", "-u", "nosuchuser")
	s.expect("", "sacct: error: Start time (2030-01-02T00:00:00) requested is after end time (2030-01-01T00:00:00).\n", 1, "sacct", "-S", "2030-01-02", "-E", "2030-01-01")
	s.run("sacct")
	if last := s.ctl.calls[len(s.ctl.calls)-1]; last != "GET /slurmdb/v0.0.45/jobs?start_time=1795996800&users=1000" {
		t.Errorf("query %s", last)
	}
	out, _, _ := s.run("sacct", "-e")
	if !strings.HasPrefix(out, "Account             AdminComment        AllocCPUS           AllocNodes         \n") {
		t.Errorf("fields %q", out[:100])
	}
	s.env = []string{"SACCT_FORMAT=user%-6"}
	s.expect("alice  \n", "", 0, "sacct", "-nX")
}

func TestSburst(t *testing.T) {
	t.Parallel()
	bill := wire.Bill{
		JobID: 7, Name: "train", User: "alice",
		Attempts: []wire.BillAttempt{
			{State: "PREEMPTED", ExitCode: "0:15", Start: now, Seconds: 3600, Useful: 3000, Lost: 600, Checkpoint: 2, Hosts: []wire.BillHost{{
				Node: "a100-1", Pool: "a100", InstanceType: "p4", Region: "eu-1", Spot: true, GPUs: []string{"A100"}, Driver: "550.90", ImageDigest: "sha256:ab",
				PricePerHour: 1.5, Currency: "EUR", Share: 1, Cost: 1.5, UsefulCost: 1.25, LostCost: 0.25,
			}}},
		},
		Result: wire.BillResult{State: "COMPLETED", ExitCode: "0:0", Restarts: 1, Output: "/home/alice/o", WorkDir: "/home/alice"},
		Totals: []wire.BillTotal{{Currency: "EUR", Cost: 1.5, Useful: 1.25, Lost: 0.25}},
	}
	s := newSession(t, &controller{jobs: []wire.JobInfo{pending()}, own: map[string]any{
		"/leaks": wire.Leaks{}, "/bill/7": bill, "/logs/7": "line 1\nline 2", "/reclaim/a100-1": struct{}{},
		"/explain/7":     wire.Explain{JobID: 7, State: "PENDING", Reason: "Resources", Pools: []wire.ExplainPool{{Partition: "gpu", Pool: "a100", Fits: true, Why: "no capacity", Until: now}}},
		"/checkpoints/7": wire.Checkpoints{JobID: 7, Checkpoints: []wire.Checkpoint{{Number: 2, Time: now, Reason: "reclaim", Bytes: 2048, Files: 1, SHA256: "0123456789abcdef", Newest: true}}},
		"/pools":         wire.Pools{Pools: []wire.Pool{{Name: "a100", Provider: "ali", State: "UP", Capacity: "spot", Gres: "gpu:a100:1-8", CPUs: 8, MemoryMiB: 8192, MaxNodes: 4, Up: 1}}},
		"/offers":        wire.Offers{Offers: []wire.Offer{{Pool: "a100", Provider: "ali", InstanceType: "p4", CPUs: 8, MemoryMiB: 1024, Spot: true, PricePerHour: 0.0512, Currency: "USD"}}},
	}})
	s.expect("leaked: 0\n", "", 0, "sburst", "leaks")
	s.expect("line 1\nline 2", "", 0, "sburst", "logs", "7", "-f")
	s.expect("", "", 0, "sburst", "reclaim", "a100-1", "--notice=30s")
	if got := s.ctl.bodies[0]; got != `{"notice_seconds":30}` {
		t.Errorf("reclaim %s", got)
	}
	s.expect("Job 7 is PENDING, reason Resources\nPARTITION  POOL  FITS  WHY\ngpu        a100  yes   no capacity (set aside until 2026-11-30T08:23:27)\n", "", 0, "sburst", "explain", "7")
	s.expect("NUMBER  RESTART  TIME                 REASON   SIZE  FILES  MANIFEST_SHA256  NEWEST\n"+
		"2       0        2026-11-30T08:23:27  reclaim  2K    1      0123456789ab     *\n", "", 0, "sburst", "checkpoints", "7")
	s.expect("POOL  PROVIDER  TYPE  REGION  GRES  CPUS  MEMORY  INTERCONNECT  KIND  PRICE/H  AVAILABLE\n"+
		"a100  ali       p4    -       -     8     1G      -             spot  $0.0512  ?\n", "", 0, "sburst", "offers", "--pool", "a100")
	s.expect("JOB 7 train of alice\n\nGIVEN\n"+
		"  RUN  NODE    POOL  INSTANCE_TYPE  REGION  KIND  GPUS  DRIVER  IMAGE\n"+
		"  0    a100-1  a100  p4             eu-1    spot  A100  550.90  sha256:ab\n\n"+
		"RESULT\n  State=COMPLETED ExitCode=0:0 Restarts=1\n  Output=/home/alice/o\n  WorkDir=/home/alice\n\nCOST\n"+
		"  RUN    NODE    STATE      EXIT  START                TIME      USEFUL    LOST      PRICE/H   SHARE  COST      USEFUL    LOST      CHECKPOINT\n"+
		"  0      a100-1  PREEMPTED  0:15  2026-11-30T08:23:27  01:00:00  00:50:00  00:10:00  1.50 EUR  100%   1.50 EUR  1.25 EUR  0.25 EUR  saved 2\n"+
		"  total                                                                                               1.50 EUR  1.25 EUR  0.25 EUR  \n", "", 0, "sburst", "bill", "-j", "7")
	s.expect("41262\n", "", 0, "sburst", "squeue", "-h", "-o", "%i")
	s.expect("", "sburst: error: Invalid job id specified\n", 1, "sburst", "bill", "-j", "99")
	s.expect("", "sburst: error: no such word: nosuch; see sburst --help\n", 1, "sburst", "nosuch")
	out, _, status := s.run("sburst", "pools")
	if !strings.Contains(out, "a100  ali       UP     spot      gpu:a100:1-8  8     8G ") || status != 0 {
		t.Errorf("pools %d\n%s", status, out)
	}
	out, _, _ = s.run("sburst", "options")
	if !strings.Contains(out, "-A, --account") || !strings.Contains(out, "refused: ") {
		t.Errorf("options\n%.400s", out)
	}
}

// shim serves steps as a node does.
func shim(t *testing.T, play func(c *step.Conn, r step.Request)) string {
	t.Helper()
	return serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != step.Path {
			http.NotFound(w, r)
			return
		}
		c, req, err := step.Accept(w, r)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		defer c.Close()
		if err := c.WriteJSON(step.Started, step.AllTasks, step.Info{Job: 7, Step: 3, Node: "node01", Pids: []int{1, 2}}); err != nil {
			t.Errorf("started: %v", err)
		}
		play(c, req)
		c.Write(step.Done, step.AllTasks, nil)
	}))
}

func TestSrun(t *testing.T) {
	t.Parallel()
	var got step.Request
	socket := shim(t, func(c *step.Conn, r step.Request) {
		got = r
		for rank := range r.NTasks {
			c.Write(step.Stdout, uint32(rank), []byte(fmt.Sprintf("out of %d\npart", rank)))
			c.Write(step.Stderr, uint32(rank), []byte("err\n"))
			status := step.Status{}
			switch r.Argv[0] {
			case "false":
				status.Code = 3
			case "killed":
				status.Signal = 9
			case "cat":
				f, err := c.Read()
				for ; err == nil && f.Type == step.Stdin; f, err = c.Read() {
					c.Write(step.Stdout, uint32(rank), append([]byte(" "), f.Data...))
				}
			}
			c.WriteJSON(step.Exit, uint32(rank), status)
		}
	})
	s := newSession(t, &controller{})
	s.expect("", "srun: fatal: No command given to execute.\n", 1, "srun")
	s.env = []string{"SLURM_JOB_ID=7", "SBATCHD_SERVER=unix://" + socket, "SLURM_NTASKS=2", "SLURMD_NODENAME=node01", "SLURM_CPUS_PER_TASK=4"}
	s.expect("0: out of 0\n1: out of 1\n0: part\n1: part\n", "0: err\n1: err\n", 0, "srun", "-l", "hostname", "-x", "y")
	if strings.Join(got.Argv, " ") != "hostname -x y" || got.NTasks != 2 || got.CPUsPerTask != 4 || got.Dir != s.dir || got.StdinTask != -1 || got.Name != "hostname" {
		t.Errorf("request %+v", got)
	}
	s.expect("out of 0\npart", "err\nsrun: error: node01: task 0: Exited with exit code 3\n", 3, "srun", "-n1", "false")
	s.expect("out of 0\npartout of 1\npart", "err\nerr\nsrun: error: node01: tasks 0-1: Killed\nsrun: Force Terminated StepId=7.3\n", 137, "srun", "killed")
	s.expect("", "", 0, "srun", "--output=none", "hostname")
	s.stdin = "hello"
	s.expect("out of 0\npart hello", "err\n", 0, "srun", "-n1", "cat")
	s.expect("", "", 0, "srun", "-o", "f-%j-%2t-%%", "-n1", "hostname")
	s.expect("", "srun: error: Only allocated 1 nodes asked for 2\n", 1, "srun", "-N2", "hostname")
	s.expect("", "srun: error: Unable to create step for job 7: --pty: Requested operation not supported on this system\n", 1, "srun", "--pty", "bash")
	s.expect("", "srun: unrecognized option '--nosuch'\nTry \"srun --help\" for more information\n", 255, "srun", "--nosuch", "x")
	if out := s.read("f-7-00-%"); out != "out of 0\nparterr\n" {
		t.Errorf("file: %q", out)
	}
}
