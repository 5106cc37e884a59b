package server

import (
	"errors"
	"fmt"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// removal answers DELETE of one kind of record.
func (c *call) removal(e assoc.Edit, key, what, source string, names func(assoc.Result) []string) {
	e.Op = assoc.Delete
	out, ok := c.edit([]assoc.Edit{e}, what, source)
	if !ok {
		c.reply(nil)
		return
	}
	list := names(out[0])
	if len(list) == 0 {
		c.notModified()
		return
	}
	c.strings(key, list)
}

// strings answers a list of names.
func (c *call) strings(key string, list []string) {
	c.reply(func(b []byte) []byte {
		b = append(append(append(b, '"'), key...), `":[`...)
		for i, s := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendString(b, s)
		}
		return append(b, ']', ',')
	})
}

func deleteAccount(c *call) {
	c.removal(assoc.Edit{Of: assoc.KindAccount, Where: assoc.Filter{Accounts: []string{mux.Vars(c.r)["account_name"]}}},
		"removed_accounts", "slurmdb_accounts_remove failed", "_delete_account", func(r assoc.Result) []string { return r.Accounts })
}

func deleteUser(c *call) {
	c.removal(assoc.Edit{Of: assoc.KindUser, Where: assoc.Filter{Users: []string{mux.Vars(c.r)["name"]}}},
		"removed_users", "slurmdb_users_remove failed", "_delete_user", func(r assoc.Result) []string { return r.Users })
}

func deleteQOS(c *call) {
	c.removal(assoc.Edit{Of: assoc.KindQOS, Where: assoc.Filter{Names: []string{mux.Vars(c.r)["qos"]}}},
		"removed_qos", "slurmdb_qos_remove failed", "_op_handler_qos", func(r assoc.Result) []string { return r.QOS })
}

func deleteCluster(c *call) {
	c.removal(assoc.Edit{Of: assoc.KindCluster, Where: assoc.Filter{Names: []string{mux.Vars(c.r)["cluster_name"]}}},
		"deleted_clusters", "slurmdb_clusters_remove failed", "_delete_cluster", func(r assoc.Result) []string { return r.Clusters })
}

func deleteWCKey(c *call) {
	id := mux.Vars(c.r)["id"]
	e := assoc.Edit{Op: assoc.Delete, Of: assoc.KindWCKey, Where: assoc.Filter{IDs: numbers(map[string][]string{"id": {id}}, "id")}}
	out, ok := c.edit([]assoc.Edit{e}, "slurmdb_wckeys_remove failed", "_delete_wckey")
	if !ok {
		c.reply(nil)
		return
	}
	list := []string{}
	for _, k := range out[0].WCKeys {
		list = append(list, fmt.Sprintf("C = %-10s W = %-20s U = %-9s", k.Cluster, k.Name, k.User))
	}
	if len(list) == 0 {
		c.warn("slurmdb_wckeys_remove() found nothing", "_delete_wckey")
	}
	c.strings("deleted_wckeys", list)
}

func deleteAssociations(c *call) { c.deleteAssocs(false) }

// deleteAssociation answers DELETE /association, which is for one.
func deleteAssociation(c *call) { c.deleteAssocs(true) }

func (c *call) deleteAssocs(single bool) {
	f := assocFilter(c.r.URL.Query())
	const what, source = "slurmdb_associations_remove failed", "_delete_assoc"
	if c.r.URL.RawQuery == "" {
		c.notModified() // all of them is nobody's wish
		return
	}
	if single && len(c.records().Select(f)) > 1 {
		c.fail(errno.DataAmbiguousQuery, "ambiguous request: More than 1 association would have been deleted.", source)
		c.reply(nil)
		return
	}
	c.removal(assoc.Edit{Of: assoc.KindAssoc, Where: f}, "removed_associations", what, source, func(r assoc.Result) []string {
		var out []string
		for i := range r.Assocs {
			out = append(out, assocLine(r, i))
		}
		return out
	})
}

// assocLine is how Slurm's database names an association it removed.
func assocLine(r assoc.Result, i int) string {
	p := r.Assocs[i]
	line := fmt.Sprintf("C = %-10s A = ", p.Cluster)
	switch {
	case p.User == "" && r.Parents[i] == "":
		return line + p.Account
	case p.User == "":
		return line + p.Account + " of " + r.Parents[i]
	case p.Partition != "":
		return line + fmt.Sprintf("%-10s U = %-9s P = %s", p.Account, p.User, p.Partition)
	}
	return line + fmt.Sprintf("%-10s U = %-9s", p.Account, p.User)
}

// detail is what a refusal says of itself beyond Slurm's number.
func detail(err error) string {
	var p *assoc.Problem
	if errors.As(err, &p) {
		return p.Text
	}
	return numberOf(err).Error()
}

// busyJobs are the jobs that keep records from being removed.
func busyJobs(err error) []string {
	var e *assoc.ErrBusy
	if errors.As(err, &e) {
		return e.Jobs
	}
	return nil
}
