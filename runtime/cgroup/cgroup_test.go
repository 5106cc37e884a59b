package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseMounts(t *testing.T) {
	t.Parallel()
	const (
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		v1      = "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"34 30 0:31 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" +
			"41 30 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
		hybrid = v1 + "40 30 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	tests := []struct {
		name, mountinfo, layout, memory, v2 string
	}{
		{"none", "22 1 0:20 / /sys rw - sysfs sysfs rw\n", "none", "", ""},
		{"v2", unified, "v2", "", "/sys/fs/cgroup/job"},
		{"v1", v1, "v1", "/sys/fs/cgroup/memory/job", ""},
		{"hybrid", hybrid, "hybrid", "/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/unified/job"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := parseMounts(strings.NewReader(tt.mountinfo))
			if err != nil {
				t.Fatal(err)
			}
			g := l.At("/job")
			got := []string{l.String(), g.v1["memory"], g.v2}
			if diff := cmp.Diff([]string{tt.layout, tt.memory, tt.v2}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMountPointPath(t *testing.T) {
	t.Parallel()
	m := mountPoint{root: "/docker/ab", dir: "/sys/fs/cgroup/memory"}
	for name, want := range map[string]string{
		"/docker/ab":     "/sys/fs/cgroup/memory",
		"/docker/ab/job": "/sys/fs/cgroup/memory/job",
		"/docker/abc":    "/sys/fs/cgroup/memory/docker/abc",
	} {
		if got := m.path(name); got != want {
			t.Errorf("path(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestRoot makes sure that no name, empty or odd, ever means every process of
// the machine.
func TestRoot(t *testing.T) {
	t.Parallel()
	l := &Layout{all: []mountPoint{{"/", t.TempDir()}}, v2: mountPoint{"/", t.TempDir()}}
	for _, name := range []string{"", "/", "..", "a/.."} {
		ctx := t.Context()
		g := l.At(name)
		_, _, createErr := l.Create(name, Limits{})
		for what, err := range map[string]error{
			"kill": g.Kill(ctx), "freeze": g.Freeze(ctx), "remove": g.Remove(ctx), "remove everywhere": l.Remove(ctx, name), "create": createErr,
		} {
			if err == nil {
				t.Errorf("%s of %q was allowed", what, name)
			}
		}
	}
	if own, err := l.Of(os.Getpid()); err != nil || own.Kill(t.Context()) == nil {
		t.Errorf("kill of the caller's own group was allowed (%v)", err)
	}
}

func TestKeyed(t *testing.T) {
	t.Parallel()
	n, err := Keyed("low 0\noom 3\noom_kill 2\n", "oom_kill")
	if n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// startSleepers runs a shell with sleeps below it in the group.
func startSleepers(t *testing.T, g *Group) *exec.Cmd {
	t.Helper()
	var join strings.Builder
	for _, file := range g.JoinFiles() {
		fmt.Fprintf(&join, "echo 0 > %s || exit 1; ", file)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", join.String()+"sleep 100 & sleep 100 & echo ready; sleep 100")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	return cmd
}

func TestGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP cgroup: making cgroups needs root")
	}
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if l.String() == "none" {
		t.Skip("SKIP cgroup: no cgroups mounted here")
	}
	parent := fmt.Sprintf("/sbatchd-test-%d", os.Getpid())
	t.Cleanup(func() {
		if err := l.At(parent).Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g, missing, err := l.Create(parent+"/job-1.0", Limits{CPUs: 0.5, MemoryBytes: 64 << 20, CPUSet: "0"})
	if err != nil || len(missing) > 0 {
		t.Fatalf("create: missing %q, %v", missing, err)
	}
	cmd := startSleepers(t, g)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	inside, err := l.Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g.dirs(), inside.dirs()); diff != "" {
		t.Errorf("group of the process (-made +found):\n%s", diff)
	}
	pids, err := g.Procs()
	if err != nil || len(pids) < 3 || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("procs %v, %v", pids, err)
	}
	if err := g.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if frozen, err := g.Frozen(); !frozen || err != nil {
		t.Errorf("frozen %v, %v", frozen, err)
	}
	if u, err := g.Usage(); err != nil || u.MaxBytes == 0 || u.CPU == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	// Killing what is frozen must work too.
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the shell ended well")
	}
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if g.Exists() {
		t.Error("the group is still there")
	}
}
