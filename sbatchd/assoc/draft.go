package assoc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Draft is a Book being changed by one person.
type Draft struct {
	*Book
	By   Person
	Now  time.Time
	Home string // the cluster meant where none is named
	// Jobs lists the jobs that wait or run under an association; nil knows none.
	Jobs func(Place) []string

	dirty []rowKey
	seen  map[rowKey]bool
	txns  []Txn
}

type rowKey struct {
	kind Kind
	key  string
}

// Person is who makes a change.
type Person struct {
	User        string
	Level       Level
	Coordinates map[string]bool // accounts, those below included
}

// Draft begins a change of the Book.
func (b *Book) Draft(by Person, home string, now time.Time) *Draft {
	return &Draft{Book: b.clone(), By: by, Home: home, Now: now, seen: map[rowKey]bool{}}
}

// Person is what the Book knows of a user; administrators of the system are
// administrators of accounting too.
func (b *Book) Person(user string, admin bool) Person {
	p := Person{User: user, Level: b.Level(user), Coordinates: b.Coordinates(user)}
	if admin {
		p.Level = LevelAdmin
	}
	return p
}

// Rows are the rows that changed, in the order of their first change.
func (d *Draft) Rows() ([]Row, error) {
	rows := make([]Row, 0, len(d.dirty))
	for _, k := range d.dirty {
		doc, err := d.doc(k)
		if err != nil {
			return nil, fmt.Errorf("record %s %s: %w", k.kind, k.key, err)
		}
		rows = append(rows, Row{Kind: k.kind, Key: k.key, Doc: doc})
	}
	return rows, nil
}

// Txns are the transactions of the change.
func (d *Draft) Txns() []Txn { return d.txns }

func (d *Draft) doc(k rowKey) (json.RawMessage, error) {
	id, _ := number(k.key) // 0 for a name, which is then not asked for
	switch k.kind {
	case KindCluster:
		return marshal(d.clusters, k.key)
	case KindAccount:
		return marshal(d.accounts, k.key)
	case KindUser:
		return marshal(d.users, k.key)
	case KindAssoc:
		return marshal(d.assocs, id)
	case KindQOS:
		return marshal(d.qos, id)
	case KindWCKey:
		return marshal(d.wckeys, id)
	case KindTRES:
		return marshal(d.tres, id)
	}
	return json.Marshal(d.last[k.key])
}

func marshal[K comparable, V any](m map[K]*V, key K) (json.RawMessage, error) {
	v, ok := m[key]
	if !ok {
		return nil, nil
	}
	return json.Marshal(v)
}

func (d *Draft) mark(kind Kind, key string) {
	k := rowKey{kind, key}
	if !d.seen[k] {
		d.seen[k] = true
		d.dirty = append(d.dirty, k)
	}
}

func (d *Draft) markID(kind Kind, id ID) { d.mark(kind, strconv.FormatUint(uint64(id), 10)) }

// next gives a number that was never given before.
func (d *Draft) next(kind Kind) ID {
	d.last[string(kind)]++
	d.mark(KindLast, string(kind))
	return d.last[string(kind)]
}

func (d *Draft) txn(action, where, info string) {
	d.txns = append(d.txns, Txn{Time: d.Now, Action: action, Actor: d.By.User, Where: where, Info: info})
}

func (d *Draft) setCluster(c *Cluster) { d.clusters[c.Name] = c; d.mark(KindCluster, c.Name) }
func (d *Draft) setAccount(a *Account) { d.accounts[a.Name] = a; d.mark(KindAccount, a.Name) }
func (d *Draft) setUser(u *User)       { d.users[u.Name] = u; d.mark(KindUser, u.Name) }
func (d *Draft) setQOS(q *QOS)         { d.qos[q.ID] = q; d.markID(KindQOS, q.ID) }
func (d *Draft) setWCKey(w *WCKey)     { d.wckeys[w.ID] = w; d.markID(KindWCKey, w.ID) }
func (d *Draft) setTRES(t *TRES)       { d.tres[t.ID] = t; d.markID(KindTRES, t.ID) }

