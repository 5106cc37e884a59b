package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

func TestLivesOnAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "")
		i := s.create("pool-1")
		s.p = s.open()
		all, err := s.p.List(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != i.ID || all[0].State != cloudburst.Running {
			t.Errorf("List: %+v, %v", all, err)
		}
	})
}

func TestDeadAgentIsStartedAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "")
		i := s.create("pool-1")
		for range 3 {
			before := s.ask(i, "echo $PPID")
			kill(t, s, i, " agent ")
			s.await("new agent", func() bool { return s.ask(i, "echo $PPID") != before })
		}
		if s.live("pool-1") != cloudburst.Running {
			t.Error("the machine did not live on")
		}
	})
}

func kill(t *testing.T, s *site, i cloudburst.Instance, word string) {
	t.Helper()
	pids, err := localnode.Processes(string(i.Tag))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))), word) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no process with %q among %v", word, pids)
}

func TestMachineDiesWhole(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		for n, word := range []string{" init ", " --machine ", "delete"} {
			s := newSite(t, plain, "")
			i := s.create("pool-1")
			stray := fmt.Sprintf("%d%d.%d", 10+n, time.Now().UnixNano()%1e6, os.Getpid())
			s.ask(i, "env -i setsid -f sleep "+stray+" >/dev/null 2>&1")
			if !running("sleep " + stray) {
				t.Fatal("the stray job does not run")
			}
			if word == "delete" {
				if err := s.p.Delete(t.Context(), i.ID); err != nil {
					t.Fatal(err)
				}
			} else {
				kill(t, s, i, word)
			}
			s.await("end by "+word, func() bool { return s.live("pool-1") == "" })
			if pids, err := localnode.Processes(string(i.Tag)); err != nil || len(pids) > 0 {
				t.Errorf("after %s there are %v, %v", word, pids, err)
			}
			if running("sleep " + stray) {
				t.Errorf("after %s the stray job runs on", word)
			}
			s.check(t)
		}
	})
}

func running(line string) bool {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return false
	}
	for _, p := range procs {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(bytes.ReplaceAll(data, []byte{0}, []byte(" "))), line) {
			return true
		}
	}
	return false
}

func TestPoweroff(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "")
		i := s.create("pool-1")
		if err := os.WriteFile(filepath.Join(s.folder(i), localnode.PoweroffFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.await("end", func() bool { return s.live("pool-1") == "" })
	})
}

func TestKilledWhileCreating(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "")
		good := s.create("pool-1")
		m, err := localnode.Load(s.folder(good))
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range []string{"empty folder", "half written", "intent only", "starting"} {
			for _, then := range []string{"create", "delete"} {
				node := "pool-" + strings.ReplaceAll(point, " ", "") + then
				r := s.request(node)
				done := s.create(node)
				dir := s.folder(done)
				if err := s.p.Delete(t.Context(), done.ID); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(dir, 0o711); err != nil {
					t.Fatal(err)
				}
				next := m
				next.Tag, next.Node, next.Index, next.CgroupParent = string(r.Tag), node, 7, "/sbatchd-"+filepath.Base(dir)
				if point != "empty folder" {
					os.WriteFile(filepath.Join(dir, localnode.AgentFile), []byte(`{"node":"x"}`), 0o600)
				}
				if point == "intent only" || point == "starting" {
					if err := localnode.Save(dir, next); err != nil {
						t.Fatal(err)
					}
				}
				if point == "starting" {
					cmd := exec.Command(m.Binary, "forward", "--dir", dir)
					cmd.Env = append(os.Environ(), localnode.Mark+"="+string(r.Tag))
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					defer cmd.Wait() // killed or done
				}
				p := s.open()
				if then == "create" {
					if i, err := p.Create(t.Context(), r); err != nil || i.State != cloudburst.Running {
						t.Errorf("%s: Create: %v, %v", point, i.State, err)
					}
				}
				if err := p.Delete(t.Context(), done.ID); err != nil {
					t.Errorf("%s, then %s: Delete: %v", point, then, err)
				}
				if s.live(node) != "" {
					t.Errorf("%s, then %s: still listed", point, then)
				}
				if pids, err := localnode.Processes(string(r.Tag)); err != nil || len(pids) > 0 {
					t.Errorf("%s, then %s: %v, %v", point, then, pids, err)
				}
				os.RemoveAll(dir) // an empty folder is no machine and is reused or swept
			}
		}
	})
}

func TestHalfWrittenFolderIsSwept(t *testing.T) {
	t.Parallel()
	s := newSite(t, true, "")
	dir := filepath.Join(s.opts.StateDir, "pool-1.00000000")
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	s.live("pool-1")
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a folder that may be just being written: %v", err)
	}
	old := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	s.live("pool-1")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old half-written folder is still there: %v", err)
	}
}
