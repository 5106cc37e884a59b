package local_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

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
	// A dial may time out once on a busy machine.
	s.await("a node of the pool reaches another", func() bool { return s.ask(b, "$BIN dial pool-1:7000") == "hello from pool-1" })
	for _, c := range []struct {
		what   string
		from   cloudburst.Instance
		script string
		want   string
	}{
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
	if got := s.ask(i, "$BIN dial /run/sbatchd/link.sock"); got != "controller" {
		t.Errorf("link over SSH: %q", got)
	}
}
