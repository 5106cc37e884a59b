package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// required are the fields without which Slurm refuses a record, in the order in
// which it finds them missing.
var required = map[string][]string{
	"accounts": {"description", "name", "organization"}, "associations": {"user"}, "users": {"name"},
	"wckeys": {"cluster", "name", "user"},
}

// readRecords reads a body that has to hold the given key. It answers by itself,
// and returns false, where it can't be used.
func (c *call) readRecords(key string, into wire.Target) bool {
	body, ok := c.body()
	if !ok {
		return false
	}
	if source, field := missing(body, key); field != "" {
		c.fail(errno.DataPathNotFound, "Missing required field '"+field+"' in dictionary", source)
		c.reply(nil)
		return false
	}
	return c.parse(body, into)
}

// missing finds the first required field that a body lacks; what is not JSON is
// left to the parser.
func missing(body []byte, key string) (source, field string) {
	var top map[string]json.RawMessage
	if len(body) > 0 && json.Unmarshal(body, &top) != nil {
		return "", ""
	}
	list, ok := top[key]
	if !ok {
		return "#/" + key + "/", key
	}
	var records []map[string]json.RawMessage
	if json.Unmarshal(list, &records) != nil {
		return "", ""
	}
	for i, r := range records {
		for _, f := range required[key] {
			if _, ok := r[f]; !ok {
				return fmt.Sprintf("#/%s[%d]/%s/", key, i, f), f
			}
		}
	}
	return "", ""
}

// edit makes edits and answers a refusal in Slurm's words for this request.
func (c *call) edit(edits []assoc.Edit, what, source string) ([]assoc.Result, bool) {
	out, err := c.s.cfg.Controller.EditRecords(c.r.Context(), c.who, edits, false)
	if err != nil {
		c.fail(err, what, source)
		return nil, false
	}
	return out, true
}

// told is a text that was given, nil for an empty one.
func told(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// change reads the limits that a record names.
func (r *records) change(numbers map[string]*wire.Num, sets map[string]*[]wire.TRES) assoc.LimitChange {
	c := assoc.LimitChange{Numbers: map[string]*uint32{}, Sets: map[string]tres.TRES{}}
	for name, n := range numbers {
		switch {
		case n.Infinite:
			c.Numbers[name] = nil
		case n.Set:
			v := uint32(min(max(n.Number, 0), 1<<32-3)) // Slurm's greatest number
			c.Numbers[name] = &v
		}
	}
	for name, list := range sets {
		if len(*list) == 0 {
			continue
		}
		t := tres.TRES{}
		for _, w := range *list {
			t[r.tresName(w)] = uint64(w.Count)
		}
		c.Sets[name] = t
	}
	return c
}

func (r *records) tresName(w wire.TRES) string {
	if w.Type == "" {
		for name, id := range r.tres {
			if id == w.ID {
				return name
			}
		}
	}
	t := assoc.TRES{Type: w.Type, Name: w.Name}
	return t.String()
}

func postAccounts(c *call) {
	var in wire.AccountsResp
	if !c.readRecords("accounts", &in) {
		return
	}
	if edits := accountEdits(c.records(), in.Accounts); len(edits) > 0 {
		c.edit(edits, "slurmdb_accounts_add() failed", "_foreach_update_acct")
	}
	c.reply(nil)
}

// accountEdits adds what isn't there and changes what is. An account added here
// gets a place below root, without which nobody could use it.
func accountEdits(r *records, list []wire.Account) []assoc.Edit {
	var edits []assoc.Edit
	for _, a := range list {
		e := assoc.Edit{Op: assoc.Add, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{a.Name}}}
		e.Set.Description, e.Set.Organization = told(a.Description), told(a.Organization)
		if slices.Contains(a.Flags, "UsersAreCoords") {
			on := true
			e.Set.UsersCoords = &on
		}
		if _, ok := r.Account(strings.ToLower(a.Name)); ok {
			e.Op = assoc.Modify
		}
		edits = append(edits, e)
		for _, co := range a.Coordinators {
			if co.Direct {
				edits = append(edits, assoc.Edit{Op: assoc.Add, Of: assoc.KindCoordinator, Where: assoc.Filter{Accounts: []string{a.Name}, Users: []string{co.Name}}})
			}
		}
	}
	return edits
}

var levels = map[string]assoc.Level{"None": assoc.LevelNone, "Operator": assoc.LevelOperator, "Administrator": assoc.LevelAdmin}

// levelOf is the level that an API's list names, nil for none.
func levelOf(list []string) *assoc.Level {
	for _, w := range list {
		if l, ok := levels[w]; ok {
			return &l
		}
	}
	return nil
}

