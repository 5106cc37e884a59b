package local_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/local"
	"github.com/sbatchd/sbatchd/cloudburst/providertest"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// The test's binary is the sbatchd-node of its nodes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "forward":
			os.Exit(localnode.ForwardMain(os.Args[2:]))
		case "init":
			os.Exit(localnode.InitMain(os.Args[2:]))
		case "agent":
			agent(os.Args[3])
		case "dial":
			network := "tcp"
			if filepath.IsAbs(os.Args[2]) {
				network = "unix"
			}
			conn, err := net.DialTimeout(network, os.Args[2], time.Second)
			if err == nil {
				var line []byte
				line, err = io.ReadAll(conn)
				fmt.Print(string(line))
			}
			if err != nil {
				fmt.Print("unreachable")
			}
			os.Exit(0)
		case "greet":
			greet()
		}
	}
	os.Exit(m.Run())
}

// agent stands in for the real one: it runs ask.sh when it appears, and leaves
// its output in answer.
func agent(dir string) {
	pid := filepath.Join(dir, "agent.pid")
	os.WriteFile(pid+".new", []byte(strconv.Itoa(hostPID())), 0o600)
	os.Rename(pid+".new", pid)
	ask, answer := filepath.Join(dir, "ask.sh"), filepath.Join(dir, "answer")
	for {
		if script, err := os.ReadFile(ask); err == nil {
			os.Remove(ask)
			cmd := exec.Command("sh", "-c", string(script))
			cmd.Env = append(os.Environ(), "BIN="+os.Args[0])
			out, err := cmd.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			os.WriteFile(answer+".new", out, 0o600)
			os.Rename(answer+".new", answer)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// hostPID is this process's id; inside a namespace that is not the host's.
func hostPID() int { return os.Getpid() }

// greet says hello to whoever connects to port 7000.
func greet() {
	l, err := net.Listen("tcp", ":7000")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		if c, err := l.Accept(); err == nil {
			fmt.Fprint(c, "hello from "+os.Args[2])
			c.Close()
		}
	}
}

type site struct {
	t     *testing.T
	dir   string
	plain bool
	uuid  string
	opts  cloudburst.Options
	p     cloudburst.Provider
}

// newSite makes a provider with nothing rented, in a short folder: unix sockets
// lie in it.
func newSite(t *testing.T, plain bool, market string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbl") //nolint:usetesting // t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, plain: plain, uuid: providertest.UUID(), opts: cloudburst.Options{
		Provider: "here", StateDir: filepath.Join(dir, "here"), NodeBinary: bin, Values: map[string]string{},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	if market != "" {
		file := filepath.Join(dir, "market")
		if err := os.WriteFile(file, []byte(market), 0o600); err != nil {
			t.Fatal(err)
		}
		s.opts.Values["market"] = file
	}
	s.p = s.open()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		all, err := s.p.List(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, i := range all {
			if err := s.p.Delete(ctx, i.ID); err != nil {
				t.Error(err)
			}
		}
		s.check(t)
		os.RemoveAll(dir)
	})
	return s
}

func (s *site) open() cloudburst.Provider {
	s.t.Helper()
	mk := local.New
	if s.plain {
		mk = local.NewPlain
	}
	p, err := mk(s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// check looks for leftovers: folders, processes, mounts, groups, namespaces.
func (s *site) check(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "here"))
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "hosts.") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && bytes.Contains(line, []byte(s.dir)) && !strings.Contains(p, strconv.Itoa(os.Getpid())) {
			t.Errorf("left behind: process %s %q", p, line)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(s.dir)) {
		t.Errorf("mounts left behind: %v", err)
	}
}

