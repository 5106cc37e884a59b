package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	_ "github.com/sbatchd/sbatchd/cloudburst/provider/exec"
	"github.com/sbatchd/sbatchd/cloudburst/providertest"
)

// script writes a program and returns its path.
func script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func provider(t *testing.T, uuid string, values map[string]string) cloudburst.Provider {
	t.Helper()
	p, err := cloudburst.Open("exec", cloudburst.Options{
		Provider: "ours", ClusterUUID: uuid, Values: values, Log: slog.New(slog.DiscardHandler),
		NodeBinary: script(t, "node", "exec sleep 1000\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestExample runs the suite over the program in contrib/exec, with faults put
// before it.
func TestExample(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"jq", "flock", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("SKIP exec provider: " + tool + " is not installed")
		}
	}
	example, err := filepath.Abs("../../../contrib/exec/processes")
	if err != nil {
		t.Fatal(err)
	}
	providertest.Run(t, providertest.Harness{Setup: func(t *testing.T) providertest.Account {
		folder, faults := t.TempDir(), t.TempDir()
		program := script(t, "cloud", fmt.Sprintf(`
if [ "$1" = create ] && [ -e %[1]s/full ]; then
	echo '{"error": {"class": "no-capacity", "message": "sold out"}}'
	exit 1
fi
if [ "$1" = create ] && rm %[1]s/fail 2>/dev/null; then
	%[2]s "$@" >/dev/null
	echo 'line lost' >&2
	exit 7
fi
exec %[2]s "$@"
`, faults, example))
		touch := func(name string) func() {
			return func() {
				if err := os.WriteFile(filepath.Join(faults, name), nil, 0o600); err != nil {
					t.Error(err)
				}
			}
		}
		return providertest.Account{
			Open: func(uuid string) cloudburst.Provider {
				return provider(t, uuid, map[string]string{"program": program, "folder": folder})
			},
			NoCapacity: touch("full"), FailAfterCreate: touch("fail"),
			Check: func(t *testing.T) {
				left, err := os.ReadDir(folder)
				if err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			},
		}
	}})
}

// TestAnswers: whatever a program answers becomes an instance or an error of a class.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const uuid = "0f0f0f0f-0000-4000-8000-000000000001"
	tag := cloudburst.MakeTag(uuid, "p-1", 1)
	create := func(p cloudburst.Provider) error {
		_, err := p.Create(t.Context(), cloudburst.Request{Tag: tag, ClusterUUID: uuid, NodeName: "p-1", Agent: cloudburst.AgentConfig{JoinToken: "t0ken"}})
		return err
	}
	list := func(p cloudburst.Provider) error { _, err := p.List(t.Context()); return err }
	offers := func(p cloudburst.Provider) error { _, err := p.Offers(t.Context(), cloudburst.Want{}); return err }
	remove := func(p cloudburst.Provider) error { return p.Delete(t.Context(), "i-1") }
	const none = `[ $1 != list ] || { echo '{"instances": []}'; exit; }` + "\n"
	for _, tt := range []struct {
		name, program string
		call          func(cloudburst.Provider) error
		class, text   string
	}{
		{"an error of a class", `echo '{"error": {"class": "quota", "message": "limit 8 in eu-1"}}'; exit 1`, list, "quota", "limit 8 in eu-1"},
		{"also with exit status 0", `echo '{"error": {"class": "auth", "message": "no"}}'`, list, "auth", "no"},
		{"rate", `echo '{"error": {"class": "rate", "after": 7}}'`, list, "rate", "rate limited for 7s"},
		{"a class nobody knows", `echo '{"error": {"class": "whatever", "message": "m"}}'`, list, "transient", "m"},
		{"a failed read", `echo one >&2; echo two >&2; exit 3`, list, "transient", "exit status 3: two"},
		{"a failed create", none + `echo boom >&2; exit 3`, create, "bad-request", "exit status 3: boom"},
		{"HTML", `echo '<html>busy</html>'`, list, "transient", "the answer is not JSON"},
		{"cut off", `printf '{"instances": [{"id": "i'`, list, "transient", "the answer is not JSON"},
		{"nothing", ``, list, "transient", "the answer is not JSON"},
		{"an empty object is no empty list", `echo '{}'`, list, "transient", "the answer has no instances"},
		{"no instance", none + `echo '{}'`, create, "transient", "the answer has no instance"},
		{"another tag", none + `echo '{"instance": {"id": "i-1", "tag": "` + string(cloudburst.MakeTag(uuid, "p-2", 1)) + `", "state": "running"}}'`, create, "transient", "has tag"},
		{"a state nobody knows", `echo '{"instances": [{"id": "i-1", "tag": "` + string(tag) + `", "state": "happy"}]}'`, list, "transient", `state "happy"`},
		{"no id", `echo '{"instances": [{"tag": "` + string(tag) + `", "state": "running"}]}'`, list, "transient", "has no id"},
		{"a price below zero", `echo '{"offers": [{"id": "o", "price": -1}]}'`, offers, "bad-request", "price -1 is not one"},
		{"a size below zero", `echo '{"offers": [{"id": "o", "cpus": -1}]}'`, offers, "bad-request", "size below zero"},
		{"machines of others", `echo '{"instances": [{"id": "i-9", "tag": "web server", "state": "running"}]}'`, list, "", ""},
		{"delete of what is gone", `echo '{"error": {"class": "not-found", "message": "gone"}}'; exit 1`, remove, "", ""},
		{"secrets are not told", none + `cat >&2; exit 1`, create, "bad-request", `"credential":{"key":"***"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := provider(t, uuid, map[string]string{"program": script(t, "cloud", tt.program+"\n"), "key": "s3cret"})
			err := tt.call(p)
			if got := cloudburst.Class(err); got != tt.class || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("class %q, %v; want %q, %q", got, err, tt.class, tt.text)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "t0ken")) {
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

// TestSlowProgram: a call ends in time, with everything the program started.
func TestSlowProgram(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "still-here")
	p := provider(t, "u", map[string]string{"timeout": "1", "program": script(t, "cloud", "(sleep 4; touch "+mark+") & sleep 100\n")})
	began := time.Now()
	if _, err := p.List(t.Context()); !errors.Is(err, cloudburst.ErrTransient) || !strings.Contains(err.Error(), "no answer within 1s") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's limit: %v", err)
	}
	if took := time.Since(began); took > 3500*time.Millisecond {
		t.Errorf("took %s", took)
	}
	time.Sleep(time.Until(began.Add(5 * time.Second)))
	if _, err := os.Stat(mark); err == nil {
		t.Error("what the program started went on")
	}
}

func TestProgramsThatAreRefused(t *testing.T) {
	t.Parallel()
	open := script(t, "open", "")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for values, want := range map[string]string{
		"program=/no/such":             "no such file",
		"program=" + t.TempDir():       "is not executable",
		"program=" + open:              "may be changed by everybody",
		"program=/bin/true timeout=x":  "not a number of seconds",
		"program=/bin/true timeout=-3": "not a number of seconds",
		"":                             `needs "program"`,
	} {
		o := cloudburst.Options{Provider: "ours", Values: map[string]string{}}
		for v := range strings.FieldsSeq(values) {
			name, value, _ := strings.Cut(v, "=")
			o.Values[name] = value
		}
		if _, err := cloudburst.Open("exec", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}
