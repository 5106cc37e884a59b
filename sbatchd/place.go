package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/client"
)

// place says where a controller's configuration is, and whether it is one
// user's own (personal mode).
type place struct {
	dir      string
	personal bool
}

// findConfig is the folder named, or for root the site's, or for an ordinary
// user the personal one, made ready on first use.
func findConfig(named string, create bool) (place, error) {
	if named != "" {
		return place{dir: named, personal: os.Geteuid() != 0}, nil
	}
	if os.Geteuid() == 0 {
		return place{dir: siteDir}, nil
	}
	dir, err := xdg("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return place{}, err
	}
	p := place{dir: filepath.Join(dir, "sbatchd"), personal: true}
	if !create {
		return p, nil
	}
	stateDir, err := xdg("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return place{}, err
	}
	socket := client.PersonalSocket(os.Getenv)
	if err := privateDir(filepath.Dir(socket)); err != nil {
		return place{}, err
	}
	name := os.Getenv("USER")
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	made, err := partitions.WritePersonalDefault(p.dir, partitions.Personal{
		User: name, StateDir: filepath.Join(stateDir, "sbatchd"), RestSocket: socket,
		AgentSocket: filepath.Join(filepath.Dir(socket), "agents.sock"),
		CPUs:        runtime.NumCPU(), RealMemory: memory(),
	})
	if err != nil {
		return place{}, fmt.Errorf("personal configuration: %w", err)
	}
	if made {
		fmt.Fprintf(os.Stderr, "sbatchd: wrote a first configuration to %s\n", p.dir)
	}
	return p, nil
}

// xdg is a base folder of the XDG specification.
func xdg(variable, under string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("neither " + variable + " nor HOME is set")
	}
	return filepath.Join(home, under), nil
}

// privateDir makes a folder for sockets that is ours alone, and refuses one
// that somebody else made first.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		var st unix.Stat_t
		if err := unix.Lstat(d, &st); err != nil {
			return fmt.Errorf("socket folder: %w", err)
		}
		if int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return fmt.Errorf("socket folder %s must be a folder of yours that nobody else can write to", d)
		}
	}
	return nil
}

// memory is what this machine has, in MiB.
func memory() tres.Memory {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0 // the configuration's default
	}
	return tres.Memory(info.Totalram * uint64(info.Unit) >> 20)
}
