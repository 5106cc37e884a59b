//go:build e2e

package checkpoint_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/checkpoint"
)

// newS3 starts a real S3 server (versitygw on a folder) and counts the
// connections that go through the injected dialer.
func newS3(t *testing.T) (checkpoint.Store, string, *atomic.Int32) {
	t.Helper()
	bin := os.Getenv("VERSITYGW")
	if bin == "" {
		var err error
		if bin, err = exec.LookPath("versitygw"); err != nil {
			t.Skip("needs versitygw (tests/setup installs it)")
		}
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "ckpt"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "--access", "access", "--secret", "secret", "--port", addr, "posix", root)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone already
		_ = cmd.Wait()
	})
	loc, err := checkpoint.ParseLocation("s3://ckpt/pre?region=us-east-1&endpoint=http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	dialed := new(atomic.Int32)
	rt := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, to)
	}}
	t.Cleanup(rt.CloseIdleConnections)
	s, err := checkpoint.NewS3(loc.S3, checkpoint.Credentials{AccessKey: "access", SecretKey: "secret"}, rt)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		_, err := s.List(t.Context(), "")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return s, root, dialed
}

func TestS3(t *testing.T) {
	s, root, dialed := newS3(t)
	t.Run("round trip", func(t *testing.T) { roundTrip(t, s) })
	t.Run("contract", func(t *testing.T) { contract(t, s) })
	t.Run("large object in parts", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "d", "big")
		if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, make([]byte, 40<<20+123), 0o600); err != nil {
			t.Fatal(err)
		}
		set := checkpoint.New(s, cluster, 9, quiet)
		save(t, set, spec(filepath.Dir(file), 0))
		if _, err := set.Restore(t.Context(), checkpoint.Target{Dir: filepath.Join(t.TempDir(), "back")}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("damage", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "d")
		set := checkpoint.New(s, cluster, 10, quiet)
		fill(t, dir, "one")
		save(t, set, spec(dir, 0))
		fill(t, dir, "three")
		m := save(t, set, spec(dir, 0))
		for _, f := range m.Files {
			if f.Path == "a/epoch" {
				if err := os.WriteFile(filepath.Join(root, "ckpt", "pre", cluster, "10", f.Object), []byte("THREE"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if m, err := set.Restore(t.Context(), checkpoint.Target{Dir: dir}); err != nil || m.Number != 1 {
			t.Errorf("restored %v %v, want number 1", m, err)
		}
	})
	t.Run("wrong key", func(t *testing.T) {
		defer checkpoint.NoWaits()()
		_, err := s.Get(t.Context(), "x/y")
		if !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("missing object: %v", err)
		}
	})
	if dialed.Load() == 0 {
		t.Error("the injected dialer was not used")
	}
}

func TestS3Prune(t *testing.T) {
	s, _, _ := newS3(t)
	prune(t, s)
}
