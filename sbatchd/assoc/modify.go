package assoc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

func (d *Draft) modifyClusters(e Edit) (Result, error) {
	e.Where.Clusters, e.Where.Accounts, e.Where.AccountsOnly = e.Where.Names, []string{Root}, true
	return d.modifyAssocs(e)
}

// accountsOf are the accounts that a filter selects, by name.
func (b *Book) accountsOf(f Filter) []*Account {
	var out []*Account
	for a := range b.Accounts() {
		if among(f.Accounts, a.Name) && among(f.Descriptions, a.Description) && among(f.Organizations, a.Organization) {
			out = append(out, a)
		}
	}
	return out
}

func (d *Draft) modifyAccounts(e Edit) (r Result, err error) {
	s := e.Set
	if s.Description != nil || s.Organization != nil || s.NewName != nil || s.UsersCoords != nil || s.Coordinators != nil {
		if err := d.modifyAccountRows(&r, e); err != nil {
			return r, err
		}
	}
	if !s.assoc() {
		return r, nil
	}
	e.Where.AccountsOnly = true
	if len(e.Where.Descriptions)+len(e.Where.Organizations) > 0 {
		var list []string
		for _, a := range d.accountsOf(e.Where) {
			list = append(list, a.Name)
		}
		if len(list) == 0 {
			return r, nil
		}
		e.Where.Accounts = list
	}
	of, err := d.modifyAssocs(e)
	r.Assocs, r.Parents = of.Assocs, of.Parents
	return r, err
}

func (d *Draft) modifyAccountRows(r *Result, e Edit) error {
	if err := d.operator(); err != nil {
		return err
	}
	list := d.accountsOf(e.Where)
	if e.Set.NewName != nil && len(list) > 1 {
		return problem(errno.OneChange, "%s", errno.OneChange.Error())
	}
	for _, a := range list {
		next := *a
		setAny(&next.Description, e.Set.Description)
		setAny(&next.Organization, e.Set.Organization)
		if e.Set.UsersCoords != nil {
			next.UsersCoords = *e.Set.UsersCoords
		}
		if c := e.Set.Coordinators; c != nil {
			next.Coordinators = slices.Sorted(slices.Values(c.Names))
		}
		if e.Set.NewName != nil {
			if err := d.renameAccount(&next, *e.Set.NewName); err != nil {
				return err
			}
		}
		d.setAccount(&next)
		d.txn("Modify Accounts", fmt.Sprintf("(name='%s')", a.Name), e.Set.info())
		r.Accounts = append(r.Accounts, a.Name)
	}
	return nil
}

// renameAccount gives an account another name, in its associations too.
func (d *Draft) renameAccount(a *Account, to string) error {
	list, err := names([]string{to})
	if err != nil {
		return err
	}
	if _, taken := d.accounts[list[0]]; taken || a.Name == Root {
		return problem(errno.BadName, "%s", errno.BadName.Error())
	}
	old := a.Name
	delete(d.accounts, old)
	d.mark(KindAccount, old)
	a.Name = list[0]
	for _, as := range d.Select(Filter{Accounts: []string{old}}) {
		next := *as
		next.Account = a.Name
		d.setAssoc(&next)
	}
	return nil
}

func setAny(to, from *string) {
	if from != nil {
		*to = *from
	}
}