func (d *Draft) setAssoc(a *Assoc) {
	if old, ok := d.assocs[a.ID]; ok {
		delete(d.places, old.place())
	}
	d.assocs[a.ID], d.places[a.place()] = a, a
	d.markID(KindAssoc, a.ID)
}

func (d *Draft) dropAssoc(a *Assoc) {
	delete(d.assocs, a.ID)
	delete(d.places, a.place())
	d.markID(KindAssoc, a.ID)
}

// clustersOf are the clusters an edit is about: those named, or home.
func (d *Draft) clustersOf(f Filter) ([]string, error) {
	if len(f.Clusters) == 0 {
		return []string{d.Home}, nil
	}
	for _, c := range f.Clusters {
		if _, ok := d.clusters[c]; !ok {
			return nil, problem(errno.InvalidClusterName, "This cluster '%s' doesn't exist.\n        Contact your admin to add it to accounting.", c)
		}
	}
	return f.Clusters, nil
}

// qosIDs turns names into numbers, sorted.
func (d *Draft) qosIDs(names []string) ([]ID, error) {
	ids := []ID{}
	for _, n := range names {
		q, ok := d.QOSNamed(n)
		if !ok {
			return nil, problem(errno.InvalidQOS, "%s", errno.InvalidQOS.Error())
		}
		if !slices.Contains(ids, q.ID) {
			ids = append(ids, q.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// changeList applies a change to a list of numbers.
func (d *Draft) changeList(have []ID, c *ListChange) ([]ID, error) {
	ids, err := d.qosIDs(c.Names)
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case "+":
		for _, id := range have {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
	case "-":
		ids = slices.DeleteFunc(slices.Clone(have), func(id ID) bool { return slices.Contains(ids, id) })
	}
	return ids, nil
}

// among reports whether a list is empty or holds a word, whatever its case.
func among(list []string, word string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, word) })
}

// Select lists the associations that a filter selects, in Slurm's order.
func (b *Book) Select(f Filter) []*Assoc {
	var out []*Assoc
	for a := range b.Associations() {
		if b.selects(f, a) {
			out = append(out, a)
		}
	}
	return out
}

func (b *Book) selects(f Filter, a *Assoc) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, a.ID),
		f.AccountsOnly && a.User != "", f.UsersOnly && a.User == "",
		!among(f.Clusters, a.Cluster), len(f.Users) > 0 && !among(f.Users, a.User),
		len(f.Partitions) > 0 && !among(f.Partitions, a.Partition), f.OnlyDefaults && !a.Default:
		return false
	}
	if !among(f.Accounts, a.Account) &&
		(!f.SubAccounts || !slices.ContainsFunc(f.Accounts, func(n string) bool { return b.Under(a, n) })) {
		return false
	}
	if len(f.Parents) > 0 {
		p, ok := b.assocs[a.Parent]
		if !ok || a.User != "" || !among(f.Parents, p.Account) {
			return false
		}
	}
	if len(f.QOS)+len(f.DefaultQOS) == 0 {
		return true
	}
	e := b.Effective(a)
	if len(f.DefaultQOS) > 0 && !among(f.DefaultQOS, b.qosName(e.DefaultQOS)) {
		return false
	}
	return len(f.QOS) == 0 || slices.ContainsFunc(e.QOS, func(id ID) bool { return among(f.QOS, b.qosName(id)) })
}

func (b *Book) qosName(id ID) string {
	if q, ok := b.qos[id]; ok {
		return q.Name
	}
	return ""
}

// QOSNames are the names of a list of numbers.
func (b *Book) QOSNames(ids []ID) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if n := b.qosName(id); n != "" {
			out = append(out, n)
		}
	}
	return out
}
