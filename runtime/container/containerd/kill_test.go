package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// spec is a container that runs a script as root of the tests' image.
func (n *node) spec(t *testing.T, id, script string) container.Spec {
	t.Helper()
	return container.Spec{
		ID: id, Image: n.image, Argv: []string{"/bin/sh", "-c", script}, Cwd: "/", NetworkHost: true,
		User:   container.User{UID: 4711, GID: 4712},
		Env:    []string{"SHADE=job", "ONLY=job", "PATH=/nowhere", "SLURM_JOB_ID=12", "WANTED=job"},
		Stdout: filepath.Join(t.TempDir(), id+".out"),
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestDaemonKilled kills containerd again and again while containers start, run,
// end and are deleted: each script runs exactly once and its true end is told.
func TestDaemonKilled(t *testing.T) {
	n := newNode(t)
	r := n.runtime(t)
	stop := make(chan struct{})
	var killer sync.WaitGroup
	kills := 0
	killer.Go(func() {
		for kills < 25 {
			select {
			case <-stop:
				return
			case <-time.After(20*time.Millisecond + rand.N(700*time.Millisecond)):
			}
			if err := n.Spawn(); err != nil {
				t.Error(err)
				return
			}
			kills++
			// Long enough to start now and then.
			<-time.After(400*time.Millisecond + rand.N(1200*time.Millisecond))
		}
	})
	var jobs sync.WaitGroup
	for j := range 2 {
		jobs.Go(func() {
			for k := range 5 {
				id := fmt.Sprintf("job-%d.%d", j, k)
				spec := n.spec(t, id, fmt.Sprintf("echo begin; sleep 0.%d; echo end; exit %d", k, 10+k))
				c, err := r.Start(within(t, 2*time.Minute), spec)
				if err != nil {
					t.Errorf("%s: start: %v", id, err)
					continue
				}
				e, err := c.Wait(within(t, time.Minute))
				if err != nil || e.Code != 10+k || e.Lost {
					t.Errorf("%s: exit %+v, %v", id, e, err)
				}
				if out, err := os.ReadFile(spec.Stdout); err != nil || string(out) != "begin\nend\n" {
					t.Errorf("%s: output %q, %v", id, out, err)
				}
				if err := c.Delete(within(t, 2*time.Minute)); err != nil {
					t.Errorf("%s: delete: %v", id, err)
				}
			}
		})
	}
	jobs.Wait()
	close(stop)
	killer.Wait()
	t.Logf("containerd was killed %d times", kills)
	n.Restart(t)
	wantNothingLeft(t, n)
}

// wantNothingLeft gives containerd a moment: it cleans up after dead shims in
// the background.
func wantNothingLeft(t *testing.T, n *node) {
	t.Helper()
	var left []string
	for range 100 {
		if left = n.left(t); len(left) == 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Errorf("left behind: %q", left)
}

// TestDaemonDead shows what needs no containerd.
func TestDaemonDead(t *testing.T) {
	n := newNode(t)
	r := n.runtime(t)
	spec := n.spec(t, "job-1.0", "echo ready; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo done; exit 3")
	if _, err := r.Start(within(t, time.Minute), spec); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	c, err := r.Load(within(t, time.Second), "job-1.0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 20*time.Second)
	if err := errors.Join(c.Freeze(ctx), c.Thaw(ctx)); err != nil {
		t.Error(err)
	}
	if u, err := c.Usage(ctx); err != nil || u.CPU == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	p, err := c.Exec(ctx, container.ExecSpec{Argv: []string{"touch", "/tmp/go"}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(ctx); err != nil || e.Code != 0 {
		t.Errorf("hook %+v, %v", e, err)
	}
	if e, err := c.Wait(ctx); err != nil || e.Code != 3 || e.Lost {
		t.Errorf("exit %+v, %v", e, err)
	}
	// Deleting needs it, and waits.
	if err := c.Delete(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delete without containerd: %v", err)
	}
	n.Restart(t)
	if err := c.Delete(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, n)
}

// TestShimKilled kills the containerd-shim: the container ends with its true
// status, or is lost with everything dead, also when containerd is away.
func TestShimKilled(t *testing.T) {
	n := newNode(t)
	r := n.runtime(t)
	for _, daemon := range []string{"alive", "dead"} {
		id := "job-" + daemon + ".0"
		spec := n.spec(t, id, "echo ready; sleep 3; exit 6")
		c, err := r.Start(within(t, time.Minute), spec)
		if err != nil {
			t.Fatal(err)
		}
		pid := c.Pid()
		shims := n.Shims(t)
		if len(shims) != 1 {
			t.Fatalf("shims %v", shims)
		}
		if daemon == "dead" {
			n.Kill()
		}
		if err := syscall.Kill(shims[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e, err := c.Wait(within(t, time.Minute))
		if err != nil || !(e.Lost || e.Code == 6) {
			t.Errorf("daemon %s: exit %+v, %v", daemon, e, err)
		}
		if daemon == "dead" && e.Lost {
			t.Errorf("lost without need: %+v", e)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone is fine too
			if !strings.Contains(string(status), "State:\tZ") && len(status) > 0 {
				t.Errorf("daemon %s: the script is still there:\n%s", daemon, status)
			}
		}
		if daemon == "dead" {
			n.Restart(t)
		}
		if err := c.Delete(within(t, time.Minute)); err != nil {
			t.Errorf("daemon %s: %v", daemon, err)
		}
	}
	wantNothingLeft(t, n)
}

// TestImage shows what the image and the job each bring.
func TestImage(t *testing.T) {
	n := newNode(t)
	r := n.runtime(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host-file"), []byte("host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := n.spec(t, "job-1.0", `echo $IMAGE $SHADE $ONLY $PATH $SLURM_JOB_ID $WANTED; cat /mnt/host-file
		touch /mnt/x 2>&1; hostname; ls -ld /.sbatchd/run | cut -c1-10; ls /.sbatchd/run 2>&1; ls -ld /tmp | cut -c1-10; grep -c . /proc/self/cgroup >/dev/null && echo cgroup
		df -k /dev/shm | awk 'NR==2 {print ($2 > 65536) ? "shm" : "small"}'; ulimit -n | awk '{print ($1 > 1024 || $1 == "unlimited") ? "files" : "few"}'`)
	spec.Mounts = []container.Mount{{Source: dir, Target: "/mnt", ReadOnly: true}}
	spec.Hostname = "gpu-1"
	c, err := r.Start(within(t, time.Minute), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(within(t, time.Minute)); err != nil || e.Code != 0 {
		t.Errorf("exit %+v, %v", e, err)
	}
	out, err := os.ReadFile(spec.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	want := "mine image job /bin 12 job\nhost\ntouch: /mnt/x: Read-only file system\ngpu-1\ndrwx------\n" +
		"ls: can't open '/.sbatchd/run': Permission denied\ndrwxrwxrwt\ncgroup\nshm\nfiles\n"
	if string(out) != want {
		t.Errorf("output:\n%swant:\n%s", out, want)
	}
	if err := c.Delete(within(t, time.Minute)); err != nil {
		t.Error(err)
	}

	spec = n.spec(t, "job-2.0", "true")
	spec.Image = strings.Replace(spec.Image, "busybox", "nothing", 1)
	if _, err := r.Start(within(t, time.Minute), spec); !errors.Is(err, container.ErrImage) {
		t.Errorf("an image that is not there: %v", err)
	}
	wantNothingLeft(t, n)
}
