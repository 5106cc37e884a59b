package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

func TestWrite(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{"Write": atomicfile.Write, "WriteDurable": atomicfile.WriteDurable} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.json")
			for _, text := range []string{"first, and longer", "second"} {
				if err := write(path, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != text {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			// A name that can't be taken leaves nothing beside it.
			if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := write(filepath.Join(dir, "taken"), nil); err == nil {
				t.Error("a folder was replaced")
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
				t.Errorf("left: %v, %v", list, err)
			}
		})
	}
	if err := atomicfile.WriteDurable(filepath.Join(t.TempDir(), "no", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