func postUsers(c *call) {
	var in wire.UsersResp
	if !c.readRecords("users", &in) {
		return
	}
	edits, ok := c.userEdits(c.records(), in.Users)
	if ok && len(edits) > 0 {
		c.edit(edits, "slurmdb_users_add() failed", "_foreach_update_user")
	}
	c.reply(nil)
}

func (c *call) userEdits(r *records, list []wire.User) ([]assoc.Edit, bool) {
	var edits []assoc.Edit
	for _, u := range list {
		e := assoc.Edit{Op: assoc.Modify, Of: assoc.KindUser, Where: assoc.Filter{Users: []string{u.Name}}}
		e.Set.Level, e.Set.DefaultWCKey = levelOf(u.AdministratorLevel), told(u.Default.Wckey)
		// A default account without an association is kept from taking effect,
		// which Slurm says nothing of.
		if len(r.Select(assoc.Filter{Users: []string{u.Name}, Accounts: []string{u.Default.Account}})) > 0 {
			e.Set.DefaultAccount = told(u.Default.Account)
		}
		_, known := r.User(u.Name)
		switch {
		case u.OldName != "":
			if _, ok := r.User(u.OldName); !ok {
				c.fail(errno.UserIDMissing, "Unable to rename non-existent user "+u.OldName+" to "+u.Name, "_foreach_update_user")
				return nil, false
			}
			e.Where.Users, e.Set.NewName = []string{u.OldName}, told(u.Name)
		case !known:
			e.Op, e.Of = assoc.Add, assoc.KindUserAlone
		}
		edits = append(edits, e)
	}
	return edits, true
}

func postAssociations(c *call) {
	var in wire.AssocsResp
	if !c.readRecords("associations", &in) {
		return
	}
	if edits := assocEdits(c.records(), in.Associations); len(edits) > 0 {
		c.edit(edits, "slurmdb_associations_add() failed", "_foreach_update_assoc")
	}
	c.reply(nil)
}

func assocEdits(r *records, list []wire.Assoc) []assoc.Edit {
	var edits []assoc.Edit
	for i := range list {
		a := &list[i]
		home := a.Cluster
		if home == "" {
			home = r.s.Config.ClusterName
		}
		f := assoc.Filter{Clusters: []string{home}, Accounts: []string{a.Account}}
		set := assoc.Settings{
			Comment: told(a.Comment), Parent: told(a.ParentAccount), DefaultQOS: told(a.Default.QOS),
			Limits: r.change(assocNumbers(a), assocSets(a)),
		}
		if a.SharesRaw > 0 {
			v := uint32(a.SharesRaw)
			set.Shares = &v
		}
		if a.QOS != nil {
			set.QOS = &assoc.ListChange{Op: "=", Names: a.QOS}
		}
		_, there := r.At(assoc.Place{Cluster: home, Account: a.Account, User: a.User, Partition: a.Partition})
		e := assoc.Edit{Op: assoc.Add, Of: assoc.KindAccount, Where: f, Set: set}
		switch {
		case a.User != "":
			e.Where.Users, e.Of, e.Set.Parent = []string{a.User}, assoc.KindUser, nil
			if a.Partition != "" {
				e.Where.Partitions = []string{a.Partition}
			}
			if a.IsDefault {
				e.Set.DefaultAccount = told(a.Account)
			}
		case a.Account == assoc.Root:
			e.Set.Parent = nil
		}
		if there {
			e.Op = assoc.Modify
			if a.User == "" {
				e.Where.AccountsOnly = true
				if e.Of = assoc.KindAssoc; e.Set.Parent != nil && sameParent(r, a, home) {
					e.Set.Parent = nil
				}
			}
		}
		edits = append(edits, e)
	}
	return edits
}

func sameParent(r *records, a *wire.Assoc, cluster string) bool {
	as, _ := r.At(assoc.Place{Cluster: cluster, Account: a.Account})
	p, ok := r.Assoc(as.Parent)
	return ok && p.Account == a.ParentAccount
}

func postQOS(c *call) {
	var in wire.SlurmdbdQOSResp
	if !c.readRecords("qos", &in) {
		return
	}
	edits, ok := c.qosEdits(c.records(), in.QOS)
	if ok && len(edits) > 0 {
		c.edit(edits, "slurmdb_qos_add() failed", "_foreach_update_qos")
	}
	c.reply(nil)
}

func (c *call) qosEdits(r *records, list []wire.QOS) ([]assoc.Edit, bool) {
	var edits []assoc.Edit
	for i := range list {
		q := &list[i]
		if q.Name == "" {
			c.fail(errno.RESTInvalidQuery, "Cannot create a QOS without a name", "_foreach_update_qos")
			return nil, false
		}
		e := assoc.Edit{Op: assoc.Add, Of: assoc.KindQOS, Where: assoc.Filter{Names: []string{q.Name}}}
		if _, ok := r.QOSNamed(q.Name); ok {
			e.Op = assoc.Modify
		}
		e.Set = r.qosSettings(q)
		edits = append(edits, e)
	}
	return edits, true
}

