package attempt_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// TestMain lets the test program hold a folder's lock as another process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD"); dir != "" {
		if _, err := attempt.Lock(dir); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n") // a failure is the test's to see
		io.Copy(io.Discard, os.Stdin)   //nolint:errcheck // until the test lets go
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockAndHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if pid, err := attempt.Holder(dir); pid != 0 || err != nil {
		t.Errorf("holder of a new folder: %d %v", pid, err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if pid, err := attempt.Holder(dir); pid != cmd.Process.Pid || err != nil {
		t.Errorf("holder: %d %v, want %d", pid, err, cmd.Process.Pid)
	}
	if _, err := attempt.Lock(dir); err == nil {
		t.Error("locked twice")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if pid, err := attempt.Holder(dir); pid != 0 || err != nil {
		t.Errorf("holder after its end: %d %v", pid, err)
	}
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var got attempt.State
	if found, err := attempt.Read(dir, attempt.StateFile, &got); found || err != nil {
		t.Errorf("missing file: %v %v", found, err)
	}
	want := attempt.State{ScriptPid: 7, Kill: &attempt.Kill{Reason: attempt.ReasonCancel}}
	for _, durable := range []bool{false, true} {
		if err := attempt.Write(dir, attempt.StateFile, want, durable); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := attempt.Read(dir, attempt.StateFile, &got); !found || err != nil {
		t.Fatal(found, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left in the folder: %v %v", files, err)
	}
	if info, err := os.Stat(filepath.Join(dir, attempt.StateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestClientOverALongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	client := attempt.NewClient(dir)
	if err := client.Do(t.Context(), attempt.PathWait, nil, nil); !errors.Is(err, attempt.ErrNoShim) {
		t.Errorf("without a shim: %v", err)
	}
	l, err := attempt.ListenUnix(t.Context(), filepath.Join(dir, attempt.SocketFile), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+attempt.PathHook, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"code":3}`)) })
	mux.HandleFunc("POST "+attempt.PathKill, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such luck", http.StatusTeapot) })
	srv := &http.Server{Handler: mux}
	go func(l net.Listener) { _ = srv.Serve(l) }(l) // until Close
	t.Cleanup(func() { srv.Close() })
	var res attempt.HookResult
	if err := client.Do(t.Context(), attempt.PathHook, attempt.Hook{}, &res); err != nil || res.Code != 3 {
		t.Errorf("got %v %v", res, err)
	}
	if err := client.Do(t.Context(), attempt.PathKill, attempt.Kill{}, nil); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v", err)
	}
}
