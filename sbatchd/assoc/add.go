package assoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// names checks and lowers the names of what is added: Slurm keeps them in lower
// case and allows no blanks.
func names(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, n := range list {
		n = strings.ToLower(strings.TrimSpace(n))
		if n == "" || strings.ContainsAny(n, " \t\n'\"`,|=") {
			return nil, problem(errno.BadName, "%s", errno.BadName.Error())
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

func (d *Draft) addClusters(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	list, err := names(e.Where.Names)
	if err != nil {
		return r, err
	}
	for _, n := range list {
		if _, ok := d.clusters[n]; ok {
			r.note(" This cluster %s already exists.  Not adding.", n)
			continue
		}
		if err := d.newCluster(n, e.Set); err != nil {
			return r, err
		}
		r.Clusters = append(r.Clusters, n)
	}
	return r, nil
}

// newCluster adds a cluster with the root of its tree.
func (d *Draft) newCluster(name string, s Settings) error {
	d.setCluster(&Cluster{Name: name, Created: d.Now})
	d.txn("Add Clusters", name, "")
	root := &Assoc{ID: d.next(KindAssoc), Cluster: name, Account: Root, Shares: 1}
	if q, ok := d.QOSNamed("normal"); ok {
		root.QOS = []ID{q.ID}
	}
	return d.addAssoc(root, s)
}

// addAssoc lays the settings over a new association and puts it in its place.
func (d *Draft) addAssoc(a *Assoc, s Settings) error {
	if err := d.applyAssoc(a, s); err != nil {
		return err
	}
	d.setAssoc(a)
	d.txn("Add Associations", fmt.Sprintf("id_assoc=%d", a.ID), "")
	return nil
}

// applyAssoc lays settings over an association that is not in the Book yet or
// is a copy. Parent is not its matter.
func (d *Draft) applyAssoc(a *Assoc, s Settings) error {
	if s.Shares != nil {
		a.Shares = *s.Shares
	}
	if s.Comment != nil {
		a.Comment = *s.Comment
	}
	if s.QOS != nil {
		switch {
		case s.QOS.Op == "=" && len(s.QOS.Names) == 0:
			a.QOS = nil // inherit again
		default:
			ids, err := d.changeList(d.Effective(a).QOS, s.QOS)
			if err != nil {
				return err
			}
			if a.QOS = ids; len(ids) == 0 {
				a.QOS = nil
			}
		}
	}
	if s.DefaultQOS != nil {
		ids, err := d.qosIDs(strings.Fields(*s.DefaultQOS))
		if err != nil {
			return err
		}
		if a.DefaultQOS = 0; len(ids) > 0 {
			a.DefaultQOS = ids[0]
		}
	}
	s.Limits.apply(&a.Limits)
	return nil
}

func (d *Draft) addAccounts(e Edit) (r Result, err error) {
	parent := Root
	if e.Set.Parent != nil {
		parent = strings.ToLower(*e.Set.Parent)
	}
	if err := d.mayAddTo(parent); err != nil {
		return r, err
	}
	list, err := names(e.Where.Accounts)
	if err != nil {
		return r, err
	}
	clusters, err := d.clustersOf(e.Where)
	if err != nil {
		return r, err
	}
	for _, c := range clusters {
		if _, ok := d.At(Place{Cluster: c, Account: parent}); !ok {
			return r, problem(errno.InvalidParentAccount, "No parent account '%s' on cluster '%s'", parent, c)
		}
	}
	for _, n := range list {
		if _, ok := d.accounts[n]; !ok {
			a := &Account{Name: n, Description: n, Organization: n}
			if parent != Root {
				a.Organization = parent
			}
			setText(&a.Description, e.Set.Description)
			setText(&a.Organization, e.Set.Organization)
			a.UsersCoords = e.Set.UsersCoords != nil && *e.Set.UsersCoords
			d.setAccount(a)
			d.txn("Add Accounts", n, fmt.Sprintf("description='%s', organization='%s'", a.Description, a.Organization))
			r.Accounts = append(r.Accounts, n)
		}
		for _, c := range clusters {
			if _, ok := d.At(Place{Cluster: c, Account: n}); ok {
				r.note(" Already existing account %s on cluster %s", n, c)
				continue
			}
			p, _ := d.At(Place{Cluster: c, Account: parent}) // looked at above
			a := &Assoc{ID: d.next(KindAssoc), Cluster: c, Account: n, Parent: p.ID, Shares: 1}
			if err := d.addAssoc(a, e.Set); err != nil {
				return r, err
			}
			r.assoc(d.Book, a)
		}
	}
	return r, nil
}

func setText(to, from *string) {
	if from != nil && *from != "" {
		*to = *from
	}
}

func (d *Draft) addUsers(e Edit) (r Result, err error) {
	users, err := names(e.Where.Users)
	if err != nil {
		return r, err
	}
	clusters := e.Where.Clusters // an unknown one has no accounts
	if len(clusters) == 0 {
		clusters = []string{d.Home}
	}
	places, err := d.newPlaces(&r, users, clusters, e)
	if err != nil {
		return r, err
	}
	if len(places) == 0 && len(e.Where.WCKeys) == 0 {
		return r, nil
	}
	for _, u := range users {
		if err := d.addUser(&r, u, e.Set); err != nil {
			return r, err
		}
	}
	for _, p := range places {
		acct, _ := d.At(Place{Cluster: p.Cluster, Account: p.Account}) // newPlaces has seen it
		a := &Assoc{ID: d.next(KindAssoc), Cluster: p.Cluster, Account: p.Account, User: p.User, Partition: p.Partition, Parent: acct.ID, Shares: 1}
		if err := d.addAssoc(a, e.Set); err != nil {
			return r, err
		}
		wanted := e.Set.DefaultAccount != nil && strings.EqualFold(*e.Set.DefaultAccount, p.Account)
		if wanted || d.DefaultAccount(p.Cluster, p.User) == "" {
			d.makeDefault(a)
		}
		r.assoc(d.Book, a)
	}
	for _, c := range clusters {
		for _, u := range users {
			if err := d.addKeys(&r, e.Where.WCKeys, u, c); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// newPlaces are the places where users have no association yet.
func (d *Draft) newPlaces(r *Result, users, clusters []string, e Edit) ([]Place, error) {
	var out []Place
	parts := e.Where.Partitions
	if len(parts) == 0 {
		parts = []string{""}
	}
	for _, c := range clusters {
		for _, n := range e.Where.Accounts {
			n = strings.ToLower(n)
			if err := d.mayAddTo(n); err != nil {
				return nil, err
			}
			if _, ok := d.At(Place{Cluster: c, Account: n}); !ok {
				r.note("No account %s on cluster %s, skipping.", n, c)
				continue
			}
			for _, u := range users {
				for _, p := range parts {
					place := Place{Cluster: c, Account: n, User: u, Partition: p}
					if _, ok := d.At(place); !ok {
						out = append(out, place)
					}
				}
			}
		}
	}
	return out, nil
}

// addUsersAlone adds users who have no association yet.
func (d *Draft) addUsersAlone(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	users, err := names(e.Where.Users)
	if err != nil {
		return r, err
	}
	for _, u := range users {
		if err := d.addUser(&r, u, e.Set); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (d *Draft) addUser(r *Result, name string, s Settings) error {
	if _, ok := d.users[name]; ok {
		return nil
	}
	u := &User{Name: name}
	info := ""
	if s.Level != nil {
		if err := d.maySetLevel(*s.Level); err != nil && *s.Level != LevelNone {
			return err
		}
		u.Level = *s.Level
		info = fmt.Sprintf("admin_level=%d", u.Level+1)
	}
	setText(&u.DefaultWCKey, s.DefaultWCKey)
	d.setUser(u)
	d.txn("Add Users", name, info)
	r.Users = append(r.Users, name)
	return nil
}

// makeDefault makes an association its user's default in its cluster.
func (d *Draft) makeDefault(a *Assoc) {
	for _, o := range d.Select(Filter{Clusters: []string{a.Cluster}, Users: []string{a.User}}) {
		if want := o.Account == a.Account; o.Default != want {
			next := *o
			next.Default = want
			d.setAssoc(&next)
		}
	}
}

func (d *Draft) addKeys(r *Result, keys []string, user, cluster string) error {
	keys, err := names(keys)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if d.wckey(k, user, cluster) != nil {
			continue
		}
		w := &WCKey{ID: d.next(KindWCKey), Name: k, Cluster: cluster, User: user}
		d.setWCKey(w)
		d.txn("Add WCKeys", fmt.Sprintf("id_wckey=%d", w.ID), "")
		r.WCKeys = append(r.WCKeys, *w)
		if u := d.users[user]; u.DefaultWCKey == "" {
			next := *u
			next.DefaultWCKey = k
			d.setUser(&next)
		}
	}
	return nil
}

func (b *Book) wckey(name, user, cluster string) *WCKey {
	for _, w := range b.wckeys {
		if w.Name == name && w.User == user && w.Cluster == cluster {
			return w
		}
	}
	return nil
}

// addWCKeys adds keys to users that are known already.
func (d *Draft) addWCKeys(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	clusters, err := d.clustersOf(e.Where)
	if err != nil {
		return r, err
	}
	for _, c := range clusters {
		for _, u := range e.Where.Users {
			if _, ok := d.users[u]; !ok {
				return r, problem(errno.UserIDMissing, "%s", errno.UserIDMissing.Error())
			}
			if err := d.addKeys(&r, e.Where.Names, u, c); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func (d *Draft) addCoordinators(e Edit) (r Result, err error) {
	for _, n := range e.Where.Accounts {
		acct, ok := d.accounts[n]
		if !ok {
			return r, problem(errno.InvalidAccount, "%s", errno.InvalidAccount.Error())
		}
		if !d.over(n) {
			return r, problem(errno.AccessDenied, "%s", errno.AccessDenied.Error())
		}
		next := *acct
		for _, u := range e.Where.Users {
			if _, ok := d.users[u]; !ok {
				return r, problem(errno.UserIDMissing, "%s", errno.UserIDMissing.Error())
			}
			if slices.Contains(next.Coordinators, u) {
				continue
			}
			next.Coordinators = append(slices.Clone(next.Coordinators), u)
			d.txn("Add Account Coord", u, n)
			r.Coordinators = append(r.Coordinators, [2]string{u, n})
		}
		slices.SortFunc(next.Coordinators, cmp.Compare[string])
		d.setAccount(&next)
	}
	return r, nil
}
