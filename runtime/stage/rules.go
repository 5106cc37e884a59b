package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ErrTooLarge: the submit directory has more than may be synced.
var ErrTooLarge = errors.New("work directory is too large to sync")

// Limits bound what one work directory may hold.
type Limits struct {
	Files int   // entries
	Bytes int64 // of all files
}

// DefaultLimits are generous for a project and small for a home.
var DefaultLimits = Limits{Files: 200_000, Bytes: 16 << 30}

func (l Limits) check(files int, bytes int64) error {
	switch {
	case files > l.Files:
		return fmt.Errorf("%w: more than %d files; submit from a smaller folder, or name what is needed with --stage-in", ErrTooLarge, l.Files)
	case bytes > l.Bytes:
		return fmt.Errorf("%w: more than %d MiB; submit from a smaller folder, or name what is needed with --stage-in", ErrTooLarge, l.Bytes>>20)
	}
	return nil
}

// litter is left where it is, at any depth.
var litter = []string{".nfs*", ".Trash*", "lost+found", ".snapshot", ".sbatchd-*"}

// private is left where it is at the top of the directory: what a home holds
// beside a project, keys among it.
var private = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".config", ".kube", ".docker", ".netrc", ".git-credentials", ".pgpass", ".cache", ".local",
	".bash_history", ".python_history", ".Xauthority", ".ICEauthority", ".dbus", ".vscode-server", ".mozilla", ".npm",
}

func ignored(name string) bool {
	base := path.Base(name)
	lists := [][]string{litter}
	if base == name {
		lists = append(lists, private)
	}
	for _, list := range lists {
		for _, p := range list {
			if ok, err := path.Match(p, base); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// wanted says whether a name is chosen by patterns (--stage-in, --stage-out):
// all of it without any, else what is a pattern, lies below one, or leads to one.
func wanted(patterns []string, name string, isDir bool) bool {
	if len(patterns) == 0 || name == "." {
		return true
	}
	for _, p := range patterns {
		p = path.Clean(p)
		if p == "." {
			return true
		}
		depth := strings.Count(p, "/") + 1
		parts := strings.Split(name, "/")
		if len(parts) >= depth {
			if ok, err := path.Match(p, strings.Join(parts[:depth], "/")); ok && err == nil {
				return true
			}
			continue
		}
		lead := strings.Join(strings.Split(p, "/")[:len(parts)], "/")
		if ok, err := path.Match(lead, name); ok && err == nil && isDir {
			return true
		}
	}
	return false
}

// checkName refuses what is not a path below the directory.
func checkName(name string) error {
	if name == "." || name == "" || strings.HasPrefix(name, "/") || path.Clean(name) != name || name == ".." ||
		strings.HasPrefix(name, "../") || strings.Contains(name, "\x00") {
		return fmt.Errorf("bad path %q: %w", name, fs.ErrInvalid)
	}
	return nil
}