// info is what a transaction says of a change.
func (s *Settings) info() string {
	var out []string
	text := func(key string, v *string) {
		if v != nil {
			out = append(out, fmt.Sprintf("%s='%s'", key, *v))
		}
	}
	text("description", s.Description)
	text("organization", s.Organization)
	text("name", s.NewName)
	text("parent_acct", s.Parent)
	text("def_qos_id", s.DefaultQOS)
	if s.Level != nil {
		out = append(out, fmt.Sprintf("admin_level=%d", *s.Level+1))
	}
	if s.Shares != nil {
		out = append(out, fmt.Sprintf("shares=%d", *s.Shares))
	}
	if s.Priority != nil {
		out = append(out, fmt.Sprintf("priority=%d", *s.Priority))
	}
	if s.QOS != nil {
		out = append(out, fmt.Sprintf("qos%s'%s'", s.QOS.Op, strings.Join(s.QOS.Names, ",")))
	}
	for _, n := range Numbers {
		if v, ok := s.Limits.Numbers[n.Name]; ok {
			if v == nil {
				out = append(out, n.column+"=NULL")
			} else {
				out = append(out, fmt.Sprintf("%s=%d", n.column, *v))
			}
		}
	}
	for _, set := range Sets {
		if v, ok := s.Limits.Sets[set.Name]; ok {
			out = append(out, fmt.Sprintf("%s='%s'", set.column, v.Limits()))
		}
	}
	return strings.Join(out, ", ")
}

func (d *Draft) modifyAssocs(e Edit) (r Result, err error) {
	list := d.Select(e.Where)
	if len(list) == 0 {
		return r, nil
	}
	for _, a := range list {
		if d.By.Level < LevelOperator && !d.over(a.Account) {
			return Result{}, problem(errno.AccessDenied, "%s", notOperator)
		}
		next := *a
		if e.Set.Parent != nil {
			if err := d.move(&next, strings.ToLower(*e.Set.Parent)); err != nil {
				return r, err
			}
		}
		if err := d.applyAssoc(&next, e.Set); err != nil {
			return r, err
		}
		d.setAssoc(&next)
		d.txn("Modify Associations", fmt.Sprintf("(id_assoc=%d)", next.ID), e.Set.info())
		r.assoc(d.Book, a) // under the name of its present parent
		if next.User == "" {
			d.inheritors(&r, &next, e.Set)
		}
	}
	return r, nil
}

// inheritors names the associations below that get the change as their own.
func (d *Draft) inheritors(r *Result, of *Assoc, s Settings) {
	for _, a := range d.Select(Filter{Clusters: []string{of.Cluster}}) {
		if a.ID == of.ID || !d.Under(a, of.Account) || !d.inherits(a, of, s) {
			continue
		}
		r.Assocs, r.Parents = append(r.Assocs, a.place()), append(r.Parents, "")
	}
}

// inherits reports whether nothing between a and of overrides the whole change.
func (d *Draft) inherits(a, of *Assoc, s Settings) bool {
	if s.Parent != nil {
		return true // everything may be another parent's now
	}
	free := map[string]bool{}
	for _, n := range Numbers {
		if _, ok := s.Limits.Numbers[n.Name]; ok && n.Inherited {
			free[n.Name] = true
		}
	}
	for _, set := range Sets {
		if _, ok := s.Limits.Sets[set.Name]; ok && set.Inherited {
			free[set.Name] = true
		}
	}
	free["qos"], free["default"] = s.QOS != nil, s.DefaultQOS != nil
	for p, ok := a, true; ok && p.ID != of.ID; p, ok = d.assocs[p.Parent] {
		for _, n := range Numbers {
			free[n.Name] = free[n.Name] && *n.Of(&p.Limits) == nil
		}
		for _, set := range Sets {
			free[set.Name] = free[set.Name] && len(*set.Of(&p.Limits)) == 0
		}
		free["qos"] = free["qos"] && p.QOS == nil
		free["default"] = free["default"] && p.DefaultQOS == 0
	}
	for _, ok := range free {
		if ok {
			return true
		}
	}
	return false
}

// move hangs an account below another; a tree stays a tree.
func (d *Draft) move(a *Assoc, parent string) error {
	p, ok := d.At(Place{Cluster: a.Cluster, Account: parent})
	switch {
	case !ok || a.User != "":
		return problem(errno.InvalidParentAccount, "%s", errno.InvalidParentAccount.Error())
	case a.Account == Root || d.Under(p, a.Account):
		return problem(errno.InvalidParentAccount,
			"Requested parent account %s is a child of %s on cluster %s. Please re-parent %s before using it as a parent.", parent, a.Account, a.Cluster, parent)
	}
	a.Parent = p.ID
	return nil
}

