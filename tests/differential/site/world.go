// Package site has the two clusters that sessions run on: the real Slurm, set up by
// tests/setup/real-slurm.sh, and sbatchd, laid out alike. Both live in a private
// world, with host name, network, users and homes of its own, so that they look
// the same from inside and no port of the machine is taken.
package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

// LoginHost is the host name of the world, where users type their commands.
const LoginHost = "login01"

// inside marks the process that has entered the world.
const inside = "SBATCHD_WORLD=1"

// Bin is where the programs are in the world; the real Slurm has nothing there.
const Bin = "/srv/bin"

// Enter runs this program again in a world of its own and exits as it does. In the
// world it returns at once. It needs root.
func Enter(bin string) error {
	if Inside() {
		return furnish(bin)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // it is this very program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM,
	}
	// A ^C reaches both; the one inside ends in order, and then this one.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a private world: %w", err)
	}
	end := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) }) //nolint:errcheck // it may have ended
	defer end()
	err = cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return err
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// furnish makes the world look like a login host. Nothing of it is seen outside.
func furnish(bin string) error {
	if err := syscall.Sethostname([]byte(LoginHost)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	// slurmdbd finds its own port only where some address is not loopback's.
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"address", "add", "192.0.2.1/32", "dev", "lo"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil { //nolint:noctx // it ends at once
			return fmt.Errorf("ip: %w: %s", err, out)
		}
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	if strings.HasPrefix(bin, "/srv/") {
		return errors.New("a world has a /srv of its own: put the source tree elsewhere")
	}
	etc, err := os.MkdirTemp("/tmp", "sb-etc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(etc) // what is bound stays
	err = errors.Join(os.MkdirAll("/var/spool/sbatchd", 0o755), cover("/var/spool/sbatchd"), cover("/srv"),
		os.MkdirAll(Bin, 0o755), bind(bin, Bin))
	for name, uid := range session.Users {
		if home := homeOf(name); uid != 0 {
			err = errors.Join(err, os.MkdirAll(home, 0o755), os.Chown(home, uid, uid))
		}
	}
	files := map[string]string{
		"/etc/passwd": accounts("/etc/passwd", "%[1]s:x:%[2]d:%[2]d::/srv/home/%[1]s:/bin/sh\n"),
		"/etc/group":  accounts("/etc/group", "%[1]s:x:%[2]d:\n"),
		"/etc/hosts":  "127.0.0.1 localhost node01 node02 " + LoginHost + "\n",
	}
	for path, text := range files {
		own := filepath.Join(etc, filepath.Base(path))
		err = errors.Join(err, os.WriteFile(own, []byte(text), 0o644), bind(own, path))
	}
	return err
}

func bind(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, to, err)
	}
	return nil
}

// cover puts an empty folder over one.
func cover(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("tmpfs on %s: %w", dir, err)
	}
	return nil
}

// accounts is a file of accounts with our users in place of those that have their
// names or numbers.
func accounts(file, line string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for old := range strings.Lines(string(data)) {
		f := strings.Split(old, ":")
		taken := false
		for name, uid := range session.Users {
			taken = taken || uid != 0 && (f[0] == name || len(f) > 2 && f[2] == fmt.Sprint(uid))
		}
		if !taken {
			b.WriteString(old)
		}
	}
	for name, uid := range session.Users {
		if uid != 0 {
			fmt.Fprintf(&b, line, name, uid)
		}
	}
	return b.String()
}

func homeOf(name string) string {
	if name == "root" {
		return "/root"
	}
	return "/srv/home/" + name
}

// environment is what a command of a user sees, on both sites alike.
func environment(c session.Command) []string {
	return append([]string{
		"PATH=" + Bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + homeOf(c.User), "USER=" + c.User, "LOGNAME=" + c.User,
		"SHELL=/bin/sh", "LANG=C.UTF-8", "TZ=UTC",
	}, c.Env...)
}

// Prepare says alike to both sites what their accounts are.
func Prepare(ctx context.Context, s session.Site) error {
	for _, line := range []string{
		"sacctmgr -i add account physics organization=lab description=physics",
		"sacctmgr -i add user alice account=physics defaultaccount=physics",
	} {
		a, err := s.Run(ctx, session.Command{User: "root", Dir: "/", Line: line})
		if err != nil {
			return err
		}
		if a.Code != 0 {
			return fmt.Errorf("%s: exit %d: %s%s", line, a.Code, a.Stdout, a.Stderr)
		}
	}
	return nil
}

// Inside says whether this process is in the world.
func Inside() bool { return os.Getenv("SBATCHD_WORLD") != "" }
