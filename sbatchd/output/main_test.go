package output_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

// The test binary is also the helper and, in the kill tests, the controller.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "as-helper":
			os.Exit(output.HelperMain(os.Args[2:]))
		case "as-controller":
			os.Exit(controllerMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

var quiet = slog.New(slog.DiscardHandler)

func key(id, restart uint32, stream string) output.Key {
	return output.Key{Attempt: job.Attempt{Job: id, Restart: restart}, Stream: stream}
}

// rig is a spool and a copier at work.
type rig struct {
	*output.Spool
	c     *output.Copier
	warns chan string
	stop  func()
}

func start(t *testing.T, dir string, limit int64) *rig {
	t.Helper()
	r := &rig{warns: make(chan string, 100)}
	var err error
	if r.Spool, err = output.NewSpool(dir, limit, quiet); err != nil {
		t.Fatal(err)
	}
	warn := func(_ output.Key, text string) { r.warns <- text }
	if r.c, err = output.NewCopier(r.Spool, output.Reexec("as-helper"), warn, quiet); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return r.Spool.Run(ctx) })
	g.Go(func() error { return r.c.Run(ctx) })
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

func (r *rig) append(t *testing.T, k output.Key, offset int64, data string) output.Ack {
	t.Helper()
	a, err := r.Append(t.Context(), k, offset, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *rig) prepare(t *testing.T, k output.Key, target output.Target) {
	t.Helper()
	if err := r.c.Prepare(t.Context(), k, target); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) finish(t *testing.T, a job.Attempt) {
	t.Helper()
	if err := r.c.Finish(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func self(path string) output.Target {
	return output.Target{Path: path, Owner: asuser.Self(), Umask: 0o022}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is %.300q, want %.300q", filepath.Base(path), got, want)
	}
}
