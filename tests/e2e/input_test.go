//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// TestBadScripts is what sbatch refuses, in Slurm's words and with its exit
// status, and without a change of state.
func TestBadScripts(t *testing.T) {
	h := open(t, site{runtime: "process", slurm: `EnforcePartLimits=ALL
PartitionName=main Pools=p Default=YES MaxTime=1:00:00 DefaultTime=10:00
PartitionName=short Pools=p MaxTime=5:00
`})
	h.script(h.alice, "ok.sh", "#!/bin/sh\ntrue\n")
	tests := []struct {
		name, script string
		args         []string
		says         string
	}{
		{name: "no interpreter", script: "echo hello\n", says: "This does not look like a batch script."},
		{name: "carriage returns", script: "#!/bin/sh\r\necho hello\r\n", says: "Batch script contains DOS line breaks (\\r\\n)"},
		{name: "unknown option", args: []string{"--no-such-option", "ok.sh"}, says: "unrecognized option '--no-such-option'"},
		{name: "unknown option in the script", script: "#!/bin/sh\n#SBATCH --no-such-option\n", says: "unrecognized option '--no-such-option'"},
		{name: "bad number of nodes", args: []string{"--nodes=many", "ok.sh"}, says: `"many" is not a valid node count`},
		{name: "bad time", args: []string{"--time=soon", "ok.sh"}, says: "Invalid --time specification"},
		{name: "bad memory", args: []string{"--mem=lots", "ok.sh"}, says: "Invalid --mem specification"},
		{name: "unknown partition", args: []string{"-p", "nowhere", "ok.sh"}, says: "invalid partition specified: nowhere"},
		{name: "more GPUs than any node has", args: []string{"--gres=gpu:8", "ok.sh"}, says: "Requested node configuration is not available"},
		{name: "more memory than any node has", args: []string{"--mem=1T", "ok.sh"}, says: "Requested node configuration is not available"},
		{name: "too long for the partition", args: []string{"-p", "short", "-t", "1:00:00", "ok.sh"}, says: "Requested time limit is invalid (missing or exceeds some limit)"},
		{name: "no such file", args: []string{"nothing.sh"}, says: "Unable to open file nothing.sh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if args == nil {
				args = []string{h.script(h.alice, "bad.sh", tt.script)}
			}
			result := h.run(h.alice, append([]string{"sbatch"}, args...)...)
			if result.Code == 0 || result.Stdout != "" || !strings.Contains(result.Stderr, tt.says) {
				t.Errorf("sbatch %s: %v\nwant: %s", strings.Join(args, " "), result, tt.says)
			}
		})
	}
	if queue := h.must(h.alice, "squeue", "-h"); queue != "" {
		t.Errorf("refused jobs are in the queue:\n%s", queue)
	}
	if id := h.sbatch(h.alice, "--hold", "ok.sh"); id != "1" {
		t.Errorf("the first job that is taken has id %s: refused ones used ids up", id)
	}
}

// TestOthersJobs checks what a user may do to somebody else's job: see it, and
// nothing more.
func TestOthersJobs(t *testing.T) {
	h := open(t, site{runtime: "process"})
	id := h.sbatch(h.alice, "-o", "secret.out", "--wrap", "echo secret; sleep 30")
	h.started(id, time.Minute)
	h.shows(h.alice, "secret.out", "secret", 10*time.Second)
	for command, says := range map[string]string{ // Slurm's own words, which differ
		"scancel": "Access/permission denied", "scontrol hold": "Invalid user id", "scontrol requeue": "Access/permission denied",
		"sburst logs": "Access/permission denied",
	} {
		if result := h.run(h.bob, append(strings.Fields(command), id)...); result.Code == 0 || !strings.Contains(result.Stderr, says) {
			t.Errorf("bob: %s: %v, want %q", command, result, says)
		}
	}
	if job := h.job(id); job["JobState"] != "RUNNING" {
		t.Errorf("alice's job is %s", job["JobState"])
	}
	if result := h.run(h.bob, "cat", filepath.Join(h.alice.Home, "secret.out")); result.Code == 0 {
		t.Errorf("bob reads alice's output: %v", result)
	}
	h.must(h.alice, "scancel", id)
	h.ended(id, "CANCELLED", 30*time.Second)
}

