// Package payload carries the small init (execinit/small) inside sbatchd-node,
// so that a node still gets one file. The container drivers install it in their
// state folder. A program built without it starts itself as the init, with the
// same effect but for time and memory.
package payload

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

//go:embed all:files
var files embed.FS

// Command is the start of the command line of an init, to which the container's
// folder is added: the small init, installed in dir if it is not yet there, or
// this program.
func Command(dir string) ([]string, error) {
	program, err := files.ReadFile("files/init-" + runtime.GOARCH)
	if errors.Is(err, fs.ErrNotExist) {
		self, err := os.Executable()
		return []string{self, "exec"}, err
	}
	if err != nil {
		return nil, err
	}
	path, err := install(program, dir)
	return []string{path, "exec"}, err
}

// install puts a program into dir under a name made of its contents, so that
// an upgrade never changes the file that containers run.
func install(program []byte, dir string) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf(".init-%x", sha256.Sum256(program))[:14])
	if have, err := os.Stat(path); err == nil && have.Size() == int64(len(program)) {
		return path, nil
	}
	f, err := os.CreateTemp(dir, ".init-new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	_, err = f.Write(program)
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("install init: %w", err)
	}
	return path, nil
}
