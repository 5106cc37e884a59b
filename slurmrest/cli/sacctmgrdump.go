package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// dump writes a cluster's accounts, users and QOS to a file that load reads.
func (m *manager) dump(args []string) {
	var cluster, file string
	for _, a := range args {
		key, _, value := split(a)
		switch {
		case key == "", abbreviates(key, "cluster", 1):
			cluster = value
		case abbreviates(key, "file", 1):
			file = value
		default:
			m.complain(" Unknown option: %s", a)
			return
		}
	}
	if cluster == "" {
		m.complain(" We need a cluster to dump.")
		return
	}
	var all wire.SlurmdbdConfigResp
	if !m.get("/config", nil, &all) {
		return
	}
	i := slices.IndexFunc(all.Users, func(u wire.User) bool { return u.Name == m.caller() })
	if m.e.UID != 0 && (i < 0 || !slices.ContainsFunc(all.Users[i].AdministratorLevel, func(l string) bool { return l != "None" })) {
		m.complain(" Your user does not have sufficient privileges to dump clusters.")
		return
	}
	if !slices.ContainsFunc(all.Clusters, func(c wire.ClusterRec) bool { return c.Name == cluster }) {
		m.complain(" We need a cluster to dump.")
		return
	}
	if file == "" {
		file = "./" + cluster + ".cfg"
		m.e.printf(" No filename given, using %s.\n", file)
	}
	w, err := m.e.Create(m.e.Path(file))
	if err != nil {
		m.complain("Can't open %s: %s", file, text(err))
		return
	}
	lines := dumpLines(&all, cluster)
	_, err = io.WriteString(w, dumpHead+strings.Join(lines, "\n")+"\n")
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		m.complain("Can't write %s: %s", file, text(err))
		return
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "Cluster") || strings.HasPrefix(l, "Account") {
			m.e.printf("%s\n", l)
		} else {
			m.e.infof("%s", l)
		}
	}
}

func (m *manager) caller() string { return m.e.Users.Name(int64(m.e.UID)) }

const dumpHead = `# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxNodesPerJob=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxNodesPerJob=5:MaxJobs=4:MaxTRESMins=cpu=20:FairShare=399:MaxWallDuration=40:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent THAT HAS ALREADY
# BEEN CREATED before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxNodesPerJob=1:MaxJobs=1:MaxTRESMins=cpu=1:FairShare=1:MaxWallDuration=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxNodesPerJob=2:MaxJobs=3:MaxTRESMins=cpu=4:FairShare=1:MaxWallDurationPerJob=1
`

// dumpLines are the lines of a dump: QOS, the cluster, then its tree, each
// account's users and sub-accounts behind the line that names it as parent.
func dumpLines(all *wire.SlurmdbdConfigResp, cluster string) []string {
	var out []string
	for i := range all.QOS {
		out = append(out, qosLine(&all.QOS[i]))
	}
	byLineage := map[string]*wire.Assoc{}
	children := map[string][]*wire.Assoc{}
	var order []string
	for i := range all.Associations {
		a := &all.Associations[i]
		if a.Cluster != cluster {
			continue
		}
		byLineage[a.Lineage] = a
		if a.Lineage == "/" {
			order = append(order, "/")
			continue
		}
		up := a.Lineage[:strings.LastIndex(strings.TrimSuffix(a.Lineage, "/"), "/")+1]
		if a.Partition != "" { // /acct/0-user/part/
			up = up[:strings.LastIndex(strings.TrimSuffix(up, "/"), "/")+1]
		}
		children[up] = append(children[up], a)
		if a.User == "" {
			order = append(order, a.Lineage)
		}
	}
	if root := byLineage["/"]; root != nil {
		out = append(out, "Cluster - '"+cluster+"'"+assocTail(root, nil))
	}
	for _, at := range order {
		if len(children[at]) == 0 {
			continue
		}
		out = append(out, "Parent - '"+byLineage[at].Account+"'")
		for _, a := range children[at] {
			out = append(out, childLine(all, a, byLineage[at]))
		}
	}
	return out
}

func childLine(all *wire.SlurmdbdConfigResp, a, parent *wire.Assoc) string {
	if a.User == "" {
		head := "Account - '" + a.Account + "'"
		if i := slices.IndexFunc(all.Accounts, func(w wire.Account) bool { return w.Name == a.Account }); i >= 0 {
			head += ":Description='" + all.Accounts[i].Description + "':Organization='" + all.Accounts[i].Organization + "'"
		}
		return head + assocTail(a, parent)
	}
	head := "User - '" + a.User + "'"
	if a.Partition != "" {
		head += ":Partition='" + a.Partition + "'"
	}
	if i := slices.IndexFunc(all.Users, func(w wire.User) bool { return w.Name == a.User }); i >= 0 {
		u := &all.Users[i]
		if u.Default.Account != "" {
			head += ":DefaultAccount='" + u.Default.Account + "'"
		}
		if u.Default.Wckey != "" {
			head += ":DefaultWCKey='" + u.Default.Wckey + "'"
		}
		if l := strings.Join(u.AdministratorLevel, ""); l != "None" && l != "" {
			head += ":AdminLevel='" + l + "'"
		}
		var coords []string
		for _, c := range u.Coordinators {
			if c.Direct {
				coords = append(coords, c.Name)
			}
		}
		if len(coords) > 0 {
			head += ":Coordinator='" + strings.Join(coords, ",") + "'"
		}
	}
	return head + assocTail(a, parent)
}