// TestRESTRefusals sends what a REST server must refuse.
func TestRESTRefusals(t *testing.T) {
	h := open(t, site{runtime: "process"})
	token := strings.TrimPrefix(strings.TrimSpace(h.must(h.root(), "scontrol", "token", "username=alice", "lifespan=600")), "SLURM_JWT=")
	short := strings.TrimPrefix(strings.TrimSpace(h.must(h.root(), "scontrol", "token", "username=alice", "lifespan=1")), "SLURM_JWT=")
	time.Sleep(2 * time.Second) // the token's life is wall time
	job := `{"job":{"script":"#!/bin/sh\ntrue\n","current_working_directory":"/tmp","environment":["PATH=/bin"],"hold":true}}`
	tests := []struct {
		name, user, token, path, body string
		status                        int
	}{
		{name: "good", user: "alice", token: token, path: "/slurm/v0.0.45/job/submit", body: job, status: http.StatusOK},
		{name: "older version", user: "alice", token: token, path: "/slurm/v0.0.44/job/submit", body: job, status: http.StatusOK},
		{name: "no token", user: "alice", path: "/slurm/v0.0.45/job/submit", body: job, status: http.StatusUnauthorized},
		{name: "expired", user: "alice", token: short, path: "/slurm/v0.0.45/job/submit", body: job, status: http.StatusNetworkAuthenticationRequired},
		{name: "another user's", user: "bob", token: token, path: "/slurm/v0.0.45/job/submit", body: job, status: http.StatusNetworkAuthenticationRequired},
		{name: "torn", user: "alice", token: token[:len(token)-4], path: "/slurm/v0.0.45/job/submit", body: job, status: http.StatusNetworkAuthenticationRequired},
		{name: "not JSON", user: "alice", token: token, path: "/slurm/v0.0.45/job/submit", body: "hello", status: http.StatusBadRequest},
		{name: "no such path", user: "alice", token: token, path: "/slurm/v0.0.45/nothing", body: job, status: http.StatusNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.ctl.URL+tt.path, bytes.NewReader([]byte(tt.body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-SLURM-USER-NAME", tt.user)
			if tt.token != "" {
				req.Header.Set("X-SLURM-USER-TOKEN", tt.token)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status {
				t.Errorf("%s, want %d: %s", resp.Status, tt.status, answer)
			}
			var got struct {
				JobID int `json:"job_id"`
			}
			if tt.status == http.StatusOK && (json.Unmarshal(answer, &got) != nil || got.JobID == 0) {
				t.Errorf("no job_id in %s", answer)
			}
		})
	}
	if queue := strings.Fields(h.must(h.alice, "squeue", "-h", "-o", "%i")); len(queue) != 2 {
		t.Errorf("jobs %v in the queue, want the two good ones", queue)
	}
}

// TestCheckListsEveryFault gives `sbatchd check` and `serve` a configuration
// with several faults.
func TestCheckListsEveryFault(t *testing.T) {
	needRoot(t)
	r, err := rig.New("check")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := r.Path("etc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	good := "ClusterName=check\nSlurmctldHost=localhost\nAgentListen=tcp:127.0.0.1:0\nRestListen=unix:" + r.Path("s.sock") +
		"\nStateSaveLocation=" + r.Path("state") + "\nProviderName=here Type=local\nPoolName=p Provider=here CPUs=1 RealMemory=100 MaxNodes=1 Runtime=process\nPartitionName=main Pools=p Default=YES\n"
	bad := good + "NoSuchKey=1\nImageName=loose Ref=registry.example.org/x:latest\nPartitionName=other Pools=nowhere\n"
	check := func(text string) rig.Result {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		result, err := r.Run(t.Context(), rig.Cmd{User: r.Admin()}, "sbatchd", "check", "--config", dir)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := check(good); result.Code != 0 || !strings.Contains(result.Stdout, "main") {
		t.Errorf("a good configuration: %v", result)
	}
	result := check(bad)
	if result.Code != 1 {
		t.Errorf("exit %d, want 1", result.Code)
	}
	for line, word := range map[string]string{"slurm.conf:9: ": "NoSuchKey", "slurm.conf:10: ": "digest", "slurm.conf:11: ": "nowhere"} {
		found := false
		for said := range strings.Lines(result.Stdout + result.Stderr) {
			found = found || strings.Contains(said, line) && strings.Contains(said, word)
		}
		if !found {
			t.Errorf("no %q with %q in:\n%v", line, word, result)
		}
	}
	served, err := r.Run(t.Context(), rig.Cmd{User: r.Admin()}, "sbatchd", "serve", "--config", dir)
	if err != nil || served.Code == 0 {
		t.Errorf("serve took it: %v (%v)", served, err)
	}
}

// TestReconfigureKeepsTheOldOnFault reloads a faulty file: it says why and
// changes nothing.
func TestReconfigureKeepsTheOldOnFault(t *testing.T) {
	h := open(t, site{runtime: "process"})
	path := filepath.Join(h.ctl.Config, "slurm.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "PartitionName=main Pools=nowhere\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if result := h.run(h.root(), "scontrol", "reconfigure"); result.Code == 0 {
		t.Errorf("a faulty file was taken: %v", result)
	}
	if result := h.run(h.alice, "scontrol", "reconfigure"); result.Code == 0 {
		t.Errorf("alice reconfigures: %v", result)
	}
	if err := os.WriteFile(path, append(text, "PartitionName=extra Pools=p\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	h.must(h.root(), "scontrol", "reconfigure")
	if got := h.must(h.alice, "sinfo", "-h", "-o", "%R"); !strings.Contains(got, "extra") {
		t.Errorf("the new partition is not there: %q", got)
	}
}
