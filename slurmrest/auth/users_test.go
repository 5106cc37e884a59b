package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// base is a getent that counts how often it is asked.
type base struct {
	mu    sync.Mutex
	asked []string
	fail  error
}

func (b *base) ask(_ context.Context, argv ...string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := strings.Join(argv, " ")
	b.asked = append(b.asked, q)
	if b.fail != nil {
		return "", b.fail
	}
	switch q {
	case "getent passwd -- alice", "getent passwd -- 1001":
		return "alice:x:1001:1000:Alice,,,:/home/alice:/bin/bash\n", nil
	case "getent initgroups -- alice":
		return "alice                 1000 50 27\n", nil
	case "getent group -- 50", "getent group -- staff":
		return "staff:x:50:alice\n", nil
	}
	return "", ErrUnknownUser
}

func TestUsers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := &base{}
	u := NewUsers(func() time.Time { return now })
	u.ask = b.ask
	want := Account{Name: "alice", UID: 1001, GID: 1000, Home: "/home/alice", Shell: "/bin/bash", Groups: []uint32{1000, 50, 27}}

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := u.ByName(context.Background(), "alice")
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
	if len(b.asked) != 2 {
		t.Fatalf("asked %v, want passwd and initgroups once", b.asked)
	}
	if got, err := u.ByUID(t.Context(), 1001); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("ByUID: %v %v", got, err)
	}
	// A number is no name, even where getent would take it for a uid.
	for _, name := range []string{"1001", "", "-s", "a:b", "carol"} {
		if _, err := u.ByName(t.Context(), name); !errors.Is(err, ErrUnknownUser) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if g := u.GroupName(t.Context(), 50); g != "staff" {
		t.Errorf("group 50 is %q", g)
	}
	if g, err := u.Group(t.Context(), "staff"); err != nil || g != 50 {
		t.Errorf("staff is %d, %v", g, err)
	}
	if _, err := u.Group(t.Context(), "nobodys"); !errors.Is(err, ErrUnknownUser) {
		t.Errorf("unknown group: %v", err)
	}
	if g := u.GroupName(t.Context(), 51); g != "51" {
		t.Errorf("group 51 is %q", g)
	}

	// After a minute it asks again; a failing database is not remembered.
	now = now.Add(keepAccount)
	b.fail = errors.New("ldap is away")
	if _, err := u.ByName(t.Context(), "alice"); err == nil || errors.Is(err, ErrUnknownUser) {
		t.Fatalf("error %v", err)
	}
	b.fail = nil
	if _, err := u.ByName(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
}

func TestUsersOfThisHost(t *testing.T) {
	t.Parallel()
	u := NewUsers(time.Now)
	root, err := u.ByUID(t.Context(), 0)
	if err != nil {
		t.Skip("no getent:", err)
	}
	if root.Name != "root" || !slices.Contains(root.Groups, 0) {
		t.Fatalf("%+v", root)
	}
	if _, err := u.ByName(t.Context(), "no-such-user-here"); !errors.Is(err, ErrUnknownUser) {
		t.Fatal(err)
	}
}
