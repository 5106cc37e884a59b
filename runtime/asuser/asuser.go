// Package asuser reaches a user's files with that user's own rights, so that a
// root process never follows a user's symlink to what the user may not see.
//
// Checkpoints, staging and output writing call it. It holds no state. Do works
// inside this process, on one thread; Command makes a process under the user's
// ids for work that may hang in a dead file system. A process that is not root
// can only be its own user.
package asuser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"unsafe"
)

// Cred names the identity that files are reached under: the numeric ids and the
// supplementary groups.
type Cred struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Key is the same text for the same identity, for use as a map key.
func (c Cred) Key() string {
	g := slices.Clone(c.Groups)
	slices.Sort(g)
	return fmt.Sprint(c.UID, c.GID, g)
}

// Self is the identity of this process.
func Self() Cred {
	c := Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, err := os.Getgroups()
	if err != nil {
		return c // the primary group is enough to run as oneself
	}
	for _, g := range groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// switchNeeded says whether c differs from this process, and refuses what an
// ordinary process cannot do.
func switchNeeded(c *Cred) (bool, error) {
	if c == nil {
		return false, nil
	}
	euid := os.Geteuid()
	switch {
	case euid == 0 && c.UID == 0:
		return false, nil
	case euid == 0:
		return true, nil
	case uint32(euid) == c.UID:
		return false, nil
	}
	return false, fmt.Errorf("act as uid %d: %w", c.UID, os.ErrPermission)
}

// Do runs fn with the file rights of c: every path that fn itself opens is
// checked by the kernel as that user would be. Goroutines that fn starts keep
// the rights of the process. A nil c, or one's own uid, runs fn as is.
func Do(c *Cred, fn func() error) error {
	need, err := switchNeeded(c)
	if err != nil {
		return err
	}
	if !need {
		return fn()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		old := Self().Groups
		err := enter(*c)
		if err == nil {
			err = fn()
		}
		// A thread that can't be turned back stays locked and ends with
		// this goroutine.
		if enter(Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Groups: old}) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// enter sets the calling thread's file ids. The raw calls act on one thread,
// unlike the syscall package's, which act on all.
func enter(c Cred) error {
	var p unsafe.Pointer
	if len(c.Groups) > 0 {
		p = unsafe.Pointer(&c.Groups[0])
	}
	// Groups go first: setting them needs the rights that the uid gives up.
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(p), 0); e != 0 {
		return fmt.Errorf("set groups: %w", e)
	}
	if err := setfs(syscall.SYS_SETFSGID, c.GID); err != nil {
		return fmt.Errorf("set file gid %d: %w", c.GID, err)
	}
	if err := setfs(syscall.SYS_SETFSUID, c.UID); err != nil {
		return fmt.Errorf("set file uid %d: %w", c.UID, err)
	}
	return nil
}

// setfs calls setfsuid or setfsgid, which report no error: asking again with an
// impossible id tells what is in force (setfsuid(2)).
func setfs(call uintptr, id uint32) error {
	_, _, _ = syscall.RawSyscall(call, uintptr(id), 0, 0) // returns the previous id, never an error
	now, _, _ := syscall.RawSyscall(call, ^uintptr(0), 0, 0)
	if uint32(now) != id {
		return os.ErrPermission
	}
	return nil
}

// Command is exec.CommandContext for a program that runs as c, in "/", with an
// empty environment. It fails only when Start is called.
func Command(ctx context.Context, c *Cred, path string, args ...string) (*exec.Cmd, error) {
	need, err := switchNeeded(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if need {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: slices.Clone(c.Groups)}
	}
	return cmd, nil
}
