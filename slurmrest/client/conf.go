package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxInclude bounds how deep configuration files include others.
const maxInclude = 8

// restListen finds the value of RestListen in a configuration, the last one if
// there are several; empty if there is none. It reads only as much of Slurm's
// syntax as that takes, because every command does it at start: comments,
// continued lines and Include.
func restListen(path string) (string, error) {
	var value string
	if err := scan(path, filepath.Dir(path), 0, &value); err != nil {
		return "", err
	}
	return value, nil
}

func scan(path, dir string, depth int, value *string) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: included too deep", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\\\n", "")) {
		line, _, _ = strings.Cut(line, "#")
		word := strings.TrimSpace(line)
		if rest, ok := cutFold(word, "include"); ok && rest != strings.TrimLeft(rest, " \t") {
			file := strings.TrimSpace(rest)
			if !filepath.IsAbs(file) {
				file = filepath.Join(dir, file)
			}
			if err := scan(file, dir, depth+1, value); err != nil {
				return err
			}
			continue
		}
		if rest, ok := cutFold(word, "restlisten"); ok {
			if v, ok := strings.CutPrefix(strings.TrimSpace(rest), "="); ok {
				*value = strings.Trim(strings.TrimSpace(v), `"`)
			}
		}
	}
	return nil
}

// cutFold is strings.CutPrefix for ASCII words of any case.
func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
