package assoc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

var now = time.Unix(1_700_000_000, 0).UTC()

const cluster = "campus"

// fresh is the Book of a first start.
func fresh(t *testing.T) *assoc.Book {
	t.Helper()
	d := assoc.Empty().Draft(assoc.Person{User: "root", Level: assoc.LevelAdmin}, cluster, now)
	if err := d.Seed(cluster, []string{"gres/gpu"}); err != nil {
		t.Fatal(err)
	}
	return commit(t, assoc.Empty(), d)
}

// commit makes the next Book of a Draft's rows, as the queue does.
func commit(t *testing.T, b *assoc.Book, d *assoc.Draft) *assoc.Book {
	t.Helper()
	rows, err := d.Rows()
	if err != nil {
		t.Fatal(err)
	}
	next, err := b.Apply(rows)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// do makes an edit as somebody and returns what it said.
func do(t *testing.T, b *assoc.Book, by string, e assoc.Edit) (*assoc.Book, assoc.Result, error) {
	t.Helper()
	d := b.Draft(b.Person(by, by == "root"), cluster, now)
	r, err := d.Do(e)
	if err != nil {
		return b, r, err
	}
	return commit(t, b, d), r, nil
}

func must(t *testing.T, b *assoc.Book, list ...assoc.Edit) *assoc.Book {
	t.Helper()
	for _, e := range list {
		var err error
		if b, _, err = do(t, b, "root", e); err != nil {
			t.Fatalf("%s %s: %v", e.Op, e.Of, err)
		}
	}
	return b
}

func account(name, parent string, s assoc.Settings) assoc.Edit {
	if parent != "" {
		s.Parent = &parent
	}
	return assoc.Edit{Op: assoc.Add, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{name}}, Set: s}
}

func user(name string, accounts ...string) assoc.Edit {
	return assoc.Edit{Op: assoc.Add, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{name}, Accounts: accounts}}
}

// tree prints a Book's associations: lineage, default mark, effective QOS.
func tree(b *assoc.Book) string {
	var out []string
	for a := range b.Associations() {
		line := fmt.Sprintf("%d %s", a.ID, b.Lineage(a))
		if a.Default {
			line += " default"
		}
		out = append(out, line+" "+strings.Join(b.QOSNames(b.Effective(a).QOS), ","))
	}
	return strings.Join(out, "\n")
}

func TestFirstStart(t *testing.T) {
	t.Parallel()
	b := fresh(t)
	if got, want := tree(b), "1 / normal\n2 /0-root/ default normal"; got != want {
		t.Errorf("associations:\n%s\nwant:\n%s", got, want)
	}
	if got := b.Level("root"); got != assoc.LevelAdmin {
		t.Errorf("root's level is %s", got)
	}
	var ids []string
	for r := range b.AllTRES() {
		ids = append(ids, fmt.Sprintf("%d=%s", r.ID, r))
	}
	if got, want := strings.Join(ids, " "), "1=cpu 2=mem 3=energy 4=node 5=billing 6=fs/disk 7=vmem 8=pages 1001=gres/gpu"; got != want {
		t.Errorf("TRES %s, want %s", got, want)
	}
	// A second start changes nothing.
	d := b.Draft(assoc.Person{Level: assoc.LevelAdmin}, cluster, now)
	if err := d.Seed(cluster, []string{"gres/gpu"}); err != nil {
		t.Fatal(err)
	}
	if rows, _ := d.Rows(); len(rows) != 0 {
		t.Errorf("a second start writes %d rows", len(rows))
	}
}

func ptr[T any](v T) *T { return &v }

