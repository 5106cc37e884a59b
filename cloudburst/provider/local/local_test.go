package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/local"
	"github.com/sbatchd/sbatchd/cloudburst/providertest"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
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
			conn, err := net.DialTimeout("tcp", os.Args[2], time.Second)
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

func TestNodeSeesAWorldOfItsOwn(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := newSite(t, false, "")
	home, err := os.MkdirTemp("", "submitted") //nolint:usetesting // a folder of its own, not below the node's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.WriteFile(filepath.Join(home, "data"), []byte("the user's"), 0o644); err != nil {
		t.Fatal(err)
	}
	i := s.create("pool-1")
	dir := s.folder(i)
	for script, want := range map[string]string{
		"hostname; cat /etc/hostname":                        "pool-1\npool-1",
		"echo $$; ls " + home + " 2>&1 | wc -l":              "",
		"ls " + home:                                         "no such",
		"ls -A /home /srv /mnt | tr -d '\\n'":                "/home:/mnt:/srv:",
		"touch /usr/x":                                       "read-only",
		"touch /etc/x":                                       "read-only",
		"touch /tmp/x /var/tmp/y " + dir + "/z && echo yes":  "yes",
		"ls " + filepath.Join(s.dir, "here"):                 string(i.ID),
		"cat /proc/1/cmdline | tr '\\0' ' '":                 "init --dir",
		"id -un; getent passwd root | cut -d: -f1":           "root\nroot",
		"echo $HOME $SBATCHD_INSTANCE":                       "/root " + string(i.Tag),
		"test -w /dev/null && echo x > /dev/null && echo ok": "ok",
		"ls /sys/class/net | tr '\\n' ' '":                   "eth0 lo",
		"test -d /run/sbatchd/host || echo none":             "none",
	} {
		if got := s.ask(i, script); !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestSharedWorkdirIsRootsAlone(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := newSite(t, false, "")
	i := s.create("pool-1", func(r *cloudburst.Request) { r.Agent.Workdir = "shared" })
	file := filepath.Join(s.dir, "shared")
	if err := os.WriteFile(file, []byte("the user's"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := agentapi.LoadConfig(filepath.Join(s.folder(i), localnode.AgentFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ask(i, "cat "+cfg.HostRoot+file); got != "the user's" {
		t.Errorf("host's file: %q", got)
	}
	if got := s.ask(i, "setpriv --reuid 65534 --regid 65534 --clear-groups cat "+cfg.HostRoot+file); !strings.Contains(got, "ermission denied") {
		t.Errorf("host's file as nobody: %q", got)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := newSite(t, false, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "controller") }))
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port

	link := func(r *cloudburst.Request) { r.Agent.Controller = "tcp:" + l.Addr().String() }
	a, b := s.create("pool-1", link), s.create("pool-2", link)
	other := s.create("other-1", link, func(r *cloudburst.Request) { r.Pool = "other" })
	s.ask(a, "$BIN greet pool-1 >/dev/null 2>&1 &")
	s.await("greeting", func() bool { return s.ask(a, "$BIN dial 127.0.0.1:7000") == "hello from pool-1" })
	for _, c := range []struct {
		what   string
		from   cloudburst.Instance
		script string
		want   string
	}{
		{"nodes of a pool reach each other", b, "$BIN dial pool-1:7000", "hello from pool-1"},
		{"pools do not", other, "$BIN dial 10.99.0.1:7000", "unreachable"},
		{"loopback is the node's own", b, fmt.Sprintf("$BIN dial 127.0.0.1:%d", port), "unreachable"},
		{"no way to the host's loopback", b, fmt.Sprintf("$BIN dial 10.0.2.2:%d", port), "unreachable"},
	} {
		if got := s.ask(c.from, c.script); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if c, err := net.DialTimeout("tcp", "10.99.0.1:7000", 300*time.Millisecond); err == nil {
		// Something on the way may take any connection; the node must not answer.
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("the host reaches into the node: %q", got)
		}
		c.Close()
	}

	get := func(socket string, proxy bool) (string, error) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(s.folder(a), socket))
		}
		tr := &http.Transport{DialContext: dial}
		if proxy {
			tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"})
		}
		resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String() + "/")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for socket, proxy := range map[string]bool{localnode.LinkSocket: false, localnode.EgressSocket: true} {
		if got, err := get(socket, proxy); got != "controller" || err != nil {
			t.Errorf("%s: %q, %v", socket, got, err)
		}
	}
	conn, err := net.Dial("unix", filepath.Join(s.folder(a), localnode.EgressSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.0\r\n\r\n", l.Addr())
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "controller") {
		t.Errorf("CONNECT: %q, %v", got, err)
	}
}

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

// kill kills a machine's process by a word of its command line.
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

// However a machine ends, a job that left its session, its parent and its
// environment behind ends with it.
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

// running looks for a command line.
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

func TestMarketReclaims(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, plain bool) {
		s := newSite(t, plain, "Offer=a Spot=yes Price=1\nReclaim=spot AfterJob=1.5 Notice=1 Times=1\n")
		first, second := s.create("pool-1"), s.create("pool-2")
		s.ask(first, "touch "+filepath.Join(s.folder(first), localnode.ActiveFile))
		s.await("notice", func() bool {
			_, ok, err := agentapi.LoadNotice(filepath.Join(s.folder(first), localnode.NoticeFile))
			return ok && err == nil
		})
		announced, err := s.p.(cloudburst.Interrupter).Interruptions(t.Context())
		if err != nil || len(announced) != 1 || announced[0].Tag != first.Tag || time.Until(announced[0].At) > time.Second {
			t.Errorf("announced: %v, %v", announced, err)
		}
		s.await("reclaim", func() bool { return s.live("pool-1") == "" })
		s.ask(second, "touch "+filepath.Join(s.folder(second), localnode.ActiveFile))
		time.Sleep(2 * time.Second)
		if s.live("pool-2") != cloudburst.Running {
			t.Error("the market took more machines than Times allows")
		}
	})
}

