package payload

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := install([]byte("#!/bin/sh\n"), dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("installed %v, %v", info, err)
	}
	again, err := install([]byte("#!/bin/sh\n"), dir)
	if again != first || err != nil {
		t.Errorf("again as %s, %v", again, err)
	}
	other, err := install([]byte("#!/bin/bash\n"), dir)
	if other == first || err != nil {
		t.Errorf("another as %s, %v", other, err)
	}
	// What a full disk cut short is put right.
	if err := os.Truncate(first, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := install([]byte("#!/bin/sh\n"), dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(first); string(text) != "#!/bin/sh\n" || err != nil {
		t.Errorf("repaired to %q, %v", text, err)
	}
	entries, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(entries) != 2 {
		t.Errorf("left %q, %v", entries, err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	command, err := Command(t.TempDir())
	if err != nil || len(command) != 2 || command[1] != "exec" {
		t.Errorf("command %q, %v", command, err)
	}
}
