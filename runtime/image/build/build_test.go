package build_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/image/build"
)

func TestBuildRepeats(t *testing.T) {
	t.Parallel()
	files := []build.File{
		{Path: "/bin/tool", Data: []byte("tool"), Mode: 0o755},
		{Path: "bin/link", Link: "tool"},
		{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	cfg := build.Config{Env: []string{"A=b"}, Arch: "amd64"}
	first, err := build.Build(files, cfg)
	if err != nil {
		t.Fatal(err)
	}
	second, err := build.Build([]build.File{files[2], files[1], files[0]}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if first.Digest != second.Digest {
		t.Errorf("digests %s and %s", first.Digest, second.Digest)
	}
	cfg.Env = nil
	if third, err := build.Build(files, cfg); err != nil || third.Digest == first.Digest {
		t.Errorf("another configuration, the same digest (%v)", err)
	}
}

func TestWriteTar(t *testing.T) {
	t.Parallel()
	img, err := build.Build([]build.File{{Path: "a", Data: []byte("x"), Mode: 0o644}}, build.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := img.WriteTar(&out, "name"); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = true
	}
	for _, want := range []string{"oci-layout", "index.json", "blobs/sha256/" + img.Digest.Encoded()} {
		if !names[want] {
			t.Errorf("no %s in %v", want, names)
		}
	}
	if len(names) != 5 {
		t.Errorf("%d entries, want 5: %v", len(names), names)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := build.Tree(dir, "opt")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path+" "+f.Mode.String()+" "+f.Link)
	}
	want := []string{"opt/link Lrwxrwxrwx sub/file", "opt/sub drwxr-xr-x ", "opt/sub/file -rw------- "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := build.Build([]build.File{{Path: "gone", Source: filepath.Join(dir, "gone")}}, build.Config{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing source: %v", err)
	}
}