func (d *Draft) modifyUsers(e Edit) (r Result, err error) {
	s := e.Set
	if s.Level != nil || s.NewName != nil || s.DefaultWCKey != nil || s.DefaultAccount != nil {
		for _, u := range d.usersOf(e.Where) {
			if err := d.modifyUser(&r, u, e); err != nil {
				return r, err
			}
		}
	}
	if !s.assoc() {
		return r, nil
	}
	e.Where.UsersOnly = true
	of, err := d.modifyAssocs(e)
	r.Assocs, r.Parents = of.Assocs, of.Parents
	return r, err
}

func (d *Draft) modifyUser(r *Result, u *User, e Edit) error {
	s := e.Set
	if d.By.Level < LevelOperator && (s.Level != nil || s.NewName != nil || d.By.User != u.Name) {
		return problem(errno.AccessDenied, "%s", onlyDefaults)
	}
	next := *u
	if s.Level != nil {
		if err := d.maySetLevel(max(*s.Level, u.Level)); err != nil {
			return err
		}
		next.Level = *s.Level
	}
	setAny(&next.DefaultWCKey, s.DefaultWCKey)
	if s.NewName != nil {
		if err := d.renameUser(&next, *s.NewName); err != nil {
			return err
		}
	}
	if s.DefaultAccount != nil {
		clusters, err := d.clustersOf(e.Where)
		if err != nil {
			return err
		}
		for _, c := range clusters {
			list := d.Select(Filter{Clusters: []string{c}, Accounts: []string{*s.DefaultAccount}, Users: []string{next.Name}})
			if len(list) == 0 {
				return problem(errno.InvalidAccount,
					" Can't modify because these users aren't associated with new default account '%s'...\n  U = %s C = %s", *s.DefaultAccount, u.Name, c)
			}
			d.makeDefault(list[0])
		}
	}
	d.setUser(&next)
	d.txn("Modify Users", fmt.Sprintf("(name='%s')", u.Name), s.info())
	r.Users = append(r.Users, u.Name)
	return nil
}

func (d *Draft) renameUser(u *User, to string) error {
	list, err := names([]string{to})
	if err != nil {
		return err
	}
	if _, taken := d.users[list[0]]; taken {
		return problem(errno.BadName, "%s", errno.BadName.Error())
	}
	old := u.Name
	delete(d.users, old)
	d.mark(KindUser, old)
	u.Name = list[0]
	for _, a := range d.Select(Filter{Users: []string{old}}) {
		next := *a
		next.User = u.Name
		d.setAssoc(&next)
	}
	for w := range d.WCKeys() {
		if w.User == old {
			next := *w
			next.User = u.Name
			d.setWCKey(&next)
		}
	}
	for a := range d.Accounts() {
		if i := slices.Index(a.Coordinators, old); i >= 0 {
			next := *a
			next.Coordinators = slices.Clone(a.Coordinators)
			next.Coordinators[i] = u.Name
			slices.Sort(next.Coordinators)
			d.setAccount(&next)
		}
	}
	return nil
}

// usersOf are the users that a filter selects, by name.
func (b *Book) usersOf(f Filter) []*User {
	var out []*User
	placed := len(f.Accounts)+len(f.Clusters)+len(f.Partitions)+len(f.DefaultAccounts) > 0
	for u := range b.Users() {
		if !among(f.Users, u.Name) || len(f.Levels) > 0 && !slices.Contains(f.Levels, u.Level) ||
			len(f.DefaultWCKeys) > 0 && !among(f.DefaultWCKeys, u.DefaultWCKey) {
			continue
		}
		if placed && !slices.ContainsFunc(b.Select(Filter{Users: []string{u.Name}, Accounts: f.Accounts, Clusters: f.Clusters, Partitions: f.Partitions}),
			func(a *Assoc) bool {
				return len(f.DefaultAccounts) == 0 || a.Default && among(f.DefaultAccounts, a.Account)
			}) {
			continue
		}
		out = append(out, u)
	}
	return out
}