// assocTail are an association's settings; what it has from its parent is left out.
func assocTail(a, parent *wire.Assoc) string {
	var b strings.Builder
	if a.SharesRaw == 0x7fffffff {
		b.WriteString(":Fairshare=parent")
	} else {
		fmt.Fprintf(&b, ":Fairshare=%d", a.SharesRaw)
	}
	for _, f := range sacctmgrFields() {
		key, ok := dumped[f.key]
		if !ok {
			continue
		}
		v := f.value(nil, &acctRow{assoc: a})
		if v == "" || parent != nil && v == f.value(nil, &acctRow{assoc: parent}) && inherited[f.key] {
			continue
		}
		b.WriteString(":" + key + "=" + quoted(v))
	}
	return b.String()
}

// quoted is a value of a dump: what is not a plain number stands in quotes.
func quoted(v string) string {
	if strings.Trim(v, "0123456789.") == "" {
		return v
	}
	return "'" + v + "'"
}

// dumped are the columns that a dump writes, and the names of their options.
var dumped = map[string]string{
	"GrpTRES": "GrpTRES", "GrpTRESMins": "GrpTRESMins", "GrpTRESRunMins": "GrpTRESRunMins", "GrpJobs": "GrpJobs", "GrpJobsAccrue": "GrpJobsAccrue",
	"GrpSubmitJobs": "GrpSubmitJobs", "GrpWall": "GrpWall", "MaxTRES": "MaxTRESPerJob", "MaxTRESPerNode": "MaxTRESPerNode", "MaxTRESMinsPerJob": "MaxTRESMinsPerJob",
	"MaxJobs": "MaxJobs", "MaxJobsAccrue": "MaxJobsAccrue", "MaxSubmitJobs": "MaxSubmitJobs", "MaxWallDurationPerJob": "MaxWallDurationPerJob",
	"MinPrioThreshold": "MinPrioThreshold", "Priority": "Priority", "QOSLevel": "QOS", "DefaultQOS": "DefaultQOS", "Comment": "Comment",
}

var inherited = map[string]bool{
	"MaxTRES": true, "MaxTRESPerNode": true, "MaxTRESMinsPerJob": true, "MaxJobs": true, "MaxJobsAccrue": true, "MaxSubmitJobs": true,
	"MaxWallDurationPerJob": true, "MinPrioThreshold": true, "Priority": true, "QOSLevel": true, "DefaultQOS": true,
}

func qosLine(q *wire.QOS) string {
	row := &acctRow{qos: q}
	line := "QOS - '" + q.Name + "':Description='" + q.Description + "'"
	for _, k := range []string{
		"Flags", "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpWall", "MaxTRESPerJob", "MaxTRESPerNode",
		"MaxTRESPerUser", "MaxTRESPerAccount", "MaxTRESMinsPerJob", "MaxTRESRunMinsPerUser", "MaxTRESRunMinsPerAccount", "MaxJobsPerUser", "MaxJobsPerAccount",
		"MaxJobsAccruePerUser", "MaxJobsAccruePerAccount", "MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "MaxWallDurationPerJob", "MinTRESPerJob",
		"MinPrioThreshold", "Preempt", "PreemptExemptTime", "UsageThreshold", "LimitFactor",
	} {
		if v := acctColumn(k).value(nil, row); v != "" {
			line += ":" + k + "=" + quoted(v)
		}
	}
	if q.Priority.Or(0) != 0 {
		line += ":Priority=" + itoa(q.Priority.Number)
	}
	if q.Limits.GraceTime != 0 {
		line += ":GraceTime=" + itoa(q.Limits.GraceTime)
	}
	if mode := acctColumn("PreemptMode").value(nil, row); mode != "cluster" {
		line += ":PreemptMode=" + mode
	}
	if q.UsageFactor.Number != 1 {
		line += ":UsageFactor=" + realNum(q.UsageFactor)
	}
	return line
}

