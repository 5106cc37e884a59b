package assoc

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Place is where an association stands.
type Place struct{ Cluster, Account, User, Partition string }

// Book is all records at one moment. It is never changed; nil is not a Book.
type Book struct {
	clusters map[string]*Cluster
	accounts map[string]*Account
	users    map[string]*User
	assocs   map[ID]*Assoc
	qos      map[ID]*QOS
	wckeys   map[ID]*WCKey
	tres     map[ID]*TRES
	last     map[string]ID // the highest number given, by kind

	places map[Place]*Assoc
}

// Empty is a Book without records.
func Empty() *Book {
	return &Book{
		clusters: map[string]*Cluster{}, accounts: map[string]*Account{}, users: map[string]*User{},
		assocs: map[ID]*Assoc{}, qos: map[ID]*QOS{}, wckeys: map[ID]*WCKey{}, tres: map[ID]*TRES{},
		last: map[string]ID{}, places: map[Place]*Assoc{},
	}
}

func (b *Book) clone() *Book {
	return &Book{
		clusters: maps.Clone(b.clusters), accounts: maps.Clone(b.accounts), users: maps.Clone(b.users),
		assocs: maps.Clone(b.assocs), qos: maps.Clone(b.qos), wckeys: maps.Clone(b.wckeys), tres: maps.Clone(b.tres),
		last: maps.Clone(b.last), places: maps.Clone(b.places),
	}
}

func (a *Assoc) place() Place { return Place{a.Cluster, a.Account, a.User, a.Partition} }

// Cluster finds a cluster by name.
func (b *Book) Cluster(name string) (*Cluster, bool) { c, ok := b.clusters[name]; return c, ok }

// Account finds an account by name.
func (b *Book) Account(name string) (*Account, bool) { a, ok := b.accounts[name]; return a, ok }

// User finds a user by name.
func (b *Book) User(name string) (*User, bool) { u, ok := b.users[name]; return u, ok }

// Assoc finds an association by number.
func (b *Book) Assoc(id ID) (*Assoc, bool) { a, ok := b.assocs[id]; return a, ok }

// QOS finds a QOS by number.
func (b *Book) QOS(id ID) (*QOS, bool) { q, ok := b.qos[id]; return q, ok }

// At finds the association that stands at exactly this place.
func (b *Book) At(p Place) (*Assoc, bool) { a, ok := b.places[p]; return a, ok }

// Find is the association that a job's limits and usage belong to: the one for
// the partition, else the one for all partitions.
func (b *Book) Find(cluster, account, user, partition string) (*Assoc, bool) {
	if a, ok := b.places[Place{cluster, account, user, partition}]; ok {
		return a, true
	}
	a, ok := b.places[Place{Cluster: cluster, Account: account, User: user}]
	return a, ok
}

// QOSNamed finds a QOS by name.
func (b *Book) QOSNamed(name string) (*QOS, bool) {
	for _, q := range b.qos {
		if strings.EqualFold(q.Name, name) {
			return q, true
		}
	}
	return nil, false
}

// DefaultAccount is the account of a user's jobs without -A, "" where the user
// has none in this cluster.
func (b *Book) DefaultAccount(cluster, user string) string {
	for _, a := range b.assocs {
		if a.Default && a.User == user && a.Cluster == cluster {
			return a.Account
		}
	}
	return ""
}

func sorted[K cmp.Ordered, V any](m map[K]*V) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[k]) {
				return
			}
		}
	}
}

// Clusters walks the clusters by name.
func (b *Book) Clusters() iter.Seq[*Cluster] { return sorted(b.clusters) }

// Accounts walks the accounts by name.
func (b *Book) Accounts() iter.Seq[*Account] { return sorted(b.accounts) }

// Users walks the users by name.
func (b *Book) Users() iter.Seq[*User] { return sorted(b.users) }

// AllQOS walks the QOS by number.
func (b *Book) AllQOS() iter.Seq[*QOS] { return sorted(b.qos) }

// WCKeys walks the wckeys by number.
func (b *Book) WCKeys() iter.Seq[*WCKey] { return sorted(b.wckeys) }

