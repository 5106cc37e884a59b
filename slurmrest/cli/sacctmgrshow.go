package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// acctEvent is a line of show event: what keeps a node away now.
type acctEvent struct {
	cluster, node, state, reason string
	start                        int64
}

func (m *manager) show(args []string) {
	if len(args) == 0 || entityOf(entities(), args[0]) == nil {
		m.fail()
		fmt.Fprint(m.e.Stderr, noListEntity)
		return
	}
	en := entityOf(entities(), args[0])
	s, ok := m.parse(args[1:], en, "list")
	if !ok {
		return
	}
	if m.in.Given("associations") {
		s.withAssoc = true
	}
	if s.format == "" {
		s.format = en.columns
		switch {
		case en.name == "Account" && s.withAssoc:
			s.format += ",Cluster,ParentName,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,GrpWall,GrpCPUMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS"
		case en.name == "User" && s.withCoord:
			s.format += ",Coord"
		}
		if en.name == "User" && s.withAssoc {
			s.format += ",Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS"
		}
		if en.name == "Account" && s.withCoord {
			s.format += ",Coord"
		}
	}
	en.list(m, s)
}

// get asks slurmdb; it complains by itself.
func (m *manager) get(path string, q url.Values, into any) bool {
	if err := m.c.Get(m.ctx, "/slurmdb/"+wire.Newest+path, q, into); err != nil {
		m.fail()
		m.e.errorf("%s", text(err))
		return false
	}
	return true
}

// structured prints an answer as JSON or YAML where that is asked for.
func (m *manager) structured(v wire.Value) bool {
	if !m.in.Given("json") && !m.in.Given("yaml") {
		return false
	}
	if err := printStructured(m.e, m.in, v); err != nil {
		m.status = report(m.e, err)
	}
	return true
}

// print prints rows in the columns asked for.
func (m *manager) print(s *spec, rows []acctRow) {
	t, bad := acctTable(s.format)
	if bad != "" {
		m.complain("Unknown field '%s'", bad)
		return
	}
	if s.tree {
		for i := range t.List {
			if t.List[i].Field.Name == "Account" && t.List[i].Width == t.List[i].Field.Width {
				t.List[i].Width, t.List[i].Left = 20, true
			}
		}
	}
	t.Parsable, t.NoTrail = m.in.Given("parsable") || m.in.Given("parsable2"), m.in.Given("parsable2")
	var b []byte
	if !m.in.Given("noheader") {
		b = t.Header(b)
	}
	c := m.e.format()
	for i := range rows {
		b = t.Line(b, c, &rows[i])
	}
	m.e.printf("%s", b)
}

func matches(list []string, word string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(w string) bool { return strings.EqualFold(w, word) })
}

// needsAssoc asks before conditions of associations are used without WithAssoc.
func (m *manager) needsAssoc(s *spec) bool {
	w := &s.where
	if s.withAssoc || len(w.Clusters)+len(w.Partitions)+len(w.Parents)+len(w.IDs) == 0 {
		return false
	}
	m.e.printf("You requested options that are only valid when querying with the withassoc option.\n")
	if m.confirm("Are you sure you want to continue?") {
		return false
	}
	m.e.printf("Aborted\n")
	return true
}

// assocs asks for associations by the conditions that the API has.
func (m *manager) assocs(s *spec) ([]wire.Assoc, bool) {
	w, q := &s.where, url.Values{}
	for key, list := range map[string][]string{
		"account": w.Accounts, "cluster": w.Clusters, "user": w.Users, "partition": w.Partitions, "parent_account": w.Parents,
		"qos": w.QOS, "default_qos": w.DefaultQOS,
	} {
		if len(list) > 0 {
			q.Set(key, strings.Join(list, ","))
		}
	}
	for _, id := range w.IDs {
		q.Add("id", strconv.FormatUint(uint64(id), 10))
	}
	for flag, on := range map[string]bool{
		"Filter to only defaults": s.onlyDefaults, "Include sub acct information": s.subAccounts, "Exclude limits from parents": s.ownLimits,
	} {
		if on {
			q.Set(flag, "")
		}
	}
	var resp wire.AssocsResp
	ok := m.get("/associations/", q, &resp)
	return resp.Associations, ok
}

func (m *manager) listAccounts(s *spec) {
	if m.needsAssoc(s) {
		return
	}
	var resp wire.AccountsResp
	if !m.get("/accounts/", url.Values{"WithAssociations": {""}, "WithCoordinators": {""}}, &resp) {
		return
	}
	resp.Accounts = slices.DeleteFunc(resp.Accounts, func(a wire.Account) bool {
		return !matches(s.where.Accounts, a.Name) || !matches(s.where.Descriptions, a.Description) || !matches(s.where.Organizations, a.Organization)
	})
	if m.structured(&resp) {
		return
	}
	var rows []acctRow
	for i := range resp.Accounts {
		a := &resp.Accounts[i]
		if !s.withAssoc {
			rows = append(rows, acctRow{account: a})
			continue
		}
		one := *s
		one.where.Accounts = []string{a.Name}
		list, ok := m.assocs(&one)
		if !ok {
			return
		}
		for j := range list {
			rows = append(rows, acctRow{account: a, assoc: &list[j]})
		}
	}
	m.print(s, rows)
}

