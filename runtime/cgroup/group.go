package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Group is one cgroup: a directory in each hierarchy.
type Group struct {
	name string            // "" for one found by its process
	v1   map[string]string // by controller
	v2   string
}

// form is a Group as JSON.
type form struct {
	Name string            `json:"name,omitempty"`
	V1   map[string]string `json:"v1,omitempty"`
	V2   string            `json:"v2,omitempty"`
}

// Name is what the group was made or looked up by.
func (g *Group) Name() string { return g.name }

// ours refuses to act on what was not made by a name of its own: the group of
// another process may be the whole machine.
func (g *Group) ours() error {
	if g.name == "" || path.Clean("/"+g.name) == "/" {
		return errors.New("cgroup is not a container's own")
	}
	return nil
}

// MarshalJSON lets a Group be remembered.
func (g *Group) MarshalJSON() ([]byte, error) { return json.Marshal(form{g.name, g.v1, g.v2}) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (g *Group) UnmarshalJSON(text []byte) error {
	var f form
	err := json.Unmarshal(text, &f)
	g.name, g.v1, g.v2 = f.Name, f.V1, f.V2
	return err
}

// dir is where the files of a controller are, "" for nowhere. On a hybrid node
// a controller lives in version 1 if it is mounted there.
func (g *Group) dir(controller string) (dir string, v1 bool) {
	if dir, ok := g.v1[controller]; ok {
		return dir, true
	}
	return g.v2, false
}

// dirs are the group's distinct directories.
func (g *Group) dirs() []string {
	dirs := slices.Collect(maps.Values(g.v1))
	if g.v2 != "" {
		dirs = append(dirs, g.v2)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// JoinFiles are the cgroup.procs files into which a process writes "0" to
// enter the group.
func (g *Group) JoinFiles() []string {
	files := g.dirs()
	for i := range files {
		files[i] = filepath.Join(files[i], "cgroup.procs")
	}
	return files
}

// Exists tells whether any part of the group is there.
func (g *Group) Exists() bool {
	return slices.ContainsFunc(g.dirs(), func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	})
}

// Procs lists the processes in the group and the groups below it, in the
// caller's process namespace (those outside it read as 0 and are left out).
func (g *Group) Procs() ([]int, error) {
	seen := map[int]bool{}
	for _, dir := range g.dirs() {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return ignoreGone(err)
			}
			text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
					seen[pid] = true
				}
			}
			return ignoreGone(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// ignoreGone hides that a cgroup was removed while being read.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// Kill sends SIGKILL to every process of the group, thaws it so that they die,
// and returns when none is left or ctx ends.
func (g *Group) Kill(ctx context.Context) error {
	if err := g.ours(); err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if g.v2 != "" {
			// Kernels before 5.14 lack this file; the loop below does it then.
			_ = write(filepath.Join(g.v2, "cgroup.kill"), "1")
		}
		pids, err := g.Procs()
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, isZombie)
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		// The signal is pending, so nothing of the job runs on after this.
		if err := g.Thaw(); ignoreGone(err) != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("kill %d processes: %w", len(pids), err)
		}
	}
}

func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, after, ok := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), ") ")
	return ok && (strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X"))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// CanFreeze tells whether the kernel can freeze this group.
func (g *Group) CanFreeze() bool {
	file, _ := g.freezer()
	if file == "" {
		return false
	}
	_, err := os.Stat(file)
	return err == nil
}

// freezer is the control file and whether it is version 1's.
func (g *Group) freezer() (file string, v1 bool) {
	dir, v1 := g.dir("freezer")
	switch {
	case dir == "":
		return "", false
	case v1:
		return filepath.Join(dir, "freezer.state"), true
	}
	return filepath.Join(dir, "cgroup.freeze"), false
}

// Freeze stops every process of the group and returns when they are stopped
// or ctx ends.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.ours(); err != nil {
		return err
	}
	file, v1 := g.freezer()
	if file == "" {
		return errors.New("no freezer")
	}
	word := "1"
	if v1 {
		word = "FROZEN"
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		// Version 1 may stay in FREEZING until told again.
		if err := write(file, word); err != nil {
			return err
		}
		frozen, err := g.Frozen()
		if err != nil || frozen {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
	}
}

// Frozen tells whether every process of the group is stopped.
func (g *Group) Frozen() (bool, error) {
	file, v1 := g.freezer()
	if file == "" {
		return false, nil
	}
	if v1 {
		text, err := os.ReadFile(file)
		return strings.TrimSpace(string(text)) == "FROZEN", ignoreGone(err)
	}
	n, err := keyed(filepath.Join(filepath.Dir(file), "cgroup.events"), "frozen")
	return n == 1, ignoreGone(err)
}

// Thaw lets the group go on; it is no error if it was not frozen.
func (g *Group) Thaw() error {
	file, v1 := g.freezer()
	if file == "" {
		return nil
	}
	word := "0"
	if v1 {
		word = "THAWED"
	}
	return ignoreGone(write(file, word))
}

// Remove takes the group and the groups below it away; its processes must be
// dead. The kernel may need a moment after the last one: it is given until ctx
// ends, or a second at most.
func (g *Group) Remove(ctx context.Context) error {
	if err := g.ours(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var errs []error
	for _, dir := range g.dirs() {
		errs = append(errs, removeTree(ctx, dir))
	}
	return errors.Join(errs...)
}

func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EBUSY) {
			return ignoreGone(err)
		}
		if sleep(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
}

// write writes a control file in one call and never creates it.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