// load reads a dump and makes what it describes; nothing is removed.
func (m *manager) load(args []string) {
	var file string
	for _, a := range args {
		key, _, value := split(a)
		switch {
		case key == "" && value == "clean", abbreviates(key, "clean", 3):
			m.complain(" Error with request: load clean: Requested operation not supported on this system")
			return
		case key == "", abbreviates(key, "file", 1):
			file = value
		case abbreviates(key, "cluster", 1): // one's own is meant anyway
		default:
			m.complain(" Unknown option: %s", a)
			return
		}
	}
	if !m.mayWrite() {
		return
	}
	if file == "" {
		m.complain(" No filename given, specify one with file=''")
		return
	}
	data, err := m.readFile(file)
	if err != nil {
		m.complain(" Unable to read %q: %s", file, fileReason(err))
		return
	}
	edits, ok := m.loadEdits(string(data))
	if !ok {
		return
	}
	if a, ok := m.edit(true, edits...); !ok || a.Error != "" {
		if ok {
			m.complain(" Error with request: %s", a.Error)
		}
		return
	}
	m.commit(edits...)
}

// loadEdits turns the lines of a dump into edits.
func (m *manager) loadEdits(data string) ([]wire.AcctEdit, bool) {
	k := &known{}
	var have wire.SlurmdbdConfigResp
	if !m.names(k) || !m.get("/config", nil, &have) {
		return nil, false
	}
	l := loader{m: m, known: k, have: &have, parent: "root", made: map[string]bool{}}
	for n, line := range strings.Split(data, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if !l.line(line) {
			m.complain(" Error with line %d of the file: %s", n+1, line)
			return nil, false
		}
	}
	return append(l.edits, l.coords...), true
}

type loader struct {
	m       *manager
	known   *known
	have    *wire.SlurmdbdConfigResp
	cluster string
	parent  string
	made    map[string]bool
	edits   []wire.AcctEdit
	coords  []wire.AcctEdit
}

func (l *loader) line(line string) bool {
	kind, rest, ok := strings.Cut(line, " - ")
	if !ok {
		return false
	}
	parts := splitQuoted(rest, ':')
	name := strings.Trim(parts[0], "'")
	en, there := (*entity)(nil), false
	e := wire.AcctEdit{Op: "add"}
	switch kind {
	case "Parent":
		l.parent = name
		return true
	case "Cluster":
		l.cluster, en, there = name, new(clusterEntity()), true
		e.Where.Names = []string{name}
	case "QOS":
		en, there = new(qosEntity()), contains(l.known.qos, name)
		e.Where.Names = []string{name}
		l.known.qos = append(l.known.qos, name)
	case "Account":
		en, there = new(accountEntity()), l.exists(name, "", "")
		e.Where.Accounts = []string{name}
		if !there {
			parent := l.parent
			e.Set.Parent = &parent
		}
	case "User":
		en = new(userEntity())
		e.Where.Users, e.Where.Accounts = []string{name}, []string{l.parent}
	default:
		return false
	}
	e.Of = en.of
	s := &spec{known: l.known, set: e.Set, where: e.Where}
	var coords []string
	for _, p := range parts[1:] {
		key, op, value := split(p)
		switch {
		case key == "Coordinator":
			coords = csv(value)
			continue
		case key == "Partition":
			s.where.Partitions = csv(value)
			continue
		}
		w := find(en.settings, key)
		if w == nil || w.set(l.m, s, op, value) != nil {
			return false
		}
	}
	e.Set, e.Where = s.set, s.where
	if kind == "User" {
		part := strings.Join(s.where.Partitions, "")
		there = l.exists(l.parent, name, part)
		l.made[l.parent+"/"+name+"/"+part] = true
	} else if kind == "Account" {
		l.made[name+"//"] = true
	}
	if there {
		e.Op = "modify"
		if kind == "User" && len(e.Where.Partitions) == 0 {
			e.Where.Partitions = []string{""} // not those for one partition
		}
	}
	if !there || !e.Set.Empty() {
		l.edits = append(l.edits, e)
	}
	for _, a := range coords { // of accounts that may come further down
		l.coords = append(l.coords, wire.AcctEdit{Op: "add", Of: "coordinator", Where: wire.AcctWhere{Accounts: []string{a}, Users: []string{name}}})
	}
	return true
}

// exists says whether an association is there already, or made by a line above.
func (l *loader) exists(account, user, partition string) bool {
	return l.made[account+"/"+user+"/"+partition] || slices.ContainsFunc(l.have.Associations, func(a wire.Assoc) bool {
		return a.Account == account && a.User == user && a.Partition == partition && (l.cluster == "" || a.Cluster == l.cluster)
	})
}

// splitQuoted splits at a byte that is not within single quotes.
func splitQuoted(s string, at byte) []string {
	var out []string
	start, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '\'':
			quoted = !quoted
		case s[i] == at && !quoted:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// fileReason is the system's own word for what a file's error is about.
func fileReason(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		t := e.Error()
		return strings.ToUpper(t[:1]) + t[1:]
	}
	return err.Error()
}
