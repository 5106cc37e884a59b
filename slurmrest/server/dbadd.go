package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// added is Slurm's text of what an add did; sacctmgr prints it, and so answer
// the requests that add associations of several accounts or users.
func added(e assoc.Edit, r assoc.Result) string {
	var b strings.Builder
	text := func(v *string, other string) string {
		if v == nil || *v == "" {
			return other
		}
		return *v
	}
	if len(r.Accounts) > 0 {
		fmt.Fprintf(&b, " Adding Account(s)\n  %s\n Settings\n  Description     = %s\n  Organization    = %s\n", strings.Join(r.Accounts, "\n  "),
			text(e.Set.Description, "Account Name"), text(e.Set.Organization, "Parent/Account Name"))
	}
	if len(r.Users) > 0 {
		fmt.Fprintf(&b, " Adding User(s)\n  %s\n Settings\n", strings.Join(r.Users, "\n  "))
		if d := text(e.Set.DefaultAccount, ""); d != "" {
			fmt.Fprintf(&b, "  Default Account = %s\n", d)
		}
		if d := text(e.Set.DefaultWCKey, ""); d != "" {
			fmt.Fprintf(&b, "  Default WCKey   = %s\n", d)
		}
		if e.Set.Level != nil {
			fmt.Fprintf(&b, "  Admin Level     = %s\n", e.Set.Level)
		}
	}
	if len(r.Assocs) > 0 {
		b.WriteString(" Associations =\n")
		for _, p := range r.Assocs {
			b.WriteString("  " + placeLine(p) + "\n")
		}
	}
	if len(r.WCKeys) > 0 {
		b.WriteString(" Wckey(s)\n")
		for _, k := range r.WCKeys {
			fmt.Fprintf(&b, "  C = %-10s W = %-10s U = %-9s\n", k.Cluster, k.Name, k.User)
		}
	}
	return b.String()
}

// placeLine is how an association that is added or changed is named.
func placeLine(p assoc.Place) string {
	line := fmt.Sprintf("C = %-10s A = %-20s", p.Cluster, p.Account)
	if p.User != "" {
		line += fmt.Sprintf(" U = %-9s", p.User)
	}
	if p.Partition != "" {
		line += " P = " + p.Partition
	}
	return line
}

// recSet reads the settings of new associations.
func (r *records) recSet(a *wire.AssocRecSet) assoc.Settings {
	s := assoc.Settings{Comment: told(a.Comment), DefaultQOS: told(a.Defaultqos), Parent: told(a.Parent)}
	if a.Fairshare > 0 {
		v := uint32(a.Fairshare)
		s.Shares = &v
	}
	if a.Qoslevel != nil {
		s.QOS = &assoc.ListChange{Op: "=", Names: a.Qoslevel}
	}
	s.Limits = r.change(map[string]*wire.Num{
		"GrpJobs": &a.Grpjobs, "GrpJobsAccrue": &a.Grpjobsaccrue, "GrpSubmitJobs": &a.Grpsubmitjobs, "GrpWall": &a.Grpwall,
		"MaxJobs": &a.Maxjobs, "MaxJobsAccrue": &a.Maxjobsaccrue, "MaxSubmitJobs": &a.Maxsubmitjobs, "MaxWall": &a.Maxwalldurationperjob,
		"MinPrioThresh": &a.Minpriothresh, "Priority": &a.Priority,
	}, map[string]*[]wire.TRES{
		"GrpTRES": &a.Grptres, "GrpTRESMins": &a.Grptresmins, "GrpTRESRunMins": &a.Grptresrunmins, "MaxTRES": &a.Maxtresperjob,
		"MaxTRESPerNode": &a.Maxtrespernode, "MaxTRESMins": &a.Maxtresminsperjob, "MaxTRESRunMins": &a.Maxtresrunmins,
	})
	return s
}

func postAccountsAssociation(c *call) {
	var in wire.AccountsAddCondResp
	if !c.readRecords("association_condition", &in) {
		return
	}
	cond := &in.AssociationCondition
	e := assoc.Edit{Op: assoc.Add, Of: assoc.KindAccount, Where: assoc.Filter{Accounts: cond.Accounts, Clusters: cond.Clusters}}
	e.Set = c.records().recSet(&cond.Association)
	e.Set.Description, e.Set.Organization = told(in.Account.Description), told(in.Account.Organization)
	c.addCondition(e, "added_accounts", func(string) (what, source string) {
		return "slurmdb_accounts_add_cond() failed", "_add_accounts_association"
	})
}

