package image_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/containerd/containerdtest"
	"github.com/sbatchd/sbatchd/runtime/image"
	"github.com/sbatchd/sbatchd/runtime/image/build"
)

// registry starts Debian's docker-registry on a free port and returns its host.
func registry(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("SKIP registry: docker-registry is not installed")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", dir, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // dead already is as good
		_ = cmd.Wait()         // says that it was killed
	})
	for range 500 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
		if err == nil {
			_ = conn.Close()
			return host
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the registry does not listen")
	return ""
}

func TestPull(t *testing.T) {
	d := containerdtest.Start(t)
	host := registry(t)
	img := containerdtest.Busybox(t, build.Config{Env: []string{"PATH=/bin"}, Labels: map[string]string{"colour": "green"}})
	ref, err := img.Push(t.Context(), http.DefaultClient, "http://"+host, "ml/busybox", "latest")
	if err != nil {
		t.Fatal(err)
	}
	if want := host + "/ml/busybox@" + img.Digest.String(); ref != want {
		t.Fatalf("pushed as %s, want %s", ref, want)
	}
	ctx := namespaces.WithNamespace(t.Context(), containerdtest.Namespace)
	store := image.New(d.Client(t), "overlayfs", slog.New(slog.DiscardHandler))

	// Many at once are one pull.
	var dials atomic.Int32
	opts := image.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			got, err := store.Pull(ctx, ref, opts)
			if err != nil {
				t.Error(err)
				return
			}
			if got.Name != ref || got.Digest != img.Digest || got.Labels["colour"] != "green" || len(got.Env) != 1 {
				t.Errorf("pulled %+v", got)
			}
		})
	}
	group.Wait()
	first := store.Stats()
	if first.Pulls != 1 || first.Requests == 0 || first.Bytes < 500_000 || dials.Load() == 0 {
		t.Errorf("after the first pull: %+v, %d dials", first, dials.Load())
	}

	// Once more, also by a store that knows nothing: no network, no unpacking.
	again := image.New(d.Client(t), "overlayfs", slog.New(slog.DiscardHandler))
	none := image.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the network was used")
	}}
	if _, err := again.Pull(ctx, "docker://"+ref, none); err != nil {
		t.Error(err)
	}
	if got := again.Stats(); got != (image.Stats{Hits: 1}) {
		t.Errorf("after the second pull: %+v", got)
	}

	// The image is what a container can be made of.
	if _, err := d.Client(t).GetImage(ctx, ref); err != nil {
		t.Error(err)
	}
}

// TestPullWhileDaemonDies kills containerd in the middle of pulls.
func TestPullWhileDaemonDies(t *testing.T) {
	d := containerdtest.Start(t)
	host := registry(t)
	ctx := namespaces.WithNamespace(t.Context(), containerdtest.Namespace)
	store := image.New(d.Client(t), "overlayfs", slog.New(slog.DiscardHandler))
	for n := range 6 {
		img := containerdtest.Busybox(t, build.Config{Labels: map[string]string{"n": fmt.Sprint(n)}})
		ref, err := img.Push(t.Context(), http.DefaultClient, "http://"+host, fmt.Sprintf("ml/n%d", n), "")
		if err != nil {
			t.Fatal(err)
		}
		var killed sync.WaitGroup
		killed.Go(func() {
			<-time.After(time.Duration(n) * 30 * time.Millisecond)
			if err := d.Spawn(); err != nil {
				t.Error(err)
			}
		})
		got, err := store.Pull(ctx, ref, image.Options{})
		if err != nil {
			t.Errorf("pull %d: %v", n, err)
		} else if got.Labels["n"] != fmt.Sprint(n) {
			t.Errorf("pull %d: %+v", n, got)
		}
		killed.Wait()
	}
}

func TestPullRefused(t *testing.T) {
	d := containerdtest.Start(t)
	host := registry(t)
	img := containerdtest.Busybox(t, build.Config{})
	ref, err := img.Push(t.Context(), http.DefaultClient, "http://"+host, "ml/busybox", "")
	if err != nil {
		t.Fatal(err)
	}
	foreign := containerdtest.Busybox(t, build.Config{Arch: "s390x"})
	foreignRef, err := foreign.Push(t.Context(), http.DefaultClient, "http://"+host, "ml/foreign", "")
	if err != nil {
		t.Fatal(err)
	}
	cut := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("cable cut") }
	ctx := namespaces.WithNamespace(t.Context(), containerdtest.Namespace)
	store := image.New(d.Client(t), "overlayfs", slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		name, ref string
		opts      image.Options
		class     error
		text      string
	}{
		{"no pin", host + "/ml/busybox:latest", image.Options{}, container.ErrPin, "is not pinned"},
		{"unknown digest", host + "/ml/busybox@" + pin, image.Options{}, container.ErrImage, "not found"},
		{"unknown repository", strings.Replace(ref, "busybox", "nothing", 1), image.Options{}, container.ErrImage, "not found"},
		{"other machine", foreignRef, image.Options{}, container.ErrImage, "is for linux/s390x and the node is linux/"},
		{"no network", ref, image.Options{Dial: cut}, container.ErrInfra, "cable cut"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := store.Pull(ctx, tt.ref, tt.opts)
			if !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.class, tt.text)
			}
		})
	}
	// Nothing of that stands in the way of a good pull.
	if _, err := store.Pull(ctx, ref, image.Options{}); err != nil {
		t.Error(err)
	}
}
