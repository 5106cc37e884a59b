package server

import (
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// words are the words of a query's comma list.
func words(q url.Values, name string) []string {
	var out []string
	for _, w := range strings.Split(strings.Join(q[name], ","), ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// numbers are the numbers of a query's comma list; what is none selects nothing.
func numbers(q url.Values, name string) []assoc.ID {
	var out []assoc.ID
	for _, w := range words(q, name) {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			n = 0
		}
		out = append(out, assoc.ID(n))
	}
	return out
}

// flag reads a boolean of a query. Slurm takes a text for one with a warning.
func (c *call) flag(q url.Values, name string) bool {
	if len(q[name]) > 0 && q.Get(name) != "" {
		c.warn(`Expected OpenAPI type=boolean (Slurm type=boolean) but got OpenAPI type=string (Slurm type=string): "`+q.Get(name)+`"`, "#/"+name+"/")
	}
	return flagSet(q, name)
}

// hides reports whether PrivateData keeps a word's records from the caller:
// each then sees what is his own.
func (c *call) hides(word string) bool {
	s := c.s.cfg.Controller.Snapshot()
	return c.who.Role == auth.Guest ||
		slices.Contains(s.Config.PrivateData, word) && c.who.Role != auth.Admin && s.Acct.Level(c.who.User) < assoc.LevelOperator
}

// found answers a list of records, with Slurm's warning where there are none.
func found[T any](c *call, key, schema, query, source string, list []*T, show func(*T) wire.Value) {
	if len(list) == 0 {
		c.warn(query+"() found nothing", source)
	}
	c.list(key, schema, each(list, show), nil)
}

func each[T any](list []*T, show func(*T) wire.Value) iter.Seq[wire.Value] {
	return func(yield func(wire.Value) bool) {
		for _, v := range list {
			if !yield(show(v)) {
				return
			}
		}
	}
}

// only keeps the records that match.
func only[T any](all iter.Seq[*T], match func(*T) bool) []*T {
	var out []*T
	for v := range all {
		if match(v) {
			out = append(out, v)
		}
	}
	return out
}

func getAccounts(c *call) {
	q := c.r.URL.Query()
	c.accounts("", words(q, "description"), c.flag(q, "WithAssociations"), c.flag(q, "WithCoordinators"))
}

func getAccount(c *call) {
	q := c.r.URL.Query()
	c.accounts(mux.Vars(c.r)["account_name"], nil, c.flag(q, "with_assocs"), c.flag(q, "with_coords"))
}

func (c *call) accounts(name string, descriptions []string, assocs, coords bool) {
	r, private := c.records(), c.hides("accounts")
	list := only(r.Accounts(), func(a *assoc.Account) bool {
		return (name == "" || a.Name == name) && (len(descriptions) == 0 || slices.Contains(descriptions, a.Description)) &&
			(!private || len(r.Select(assoc.Filter{Accounts: []string{a.Name}, Users: []string{c.who.User}})) > 0)
	})
	found(c, "accounts", "account", "slurmdb_accounts_get", "_dump_accounts", list,
		func(a *assoc.Account) wire.Value { return r.account(a, assocs, coords) })
}

func getUsers(c *call) {
	q := c.r.URL.Query()
	levels := words(q, "admin_level")
	accounts, keys := words(q, "default_account"), words(q, "default_wckey")
	r := c.records()
	c.users(r, func(u *assoc.User) bool {
		return (len(levels) == 0 || slices.Contains(levels, u.Level.String())) && (len(keys) == 0 || slices.Contains(keys, u.DefaultWCKey)) &&
			(len(accounts) == 0 || slices.Contains(accounts, r.DefaultAccount(r.s.Config.ClusterName, u.Name)))
	})
}

func getUser(c *call) {
	name := mux.Vars(c.r)["name"]
	c.users(c.records(), func(u *assoc.User) bool { return u.Name == name })
}

func (c *call) users(r *records, match func(*assoc.User) bool) {
	q := c.r.URL.Query()
	d := userDetail{assocs: c.flag(q, "with_assocs"), coords: c.flag(q, "with_coords"), wckeys: c.flag(q, "with_wckeys")}
	private := c.hides("users")
	list := only(r.Users(), func(u *assoc.User) bool { return match(u) && (!private || u.Name == c.who.User) })
	found(c, "users", "user", "slurmdb_users_get", "_dump_users", list, func(u *assoc.User) wire.Value { return r.user(u, d) })
}

// assocFilter reads the filter of associations.
func assocFilter(q url.Values) assoc.Filter {
	return assoc.Filter{
		Accounts: words(q, "account"), Clusters: words(q, "cluster"), DefaultQOS: words(q, "default_qos"),
		IDs: numbers(q, "id"), Parents: words(q, "parent_account"), Partitions: words(q, "partition"),
		QOS: words(q, "qos"), Users: words(q, "user"),
		OnlyDefaults: flagSet(q, "Filter to only defaults"), SubAccounts: flagSet(q, "Include sub acct information"),
	}
}

func getAssociations(c *call) { c.associations(false) }

// getAssociation answers GET /association, which is for one.
func getAssociation(c *call) { c.associations(true) }

func (c *call) associations(single bool) {
	q := c.r.URL.Query()
	r := c.records()
	f := assocFilter(q)
	list := r.Select(f)
	if c.hides("users") {
		list = slices.DeleteFunc(list, func(a *assoc.Assoc) bool { return a.User != c.who.User })
	}
	if single && len(list) > 1 {
		c.fail(errno.DataAmbiguousQuery, "Ambiguous request: More than 1 association would have been dumped.", "_dump_assoc_cond")
		c.reply(func(b []byte) []byte { return append(b, `"associations":[],`...) })
		return
	}
	own := flagSet(q, "Exclude limits from parents")
	found(c, "associations", "assoc", "slurmdb_associations_get", "_dump_assoc_cond", list,
		func(a *assoc.Assoc) wire.Value { return r.assoc(a, own) })
}

// getQOSes answers GET /qos. Its filter by name Slurm ignores.
func getQOSes(c *call) {
	q := c.r.URL.Query()
	ids, descriptions := numbers(q, "id"), words(q, "description")
	c.qos(func(q *assoc.QOS) bool {
		return (len(ids) == 0 || slices.Contains(ids, q.ID)) && (len(descriptions) == 0 || slices.Contains(descriptions, q.Description))
	}, "_dump_qos")
}

func getQOS(c *call) {
	name := mux.Vars(c.r)["qos"]
	c.qos(func(q *assoc.QOS) bool { return q.Name == name || strconv.Itoa(int(q.ID)) == name }, "_op_handler_qos")
}

func (c *call) qos(match func(*assoc.QOS) bool, source string) {
	r := c.records()
	found(c, "qos", "qos", "slurmdb_qos_get", source, only(r.AllQOS(), match), func(q *assoc.QOS) wire.Value { return r.qos(q) })
}

func getClusters(c *call) { c.clusters(func(*assoc.Cluster) bool { return true }) }

func getCluster(c *call) {
	name := mux.Vars(c.r)["cluster_name"]
	c.clusters(func(cl *assoc.Cluster) bool { return cl.Name == name })
}

func (c *call) clusters(match func(*assoc.Cluster) bool) {
	r := c.records()
	found(c, "clusters", "cluster_rec", "slurmdb_clusters_get", "_dump_clusters", only(r.Clusters(), match),
		func(cl *assoc.Cluster) wire.Value { return r.cluster(cl, c.s.cfg.Hostname) })
}

func getWCKeys(c *call) {
	q := c.r.URL.Query()
	clusters, names, users, ids := words(q, "cluster"), words(q, "name"), words(q, "user"), numbers(q, "id")
	c.wckeys(func(k *assoc.WCKey) bool {
		return (len(clusters) == 0 || slices.Contains(clusters, k.Cluster)) && (len(names) == 0 || slices.Contains(names, k.Name)) &&
			(len(users) == 0 || slices.Contains(users, k.User)) && (len(ids) == 0 || slices.Contains(ids, k.ID))
	})
}

func getWCKey(c *call) {
	id := mux.Vars(c.r)["id"]
	c.wckeys(func(k *assoc.WCKey) bool { return strconv.Itoa(int(k.ID)) == id })
}

func (c *call) wckeys(match func(*assoc.WCKey) bool) {
	private := c.hides("users")
	list := only(c.records().WCKeys(), func(k *assoc.WCKey) bool { return match(k) && (!private || k.User == c.who.User) })
	found(c, "wckeys", "wckey", "slurmdb_wckeys_get", "_dump_wckeys", list, func(k *assoc.WCKey) wire.Value { return wckey(k) })
}

func tresOf(t *assoc.TRES) wire.Value { return &wire.TRES{Type: t.Type, Name: t.Name, ID: int64(t.ID)} }

func getTRES(c *call) {
	found(c, "TRES", "tres", "slurmdb_tres_get", "_dump_tres", slices.Collect(c.records().AllTRES()), tresOf)
}

// postTRES answers POST /tres with Slurm's own refusal.
func postTRES(c *call) {
	if _, ok := c.body(); ok {
		c.fail(errno.NotSupported, "Updating TRES is not currently supported", "op_handler_tres")
		c.reply(nil)
	}
}

// getInstances answers GET /instances: Slurm's own clouds have none here, ours
// are in sburst pools.
func getInstances(c *call) {
	c.warn("slurmdb_instances_get() found nothing", "_dump_instance_cond")
	c.reply(nil)
}

// notModified is the answer to a change that changed nothing.
func (c *call) notModified() { c.w.WriteHeader(http.StatusNotModified) }

// getDBConfig answers GET /config: all records at once.
func getDBConfig(c *call) {
	r := c.records()
	write := func(b []byte, key, schema string, list iter.Seq[wire.Value]) []byte {
		b = append(append(append(b, '"'), key...), `":[`...)
		first := true
		for v := range list {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = c.record(b, schema, v)
		}
		return append(b, ']', ',')
	}
	all := userDetail{assocs: true, coords: true, wckeys: true}
	c.reply(func(b []byte) []byte {
		b = write(b, "clusters", "cluster_rec", each(slices.Collect(r.Clusters()), func(cl *assoc.Cluster) wire.Value { return r.cluster(cl, c.s.cfg.Hostname) }))
		b = write(b, "tres", "tres", each(slices.Collect(r.AllTRES()), tresOf))
		if !c.hides("accounts") {
			b = write(b, "accounts", "account", each(slices.Collect(r.Accounts()), func(a *assoc.Account) wire.Value { return r.account(a, true, true) }))
		}
		b = write(b, "qos", "qos", each(slices.Collect(r.AllQOS()), func(q *assoc.QOS) wire.Value { return r.qos(q) }))
		if !c.hides("users") {
			b = write(b, "users", "user", each(slices.Collect(r.Users()), func(u *assoc.User) wire.Value { return r.user(u, all) }))
			b = write(b, "wckeys", "wckey", each(slices.Collect(r.WCKeys()), func(k *assoc.WCKey) wire.Value { return wckey(k) }))
			b = write(b, "associations", "assoc", each(r.Select(assoc.Filter{}), func(a *assoc.Assoc) wire.Value { return r.assoc(a, false) }))
		}
		if !c.v.Newest() {
			b = append(b, `"instances":[],`...) // was named there up to v0.0.44
		}
		return b
	})
}
