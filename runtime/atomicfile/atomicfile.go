// Package atomicfile puts files in place whole or not at all, and on disk where
// that matters. Whoever keeps small state in files calls it; it knows nothing of
// what they hold.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces a file in one step, mode 0600. A crash of this process leaves
// the old file or the new one; a crash of the machine may leave either, or an
// empty one.
func Write(path string, data []byte) error { return replace(path, data, false) }

// WriteDurable is Write of a file that is on disk, under its name, when it
// returns.
func WriteDurable(path string, data []byte) error {
	if err := replace(path, data, true); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

func replace(path string, data []byte, sync bool) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil && sync {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Sync brings a file, or the names in a folder, to the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