func (m *manager) listUsers(s *spec) {
	if m.needsAssoc(s) {
		return
	}
	var resp wire.UsersResp
	if !m.get("/users/", url.Values{"with_assocs": {""}, "with_coords": {""}, "with_wckeys": {""}}, &resp) {
		return
	}
	w := &s.where
	resp.Users = slices.DeleteFunc(resp.Users, func(u wire.User) bool {
		l, _, _ := level(strings.Join(u.AdministratorLevel, ""))
		return !matches(w.Users, u.Name) || len(w.Levels) > 0 && !slices.Contains(w.Levels, l) ||
			!matches(w.DefaultAccounts, u.Default.Account) || len(w.DefaultWCKeys) > 0 && !matches(w.DefaultWCKeys, u.Default.Wckey)
	})
	if m.structured(&resp) {
		return
	}
	var rows []acctRow
	for i := range resp.Users {
		u := &resp.Users[i]
		row := acctRow{user: u, defaultAccount: u.Default.Account}
		if !s.withAssoc {
			rows = append(rows, row)
			continue
		}
		one := *s
		one.where.Users = []string{u.Name}
		list, ok := m.assocs(&one)
		if !ok {
			return
		}
		for j := range list {
			row.assoc = &list[j]
			rows = append(rows, row)
		}
	}
	m.print(s, rows)
}

func (m *manager) listAssocs(s *spec) {
	list, ok := m.assocs(s)
	if !ok || m.structured(&wire.AssocsResp{Associations: list}) {
		return
	}
	all := list
	if acctUses(s.format, "parentid") {
		if all, ok = m.assocs(&spec{}); !ok {
			return
		}
	}
	rows := make([]acctRow, len(list))
	top := -1
	for i := range list {
		a := &list[i]
		rows[i] = acctRow{assoc: a, parentID: parentID(all, a)}
		if s.tree {
			depth := strings.Count(a.Lineage, "/") - 1
			if a.Partition != "" {
				depth--
			}
			if top < 0 {
				top = depth
			}
			rows[i].indent = max(0, depth-top)
		}
	}
	m.print(s, rows)
}

// parentID is the number of an association's parent, found by lineage.
func parentID(all []wire.Assoc, a *wire.Assoc) int64 {
	cut := strings.LastIndex(strings.TrimSuffix(a.Lineage, "/"), "/")
	if a.Lineage == "/" || cut < 0 {
		return 0
	}
	i := slices.IndexFunc(all, func(p wire.Assoc) bool { return p.Cluster == a.Cluster && p.Lineage == a.Lineage[:cut+1] })
	if i < 0 {
		return 0
	}
	return all[i].ID
}

// acctUses says whether a format has a column.
func acctUses(columns, key string) bool {
	return slices.ContainsFunc(csv(columns), func(w string) bool {
		w, _, _ = strings.Cut(w, "%")
		f := acctColumn(w)
		return f != nil && strings.EqualFold(f.key, key)
	})
}

func (m *manager) listQOS(s *spec) {
	var resp wire.SlurmdbdQOSResp
	if !m.get("/qos/", nil, &resp) {
		return
	}
	resp.QOS = slices.DeleteFunc(resp.QOS, func(q wire.QOS) bool {
		return !matches(s.where.Names, q.Name) || !matches(s.where.Descriptions, q.Description) || len(s.where.IDs) > 0 && !slices.Contains(s.where.IDs, uint32(q.ID))
	})
	if m.structured(&resp) {
		return
	}
	rows := make([]acctRow, len(resp.QOS))
	for i := range rows {
		rows[i].qos = &resp.QOS[i]
	}
	m.print(s, rows)
}

func (m *manager) listClusters(s *spec) {
	var resp wire.ClustersResp
	if !m.get("/clusters/", nil, &resp) {
		return
	}
	resp.Clusters = slices.DeleteFunc(resp.Clusters, func(c wire.ClusterRec) bool { return !matches(s.where.Names, c.Name) })
	if m.structured(&resp) {
		return
	}
	roots, ok := m.assocs(&spec{where: wire.AcctWhere{Accounts: []string{"root"}}})
	if !ok {
		return
	}
	var rows []acctRow
	for i := range resp.Clusters {
		row := acctRow{cluster: &resp.Clusters[i]}
		for j := range roots {
			if roots[j].Cluster == row.cluster.Name && roots[j].User == "" {
				row.assoc = &roots[j]
			}
		}
		rows = append(rows, row)
	}
	m.print(s, rows)
}

func (m *manager) listWCKeys(s *spec) {
	var resp wire.WckeyResp
	if !m.get("/wckeys/", nil, &resp) {
		return
	}
	resp.Wckeys = slices.DeleteFunc(resp.Wckeys, func(k wire.Wckey) bool {
		return !matches(s.where.Names, k.Name) || !matches(s.where.Users, k.User) || !matches(s.where.Clusters, k.Cluster)
	})
	if m.structured(&resp) {
		return
	}
	rows := make([]acctRow, len(resp.Wckeys))
	for i := range rows {
		rows[i].wckey = &resp.Wckeys[i]
	}
	m.print(s, rows)
}

