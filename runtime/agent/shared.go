package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// sharedFolder is where shared work directories are mounted, in the run folder. What
// lies in it is removed by unmounting and rmdir alone: it is the users' own data.
const sharedFolder = "shared"

// sharedMount is where the job's shared work directory is mounted on a node that has
// the submit host's files aside.
func (r *run) sharedMount() string {
	return filepath.Join(r.a.cfg.RunDir, sharedFolder, r.key.String())
}

// openShared makes a shared work directory reachable at workDir, and says whether the
// job's user may enter it. Who may not starts in /tmp.
func (r *run) openShared() (bool, error) {
	dir, err := r.findShared()
	if err != nil {
		r.log.Info("work directory is not the user's to enter", "err", err)
		return false, nil
	}
	if r.a.cfg.HostRoot == "" {
		return true, nil
	}
	at := r.sharedMount()
	if err := r.closeShared(); err != nil {
		return false, err
	}
	if err := os.MkdirAll(at, 0o711); err != nil {
		return false, err
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return false, fmt.Errorf("mount %s: %w", dir, err)
	}
	return true, nil
}

// findShared resolves the work directory with the user's rights on every folder on the
// way, within the submit host's root. A mount would pass by those on the way.
func (r *run) findShared() (string, error) {
	root := r.a.cfg.HostRoot
	if root == "" {
		root = "/"
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	defer unix.Close(top) // nothing was written
	var path string
	err = asuser.Do(r.owner(), func() error {
		fd, err := unix.Openat2(top, strings.TrimPrefix(r.launch.GetWorkDir(), "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT,
		})
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		// To be in it, not only to see it.
		if err := unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS); err != nil {
			return err
		}
		path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.launch.GetWorkDir(), err)
	}
	return path, nil
}

// closeShared takes the mount away again; the files stay where they are.
func (r *run) closeShared() error {
	if r.a.cfg.HostRoot == "" {
		return nil
	}
	return unmount(r.sharedMount())
}

// unmount takes a mount point away, mounted or not.
func unmount(at string) error {
	for {
		err := unix.Unmount(at, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // no mount is left there
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
	if err := unix.Rmdir(at); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", at, err)
	}
	return nil
}

// removeShared takes away the mounts of attempts that are no more.
func (a *Agent) removeShared() error {
	dir := filepath.Join(a.cfg.RunDir, sharedFolder)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if k, ok := parseKey(e.Name()); ok && a.find(k) == nil {
			err = errors.Join(err, unmount(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
