package asuser_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

func TestDoHasTheUsersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for p := dir; strings.HasPrefix(p, os.TempDir()) && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 12345, 12346); err != nil {
		t.Fatal(err)
	}
	user := &asuser.Cred{UID: 12345, GID: 12346, Groups: []uint32{12346, 12347}}
	err := asuser.Do(user, func() error {
		if err := os.Symlink(secret, filepath.Join(home, "link")); err != nil {
			return err
		}
		if _, err := os.ReadFile(filepath.Join(home, "link")); !errors.Is(err, os.ErrPermission) {
			t.Errorf("read through the user's link: %v, want permission denied", err)
		}
		return os.WriteFile(filepath.Join(home, "mine"), nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(home, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if s := st.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 {
		t.Errorf("owner %d:%d, want 12345:12346", s.Uid, s.Gid)
	}
	if _, err := os.ReadFile(secret); err != nil {
		t.Errorf("root's rights are not back: %v", err)
	}
}

func TestCommandRunsAsUser(t *testing.T) {
	self := asuser.Self()
	want := self.UID
	if os.Geteuid() == 0 {
		self = asuser.Cred{UID: 12345, GID: 12346}
		want = 12345
	}
	cmd, err := asuser.Command(t.Context(), &self, "/bin/sh", "-c", "id -u")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.Itoa(int(want)) {
		t.Errorf("ran as %s, want %d", got, want)
	}
}
