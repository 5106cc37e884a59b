package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// User is an ordinary user of this machine with a private folder below the
// rig's.
type User struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32
	Home   string // 0700, the user's own
}

// User returns an account of that name, made with useradd when the machine has
// none and removed again by Close. Without root only the user running this is
// had, whatever the name.
func (r *Rig) User(ctx context.Context, name string) (*User, error) {
	var account *user.User
	var err error
	if !r.Root {
		account, err = user.Current()
	} else {
		account, err = r.borrow(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	u := &User{Name: account.Username, UID: number(account.Uid), GID: number(account.Gid), Home: r.Path("home", name)}
	groups, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of %s: %w", name, err)
	}
	for _, g := range groups {
		u.Groups = append(u.Groups, number(g))
	}
	if _, err := r.mkdir(0o755, "home"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(u.Home, 0o700); err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	if r.Root {
		if err := os.Chown(u.Home, int(u.UID), int(u.GID)); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
	}
	return u, nil
}

// number reads a uid or gid; the system's own answers are always numbers.
func number(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		panic("uid or gid " + s)
	}
	return uint32(n)
}

// accounts are those in use by the rigs of this process, which may run side by
// side: one that was made here goes with the last of them.
var accounts = struct {
	sync.Mutex
	uses map[string]int
	made map[string]bool
}{uses: map[string]int{}, made: map[string]bool{}}

// borrow uses an account of the machine until Close, and makes it if need be.
func (r *Rig) borrow(ctx context.Context, name string) (*user.User, error) {
	accounts.Lock()
	defer accounts.Unlock()
	account, err := user.Lookup(name)
	if errors.As(err, new(user.UnknownUserError)) {
		if err = run(ctx, "useradd", "--no-create-home", "--home-dir", r.Path("home", name), "--shell", "/bin/sh", "--user-group", name); err == nil {
			accounts.made[name] = true
			account, err = user.Lookup(name)
		}
	}
	if err != nil {
		return nil, err
	}
	accounts.uses[name]++
	r.Defer(func() error { return giveUp(name) })
	return account, nil
}

func giveUp(name string) error {
	accounts.Lock()
	defer accounts.Unlock()
	if accounts.uses[name]--; accounts.uses[name] > 0 || !accounts.made[name] {
		return nil
	}
	delete(accounts.made, name)
	// Forced: a process of the same uid that is not ours is no reason to keep it.
	return run(context.Background(), "userdel", "--force", name)
}

// CopyTo copies a file to a path of the user's, owned by the user.
func (r *Rig) CopyTo(u *User, from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return r.WriteTo(u, to, string(data))
}

// WriteTo writes a file of the user's, with the mode of a script.
func (r *Rig) WriteTo(u *User, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	if !r.Root {
		return nil
	}
	if err := os.Chown(path, int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// String shows a result in a test's message.
func (c Result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", c.Code, c.Stdout, c.Stderr)
}

// Cmd is a command to run as a user.
type Cmd struct {
	User  *User
	Dir   string // "" is the user's home
	Env   []string
	Stdin io.Reader
}

// Run runs a program as the user and returns how it ended. The error says that
// it could not be run; an exit status is in the result. Names without a slash
// are looked for in bin/ first.
func (r *Rig) Run(ctx context.Context, c Cmd, argv ...string) (Result, error) {
	path := argv[0]
	if !strings.Contains(path, "/") {
		if own := filepath.Join(r.Bin, path); exists(own) {
			path = own
		} else if found, err := find(path); err == nil {
			path = found
		}
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &stdout, &stderr
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = c.User.Home
	}
	cmd.Env = append([]string{
		"PATH=" + r.Bin + ":/usr/bin:/bin", "HOME=" + c.User.Home, "USER=" + c.User.Name, "LOGNAME=" + c.User.Name,
		"SHELL=/bin/sh", "LANG=C.UTF-8",
	}, c.Env...)
	if r.Root {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}}
	}
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = nil
	}
	if err != nil {
		return result, fmt.Errorf("run %s: %w", argv[0], err)
	}
	return result, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