func postUsersAssociation(c *call) {
	var in wire.UsersAddCondResp
	if !c.readRecords("association_condition", &in) {
		return
	}
	cond := &in.AssociationCondition
	if len(cond.Accounts)+len(cond.Wckeys) == 0 {
		c.fail(errno.DataAmbiguousQuery, "Need name of account(s) or wckey(s) to add", "_add_users_association")
		c.reply(func(b []byte) []byte { return append(b, `"added_users":"",`...) })
		return
	}
	e := assoc.Edit{Op: assoc.Add, Of: assoc.KindUser, Where: assoc.Filter{
		Users: cond.Users, Accounts: cond.Accounts, Clusters: cond.Clusters, Partitions: cond.Partitions, WCKeys: cond.Wckeys,
	}}
	e.Set = c.records().recSet(&cond.Association)
	e.Set.Level, e.Set.DefaultAccount, e.Set.DefaultWCKey = levelOf(in.User.Adminlevel), told(in.User.Defaultaccount), told(in.User.Defaultwckey)
	c.addCondition(e, "added_users", func(why string) (what, source string) { return why, "slurmdb_users_add_cond" })
}

// addCondition makes an add and answers with its text; refused names a failure.
func (c *call) addCondition(e assoc.Edit, key string, refused func(why string) (what, source string)) {
	out, err := c.s.cfg.Controller.EditRecords(c.r.Context(), c.who, []assoc.Edit{e}, false)
	var text string
	switch {
	case err != nil:
		text = detail(err)
		what, source := refused(text)
		c.fail(err, what, source)
	default:
		if text = added(e, out[0]); text == "" {
			c.notModified()
			return
		}
	}
	c.reply(func(b []byte) []byte {
		b = append(append(append(b, '"'), key...), `":`...)
		return append(wire.AppendString(b, text), ',')
	})
}

// postJobModify answers POST of slurmdb's jobs: a record of a finished job is
// what was measured, and nothing of it can be changed here.
func postJobModify(c *call) {
	if _, ok := c.body(); ok {
		c.fail(errno.NotSupported, "", "slurmdb_job_modify()")
		c.reply(nil)
	}
}

// acctResult is what sacctmgr is told of an edit.
func acctResult(e assoc.Edit, r assoc.Result) wire.AcctResult {
	w := wire.AcctResult{Accounts: r.Accounts, Users: r.Users, QOS: r.QOS, Clusters: r.Clusters, Coordinators: r.Coordinators, Notes: r.Notes}
	if e.Op == assoc.Add {
		w.Text = added(e, r)
	}
	for i, p := range r.Assocs {
		switch {
		case e.Op == assoc.Delete:
			w.Assocs = append(w.Assocs, assocLine(r, i))
		case p.User == "" && (r.Parents[i] != "" || p.Account == assoc.Root):
			w.Assocs = append(w.Assocs, assocLine(r, i))
		default:
			w.Assocs = append(w.Assocs, placeLine(p))
		}
	}
	return w
}

// postAccounting answers sacctmgr's edits.
func postAccounting(c *call) {
	var in struct {
		Edits []assoc.Edit
		Dry   bool
	}
	if !c.json(&in) {
		return
	}
	out, err := c.s.cfg.Controller.EditRecords(c.r.Context(), c.who, in.Edits, in.Dry)
	var a wire.AcctAnswer
	for i, r := range out {
		a.Results = append(a.Results, acctResult(in.Edits[i], r))
	}
	if err != nil {
		a.Number, a.Error, a.Jobs = int64(numberOf(err)), detail(err), busyJobs(err)
	}
	c.answer(a)
}

// getTransactions answers sacctmgr show transaction.
func getTransactions(c *call) {
	q := c.r.URL.Query()
	query := store.TxnQuery{Actions: words(q, "action"), Actors: words(q, "actor")}
	for name, to := range map[string]*time.Time{"start": &query.Since, "end": &query.Until} {
		var err error
		if *to, err = timestamp(q.Get(name)); err != nil {
			c.refuse(errno.RESTInvalidQuery, err.Error(), "")
			return
		}
	}
	list, err := c.s.cfg.Controller.Transactions(c.r.Context(), query)
	if err != nil {
		c.refuse(err, "", "")
		return
	}
	var a wire.AcctTxns
	for _, t := range list {
		a.Transactions = append(a.Transactions, wire.AcctTxn(t))
	}
	c.answer(a)
}