func TestSSH(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if _, err := exec.LookPath("sshd"); err != nil {
		t.Skip("SKIP SSH into a local node: openssh-server is not installed")
	}
	s := newSite(t, false, "")
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	private, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	i := s.create("pool-1", func(r *cloudburst.Request) {
		r.Agent.Link, r.Agent.Controller, r.Agent.AuthorizedKeys = "ssh", "unix:/run/sbatchd/link.sock", []string{strings.TrimSpace(string(public))}
	})
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(i.HostKey))
	if err != nil {
		t.Fatalf("host key %q: %v", i.HostKey, err)
	}
	var client *ssh.Client
	s.await("sshd", func() bool {
		conn, err := s.p.(cloudburst.SSHDialer).DialSSH(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		c, chans, reqs, err := ssh.NewClientConn(conn, "node", &ssh.ClientConfig{
			User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(hostKey),
		})
		if err != nil {
			conn.Close()
			return false
		}
		client = ssh.NewClient(c, chans, reqs)
		return true
	})
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.CombinedOutput("hostname"); err != nil || string(out) != "pool-1\n" {
		t.Errorf("over SSH: %q, %v", out, err)
	}
	l, err := client.ListenUnix("/run/sbatchd/link.sock")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, "controller")
			c.Close()
		}
	}()
	if got := s.ask(i, "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('/run/sbatchd/link.sock'); print(s.recv(99).decode())\""); got != "controller" {
		t.Errorf("link over SSH: %q", got)
	}
}

// A controller killed between any two steps of Create leaves something that the
// next Create finishes or Delete removes.
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

func TestMarketFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Offer=a Price=x":                        `market:1: Price=x: invalid amount of money: "x" (as in 3.00 or 60CNY)`,
		"# ok\nOffer=a Colour=red":               "market:2: unknown key Colour",
		"Offer=a\nOffer=a":                       `market:2: offer "a": the name is empty or used twice`,
		"Reclaim=spot Notice=3":                  "market:1: a reclaim has exactly one of After, AfterJob and At",
		"Fault=create Error=odd":                 "market:1: Error=odd: one of no-capacity, quota, auth, no-balance, bad-request, rate, transient",
		"Fault=fly Error=quota":                  `market:1: fault "fly": the call is one of offers, create, list, delete`,
		"Sale=now":                               "market:1: a line starts with Offer, Reclaim or Fault, not Sale",
		"Offer=a Spot=perhaps":                   "market:1: Spot=perhaps: yes or no",
		"Offer=a Capacity=-1":                    "market:1: Capacity=-1: not a number from 0 on",
		"Offer=a CPUs=4 RealMemory=2G Price=0.5": "",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "market")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := local.ReadMarket(file); err != nil {
			got = strings.ReplaceAll(err.Error(), dir+"/", "")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMarketSells(t *testing.T) {
	t.Parallel()
	s := newSite(t, true, "Offer=a Gres=gpu:a100:1 Spot=yes Price=0.50 Capacity=1\nOffer=b Gres=gpu:a100:2 Price=60CNY\nFault=create Offer=b Error=quota Nth=1 Times=2\n")
	want := cloudburst.Want{GPUs: cloudburst.GPUs{Type: "a100", Count: 1}, Capacity: cloudburst.Auto}
	offers, err := s.p.Offers(t.Context(), want)
	if err != nil || len(offers) != 2 || *offers[0].Available != 1 || offers[1].Price.String() != "60.00CNY" {
		t.Fatalf("Offers: %+v, %v", offers, err)
	}
	s.create("pool-1", func(r *cloudburst.Request) { r.Offer = offers[0] })
	if again, err := s.p.Offers(t.Context(), want); err != nil || len(again) != 2 || !again[0].SoldOut() {
		t.Errorf("Offers when one is sold out: %+v, %v", again, err)
	}
	r := s.request("pool-2", func(r *cloudburst.Request) { r.Offer = offers[0] })
	if _, err := s.p.Create(t.Context(), r); !errors.Is(err, cloudburst.ErrNoCapacity) {
		t.Errorf("Create when sold out: %v", err)
	}
	r.Offer = offers[1]
	var classes []string
	for range 3 {
		_, err := s.p.Create(t.Context(), r)
		classes = append(classes, cloudburst.Class(err))
	}
	if !slices.Equal(classes, []string{"quota", "quota", ""}) {
		t.Errorf("creates: %q", classes)
	}
}