func TestTreeAndInheritance(t *testing.T) {
	t.Parallel()
	b := must(t, fresh(t),
		assoc.Edit{Op: assoc.Add, Of: assoc.KindQOS, Where: assoc.Filter{Names: []string{"high"}}},
		account("physics", "", assoc.Settings{Limits: assoc.LimitChange{
			Numbers: map[string]*uint32{"MaxJobs": ptr(uint32(3)), "GrpJobs": ptr(uint32(9))},
			Sets:    map[string]tres.TRES{"MaxTRES": {tres.CPU: 4, tres.Mem: 100}},
		}}),
		account("optics", "physics", assoc.Settings{QOS: &assoc.ListChange{Op: "=", Names: []string{"high"}}}),
		user("alice", "optics", "physics"),
	)
	want := "1 / normal\n2 /0-root/ default normal\n3 /physics/ normal\n6 /physics/0-alice/ normal\n4 /physics/optics/ high\n5 /physics/optics/0-alice/ default high"
	if got := tree(b); got != want {
		t.Errorf("associations:\n%s\nwant:\n%s", got, want)
	}
	a, ok := b.Find(cluster, "optics", "alice", "gpu")
	if !ok {
		t.Fatal("alice has no association")
	}
	e := b.Effective(a)
	if e.MaxJobs == nil || *e.MaxJobs != 3 || e.MaxTRES[tres.CPU] != 4 {
		t.Errorf("a user inherits MaxJobs and MaxTRES, got %v %v", e.MaxJobs, e.MaxTRES)
	}
	if e.GrpJobs != nil {
		t.Errorf("GrpJobs is the account's alone, got %d", *e.GrpJobs)
	}
	if org, _ := b.Account("optics"); org.Organization != "physics" || org.Description != "optics" {
		t.Errorf("a new account says %q of %q", org.Description, org.Organization)
	}
	// One resource is set and another cleared, the rest of the list stays.
	b = must(t, b, assoc.Edit{Op: assoc.Modify, Of: assoc.KindAssoc, Where: assoc.Filter{Accounts: []string{"physics"}, AccountsOnly: true},
		Set: assoc.Settings{Limits: assoc.LimitChange{
			Numbers: map[string]*uint32{"MaxJobs": nil}, Sets: map[string]tres.TRES{"MaxTRES": {tres.CPU: tres.Unlimited, tres.Node: 2}},
		}}})
	e = b.Effective(a)
	if e.MaxJobs != nil || e.MaxTRES.Limits() != "mem=100M,node=2" {
		t.Errorf("after the change: %v %s", e.MaxJobs, e.MaxTRES.Limits())
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	level := assoc.LevelOperator
	b := must(t, fresh(t), account("physics", "", assoc.Settings{}), account("optics", "physics", assoc.Settings{}), account("bio", "", assoc.Settings{}),
		user("alice", "physics", "bio"), user("carol", "physics"),
		assoc.Edit{Op: assoc.Add, Of: assoc.KindCoordinator, Where: assoc.Filter{Accounts: []string{"physics"}, Users: []string{"carol"}}},
	)
	for _, tt := range []struct {
		name, by string
		edit     assoc.Edit
		want     errno.Errno // Success: it is done
	}{
		{"a user adds no account", "alice", account("x", "", assoc.Settings{}), errno.AccessDenied},
		{"a coordinator adds below her account", "carol", account("x", "optics", assoc.Settings{}), errno.Success},
		{"but not beside it", "carol", account("x", "", assoc.Settings{}), errno.AccessDenied},
		{"nor users elsewhere", "carol", user("dave", "bio"), errno.AccessDenied},
		{"a coordinator adds users below", "carol", user("dave", "optics"), errno.Success},
		{"no parent", "root", account("x", "nowhere", assoc.Settings{}), errno.InvalidParentAccount},
		{"no cycle", "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"physics"}}, Set: assoc.Settings{Parent: ptr("optics")}}, errno.InvalidParentAccount},
		{"an account is not its own parent", "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"physics"}}, Set: assoc.Settings{Parent: ptr("physics")}}, errno.InvalidParentAccount},
		{"no unknown QOS", "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}}, Set: assoc.Settings{QOS: &assoc.ListChange{Op: "=", Names: []string{"gold"}}}}, errno.InvalidQOS},
		{"no QOS that preempts itself", "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindQOS, Where: assoc.Filter{Names: []string{"normal"}}, Set: assoc.Settings{Preempt: &assoc.ListChange{Op: "=", Names: []string{"normal"}}}}, errno.QOSPreemptionLoop},
		{"nobody lifts himself", "alice", assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}}, Set: assoc.Settings{Level: &level}}, errno.AccessDenied},
		{"one's own default account", "alice", assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}}, Set: assoc.Settings{DefaultAccount: ptr("bio")}}, errno.Success},
		{"not another's", "alice", assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"carol"}}, Set: assoc.Settings{DefaultAccount: ptr("physics")}}, errno.AccessDenied},
		{"not one without association", "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"carol"}}, Set: assoc.Settings{DefaultAccount: ptr("bio")}}, errno.InvalidAccount},
		{"the default account stays", "root", assoc.Edit{Op: assoc.Delete, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}, Accounts: []string{"physics"}}}, errno.NoRemoveDefaultAccount},
		{"another goes", "root", assoc.Edit{Op: assoc.Delete, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}, Accounts: []string{"bio"}}}, errno.Success},
		{"root stays", "root", assoc.Edit{Op: assoc.Delete, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"root"}}}, errno.AccessDenied},
		{"a user removes nothing", "alice", assoc.Edit{Op: assoc.Delete, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"carol"}}}, errno.AccessDenied},
		{"names have no blanks", "root", account("a b", "", assoc.Settings{}), errno.BadName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := tree(b)
			next, _, err := do(t, b, tt.by, tt.edit)
			if tt.want == errno.Success {
				if err != nil || tree(next) == before && tt.edit.Op != assoc.Modify {
					t.Errorf("not done: %v", err)
				}
				return
			}
			if got, _ := errno.Of(err); got != tt.want {
				t.Errorf("got %v (%d), want %v", err, got, tt.want)
			}
			if tree(b) != before {
				t.Errorf("a refused edit changed the Book")
			}
		})
	}
}