func (s *site) request(node string, change ...func(*cloudburst.Request)) cloudburst.Request {
	s.t.Helper()
	offers, err := s.p.Offers(s.t.Context(), cloudburst.Want{Capacity: cloudburst.Auto, CPUs: 2, MemoryMiB: 512})
	if err != nil || len(offers) == 0 {
		s.t.Fatalf("Offers: %v, %v", offers, err)
	}
	r := cloudburst.Request{
		Tag: cloudburst.MakeTag(s.uuid, node, 1), ClusterUUID: s.uuid,
		Pool: "pool", NodeName: node, Offer: offers[0],
		Agent: cloudburst.AgentConfig{Controller: "tcp:127.0.0.1:1", Link: "dial", JoinToken: "s3cret", Runtime: "process", Workdir: "none"},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (s *site) create(node string, change ...func(*cloudburst.Request)) cloudburst.Instance {
	s.t.Helper()
	i, err := s.p.Create(s.t.Context(), s.request(node, change...))
	if err != nil {
		s.t.Fatal(err)
	}
	return i
}

func (s *site) folder(i cloudburst.Instance) string {
	return filepath.Join(s.dir, "here", string(i.ID))
}

// ask runs a script inside a node.
func (s *site) ask(i cloudburst.Instance, script string) string {
	s.t.Helper()
	dir := s.folder(i)
	os.Remove(filepath.Join(dir, "answer"))
	if err := os.WriteFile(filepath.Join(dir, "ask.new"), []byte(script), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "ask.new"), filepath.Join(dir, "ask.sh")); err != nil {
		s.t.Fatal(err)
	}
	var out []byte
	s.await("an answer", func() (ok bool) {
		var err error
		out, err = os.ReadFile(filepath.Join(dir, "answer"))
		return err == nil
	})
	return strings.TrimSpace(string(out))
}

func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no %s in 20 s", what)
		}
	}
}

// live is the state of a node's machine as listed, "" when it is not.
func (s *site) live(node string) cloudburst.State {
	s.t.Helper()
	all, err := s.p.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range all {
		if i.NodeName == node && i.Live() {
			return i.State
		}
	}
	return ""
}

// kinds runs a test with namespaces and without.
func kinds(t *testing.T, body func(t *testing.T, plain bool)) {
	t.Run("plain", func(t *testing.T) { t.Parallel(); body(t, true) })
	t.Run("isolated", func(t *testing.T) { t.Parallel(); needRoot(t); body(t, false) })
}

func needRoot(t *testing.T) {
	t.Helper()
	if !local.CanIsolate() {
		t.Skip("SKIP local nodes in namespaces: needs root and CAP_SYS_ADMIN")
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		providertest.Run(t, providertest.Harness{
			Want: cloudburst.Want{CPUs: 2, MemoryMiB: 512},
			Setup: func(t *testing.T) providertest.Account {
				s := newSite(t, plain, "")
				return providertest.Account{
					Open:  func(string) cloudburst.Provider { return s.open() },
					Check: s.check,
				}
			},
		})
	})
	t.Run("market", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, providertest.Harness{
			Want: cloudburst.Want{CPUs: 2, MemoryMiB: 512, GPUs: cloudburst.GPUs{Type: "a100", Count: 1}, Capacity: cloudburst.Spot},
			Setup: func(t *testing.T) providertest.Account {
				const forSale = "Offer=small Gres=gpu:a100:1 CPUs=4 RealMemory=2G Spot=yes Price=0.50\nOffer=big Gres=gpu:a100:8 CPUs=64 RealMemory=512G Price=9 Capacity=1\n"
				s := newSite(t, true, forSale)
				change := func(text string) {
					if err := os.WriteFile(s.opts.Values["market"], []byte(text), 0o600); err != nil {
						t.Error(err)
					}
				}
				return providertest.Account{
					Open:            func(string) cloudburst.Provider { return s.open() },
					NoCapacity:      func() { change(strings.Replace(forSale, "Price=0.50", "Price=0.50 Capacity=0", 1)) },
					FailAfterCreate: func() { change(forSale + "Fault=create Error=transient After=yes\n") },
					Check:           s.check,
				}
			},
		})
	})
}

// kill kills a machine's process by a word of its command line.
// However a machine ends, a job that left its session, its parent and its
// environment behind ends with it.
// running looks for a command line.
// A controller killed between any two steps of Create leaves something that the
// next Create finishes or Delete removes.
