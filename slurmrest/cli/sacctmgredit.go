package cli

import (
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// entityFor finds the kind of record that a change is about, or complains with
// the kinds there are.
func (m *manager) entityFor(args []string, verb, kinds string) (*entity, bool) {
	var en *entity
	if len(args) > 0 {
		en = entityOf([]entity{accountEntity(), clusterEntity(), coordEntity(), qosEntity(), userEntity()}, args[0])
	}
	if en == nil {
		if len(args) > 0 && (abbreviates(args[0], "Federation", 1) || abbreviates(args[0], "Resource", 1) || verb == "modify" && abbreviates(args[0], "Job", 1)) {
			m.complain(" Error with request: %s", errno.NotSupported)
			return nil, false
		}
		m.complain("No valid entity in %s command\nInput line must include %s", verb, kinds)
	}
	return en, en != nil
}

func (m *manager) add(args []string) {
	if !m.mayWrite() {
		return
	}
	en, ok := m.entityFor(args, "add", `"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"`)
	if !ok {
		return
	}
	s, ok := m.parse(args[1:], en, "add")
	if !ok {
		return
	}
	e := wire.AcctEdit{Op: "add", Of: en.of, Where: s.where, Set: s.set}
	if missing := nothingToAdd(en, s); missing != "" {
		m.complain("%s", missing)
		return
	}
	switch en.name {
	case "Account":
		m.addAccounts(e, s)
	case "User":
		m.addUsers(e, s)
	case "Coordinator":
		m.addCoordinators(e)
	default:
		m.addNamed(en, e, s)
	}
}

// nothingToAdd is what is lacking of an add.
func nothingToAdd(en *entity, s *spec) string {
	switch {
	case en.name == "Account" && len(s.where.Accounts) == 0:
		return " Need name of account to add."
	case en.name == "User" && len(s.where.Users) == 0:
		return " Need name of user to add."
	case en.name == "User" && len(s.where.Accounts)+len(s.where.WCKeys) == 0 && s.set.DefaultAccount == nil:
		return " Need name of account or wckey to add."
	case en.name == "QOS" && len(s.where.Names) == 0:
		return " Need name of qos to add."
	case en.name == "Cluster" && len(s.where.Names) == 0:
		return " Need name of cluster to add."
	case en.name == "Coordinator" && len(s.where.Users) == 0:
		return " You need to specify a user list here."
	case en.name == "Coordinator" && len(s.where.Accounts) == 0:
		return " You need to specify a account list here."
	}
	return ""
}

// settings are the lines that say what an add sets.
func (s *spec) lines() string {
	list := slices.Clone(s.printed)
	slices.SortStableFunc(list, func(a, b setting) int { return a.order - b.order })
	var b strings.Builder
	for _, l := range list {
		b.WriteString("  " + l.label + "= " + l.text + "\n")
	}
	return b.String()
}

func (m *manager) addAccounts(e wire.AcctEdit, s *spec) {
	a, ok := m.edit(true, e)
	if !ok {
		return
	}
	if a.Error != "" {
		m.complain(" error: %s", m.addRefusal(a))
		return
	}
	r := a.Results[0]
	if r.Text == "" {
		m.complain("%s", or(strings.Join(r.Notes, "\n"), " Nothing new added."))
		return
	}
	m.e.printf("%s", r.Text)
	if s.settings > 0 {
		m.e.printf(" Settings\n%s", s.lines())
	}
	m.commit(e)
}

// addRefusal is why nothing can be added, in the words of slurmdbd.
func (m *manager) addRefusal(a wire.AcctAnswer) string {
	if a.Error == "" {
		return errno.Errno(a.Number).Error()
	}
	return a.Error
}

func (m *manager) addUsers(e wire.AcctEdit, s *spec) {
	if d := s.set.DefaultAccount; d != nil && !slices.Contains(e.Where.Accounts, strings.ToLower(*d)) {
		e.Where.Accounts = append(e.Where.Accounts, strings.ToLower(*d))
	}
	a, ok := m.edit(true, e)
	if !ok {
		return
	}
	if a.Error != "" {
		m.complain(" error: Problem adding user associations: %s", m.userRefusal(a))
		return
	}
	r := a.Results[0]
	if r.Text == "" {
		if len(r.Notes) == 0 {
			r.Notes = []string{"Request didn't affect anything"}
		}
		m.complain("%s\nNothing added.\nMake sure the accounts requested here have been added to the system/cluster. (sacctmgr add account...)", strings.Join(r.Notes, "\n"))
		return
	}
	for _, n := range r.Notes {
		m.e.rawf("%s", n)
	}
	m.e.printf("%s", r.Text)
	if lines := s.lines(); lines != "" {
		m.e.printf(" Non Default Settings\n%s", lines)
	}
	m.commit(e)
}

func (m *manager) userRefusal(a wire.AcctAnswer) string {
	sentence := errno.Errno(a.Number).Error()
	if a.Error == sentence {
		return sentence
	}
	return sentence + " (" + a.Error + ")"
}

func (m *manager) addCoordinators(e wire.AcctEdit) {
	a, ok := m.edit(true, e)
	if !ok {
		return
	}
	switch n := errno.Errno(a.Number); {
	case n == errno.InvalidAccount:
		m.complain(" You specified a non-existent account '%s'.", strings.Join(e.Where.Accounts, ","))
		return
	case n == errno.UserIDMissing:
		m.complain(" You specified a non-existent user '%s'.", strings.Join(e.Where.Users, ","))
		return
	case a.Error != "":
		m.complain(" Problem adding coordinator: %s", n)
	}
	m.e.printf(" Adding Coordinator User(s)\n  %s\n To Account(s) and all sub-accounts\n  %s\n", strings.Join(e.Where.Users, "\n  "), strings.Join(e.Where.Accounts, "\n  "))
	if a.Error == "" {
		m.commit(e)
	}
}

// addNamed adds QOS and clusters.
func (m *manager) addNamed(en *entity, e wire.AcctEdit, s *spec) {
	a, ok := m.edit(true, e)
	if !ok {
		return
	}
	if a.Error != "" {
		m.complain(" Problem adding %s: %s", en.name, errno.Errno(a.Number))
	}
	list := e.Where.Names
	if a.Error == "" {
		r := a.Results[0]
		list = append(r.QOS, r.Clusters...)
		for _, n := range r.Notes {
			m.complain("%s", n)
		}
		if len(list) == 0 {
			if len(r.Notes) == 0 {
				m.complain(" Nothing new added.")
			}
			return
		}
	}
	if en.name == "QOS" {
		descr := strings.Join(list, ",")
		if s.set.Description != nil {
			descr = *s.set.Description
		}
		m.e.printf(" Adding QOS(s)\n  %s\n Settings\n  Description    = %s\n%s", strings.Join(list, "\n  "), descr, s.lines())
	} else {
		m.e.printf(" Adding Cluster(s)\n  Name           = %s\n", strings.Join(list, "\n  Name           = "))
		if lines := s.lines(); lines != "" {
			m.e.printf(" Setting\n  Default Limits:\n%s", lines)
		}
	}
	if a.Error == "" {
		m.commit(e)
	}
}

func (m *manager) modify(args []string) {
	if !m.mayWrite() {
		return
	}
	en, ok := m.entityFor(args, "modify", `"Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"`)
	if !ok {
		return
	}
	s, ok := m.parse(args[1:], en, "where")
	switch {
	case !ok:
		return
	case s.settings == 0:
		m.complain(" You didn't give me anything to set")
		return
	}
	e := wire.AcctEdit{Op: "modify", Of: en.of, Where: s.where, Set: s.set}
	switch en.name {
	case "Account", "User":
		m.modifyPlaced(e, strings.ToLower(en.name))
	case "Cluster":
		m.modifyNamed(e, s, "cluster defaults for associations")
	default:
		m.modifyNamed(e, s, "qos")
	}
}

// modifyPlaced changes accounts or users, and then their associations, each with
// its own question, as sacctmgr does.
func (m *manager) modifyPlaced(e wire.AcctEdit, kind string) {
	own, placed := e, e
	own.Set = wire.AcctSettings{
		NewName: e.Set.NewName, Description: e.Set.Description, Organization: e.Set.Organization, Level: e.Set.Level,
		DefaultAccount: e.Set.DefaultAccount, DefaultWCKey: e.Set.DefaultWCKey, UsersCoords: e.Set.UsersCoords,
	}
	placed.Set.NewName, placed.Set.Description, placed.Set.Organization, placed.Set.Level = nil, nil, nil, nil
	placed.Set.DefaultAccount, placed.Set.DefaultWCKey, placed.Set.UsersCoords = nil, nil, nil
	if !own.Set.Empty() || e.Set.Empty() {
		m.change(own, kind+"s", func(r wire.AcctResult) []string { return append(r.Accounts, r.Users...) })
	}
	if !placed.Set.Empty() {
		m.change(placed, kind+" associations", func(r wire.AcctResult) []string { return r.Assocs })
	}
}

// change tries an edit, prints what it would change and makes it.
func (m *manager) change(e wire.AcctEdit, what string, names func(wire.AcctResult) []string) {
	a, ok := m.edit(true, e)
	if !ok {
		return
	}
	switch {
	case m.denied(a):
		m.e.printf(" Modified %s...\n", what)
		return
	case strings.HasPrefix(a.Error, "Requested parent account"):
		m.e.printf(" Modified %s...\n  %s\n", what, a.Error) // which Slurm takes for a success
		return
	case strings.HasPrefix(a.Error, " Can't modify"):
		m.e.printf(" Modified %s...\n", what)
		m.complain("%s", a.Error)
		return
	case a.Error != "":
		m.complain(" Error with request: %s", a.Error)
		return
	}
	m.e.printf(" Modified %s...\n", what)
	list := names(a.Results[0])
	if len(list) == 0 {
		m.complain("  Nothing modified")
		return
	}
	m.e.printf("  %s\n", strings.Join(list, "\n  "))
	m.commit(e)
}

// modifyNamed changes QOS and clusters' roots.
func (m *manager) modifyNamed(e wire.AcctEdit, s *spec, what string) {
	a, ok := m.edit(true, e)
	switch {
	case !ok, m.denied(a):
		return
	case a.Error != "":
		m.complain(" Error with request: %s", a.Error)
		return
	}
	list := append(a.Results[0].QOS, a.Results[0].Assocs...)
	if len(list) == 0 {
		m.complain("  Nothing modified")
		return
	}
	if e.Of == "cluster" {
		m.e.printf(" Setting\n  Default Limits:\n%s", s.lines())
	}
	m.e.printf(" Modified %s...\n  %s\n", what, strings.Join(list, "\n  "))
	m.commit(e)
}

func (m *manager) remove(args []string) {
	if !m.mayWrite() {
		return
	}
	en, ok := m.entityFor(args, "delete", `"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"`)
	if !ok {
		return
	}
	s, ok := m.parse(args[1:], en, "where")
	switch {
	case !ok:
		return
	case s.conditions == 0:
		m.complain(" No conditions given to remove, not executing.")
		return
	}
	e := wire.AcctEdit{Op: "delete", Of: en.of, Where: s.where}
	a, ok := m.edit(true, e)
	switch {
	case !ok:
		return
	case strings.HasPrefix(a.Error, " You are not allowed"):
		m.complain("%s", a.Error)
		return
	case m.denied(a):
		return
	case len(a.Jobs) > 0:
		m.complain(" Error with request: %s\n  %s", a.Error, strings.Join(a.Jobs, "\n  "))
		return
	case a.Error != "":
		m.complain(" Error with request: %s", a.Error)
		return
	}
	m.removed(en, e, a.Results[0])
}

// removed says what a delete takes away, and makes it.
func (m *manager) removed(en *entity, e wire.AcctEdit, r wire.AcctResult) {
	say := func(what string, list []string) { m.e.printf(" %s\n  %s\n", what, strings.Join(list, "\n  ")) }
	switch {
	case en.name == "Coordinator":
		m.e.printf(" Removing Coordinators with user name\n  %s\n From Account(s)\n  %s\n",
			strings.Join(e.Where.Users, "\n  "), strings.Join(e.Where.Accounts, "\n  "))
		if len(r.Coordinators) == 0 {
			m.complain(" Nothing removed")
			return
		}
		m.e.printf(" Removed Coordinators (sub accounts not listed)...\n")
		for _, p := range r.Coordinators {
			m.e.printf("  U = %-9s A = %-10s\n", p[0], p[1])
		}
	case len(r.Assocs) > 0:
		say("Deleting user associations...", r.Assocs)
		if len(r.Users) > 0 {
			say("Deleting users (No Associations)...", r.Users)
		}
	case len(r.Users) > 0:
		say("Deleting users...", r.Users)
	case len(r.Accounts) > 0:
		say("Deleting accounts...", r.Accounts)
	case len(r.QOS) > 0:
		say("Deleting QOS(s)...", r.QOS)
	case len(r.Clusters) > 0:
		say("Deleting clusters...", r.Clusters)
	case en.name == "QOS":
		m.complain("  Nothing deleted")
		return
	default:
		m.complain(" Nothing deleted")
		return
	}
	m.commit(e)
}
