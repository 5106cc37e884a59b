package rig_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// newRig needs no built programs: these tests start none of ours.
func newRig(t *testing.T) *rig.Rig {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "sbatchd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SBATCHD_BIN", bin)
	r, err := rig.New("rig-test")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestServicesLeaveNothing(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, err := r.Registry(ctx)
	if err != nil {
		r.Close()
		t.Skip(err)
	}
	get(t, "http://"+address+"/v2/", http.StatusOK)
	image, err := r.Image(ctx, address, "test/jobs")
	if err != nil {
		t.Error(err)
	}
	_, digest, _ := strings.Cut(image, "@")
	get(t, "http://"+address+"/v2/test/jobs/manifests/"+digest, http.StatusOK)
	if s3, err := r.S3(ctx); err != nil {
		t.Log(err)
	} else {
		get(t, s3.Endpoint+"/"+s3.Bucket, http.StatusForbidden)
	}
	if left := r.Leaks(ctx, 0); len(left) > 0 {
		t.Errorf("services count as leaks: %v", left)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left := r.Leaks(ctx, 5*time.Second); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(r.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func get(t *testing.T, url string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, */*")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s: %s, want %d", url, resp.Status, want)
	}
}

func TestLeaksFindsAProcess(t *testing.T) {
	r := newRig(t)
	defer r.Close()
	u, err := r.User(t.Context(), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Run(t.Context(), rig.Cmd{User: u}, "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!; id -u; pwd")
	if err != nil || result.Code != 0 {
		t.Fatal(result, err)
	}
	if left := r.Leaks(t.Context(), 0); len(left) != 1 {
		t.Errorf("left: %v, want the sleep", left)
	}
	if _, err := r.Run(t.Context(), rig.Cmd{User: u}, "sh", "-c", "kill "+firstLine(result.Stdout)); err != nil {
		t.Fatal(err)
	}
	if left := r.Leaks(t.Context(), 5*time.Second); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func firstLine(s string) string {
	for i := range s {
		if s[i] == '\n' {
			return s[:i]
		}
	}
	return s
}
