package sshlink_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/runtime/agentapi/sshlink"
)

// TestRealSSHD listens through a real sshd, which serves one connection on a pipe
// (sshd -i), and dials the socket it made. It listens twice: a socket left behind
// by a broken connection must not be in the way.
func TestRealSSHD(t *testing.T) {
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Skip("no sshd on this machine")
	}
	if os.Geteuid() != 0 {
		t.Skip("sshd needs root to log in as root")
	}
	dir, err := os.MkdirTemp("/root", ".sshlink-test-") //nolint:usetesting // sshd wants a safe path for keys
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host, user := newKey(t), newKey(t)
	write(t, filepath.Join(dir, "host"), marshal(t, host))
	write(t, filepath.Join(dir, "authorized"), ssh.MarshalAuthorizedKey(signer(t, user).PublicKey()))
	write(t, filepath.Join(dir, "config"), []byte(strings.Join([]string{
		"HostKey " + filepath.Join(dir, "host"),
		"AuthorizedKeysFile " + filepath.Join(dir, "authorized"),
		"PermitRootLogin yes", "StrictModes no", "UsePAM no", "PidFile none", "",
	}, "\n")))
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}

	socket := filepath.Join(dir, "link.sock")
	for round := range 2 {
		conn := serve(t, sshd, filepath.Join(dir, "config"))
		l, err := sshlink.Listen(t.Context(), conn, sshlink.Config{
			User: "root", Signer: signer(t, user), HostKey: signer(t, host).PublicKey(), Socket: socket,
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello agent\n") // a failure shows below
			c.Close()
		}()
		c, err := net.DialTimeout("unix", socket, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || line != "hello agent\n" {
			t.Errorf("round %d: got %q, %v", round, line, err)
		}
		c.Close()
		if round == 0 {
			conn.Close() // a cut, not a goodbye
		} else if err := l.Close(); err != nil {
			t.Log(err)
		}
	}

	conn := serve(t, sshd, filepath.Join(dir, "config"))
	if _, err := sshlink.Listen(t.Context(), conn, sshlink.Config{
		User: "root", Signer: signer(t, user), HostKey: signer(t, user).PublicKey(), Socket: socket,
	}); err == nil {
		t.Error("another host's key was accepted")
	}
}

// serve starts sshd on one end of a pipe and gives the other.
func serve(t *testing.T, sshd, config string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f, err := theirs.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sshd, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	theirs.Close()
	t.Cleanup(func() { ours.Close(); cmd.Process.Kill(); cmd.Wait() })
	return ours
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signer(t *testing.T, key ed25519.PrivateKey) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func marshal(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