func TestRemoveKeepsJobs(t *testing.T) {
	t.Parallel()
	b := must(t, fresh(t), account("physics", "", assoc.Settings{}), user("alice", "physics"))
	d := b.Draft(b.Person("root", true), cluster, now)
	d.Jobs = func(p assoc.Place) []string {
		if p.User != "alice" {
			return nil
		}
		return []string{"JobID = 7 "}
	}
	_, err := d.Do(assoc.Edit{Op: assoc.Delete, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"physics"}}})
	var busy *assoc.ErrBusy
	if !errors.As(err, &busy) || len(busy.Jobs) != 1 {
		t.Errorf("removed an account with a job: %v", err)
	}
}

// Numbers are given once: what names a removed record must not name another.
func TestNumbersAreNotReused(t *testing.T) {
	t.Parallel()
	b := must(t, fresh(t), account("a", "", assoc.Settings{}))
	old, _ := b.At(assoc.Place{Cluster: cluster, Account: "a"})
	b = must(t, b, assoc.Edit{Op: assoc.Delete, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"a"}}}, account("b", "", assoc.Settings{}))
	fresh, _ := b.At(assoc.Place{Cluster: cluster, Account: "b"})
	if fresh.ID <= old.ID {
		t.Errorf("association %d after %d", fresh.ID, old.ID)
	}
}

func TestRename(t *testing.T) {
	t.Parallel()
	b := must(t, fresh(t), account("physics", "", assoc.Settings{}), user("alice", "physics"),
		assoc.Edit{Op: assoc.Add, Of: assoc.KindCoordinator, Where: assoc.Filter{Accounts: []string{"physics"}, Users: []string{"alice"}}},
		assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"alice"}}, Set: assoc.Settings{NewName: ptr("alicia")}},
		assoc.Edit{Op: assoc.Modify, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"physics"}}, Set: assoc.Settings{NewName: ptr("fysik")}},
	)
	if got, want := tree(b), "1 / normal\n2 /0-root/ default normal\n3 /fysik/ normal\n4 /fysik/0-alicia/ default normal"; got != want {
		t.Errorf("associations:\n%s\nwant:\n%s", got, want)
	}
	if got := b.Coordinators("fysik"); !got["alicia"] || len(got) != 1 {
		t.Errorf("coordinators %v", got)
	}
	if _, ok := b.User("alice"); ok {
		t.Error("alice is still there")
	}
}

func TestModifyNamesInheritors(t *testing.T) {
	t.Parallel()
	three := uint32(3)
	b := must(t, fresh(t), account("a", "", assoc.Settings{}), account("b", "a", assoc.Settings{}), user("u", "a", "b"),
		assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{"u"}, Accounts: []string{"b"}},
			Set: assoc.Settings{Limits: assoc.LimitChange{Numbers: map[string]*uint32{"MaxJobs": &three}}}})
	_, r, err := do(t, b, "root", assoc.Edit{Op: assoc.Modify, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{"a"}},
		Set: assoc.Settings{Limits: assoc.LimitChange{Numbers: map[string]*uint32{"MaxJobs": nil}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Assocs {
		got = append(got, p.Account+"/"+p.User)
	}
	// u in b has a MaxJobs of its own.
	if want := []string{"a/", "a/u", "b/"}; !slices.Equal(got, want) || r.Parents[0] != assoc.Root {
		t.Errorf("changed %v (of %v), want %v", got, r.Parents, want)
	}
}
