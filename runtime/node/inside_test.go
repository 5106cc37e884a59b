package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/slurmrest/step"
)

// inside starts a job that only waits, and gives the path of its socket.
func inside(t *testing.T, n *node, a *agentapi.Attempt) string {
	t.Helper()
	n.launch(a, `echo "$SBATCHD_SERVER"; sleep 60`, nil)
	n.c.written(a, "out", "\n")
	path, ok := strings.CutPrefix(strings.TrimSpace(n.c.output(a, "out")), "unix://")
	if !ok || !filepath.IsAbs(path) {
		t.Fatalf("SBATCHD_SERVER=%s", path)
	}
	return path
}

func TestRelay(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(70, 0)
	var got *agentapi.RelayRequest
	n.c.relayed = func(r *agentapi.RelayRequest) (int, string) { got = r; return http.StatusTeapot, "answer" }
	path := inside(t, n, a)
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/slurm/v0.0.45/job/submit?x=1", strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Sbatchd-Uid", "0") // a lie
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusTeapot || string(body) != "answer" || resp.Header.Get("X-Test") != "yes" {
		t.Errorf("got %s %q %v", resp.Status, body, err)
	}
	if got.GetMethod() != "POST" || got.GetPath() != "/slurm/v0.0.45/job/submit?x=1" || string(got.GetBody()) != `{"a":1}` ||
		got.GetAttempt().GetJob() != 70 {
		t.Errorf("relayed %v", got)
	}

	// A killed agent is waited for.
	n.killAgent()
	resp, err = client.Get("http://localhost/ping")
	if err != nil || resp.StatusCode != http.StatusTeapot {
		t.Fatalf("after the agent was killed: %v %v", resp, err)
	}
	resp.Body.Close()
}

func TestStep(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	a := agentapi.NewAttempt(71, 0)
	path := inside(t, n, a)
	run := func(r step.Request, stdin string) (out, errs string, exits map[uint32]step.Status) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := step.Dial(t.Context(), conn, r)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if stdin != "" {
			if err := c.Write(step.Stdin, 0, []byte(stdin)); err != nil {
				t.Error(err)
			}
		}
		_ = c.Write(step.StdinEOF, 0, nil) // a short step may be over
		exits = map[uint32]step.Status{}
		for {
			f, err := c.Read()
			if err != nil {
				t.Fatalf("step ended early: %v", err)
			}
			switch f.Type {
			case step.Stdout:
				out += string(f.Data)
			case step.Stderr:
				errs += string(f.Data)
			case step.Exit:
				var s step.Status
				if err := json.Unmarshal(f.Data, &s); err != nil {
					t.Error(err)
				}
				exits[f.Task] = s
			case step.Done:
				return out, errs, exits
			case step.Error:
				t.Fatalf("step: %s", f.Data)
			default:
			}
		}
	}
	// srun brings its own environment, which is the script's.
	env := []string{"PATH=/usr/bin:/bin", "SLURM_JOB_ID=71"}
	n.killAgent() // steps need no agent

	out, errs, exits := run(step.Request{Argv: []string{"cat"}, NTasks: 1, Env: env}, "through\n")
	if out != "through\n" || errs != "" || exits[0].Code != 0 {
		t.Errorf("cat: %q %q %v", out, errs, exits)
	}
	_, errs, exits = run(step.Request{
		Argv: []string{"sh", "-c", `echo "$SLURM_PROCID/$SLURM_NTASKS $SLURM_STEP_ID $SLURM_JOB_ID" >&2; exit $((SLURM_PROCID+3))`}, NTasks: 2, Env: env, StdinTask: -2,
	}, "")
	if !strings.Contains(errs, "0/2 1 71\n") || !strings.Contains(errs, "1/2 1 71\n") {
		t.Errorf("stderr %q", errs)
	}
	if d := cmp.Diff(map[uint32]step.Status{0: {Code: 3}, 1: {Code: 4}}, exits); d != "" {
		t.Error(d)
	}
	_, _, exits = run(step.Request{Argv: []string{"sh", "-c", "test $SLURM_PROCID = 0 && exit 2; sleep 60"}, NTasks: 2, Env: env, KillOnBadExit: true, StdinTask: -2}, "")
	if exits[1].Signal != 15 {
		t.Errorf("the other task of a failed one: %v", exits)
	}
	event(n.c, a, "step 1 in the reports", func(r *agentapi.Report) (bool, bool) {
		return true, r.GetKey().GetStep() == 1 && r.GetExited().GetCode() == 4
	})
}
