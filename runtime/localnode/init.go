package localnode

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How fast a dead agent is started again: at once, then slower while it keeps
// dying young.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = 10 * time.Second
	grownUp      = 30 * time.Second
)

// InitMain is `sbatchd-node init --dir D`: pid 1 of a local node (as an
// ordinary user: the parent of all its processes). It makes the node's view of
// the world, starts the agent and starts it again when it dies, and reaps. It
// ends, and the node with it, when the machine above it does, when the agent
// asks for poweroff, or on SIGTERM.
func InitMain(args []string) int {
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	dir := flags.String("dir", "", "the machine's folder")
	if err := flags.Parse(args); err != nil || *dir == "" {
		fmt.Fprintln(os.Stderr, "usage: sbatchd-node init --dir DIR (started by sbatchd-node forward)")
		return 2
	}
	report, control := os.NewFile(3, "report"), os.NewFile(4, "control")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	if err := runInit(*dir, report, control); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		fmt.Fprintln(report, err) // too late to matter once it said ok
		return 1
	}
	return 0
}

func runInit(dir string, report io.WriteCloser, control io.Reader) error {
	runtime.LockOSThread()
	m, err := Load(dir)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", m.Node)
	from := bufio.NewReader(control)
	if _, err := from.ReadString('\n'); err != nil {
		return fmt.Errorf("the machine gave up: %w", err)
	}
	if m.Isolated {
		if err := makeRoot(dir, m); err != nil {
			return fmt.Errorf("node's root: %w", err)
		}
		if err := unix.Sethostname([]byte(m.Node)); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, unix.SIGPWR)
	above := make(chan struct{})
	go func() {
		from.ReadByte() //nolint:errcheck // any answer means that the machine has ended
		close(above)
	}()
	kids := newChildren()
	services := []*service{{name: "agent", argv: []string{m.Binary, "agent", "--state", dir}}}
	if m.SSH && m.Isolated {
		argv, err := prepareSSHD(dir)
		if err != nil {
			return fmt.Errorf("sshd: %w", err)
		}
		services = append(services, &service{name: "sshd", argv: argv})
	}
	for _, s := range services {
		if err := s.start(kids, dir); err != nil {
			return err
		}
	}
	go kids.reap()
	if err := os.WriteFile(filepath.Join(dir, ReadyFile), nil, 0o644); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(report, "ok"); err != nil {
		return err
	}
	if err := report.Close(); err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-above:
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return errors.Join(errors.New("the machine above has ended"), Kill(ctx, m.Tag))
		case s := <-stop:
			log.Info("node ends", "signal", s.String())
			return nil
		case e := <-kids.exits:
			for _, s := range services {
				if s.pid == e.pid {
					s.ended(log, e.status, time.Now())
				}
			}
		case now := <-tick.C:
			if exists(filepath.Join(dir, PoweroffFile)) {
				log.Info("node ends: poweroff")
				return nil
			}
			for _, s := range services {
				if s.pid == 0 && !now.Before(s.next) {
					if err := s.start(kids, dir); err != nil {
						log.Error("start", "service", s.name, "err", err)
						s.ended(log, 0, now)
					}
				}
			}
		}
	}
}

// service is a program that init keeps running.
type service struct {
	name  string
	argv  []string
	pid   int // 0 is not running
	since time.Time
	wait  time.Duration // before the next start
	next  time.Time
}

func (s *service) start(kids *children, dir string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close() // nothing written
	pid, err := kids.start(s.argv, os.Environ(), dir,
		[]*os.File{null, os.Stdout, os.Stderr}, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return err
	}
	s.pid, s.since = pid, time.Now()
	return nil
}

// ended plans the next start.
func (s *service) ended(log *slog.Logger, status syscall.WaitStatus, now time.Time) {
	if s.wait = min(2*s.wait, restartMost); s.wait == 0 || now.Sub(s.since) > grownUp {
		s.wait = restartFirst
	}
	s.pid, s.next = 0, now.Add(s.wait)
	log.Warn("a service ended and is started again", "service", s.name, "status", describe(status), "after", s.wait)
}

func describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "signal " + ws.Signal().String()
	}
	return fmt.Sprintf("exit %d", ws.ExitStatus())
}

// prepareSSHD writes the settings of the node's sshd and gives its command
// line. The host key and authorized_keys were written with the folder.
func prepareSSHD(dir string) ([]string, error) {
	path := ""
	for _, p := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"} {
		if exists(p) {
			path = p
			break
		}
	}
	if path == "" {
		return nil, errors.New("AgentLink=ssh needs sshd on this machine: install openssh-server")
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return nil, err
	}
	keys := []byte{}
	if data, err := os.ReadFile(filepath.Join(dir, authKeysFile)); err == nil {
		keys = data
	}
	// sshd insists on a path that only root can write.
	if err := os.MkdirAll("/run/sbatchd", 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/run/sbatchd/authorized_keys", keys, 0o600); err != nil {
		return nil, err
	}
	conf := strings.Join([]string{
		"ListenAddress 127.0.0.1:22",
		"HostKey " + filepath.Join(dir, hostKeyFile),
		"PidFile none",
		"UsePAM no",
		"PermitRootLogin prohibit-password",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"AuthorizedKeysFile /run/sbatchd/authorized_keys",
		"StrictModes no",
		"AllowTcpForwarding yes",
		"AllowStreamLocalForwarding yes",
		"StreamLocalBindUnlink yes",
		"ClientAliveInterval 15",
		"PrintMotd no",
		"Subsystem sftp internal-sftp",
		"",
	}, "\n")
	if err := os.WriteFile("/run/sbatchd/sshd_config", []byte(conf), 0o600); err != nil {
		return nil, err
	}
	return []string{path, "-D", "-e", "-f", "/run/sbatchd/sshd_config"}, nil
}