// AllTRES walks the TRES by number.
func (b *Book) AllTRES() iter.Seq[*TRES] { return sorted(b.tres) }

// TRESID is the number of a TRES, 0 where it is not tracked.
func (b *Book) TRESID(name string) ID {
	for id, t := range b.tres {
		if t.String() == name {
			return id
		}
	}
	return 0
}

// Lineage is the way to an association from the root, Slurm's own text: users
// are marked with "0-", so that they come before sub-accounts.
func (b *Book) Lineage(a *Assoc) string {
	if a.Parent == 0 && a.User == "" {
		return "/"
	}
	if a.User == "" {
		return b.parentLineage(a) + a.Account + "/"
	}
	out := b.parentLineage(a) + "0-" + a.User + "/"
	if a.Partition != "" {
		out += a.Partition + "/"
	}
	return out
}

func (b *Book) parentLineage(a *Assoc) string {
	if p, ok := b.assocs[a.Parent]; ok {
		return b.Lineage(p)
	}
	return "/"
}

// Associations walks the trees in the order in which Slurm lists them: cluster
// by cluster, an account, its users, then its sub-accounts.
func (b *Book) Associations() iter.Seq[*Assoc] {
	type entry struct {
		cluster, lineage string
		a                *Assoc
	}
	list := make([]entry, 0, len(b.assocs))
	for _, a := range b.assocs {
		list = append(list, entry{a.Cluster, b.Lineage(a), a})
	}
	slices.SortFunc(list, func(x, y entry) int {
		return cmp.Or(strings.Compare(x.cluster, y.cluster), strings.Compare(x.lineage, y.lineage))
	})
	return func(yield func(*Assoc) bool) {
		for _, e := range list {
			if !yield(e.a) {
				return
			}
		}
	}
}

// Effective is a copy of an association with what it inherits filled in: QOS,
// default QOS and the limits that go down the tree.
func (b *Book) Effective(a *Assoc) *Assoc {
	out := *a
	for p, ok := b.assocs[a.Parent]; ok; p, ok = b.assocs[p.Parent] {
		out.inherit(&p.Limits)
		if out.QOS == nil {
			out.QOS = p.QOS
		}
		if out.DefaultQOS == 0 {
			out.DefaultQOS = p.DefaultQOS
		}
	}
	return &out
}

// Under reports whether a stands below (or is) the account in its cluster.
func (b *Book) Under(a *Assoc, account string) bool {
	for ok := true; ok; a, ok = b.assocs[a.Parent] {
		if a.Account == account {
			return true
		}
	}
	return false
}

// Level is how far a user reaches.
func (b *Book) Level(user string) Level {
	if u, ok := b.users[user]; ok {
		return u.Level
	}
	return LevelNone
}

// Coordinates lists the accounts a user coordinates: true for those named to
// them, false for the ones below.
func (b *Book) Coordinates(user string) map[string]bool {
	out := map[string]bool{}
	for _, a := range b.accounts {
		if slices.Contains(a.Coordinators, user) {
			out[a.Name] = true
		}
	}
	if len(out) == 0 {
		return out
	}
	for _, a := range b.assocs {
		if _, ok := out[a.Account]; ok || a.User != "" {
			continue
		}
		for p, ok := b.assocs[a.Parent]; ok; p, ok = b.assocs[p.Parent] {
			if out[p.Account] {
				out[a.Account] = false
				break
			}
		}
	}
	return out
}

// Coordinators lists who coordinates an account, by name: true for those named
// to it, false for those of an account above.
func (b *Book) Coordinators(account string) map[string]bool {
	out := map[string]bool{}
	for _, a := range b.assocs {
		if a.Account != account || a.User != "" {
			continue
		}
		for p, ok := b.assocs[a.ID]; ok; p, ok = b.assocs[p.Parent] {
			if acct, ok := b.accounts[p.Account]; ok {
				for _, u := range acct.Coordinators {
					out[u] = out[u] || p.Account == account
				}
			}
		}
	}
	return out
}
