package storetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// MariaDB is a server of its own for one test, reached through a socket or on
// the loopback.
type MariaDB struct {
	Socket string
	Port   int
	User   string // has no password on this server

	t    testing.TB
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended
}

// StartMariaDB starts a server, or skips the test where none is installed.
func StartMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	server, install := find("mariadbd"), find("mariadb-install-db")
	if server == "" || install == "" {
		t.Skip("SKIP MariaDB: mariadb-server is not installed")
	}
	dir, err := os.MkdirTemp("", "mariadb-") //nolint:usetesting // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	m := &MariaDB{t: t, dir: dir, Socket: filepath.Join(dir, "s"), User: "root"}
	t.Cleanup(func() {
		m.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
		"--datadir="+filepath.Join(dir, "data"), "--innodb-log-file-size=4M")
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args, "--user=root")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.Port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m.Start()
	return m
}

// find looks for a server's program, which not every PATH has.
func find(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/libexec") {
		if path := filepath.Join(dir, name); exec.Command(path, "--version").Run() == nil { //nolint:noctx // asks a version
			return path
		}
	}
	return ""
}

// Start starts the server again after Kill, and waits until it answers.
func (m *MariaDB) Start() {
	m.t.Helper()
	log, err := os.Create(filepath.Join(m.dir, "log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.CommandContext(context.WithoutCancel(m.t.Context()), find("mariadbd"), "--no-defaults",
		"--datadir="+filepath.Join(m.dir, "data"), "--socket="+m.Socket, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(m.Port),
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=4M", "--pid-file="+filepath.Join(m.dir, "pid"))
	if os.Geteuid() == 0 {
		m.cmd.Args = append(m.cmd.Args, "--user=root")
	}
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	m.done = done
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // it was killed
		close(done)
	}(m.cmd)
	var dial net.Dialer
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := dial.DialContext(m.t.Context(), "unix", m.Socket)
		if err == nil {
			if err := conn.Close(); err != nil {
				m.t.Fatal(err)
			}
			return
		}
		select {
		case <-done:
			m.said("mariadbd ended")
		default:
		}
		if time.Now().After(deadline) {
			m.said("mariadbd does not answer: " + err.Error())
		}
	}
}

func (m *MariaDB) said(what string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "log"))
	m.t.Fatalf("%s (%v)\n%s", what, err, text)
}

// Kill ends the server as a dying machine does.
func (m *MariaDB) Kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.done
	m.cmd = nil
}
