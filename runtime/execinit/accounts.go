package execinit

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/container"
)

// addAccounts gives the user and its group a name inside the container: first
// in the image's own files, so that it is the one found.
func addAccounts(u container.User) error {
	if u.Name == "" {
		return nil
	}
	shell := u.Shell
	if _, err := os.Stat(shell); shell == "" || err != nil {
		shell = "/bin/sh"
	}
	home := u.Home
	if home == "" {
		home = "/"
	}
	if err := prependLine("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s", u.Name, u.UID, u.GID, home, shell)); err != nil {
		return err
	}
	if u.Group == "" {
		return nil
	}
	return prependLine("/etc/group", fmt.Sprintf("%s:x:%d:", u.Group, u.GID))
}

// prependLine puts a line before the others and takes those of the same name
// away. A file that is a link, or lies on a mount, is left alone: an image must
// not lead root to write elsewhere.
func prependLine(path, line string) error {
	if strings.ContainsAny(line, "\n\x00") {
		return container.Failf(container.ErrUser, "bad account line %q", line)
	}
	if err := os.Mkdir("/etc", 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC, Mode: 0o644,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if errors.Is(err, unix.ENOSYS) { // kernels before 5.6; gVisor
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, f.Close())
	}
	old := make([]byte, info.Size())
	if _, err := f.ReadAt(old, 0); err != nil && info.Size() > 0 {
		return errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	name, _, _ := strings.Cut(line, ":")
	var text strings.Builder
	text.WriteString(line + "\n")
	for _, l := range strings.SplitAfter(string(old), "\n") {
		if l != "" && !strings.HasPrefix(l, name+":") {
			text.WriteString(l)
		}
	}
	_, err = f.WriteAt([]byte(text.String()), 0)
	if err == nil {
		err = f.Truncate(int64(len(text.String())))
	}
	return errors.Join(err, f.Close())
}
