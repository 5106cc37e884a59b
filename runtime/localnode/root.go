package localnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What a node sees of its host, read-only, and what it has empty of its own.
var (
	shownDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/var/lib/sss"}
	ownDirs   = []struct {
		path string
		mode uint32
	}{
		{"/tmp", 0o1777}, {"/run", 0o755}, {"/home", 0o755}, {"/root", 0o700}, {"/srv", 0o755},
		{"/mnt", 0o755}, {"/media", 0o755}, {"/var", 0o755},
	}
	varDirs = []struct {
		path string
		mode uint32
	}{
		{"/var/tmp", 0o1777}, {"/var/lib", 0o755}, {"/var/log", 0o755}, {"/var/cache", 0o755}, {"/var/spool", 0o755},
		{"/run/lock", 0o1777}, {"/run/sbatchd", 0o700},
	}
)

// makeRoot builds the node's root and moves this process, alone in its mount
// namespace, into it.
func makeRoot(dir string, m Machine) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("own mounts: %w", err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64m"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	for _, d := range ownDirs {
		if err := tmpfs(filepath.Join(root, d.path), d.mode); err != nil {
			return err
		}
	}
	for _, d := range varDirs {
		if err := mkdir(filepath.Join(root, d.path), d.mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "/var/run")); err != nil {
		return err
	}
	for _, path := range shownDirs {
		if err := show(root, path); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	for _, path := range m.HiddenDirs {
		if exists(filepath.Join(root, path)) {
			if err := tmpfs(filepath.Join(root, path), 0o700); err != nil {
				return err
			}
		}
	}
	if err := systemDirs(root); err != nil {
		return err
	}
	if err := etcFiles(root, dir, m); err != nil {
		return err
	}
	if err := show(root, filepath.Dir(m.Binary)); err != nil {
		return fmt.Errorf("show %s: %w", filepath.Dir(m.Binary), err)
	}
	if err := bind(dir, filepath.Join(root, dir), 0); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	if m.HostRoot != "" {
		to := filepath.Join(root, m.HostRoot)
		if err := mkdir(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		// Slaves of the host's mounts: a file system the host mounts later (a
		// home folder by automount) appears here too, and none is pinned.
		if err := bind("/", to, unix.MS_REC); err != nil {
			return fmt.Errorf("host's files: %w", err)
		}
	}
	return pivot(root)
}

// pivot makes root the root and lets go of the old one.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host's root: %w", err)
	}
	return os.Chdir("/")
}

// show makes a folder of the host visible at its own path, read-only. A link
// (/bin on most systems) stays a link; what the host lacks is left out.
func show(root, path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to := filepath.Join(root, path)
	if fi.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if err := bind(path, to, unix.MS_REC); err != nil {
		return err
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, attr)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.12: the top alone
		err = unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return err
}

// bind mounts a folder or a file of the host at a path, making what is needed
// to mount on.
func bind(from, to string, flags uintptr) error {
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		err = mkdir(to, 0o755)
	} else if err = mkdir(filepath.Dir(to), 0o755); err == nil && !exists(to) {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|flags, ""); err != nil {
		return &os.PathError{Op: "bind " + from + " at", Path: to, Err: err}
	}
	return nil
}

func tmpfs(path string, mode uint32) error {
	if err := mkdir(path, mode); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=%o", mode)); err != nil {
		return &os.PathError{Op: "mount tmpfs at", Path: path, Err: err}
	}
	return nil
}

// mkdir makes a folder and gives it exactly this mode if it was not there.
func mkdir(path string, mode uint32) error {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return unix.Chmod(path, mode)
}

// systemDirs mounts /proc, /sys with the host's control groups, and a /dev of
// its own.
func systemDirs(root string) error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	at := func(path string) string { return filepath.Join(root, path) }
	for _, d := range []string{"/proc", "/sys"} {
		if err := mkdir(at(d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", at("/proc"), "proc", quiet, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("sysfs", at("/sys"), "sysfs", quiet, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if exists("/sys/fs/cgroup") {
		if err := unix.Mount("/sys/fs/cgroup", at("/sys/fs/cgroup"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind /sys/fs/cgroup: %w", err)
		}
	}
	if err := mkdir(at("/dev"), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", at("/dev"), "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=8m"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	if err := devices("/dev", at("/dev"), 2); err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	for _, m := range []struct{ fstype, path, data string }{
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"tmpfs", "/dev/shm", "mode=1777"},
		{"mqueue", "/dev/mqueue", ""},
	} {
		if err := mkdir(at(m.path), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fstype, at(m.path), m.fstype, unix.MS_NOSUID|unix.MS_NOEXEC, m.data); err != nil {
			if m.fstype == "mqueue" {
				continue // a kernel may lack it, and few programs want it
			}
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx", "core": "/proc/kcore",
	} {
		if err := os.Symlink(target, filepath.Join(at("/dev"), name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// devices makes the host's character devices (GPUs among them) again, two
// levels deep. Disks are left out: a rented machine does not see them either.
func devices(from, to string, depth int) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "ptmx" || e.Name() == "console" || isTerminal(e.Name()) {
			continue
		}
		path := filepath.Join(to, e.Name())
		switch {
		case e.IsDir() && depth > 1:
			switch e.Name() {
			case "pts", "shm", "mqueue", "hugepages", "disk", "block", "char", "mapper", "input":
				continue
			}
			if err := mkdir(path, 0o755); err != nil {
				return err
			}
			if err := devices(filepath.Join(from, e.Name()), path, depth-1); err != nil {
				return err
			}
		case e.Type()&fs.ModeCharDevice != 0:
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(from, e.Name()), &st); err != nil {
				continue // gone meanwhile
			}
			if err := unix.Mknod(path, st.Mode, int(st.Rdev)); err != nil {
				return &os.PathError{Op: "mknod", Path: path, Err: err}
			}
			if err := unix.Chmod(path, st.Mode&0o7777); err != nil {
				return err
			}
			if err := unix.Chown(path, int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isTerminal reports whether a device is one of the host's terminals.
func isTerminal(name string) bool {
	rest, ok := strings.CutPrefix(name, "tty")
	if !ok {
		rest, ok = strings.CutPrefix(name, "vcs")
	}
	return ok && (rest != "" || strings.HasPrefix(name, "vcs"))
}

// etcFiles gives the node its own hosts, hostname and resolv.conf over the
// host's /etc. A file the host lacks cannot be shown and is left out.
func etcFiles(root, dir string, m Machine) error {
	files := map[string]string{}
	if m.HostsFile != "" {
		files["/etc/hosts"] = m.HostsFile
	}
	name := filepath.Join(dir, "hostname")
	if err := os.WriteFile(name, []byte(m.Node+"\n"), 0o644); err != nil {
		return err
	}
	files["/etc/hostname"] = name
	if _, err := exec.LookPath("slirp4netns"); err == nil {
		resolv := filepath.Join(dir, "resolv.conf")
		if err := os.WriteFile(resolv, []byte("nameserver "+slirpDNS+"\n"), 0o644); err != nil {
			return err
		}
		files["/etc/resolv.conf"] = resolv
	}
	for path, from := range files {
		to := filepath.Join(root, path)
		if target, err := os.Readlink(path); err == nil { // a link leads out of /etc, to where it is ours to make
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			to = filepath.Join(root, target)
			if !strings.HasPrefix(target, "/run/") && !exists(to) {
				continue
			}
		} else if !exists(to) {
			continue
		}
		if err := bind(from, to, 0); err != nil {
			return err
		}
	}
	return nil
}
