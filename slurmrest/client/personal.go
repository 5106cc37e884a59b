package client

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// PersonalSocket is where a controller in personal mode listens and its
// commands look: below XDG_RUNTIME_DIR, or where that is not set (su, cron, a
// plain ssh command) below a folder of the user's own in the temporary
// directory.
func PersonalSocket(getenv func(string) string) string {
	dir := getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = fmt.Sprintf("/tmp/sbatchd-run-%d", os.Getuid())
	}
	return filepath.Join(dir, "sbatchd", "sbatchd.sock")
}

// own says whether a socket lies in a folder that only the user can write to:
// in /tmp another user could have made it first.
func own(socket string) bool {
	info, err := os.Lstat(filepath.Dir(socket))
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
