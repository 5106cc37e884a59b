package auth

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrUnknownUser means that the host's user database has no such user or group.
var ErrUnknownUser = errors.New("unknown user")

// Account is one entry of the host's user database.
type Account struct {
	Name     string
	UID, GID uint32
	Home     string
	Shell    string
	Groups   []uint32 // all groups, the primary one included
}

// Directory finds accounts. Errors are ErrUnknownUser or a failed look-up.
type Directory interface {
	ByName(ctx context.Context, name string) (Account, error)
	ByUID(ctx context.Context, uid uint32) (Account, error)
}

// How long answers of the user database are kept. Programs without cgo can't
// ask NSS themselves and a getent takes some milliseconds.
const (
	keepAccount = time.Minute
	keepUnknown = 5 * time.Second
	keepAtMost  = 10_000 // answers
	askTimeout  = 10 * time.Second
)

// Users asks the host's user database (files, LDAP, sssd, ...) through getent
// and keeps the answers for a minute. It is safe for concurrent use.
type Users struct {
	now func() time.Time
	ask func(ctx context.Context, argv ...string) (string, error)

	mu     sync.Mutex
	kept   map[string]answer // key: the question, "n:alice", "u:1000", "g:100"
	flight map[string]chan struct{}
}

type answer struct {
	account Account
	err     error
	until   time.Time
}

// NewUsers returns a Directory over getent; now gives the wall time.
func NewUsers(now func() time.Time) *Users {
	return &Users{now: now, ask: run, kept: map[string]answer{}, flight: map[string]chan struct{}{}}
}

// ByName finds an account by its login name.
func (u *Users) ByName(ctx context.Context, name string) (Account, error) {
	if !plausible(name) {
		return Account{}, fmt.Errorf("user %q: %w", name, ErrUnknownUser)
	}
	return u.get(ctx, "n:"+name, func(ctx context.Context) (Account, error) {
		a, err := u.passwd(ctx, name)
		if err == nil && a.Name != name {
			err = fmt.Errorf("user %q: %w", name, ErrUnknownUser) // getent took a number for a uid
		}
		return a, err
	})
}

// ByUID finds an account by its user id.
func (u *Users) ByUID(ctx context.Context, uid uint32) (Account, error) {
	id := strconv.FormatUint(uint64(uid), 10)
	return u.get(ctx, "u:"+id, func(ctx context.Context) (Account, error) { return u.passwd(ctx, id) })
}

// GroupName returns the name of a group, or its number in decimal where the
// host knows none.
func (u *Users) GroupName(ctx context.Context, gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	a, err := u.get(ctx, "g:"+id, func(ctx context.Context) (Account, error) {
		out, err := u.ask(ctx, "getent", "group", "--", id)
		if err != nil {
			return Account{}, err
		}
		name, _, _ := strings.Cut(out, ":")
		return Account{Name: name, GID: gid}, nil
	})
	if err != nil || a.Name == "" {
		return id
	}
	return a.Name
}

// Group finds the id of a group by its name.
func (u *Users) Group(ctx context.Context, name string) (uint32, error) {
	if !plausible(name) {
		return 0, fmt.Errorf("group %q: %w", name, ErrUnknownUser)
	}
	a, err := u.get(ctx, "G:"+name, func(ctx context.Context) (Account, error) {
		out, err := u.ask(ctx, "getent", "group", "--", name)
		if err != nil {
			return Account{}, fmt.Errorf("group %q: %w", name, err)
		}
		f := strings.Split(out, ":")
		if len(f) < 3 || f[0] != name {
			return Account{}, fmt.Errorf("group %q: %w", name, ErrUnknownUser)
		}
		gid, err := parseID(f[2])
		return Account{Name: name, GID: gid}, err
	})
	return a.GID, err
}

// Forget drops every kept answer, so that the next look-ups ask again.
func (u *Users) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.kept)
}

// get answers from what is kept, or asks; of callers with the same question
// one asks and the others wait for its answer.
func (u *Users) get(ctx context.Context, key string, ask func(context.Context) (Account, error)) (Account, error) {
	for {
		u.mu.Lock()
		if a, ok := u.kept[key]; ok && u.now().Before(a.until) {
			u.mu.Unlock()
			return a.account, a.err
		}
		wait, busy := u.flight[key]
		if !busy {
			break
		}
		u.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return Account{}, ctx.Err()
		}
	}
	done := make(chan struct{})
	u.flight[key] = done
	u.mu.Unlock()

	askCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	account, err := ask(askCtx)

	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.flight, key)
	close(done)
	switch {
	case err == nil:
		u.keep(key, answer{account: account, until: u.now().Add(keepAccount)})
	case errors.Is(err, ErrUnknownUser):
		u.keep(key, answer{err: err, until: u.now().Add(keepUnknown)})
	}
	return account, err
}

// keep stores an answer; a full table is emptied, which costs a few look-ups.
func (u *Users) keep(key string, a answer) {
	if len(u.kept) >= keepAtMost {
		clear(u.kept)
	}
	u.kept[key] = a
}

// passwd reads one line of the passwd database and the groups of its user.
func (u *Users) passwd(ctx context.Context, key string) (Account, error) {
	out, err := u.ask(ctx, "getent", "passwd", "--", key)
	if err != nil {
		return Account{}, fmt.Errorf("user %q: %w", key, err)
	}
	line, _, _ := strings.Cut(out, "\n")
	f := strings.Split(line, ":")
	if len(f) < 7 {
		return Account{}, fmt.Errorf("user %q: getent printed %q", key, line)
	}
	uid, errUID := parseID(f[2])
	gid, errGID := parseID(f[3])
	if err := errors.Join(errUID, errGID); err != nil {
		return Account{}, fmt.Errorf("user %q: %w", key, err)
	}
	a := Account{Name: f[0], UID: uid, GID: gid, Home: f[5], Shell: f[6], Groups: []uint32{gid}}
	more, err := u.groups(ctx, a.Name)
	if err != nil {
		return Account{}, fmt.Errorf("groups of %q: %w", a.Name, err)
	}
	for _, g := range more {
		if !slices.Contains(a.Groups, g) {
			a.Groups = append(a.Groups, g)
		}
	}
	return a, nil
}

// groups lists a user's groups: "getent initgroups alice" prints the name and
// then the numbers.
func (u *Users) groups(ctx context.Context, name string) ([]uint32, error) {
	out, err := u.ask(ctx, "getent", "initgroups", "--", name)
	if errors.Is(err, ErrUnknownUser) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := strings.Fields(out)
	var groups []uint32
	for _, s := range f[min(1, len(f)):] {
		g, err := parseID(s)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("id %q: %w", s, err)
	}
	return uint32(n), nil
}

// plausible keeps what can't be a login name away from getent.
func plausible(name string) bool {
	return name != "" && len(name) <= 256 && name[0] != '-' && !strings.ContainsAny(name, ":/\n\x00 ")
}

// notFound is getent's exit status when the key is in no database.
const notFound = 2

func run(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notFound {
		return "", ErrUnknownUser
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", argv[0], err)
	}
	return string(out), nil
}
