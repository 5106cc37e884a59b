package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim takes the state folder for this process: a lock that ends with it. A
// folder with a slurmctld's files is refused: they would not survive us.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("StateSaveLocation: %w", err)
	}
	for _, name := range []string{"job_state", "node_state", "part_state", "clustername", "last_config_lite"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("StateSaveLocation %s holds a slurmctld's files (%s): give sbatchd a folder of its own", dir, name)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("StateSaveLocation: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("StateSaveLocation %s is in use by another sbatchd", dir), f.Close())
	}
	return f, nil
}