func (r *records) qosSettings(q *wire.QOS) assoc.Settings {
	s := assoc.Settings{Description: told(q.Description), Limits: r.change(qosNumbers(q), qosSets(q))}
	if q.Flags != nil {
		s.Flags = &assoc.ListChange{Op: "="}
		for _, f := range assoc.Flags {
			if slices.Contains(q.Flags, f.Wire) {
				s.Flags.Names = append(s.Flags.Names, string(f.Flag))
			}
		}
		if slices.Contains(q.Flags, "ADD") {
			s.Flags.Op = "+"
		} else if slices.Contains(q.Flags, "REMOVE") {
			s.Flags.Op = "-"
		}
	}
	if q.Priority.Set {
		v := uint32(q.Priority.Number)
		s.Priority = &v
	}
	if q.Limits.GraceTime > 0 {
		v := uint32(q.Limits.GraceTime)
		s.GraceTime = &v
	}
	if q.Preempt.List != nil {
		s.Preempt = &assoc.ListChange{Op: "=", Names: q.Preempt.List}
	}
	if len(q.Preempt.Mode) > 0 {
		mode := strings.ToLower(q.Preempt.Mode[0])
		if mode == "disabled" {
			mode = ""
		}
		s.PreemptMode = &mode
	}
	if n := q.Preempt.ExemptTime; n.Given() {
		v := n.Or(-1)
		s.PreemptExempt = &v
	}
	s.UsageFactor, s.UsageThreshold, s.LimitFactor = realSetting(q.UsageFactor), realSetting(q.UsageThreshold), realSetting(q.Limits.Factor)
	return s
}

// realSetting is a number to set, -1 to clear it, nil where it wasn't given.
func realSetting(n wire.NumFloat) *float64 {
	v := n.Number
	switch {
	case n.Infinite:
		v = -1
	case !n.Set:
		return nil
	}
	return &v
}

func postWCKeys(c *call) {
	var in wire.WckeyResp
	if !c.readRecords("wckeys", &in) {
		return
	}
	if edits := wckeyEdits(in.Wckeys); len(edits) > 0 {
		c.edit(edits, "slurmdb_wckeys_add() failed", "update_wckeys")
	}
	c.reply(nil)
}

func wckeyEdits(list []wire.Wckey) []assoc.Edit {
	var edits []assoc.Edit
	for _, k := range list {
		edits = append(edits, assoc.Edit{Op: assoc.Add, Of: assoc.KindWCKey,
			Where: assoc.Filter{Names: []string{k.Name}, Users: []string{k.User}, Clusters: []string{k.Cluster}}})
	}
	return edits
}

func postClusters(c *call) {
	var in wire.ClustersResp
	if !c.readRecords("clusters", &in) {
		return
	}
	c.addClusters(in.Clusters)
	c.reply(nil)
}

func (c *call) addClusters(list []wire.ClusterRec) bool {
	const what, source = "slurmdb_clusters_add() failed", "update_clusters"
	var edits []assoc.Edit
	for _, cl := range list {
		if cl.Name == "" {
			c.fail(errno.Unspecified, what, source)
			return false
		}
		edits = append(edits, assoc.Edit{Op: assoc.Add, Of: assoc.KindCluster, Where: assoc.Filter{Names: []string{cl.Name}}})
	}
	_, ok := c.edit(edits, what, source)
	return ok
}

// postDBConfig answers POST /config: records of every kind, all or none.
func postDBConfig(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	var in wire.SlurmdbdConfigResp
	if !c.parse(body, &in) {
		return
	}
	r := c.records()
	var edits []assoc.Edit
	for _, cl := range in.Clusters {
		edits = append(edits, assoc.Edit{Op: assoc.Add, Of: assoc.KindCluster, Where: assoc.Filter{Names: []string{cl.Name}}})
	}
	qos, ok := c.qosEdits(r, in.QOS)
	users, known := c.userEdits(r, in.Users)
	if !ok || !known {
		c.reply(nil)
		return
	}
	edits = slices.Concat(edits, qos, accountEdits(r, in.Accounts), users, assocEdits(r, in.Associations), wckeyEdits(in.Wckeys))
	if len(edits) == 0 {
		c.fail(errno.EmptyList, "slurmdb_clusters_add() failed", "update_clusters")
		c.reply(nil)
		return
	}
	c.edit(edits, "slurmdb_config_set() failed", "_op_handler_config")
	c.reply(nil)
}
