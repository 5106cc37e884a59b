package held

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/execinit"
)

// idPattern keeps an ID fit for a file, a cgroup and a containerd name.
var idPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,70}$`)

// ValidID tells whether a container can be called so.
func ValidID(id string) bool { return idPattern.MatchString(id) }

// Check finds what no driver can start.
func Check(spec container.Spec) error {
	switch {
	case !ValidID(spec.ID):
		return container.Failf(container.ErrInfra, "container ID %q: use letters, digits, '.', '_' and '-'", spec.ID)
	case len(spec.Argv) == 0 || spec.Argv[0] == "":
		return container.Failf(container.ErrUser, "container %s: no program", spec.ID)
	}
	for _, path := range []string{spec.Stdin, spec.Stdout, spec.Stderr} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return container.Failf(container.ErrInfra, "container %s: stream %q is not a full path", spec.ID, path)
		}
	}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return container.Failf(container.ErrInfra, "mount: %w", err)
		}
	}
	return nil
}

// Memory is a memory limit in bytes, raised to Slurm's least; 0 is none.
func Memory(spec container.Spec) int64 {
	if spec.MemoryMiB <= 0 {
		return 0
	}
	return max(spec.MemoryMiB, container.MinMemoryMiB) << 20
}

// GiveFile makes an output file of the node and gives it to the user.
func GiveFile(path string, u container.User) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return container.Failf(container.ErrInfra, "make output file: %w", err)
	}
	if os.Geteuid() == 0 {
		err = f.Chown(int(u.UID), int(u.GID))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return container.Failf(container.ErrInfra, "make output file: %w", err)
	}
	return nil
}

// MakeDir makes the folder of a new container; ErrExists when there is one.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s: %w", dir, container.ErrExists)
	case err != nil:
		return container.Fail(container.ErrInfra, err)
	}
	return nil
}

// Prepare writes down what the init is to do, before it is started.
func (c *Container) Prepare(cfg execinit.Config) error {
	// The init does not make the file: one that starts too late must not bring
	// a removed folder back.
	lock, err := os.OpenFile(filepath.Join(c.dir, execinit.LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = lock.Close()
	}
	if err != nil {
		return err
	}
	return execinit.WriteFile(c.dir, execinit.ConfigFile, cfg)
}

// Remove takes the container's folder away, all at once for whoever looks.
func (c *Container) Remove() error {
	hidden := filepath.Join(filepath.Dir(c.dir), ".removed-"+c.id)
	if err := os.RemoveAll(hidden); err != nil {
		return err
	}
	if err := os.Rename(c.dir, hidden); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(hidden)
}

// OpenState makes a state folder if need be, and finishes the removals that
// were cut off in it.
func OpenState(state string) error {
	if err := os.MkdirAll(state, 0o711); err != nil {
		return err
	}
	hidden, err := filepath.Glob(filepath.Join(state, ".removed-*"))
	if err != nil {
		return err
	}
	for _, dir := range hidden {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// IDs lists the containers whose folders are in a state folder.
func IDs(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && ValidID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// ClearGroup forgets the cgroup: there is none.
func (c *Container) ClearGroup() error {
	err := os.Remove(filepath.Join(c.dir, groupFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
