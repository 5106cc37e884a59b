package process_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/process"
)

// startAndHang is the process that starts a container and is then killed.
func startAndHang(state, id, parent string) int {
	cfg := process.Config{State: state, CgroupParent: parent, NoNamespaces: parent == "", NoCgroups: parent == ""}
	r, err := process.New(cfg, slog.New(slog.DiscardHandler))
	if err == nil {
		fmt.Println("starting")
		_, err = r.Start(context.Background(), container.Spec{
			ID: id, Argv: []string{"/bin/sh", "-c", "echo run >> " + state + "-ran; sleep 0.3; exit 9"}, Cwd: "/", Env: []string{"PATH=/bin:/usr/bin"},
			User: container.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
	return 0
}

// TestStarterKilled kills the process that starts a container at every stage of
// it. What another process then finds is a script that ends as it should, or a
// lost container in which nothing runs or ever will.
func TestStarterKilled(t *testing.T) {
	t.Run("Namespaces", func(t *testing.T) {
		cfg := config(filepath.Join(t.TempDir(), "state"))
		starterKilled(t, cfg, cfg.CgroupParent)
	})
	t.Run("Nothing", func(t *testing.T) {
		cfg := config(filepath.Join(t.TempDir(), "state"))
		cfg.NoNamespaces, cfg.NoCgroups = true, true
		starterKilled(t, cfg, "")
	})
}

func starterKilled(t *testing.T, cfg process.Config, parent string) {
	d := driver(t, cfg)
	r := d.New(t)
	outcomes := map[string]int{}
	for n := range 25 {
		id := fmt.Sprintf("job-%d.0", n)
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "start", cfg.State, id, parent)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan()
		if n%5 == 4 {
			lines.Scan() // started
		} else {
			<-time.After(time.Duration(n) * 700 * time.Microsecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		c, err := r.Load(t.Context(), id)
		if err != nil {
			outcomes["nothing"]++
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		e, err := c.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ran, _ := os.ReadFile(cfg.State + "-ran") // not there when nothing ran yet
		switch {
		case e.Lost:
			outcomes["lost"]++
		case e.Code == 9 && len(ran) > 0:
			outcomes["ran"]++
		default:
			t.Errorf("%s: exit %+v, ran %q", id, e, ran)
		}
		if err := r.Remove(ctx, id); err != nil {
			t.Error(err)
		}
		cancel()
	}
	t.Logf("outcomes: %v", outcomes)
	if outcomes["ran"] < 5 {
		t.Errorf("hardly any start survived: %v", outcomes)
	}
	ran, _ := os.ReadFile(cfg.State + "-ran") // as above
	if n := strings.Count(string(ran), "run"); n < outcomes["ran"] {
		t.Errorf("%d ran, %d said so", n, outcomes["ran"])
	}
	if found := left(t, cfg); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}
