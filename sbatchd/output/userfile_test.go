package output_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

func TestFollowFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "x.out")
	var asked atomic.Int32
	live := func() (uint32, bool) {
		n := asked.Add(1)
		switch n {
		case 1: // not there yet
		case 2:
			if err := os.WriteFile(name, []byte("one\n"), 0o600); err != nil {
				t.Error(err)
			}
		case 3: // printed just before the end
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return 0, false
			}
			defer f.Close()
			if _, err := f.WriteString("two\n"); err != nil {
				t.Error(err)
			}
		}
		return 0, n < 3
	}
	var got bytes.Buffer
	if err := output.FollowFile(t.Context(), &got, name, asuser.Self(), live); err != nil || got.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
	got.Reset()
	if err := output.FollowFile(t.Context(), &got, filepath.Join(dir, "never"), asuser.Self(), nil); err != nil || got.Len() > 0 {
		t.Errorf("a file that is not there: %q, %v", got.String(), err)
	}
}

// TestFollowFileRefuses: only files the owner may read, and no devices or pipes.
func TestFollowFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	err := output.FollowFile(t.Context(), &bytes.Buffer{}, pipe, asuser.Self(), nil)
	if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP other users' files: needs root")
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := output.FollowFile(t.Context(), &got, secret, asuser.Cred{UID: 4242, GID: 4242}, nil); err == nil || got.Len() > 0 {
		t.Errorf("root's file for another: %q, %v", got.String(), err)
	}
}
