package assoc

import (
	"fmt"
	"slices"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// busy refuses to take an association from under its jobs.
func (d *Draft) busy(list []*Assoc) error {
	if d.Jobs == nil {
		return nil
	}
	var e ErrBusy
	for _, a := range list {
		e.Jobs = append(e.Jobs, d.Jobs(a.place())...)
	}
	if len(e.Jobs) > 0 {
		return &e
	}
	return nil
}

// below are the associations under an account's, itself included, leaves last.
func (d *Draft) below(cluster, account string) []*Assoc {
	var out []*Assoc
	for _, a := range d.Select(Filter{Clusters: []string{cluster}}) {
		if d.Under(a, account) {
			out = append(out, a)
		}
	}
	return out
}

func (d *Draft) removeClusters(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	for _, n := range e.Where.Names {
		if _, ok := d.clusters[n]; !ok || n == d.Home {
			continue // one's own cluster is not removed from under oneself
		}
		for _, a := range d.Select(Filter{Clusters: []string{n}}) {
			d.dropAssoc(a)
		}
		delete(d.clusters, n)
		d.mark(KindCluster, n)
		d.txn("Remove Clusters", fmt.Sprintf("name='%s'", n), "")
		r.Clusters = append(r.Clusters, n)
	}
	return r, nil
}

func (d *Draft) removeAccounts(e Edit) (r Result, err error) {
	list := d.accountsOf(e.Where)
	if len(e.Where.Parents) > 0 || len(e.Where.Clusters) > 0 {
		list = slices.DeleteFunc(list, func(a *Account) bool {
			return len(d.Select(Filter{Accounts: []string{a.Name}, Clusters: e.Where.Clusters, Parents: e.Where.Parents, AccountsOnly: true})) == 0
		})
	}
	for _, a := range list {
		if a.Name == Root {
			return r, problem(errno.AccessDenied, " You are not allowed to remove the root account.\n Use remove cluster instead.")
		}
		if d.By.Level < LevelOperator && !d.over(a.Name) {
			return Result{}, problem(errno.AccessDenied, "%s", notOperator)
		}
		if err := d.removeAccount(&r, a, e.Where); err != nil {
			return r, err
		}
	}
	return r, nil
}

// removeAccount takes an account out of the clusters named (all, where none is)
// and, when it is in none any more, altogether.
func (d *Draft) removeAccount(r *Result, a *Account, f Filter) error {
	for c := range d.Clusters() {
		if !among(f.Clusters, c.Name) {
			continue
		}
		list := d.below(c.Name, a.Name)
		if err := d.busy(list); err != nil {
			return err
		}
		for _, as := range list {
			d.dropAssoc(as)
			if as.Default {
				d.anotherDefault(as)
			}
		}
	}
	if len(d.Select(Filter{Accounts: []string{a.Name}})) > 0 {
		return nil
	}
	delete(d.accounts, a.Name)
	d.mark(KindAccount, a.Name)
	d.txn("Remove Accounts", fmt.Sprintf("name in('%s')", a.Name), "")
	r.Accounts = append(r.Accounts, a.Name)
	return nil
}

// anotherDefault gives a user whose default association went another one.
func (d *Draft) anotherDefault(gone *Assoc) {
	if left := d.Select(Filter{Clusters: []string{gone.Cluster}, Users: []string{gone.User}}); len(left) > 0 {
		d.makeDefault(left[0])
	}
}

// removeUsers removes users or, where accounts, clusters or partitions are
// named, their associations there; a user without any goes too.
func (d *Draft) removeUsers(e Edit) (r Result, err error) {
	f := e.Where
	partly := len(f.Accounts)+len(f.Clusters)+len(f.Partitions) > 0
	if !partly {
		if err := d.operator(); err != nil {
			return r, err
		}
	}
	for _, u := range d.usersOf(f) {
		list := d.Select(Filter{Users: []string{u.Name}, Accounts: f.Accounts, Clusters: f.Clusters, Partitions: f.Partitions})
		if err := d.busy(list); err != nil {
			return r, err
		}
		for _, a := range list {
			if !d.over(a.Account) {
				return Result{}, problem(errno.AccessDenied, "%s", notOperator)
			}
			if err := d.keepsDefault(a, list); err != nil && partly {
				return r, err
			}
			d.dropAssoc(a)
			d.txn("Remove Associations", fmt.Sprintf("id_assoc=%d", a.ID), "")
			if partly {
				r.assoc(d.Book, a)
			}
		}
		if partly && len(d.Select(Filter{Users: []string{u.Name}})) > 0 {
			continue
		}
		d.removeUser(u)
		r.Users = append(r.Users, u.Name)
	}
	return r, nil
}

// keepsDefault refuses to take away a user's default account while others
// would be left.
func (d *Draft) keepsDefault(a *Assoc, going []*Assoc) error {
	if !a.Default {
		return nil
	}
	for _, o := range d.Select(Filter{Clusters: []string{a.Cluster}, Users: []string{a.User}}) {
		if !slices.Contains(going, o) {
			return problem(errno.NoRemoveDefaultAccount, "%s", errno.NoRemoveDefaultAccount.Error())
		}
	}
	return nil
}

func (d *Draft) removeUser(u *User) {
	for a := range d.Accounts() {
		if i := slices.Index(a.Coordinators, u.Name); i >= 0 {
			next := *a
			next.Coordinators = slices.Delete(slices.Clone(a.Coordinators), i, i+1)
			d.setAccount(&next)
		}
	}
	for w := range d.WCKeys() {
		if w.User == u.Name {
			delete(d.wckeys, w.ID)
			d.markID(KindWCKey, w.ID)
		}
	}
	delete(d.users, u.Name)
	d.mark(KindUser, u.Name)
	d.txn("Remove Users", fmt.Sprintf("name in('%s')", u.Name), "")
}

// removeAssocs removes associations by any filter; accounts' ones only when
// nothing hangs below.
func (d *Draft) removeAssocs(e Edit) (r Result, err error) {
	list := d.Select(e.Where)
	if err := d.busy(list); err != nil {
		return r, err
	}
	for _, a := range slices.Backward(list) {
		if !d.over(a.Account) {
			return Result{}, problem(errno.AccessDenied, "%s", notOperator)
		}
		if a.Parent == 0 {
			continue // a cluster keeps its root
		}
		if a.User == "" && len(d.below(a.Cluster, a.Account)) > 1 {
			return Result{}, problem(errno.InvalidParentAccount, "%s", errno.InvalidParentAccount.Error())
		}
		r.assoc(d.Book, a)
		d.dropAssoc(a)
		if a.Default {
			d.anotherDefault(a)
		}
		d.txn("Remove Associations", fmt.Sprintf("id_assoc=%d", a.ID), "")
	}
	slices.Reverse(r.Assocs)
	slices.Reverse(r.Parents)
	return r, nil
}

func (d *Draft) removeWCKeys(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	for w := range d.WCKeys() {
		f := e.Where
		if len(f.IDs) > 0 && !slices.Contains(f.IDs, w.ID) || !among(f.Names, w.Name) || !among(f.Users, w.User) || !among(f.Clusters, w.Cluster) {
			continue
		}
		delete(d.wckeys, w.ID)
		d.markID(KindWCKey, w.ID)
		d.txn("Remove WCKeys", fmt.Sprintf("id_wckey='%d'", w.ID), "")
		r.WCKeys = append(r.WCKeys, *w)
	}
	return r, nil
}

func (d *Draft) removeCoordinators(e Edit) (r Result, err error) {
	for a := range d.Accounts() {
		if !among(e.Where.Accounts, a.Name) {
			continue
		}
		for _, u := range slices.Clone(a.Coordinators) {
			if !among(e.Where.Users, u) {
				continue
			}
			if !d.over(a.Name) {
				return Result{}, problem(errno.AccessDenied, "%s", notOperator)
			}
			next := *d.accounts[a.Name]
			next.Coordinators = slices.DeleteFunc(slices.Clone(next.Coordinators), func(s string) bool { return s == u })
			d.setAccount(&next)
			d.txn("Remove Account Coordinators", fmt.Sprintf("(user='%s') && (acct='%s')", u, a.Name), "")
			r.Coordinators = append(r.Coordinators, [2]string{u, a.Name})
		}
	}
	return r, nil
}