func (m *manager) listTRES(s *spec) {
	var resp wire.TRESResp
	if !m.get("/tres/", nil, &resp) {
		return
	}
	resp.TRES = slices.DeleteFunc(resp.TRES, func(t wire.TRES) bool {
		return !matches(s.types, t.Type) || !matches(s.where.Names, t.Name) || len(s.where.IDs) > 0 && !slices.Contains(s.where.IDs, uint32(t.ID))
	})
	if m.structured(&resp) {
		return
	}
	rows := make([]acctRow, len(resp.TRES))
	for i := range rows {
		rows[i].tres = &resp.TRES[i]
	}
	m.print(s, rows)
}

func (m *manager) listTxns(s *spec) {
	q := url.Values{}
	for key, list := range map[string][]string{"action": s.actions, "actor": s.actors} {
		if len(list) > 0 {
			q.Set(key, strings.Join(list, ","))
		}
	}
	for key, t := range map[string]string{"start": s.start, "end": s.end} {
		if t == "" {
			continue
		}
		at, err := tres.ParsePastTime(t, m.e.Now())
		if err != nil {
			m.complain("%s", err)
			return
		}
		q.Set(key, itoa(at.Unix()))
	}
	var resp wire.AcctTxns
	if err := m.c.Get(m.ctx, "/sbatchd/v1/transactions", q, &resp); err != nil {
		m.fail()
		m.e.errorf("%s", text(err))
		return
	}
	rows := make([]acctRow, len(resp.Transactions))
	for i := range rows {
		rows[i].txn = &resp.Transactions[i]
	}
	m.print(s, rows)
}

// listEvents lists the nodes that are down or drained now: their events of
// earlier are not kept as records.
func (m *manager) listEvents(s *spec) {
	nodes, err := m.c.Nodes(m.ctx)
	conf, cerr := m.c.Ping(m.ctx)
	if err = cmp.Or(err, cerr); err != nil || len(conf.Pings) == 0 {
		m.fail()
		m.e.errorf("%s", text(err))
		return
	}
	var rows []acctRow
	for i := range nodes.Nodes {
		n := &nodes.Nodes[i]
		if n.Reason == "" || !matches(s.where.Names, n.Name) {
			continue
		}
		rows = append(rows, acctRow{event: &acctEvent{
			cluster: n.ClusterName, node: n.Name, state: strings.Join(n.State, "+"), reason: n.Reason, start: n.ReasonChangedAt.Or(0),
		}})
	}
	m.print(s, rows)
}

func (m *manager) listNone(s *spec) { m.print(s, nil) }

func (m *manager) listRunaway(*spec) {
	var resp wire.ClustersResp
	if m.get("/clusters/", nil, &resp) && len(resp.Clusters) > 0 {
		m.e.printf("Runaway Jobs: No runaway jobs found on cluster %s\n", resp.Clusters[0].Name)
	}
}

func (m *manager) listStats(*spec) {
	var resp wire.SlurmdbdStatsResp
	if err := m.c.Get(m.ctx, "/slurmdb/"+wire.Newest+"/diag/", nil, &resp); err != nil {
		m.complain("sacctmgr: accounting_storage/slurmdbd: acct_storage_p_get_stats: RC:2002 Your user doesn't have privilege to perform this action")
		return
	}
	if m.structured(&resp) {
		return
	}
	const bar = "*******************************************************************\n"
	now, since := m.e.Now().Unix(), resp.Statistics.TimeStart
	stamp := func(sec int64) string { return ctime(m.e, sec) }
	m.e.printf("%ssacctmgr show stats output at %s (%d)\nData since                    %s (%d)\nAll statistics are in microseconds\n%s\n",
		bar, stamp(now), now, stamp(since), since, bar)
	m.e.printf("Remote Procedure Call statistics by message type\n\nRemote Procedure Call statistics by user\n")
}

func (m *manager) listConfig(*spec) {
	p, err := m.c.Ping(m.ctx)
	if err != nil || len(p.Pings) == 0 {
		m.fail()
		m.e.errorf("%s", text(err))
		return
	}
	m.e.printf("Configuration data as of %s\n", m.e.format().Time(m.e.Now().Unix(), ""))
	for _, l := range [][2]string{
		{"AccountingStorageBackupHost ", "(null)"}, {"AccountingStorageHost ", p.Pings[0].Hostname}, {"AccountingStorageParameters", "(null)"},
		{"AccountingStorageType ", "accounting_storage/slurmdbd"}, {"SLURM_VERSION         ", strings.TrimPrefix(Version, "slurm ")},
		{"TrackWCKey            ", "No"},
	} {
		m.e.printf("%s = %s\n", l[0], l[1])
	}
}

// ctime prints a time as C does, in the caller's zone.
func ctime(e *Env, sec int64) string {
	return time.Unix(sec, 0).In(e.Local).Format("Mon Jan 02 15:04:05 2006")
}
