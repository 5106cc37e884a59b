package cli

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// acctRow is one line of a list: the record it is about, and for users and
// accounts WithAssoc one of their associations.
type acctRow struct {
	account *wire.Account
	user    *wire.User
	assoc   *wire.Assoc
	qos     *wire.QOS
	cluster *wire.ClusterRec
	wckey   *wire.Wckey
	tres    *wire.TRES
	txn     *wire.AcctTxn
	event   *acctEvent

	defaultAccount string // of user
	parentID       int64
	indent         int // of the account's name in a tree
}

// acctField is a column: the name that --format takes, its header and width.
type acctField struct {
	key, header string
	width       int
	value       func(c *format.Context, r *acctRow) string
}

func num(n wire.Num) string {
	if !n.Set || n.Infinite {
		return ""
	}
	return itoa(n.Number)
}

func wallNum(n wire.Num) string {
	if !n.Set || n.Infinite {
		return ""
	}
	return wallText(n.Number)
}

func realNum(n wire.NumFloat) string {
	if !n.Set || n.Infinite {
		return ""
	}
	return strconv.FormatFloat(n.Number, 'f', 6, 64)
}

// one finds one TRES in a list.
func one(list []wire.TRES, name string) string {
	for i := range list {
		if tresName(&list[i]) == name {
			return itoa(list[i].Count)
		}
	}
	return ""
}

// either takes a value from an association or a QOS, whichever the row is about.
func either(assoc func(*wire.Assoc) string, qos func(*wire.QOS) string) func(*format.Context, *acctRow) string {
	return func(_ *format.Context, r *acctRow) string {
		switch {
		case r.assoc != nil && assoc != nil:
			return assoc(r.assoc)
		case r.qos != nil && qos != nil:
			return qos(r.qos)
		}
		return ""
	}
}

func numbers(assoc func(*wire.Assoc) wire.Num, qos func(*wire.QOS) wire.Num) func(*format.Context, *acctRow) string {
	var a func(*wire.Assoc) string
	var q func(*wire.QOS) string
	if assoc != nil {
		a = func(w *wire.Assoc) string { return num(assoc(w)) }
	}
	if qos != nil {
		q = func(w *wire.QOS) string { return num(qos(w)) }
	}
	return either(a, q)
}

func lists(assoc func(*wire.Assoc) []wire.TRES, qos func(*wire.QOS) []wire.TRES) func(*format.Context, *acctRow) string {
	return listOf(assoc, qos, limitText)
}

// single is one TRES of a list: the old columns of CPUs, nodes and memory.
func single(name string, assoc func(*wire.Assoc) []wire.TRES, qos func(*wire.QOS) []wire.TRES) func(*format.Context, *acctRow) string {
	return listOf(assoc, qos, func(l []wire.TRES) string { return one(l, name) })
}

func listOf(assoc func(*wire.Assoc) []wire.TRES, qos func(*wire.QOS) []wire.TRES, show func([]wire.TRES) string) func(*format.Context, *acctRow) string {
	var a func(*wire.Assoc) string
	var q func(*wire.QOS) string
	if assoc != nil {
		a = func(w *wire.Assoc) string { return show(assoc(w)) }
	}
	if qos != nil {
		q = func(w *wire.QOS) string { return show(qos(w)) }
	}
	return either(a, q)
}

// The lists of TRES by their places in the API.
func aGrp(a *wire.Assoc) []wire.TRES     { return a.Max.TRES.Total }
func aGrpMins(a *wire.Assoc) []wire.TRES { return a.Max.TRES.Group.Minutes }
func aGrpRun(a *wire.Assoc) []wire.TRES  { return a.Max.TRES.Group.Active }
func aMax(a *wire.Assoc) []wire.TRES     { return a.Max.TRES.Per.Job }
func aNode(a *wire.Assoc) []wire.TRES    { return a.Max.TRES.Per.Node }
func aMins(a *wire.Assoc) []wire.TRES    { return a.Max.TRES.Minutes.Per.Job }
func qGrp(q *wire.QOS) []wire.TRES       { return q.Limits.Max.TRES.Total }
func qGrpMins(q *wire.QOS) []wire.TRES   { return q.Limits.Max.TRES.Minutes.Total }
func qGrpRun(q *wire.QOS) []wire.TRES    { return q.Limits.Max.TRES.Minutes.Per.QOS }
func qMax(q *wire.QOS) []wire.TRES       { return q.Limits.Max.TRES.Per.Job }
func qNode(q *wire.QOS) []wire.TRES      { return q.Limits.Max.TRES.Per.Node }
func qUser(q *wire.QOS) []wire.TRES      { return q.Limits.Max.TRES.Per.User }
func qMins(q *wire.QOS) []wire.TRES      { return q.Limits.Max.TRES.Minutes.Per.Job }
func qMin(q *wire.QOS) []wire.TRES       { return q.Limits.Min.TRES.Per.Job }

func blank(*format.Context, *acctRow) string { return "" }

// sacctmgrFields are the columns in the order in which a shortened name finds
// them, Slurm's own.
var sacctmgrFields = sync.OnceValue(func() []acctField {
	return []acctField{
		{"Account", "Account", 10, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.account != nil:
				return r.account.Name
			case r.assoc != nil:
				return strings.Repeat(" ", r.indent) + r.assoc.Account
			}
			return ""
		}},
		{"ActionRaw", "ActionRaw", 10, blank},
		{"Action", "Action", 20, func(_ *format.Context, r *acctRow) string {
			return txnText(r, func(t *wire.AcctTxn) string { return t.Action })
		}},
		{"Actor", "Actor", 10, func(_ *format.Context, r *acctRow) string {
			return txnText(r, func(t *wire.AcctTxn) string { return t.Actor })
		}},
		{"AdminLevel", "Admin", 9, func(_ *format.Context, r *acctRow) string {
			if r.user == nil {
				return ""
			}
			return strings.Join(r.user.AdministratorLevel, "")
		}},
		{"Allowed", "Allowed", 8, blank},
		{"Allocated", "Allocated", 9, blank},
		{"Associations", "Assocs", 10, blank},
		{"TRES", "TRES", 20, func(_ *format.Context, r *acctRow) string {
			if r.cluster == nil {
				return ""
			}
			var out []string
			for i := range r.cluster.TRES {
				t := &r.cluster.TRES[i]
				n := itoa(t.Count)
				if t.Type == "mem" {
					n += "M"
				}
				out = append(out, tresName(t)+"="+n)
			}
			slices.Sort(out)
			return strings.Join(out, ",")
		}},
		{"Classification", "Class", 9, blank},
		{"ClusterNodes", "Cluster Nodes", 20, func(_ *format.Context, r *acctRow) string {
			return clusterText(r, func(c *wire.ClusterRec) string { return c.Nodes })
		}},
		{"Clusters", "Cluster", 10, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.assoc != nil:
				return r.assoc.Cluster
			case r.wckey != nil:
				return r.wckey.Cluster
			case r.event != nil:
				return r.event.cluster
			}
			return clusterText(r, func(c *wire.ClusterRec) string { return c.Name })
		}},
		{"Coordinators", "Coord Accounts", 20, func(_ *format.Context, r *acctRow) string {
			var list []wire.Coord
			switch {
			case r.account != nil:
				list = r.account.Coordinators
			case r.user != nil:
				list = r.user.Coordinators
			}
			var out []string
			for _, c := range list {
				out = append(out, c.Name)
			}
			return strings.Join(out, ",")
		}},
		{"Comment", "Comment", 20, func(_ *format.Context, r *acctRow) string {
			if r.assoc == nil {
				return ""
			}
			return r.assoc.Comment
		}},
		{"ControlHost", "ControlHost", 15, func(_ *format.Context, r *acctRow) string {
			return clusterText(r, func(c *wire.ClusterRec) string { return c.Controller.Host })
		}},
		{"ControlPort", "ControlPort", 12, func(_ *format.Context, r *acctRow) string {
			return clusterText(r, func(c *wire.ClusterRec) string { return itoa(c.Controller.Port) })
		}},
		{"Count", "Count", 6, blank}, {"CountAllowed", "# Allowed", 10, blank}, {"CountUsed", "# Used", 10, blank}, {"CPUCount", "CPU Cnt", 7, blank},
		{"DefaultAccount", "Def Acct", 10, func(_ *format.Context, r *acctRow) string { return r.defaultAccount }},
		{"DefaultQOS", "Def QOS", 9, either(func(a *wire.Assoc) string { return a.Default.QOS }, nil)},
		{"DefaultWCKey", "Def WCKey", 10, func(_ *format.Context, r *acctRow) string {
			if r.user == nil {
				return ""
			}
			return r.user.Default.Wckey
		}},
		{"Description", "Descr", 20, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.account != nil:
				return r.account.Description
			case r.qos != nil:
				return r.qos.Description
			}
			return ""
		}},
		{"Duration", "Duration", 13, blank}, {"EventRaw", "EventRaw", 8, blank}, {"Event", "Event", 7, blank}, {"Extra", "Extra", 20, blank},
		{"Fairshare", "Share", 9, share}, {"Features", "Features", 20, blank}, {"Federation", "Federation", 10, blank},
		{"FedState", "FedState", 12, blank}, {"FedStateRaw", "FedStateRaw", 11, blank},
		{"Flags", "Flags", 20, flagsText},
		{"GraceTime", "GraceTime", 10, either(nil, func(q *wire.QOS) string { return secondsText(q.Limits.GraceTime) })},
		{"GrpCPUMins", "GrpCPUMins", 11, single("cpu", aGrpMins, qGrpMins)}, {"GrpCPURunMins", "GrpCPURunMins", 13, single("cpu", aGrpRun, qGrpRun)},
		{"GrpCPUs", "GrpCPUs", 8, single("cpu", aGrp, qGrp)},
		{"GrpTRES", "GrpTRES", 13, lists(aGrp, qGrp)}, {"GrpTRESMins", "GrpTRESMins", 13, lists(aGrpMins, qGrpMins)}, {"GrpTRESRunMins", "GrpTRESRunMins", 13, lists(aGrpRun, qGrpRun)},
		{"GrpJobs", "GrpJobs", 7, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Per.Count }, func(q *wire.QOS) wire.Num { return q.Limits.Max.ActiveJobs.Count })},
		{"GrpJobsAccrue", "GrpJobsAccrue", 13, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Per.Accruing }, func(q *wire.QOS) wire.Num { return q.Limits.Max.ActiveJobs.Accruing })},
		{"GrpMemory", "GrpMem", 7, single("mem", aGrp, qGrp)}, {"GrpNodes", "GrpNodes", 8, single("node", aGrp, qGrp)},
		{"GrpSubmitJobs", "GrpSubmit", 9, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Per.Submitted }, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Count })},
		{"GrpWall", "GrpWall", 11, either(func(a *wire.Assoc) string { return wallNum(a.Max.Per.Account.WallClock) }, func(q *wire.QOS) string { return wallNum(q.Limits.Max.WallClock.Per.QOS) })},
		{"ID", "ID", 6, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.assoc != nil:
				return itoa(r.assoc.ID)
			case r.qos != nil:
				return itoa(r.qos.ID)
			case r.wckey != nil:
				return itoa(r.wckey.ID)
			case r.tres != nil:
				return itoa(r.tres.ID)
			}
			return ""
		}},
		{"Info", "Info", 20, func(_ *format.Context, r *acctRow) string {
			return txnText(r, func(t *wire.AcctTxn) string { return t.Info })
		}},
		{"InstanceId", "InstanceId", 20, blank}, {"InstanceType", "InstanceType", 20, blank},
		{"LastConsumed", "LastConsumed", 12, blank},
		{"LimitFactor", "LimitFactor", 11, either(nil, func(q *wire.QOS) string { return realNum(q.Limits.Factor) })},
		{"Lineage", "Lineage", -20, either(func(a *wire.Assoc) string { return a.Lineage }, nil)},
		{"MaxCPUMinsPerJob", "MaxCPUMins", 11, single("cpu", aMins, qMins)},
		{"MaxCPURunMinsPerUser", "MaxCPURunMinsPU", 15, single("cpu", nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Minutes.Per.User })},
		{"MaxCPUsPerJob", "MaxCPUs", 8, single("cpu", aMax, qMax)}, {"MaxCPUsPerUser", "MaxCPUsPU", 9, single("cpu", nil, qUser)},
		{"MaxTRES", "MaxTRES", 13, lists(aMax, qMax)}, {"MaxTRESPerJob", "MaxTRES", 13, lists(aMax, qMax)}, {"MaxTRESPerNode", "MaxTRESPerNode", 14, lists(aNode, qNode)},
		{"MaxTRESMinsPerJob", "MaxTRESMins", 13, lists(aMins, qMins)},
		{"MaxTRESRunMinsPerAccount", "MaxTRESRunMinsPA", 16, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Minutes.Per.Account })},
		{"MaxTRESRunMinsPA", "MaxTRESRunMinsPA", 16, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Minutes.Per.Account })},
		{"MaxTRESRunMinsPerUser", "MaxTRESRunMinsPU", 16, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Minutes.Per.User })},
		{"MaxTRESRunMinsPU", "MaxTRESRunMinsPU", 16, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Minutes.Per.User })},
		{"MaxTRESPerAccount", "MaxTRESPA", 13, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Per.Account })},
		{"MaxTRESPA", "MaxTRESPA", 13, lists(nil, func(q *wire.QOS) []wire.TRES { return q.Limits.Max.TRES.Per.Account })},
		{"MaxTRESPerUser", "MaxTRESPU", 13, lists(nil, qUser)}, {"MaxTRESPU", "MaxTRESPU", 13, lists(nil, qUser)},
		{"MaxJobs", "MaxJobs", 7, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Active }, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.ActiveJobs.Per.User })},
		{"MaxJobsAccruePerAccount", "MaxJobsAccruePA", 15, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Accruing.Per.Account })},
		{"MaxJobsAccruePA", "MaxJobsAccruePA", 15, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Accruing.Per.Account })},
		{"MaxJobsAccruePerUser", "MaxJobsAccruePU", 15, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Accruing.Per.User })},
		{"MaxJobsAccruePU", "MaxJobsAccruePU", 15, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Accruing.Per.User })},
		{"MaxJobsAccrue", "MaxJobsAccrue", 13, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Accruing }, nil)},
		{"MaxJobsPerAccount", "MaxJobsPA", 9, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.ActiveJobs.Per.Account })},
		{"MaxJobsPA", "MaxJobsPA", 9, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.ActiveJobs.Per.Account })},
		{"MaxJobsPerUser", "MaxJobsPU", 9, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.ActiveJobs.Per.User })},
		{"MaxJobsPU", "MaxJobsPU", 9, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.ActiveJobs.Per.User })},
		{"MaxNodesPerJob", "MaxNodes", 8, single("node", aMax, qMax)}, {"MaxNodesPerUser", "MaxNodesPU", 10, single("node", nil, qUser)},
		{"MaxSubmitJobs", "MaxSubmit", 9, numbers(func(a *wire.Assoc) wire.Num { return a.Max.Jobs.Total }, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Per.User })},
		{"MaxSubmitJobsPerAccount", "MaxSubmitPA", 11, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Per.Account })},
		{"MaxSubmitPA", "MaxSubmitPA", 11, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Per.Account })},
		{"MaxSubmitJobsPerUser", "MaxSubmitPU", 11, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Per.User })},
		{"MaxSubmitPU", "MaxSubmitPU", 11, numbers(nil, func(q *wire.QOS) wire.Num { return q.Limits.Max.Jobs.Per.User })},
		{"MaxWallDurationPerJob", "MaxWall", 11, either(func(a *wire.Assoc) string { return wallNum(a.Max.Jobs.Per.WallClock) }, func(q *wire.QOS) string { return wallNum(q.Limits.Max.WallClock.Per.Job) })},
		{"MinCPUsPerJob", "MinCPUs", 8, single("cpu", nil, qMin)}, {"MinTRESPerJob", "MinTRES", 13, lists(nil, qMin)},
		{"MinPrioThreshold", "MinPrioThres", 12, numbers(func(a *wire.Assoc) wire.Num { return a.Min.PriorityThreshold }, func(q *wire.QOS) wire.Num { return q.Limits.Min.PriorityThreshold })},
		{"Name", "Name", 10, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.qos != nil:
				return r.qos.Name
			case r.tres != nil:
				return r.tres.Name
			}
			return ""
		}},
		{"NodeCount", "NodeCount", 9, func(_ *format.Context, r *acctRow) string {
			return clusterText(r, func(c *wire.ClusterRec) string { return or(one(c.TRES, "node"), "0") })
		}},
		{"NodeInx", "NodeInx", 9, blank},
		{"NodeNames", "NodeName", -15, func(_ *format.Context, r *acctRow) string {
			if r.event == nil {
				return ""
			}
			return r.event.node
		}},
		{"Organization", "Org", 20, func(_ *format.Context, r *acctRow) string {
			if r.account == nil {
				return ""
			}
			return r.account.Organization
		}},
		{"ParentID", "ParentID", 8, func(_ *format.Context, r *acctRow) string { return itoa(r.parentID) }},
		{"ParentName", "ParentName", 10, either(func(a *wire.Assoc) string { return a.ParentAccount }, nil)},
		{"Partition", "Partition", 10, either(func(a *wire.Assoc) string { return a.Partition }, nil)},
		{"PreemptMode", "PreemptMode", 11, either(nil, func(q *wire.QOS) string {
			mode := strings.ToLower(strings.Join(q.Preempt.Mode, ","))
			if mode == "disabled" {
				return "cluster"
			}
			return mode
		})},
		{"Preempt", "Preempt", 10, either(nil, func(q *wire.QOS) string { return strings.Join(q.Preempt.List, ",") })},
		{"PreemptExemptTime", "PreemptExemptTime", 19, either(nil, func(q *wire.QOS) string {
			if !q.Preempt.ExemptTime.Set {
				return ""
			}
			return secondsText(q.Preempt.ExemptTime.Number)
		})},
		{"Priority", "Priority", 10, numbers(func(a *wire.Assoc) wire.Num { return a.Priority }, func(q *wire.QOS) wire.Num { return wire.N(q.Priority.Or(0)) })},
		{"Problem", "Problem", 40, blank},
		{"QOSLevel", "QOS", 20, either(func(a *wire.Assoc) string { return strings.Join(a.QOS, ",") }, nil)},
		{"QOSRAWLevel", "QOS_RAW", 10, blank},
		{"Reason", "Reason", 30, func(_ *format.Context, r *acctRow) string {
			if r.event == nil {
				return ""
			}
			return r.event.reason
		}},
		{"RPC", "RPC", 5, func(_ *format.Context, r *acctRow) string {
			return clusterText(r, func(c *wire.ClusterRec) string { return itoa(c.RPCVersion) })
		}},
		{"Server", "Server", 10, blank}, {"ServerType", "ServerType", 10, blank},
		{"Share", "Share", 9, share},
		{"StateRaw", "StateRaw", 8, blank},
		{"State", "State", 6, func(_ *format.Context, r *acctRow) string {
			if r.event == nil {
				return ""
			}
			return r.event.state
		}},
		{"TimeStamp", "Time", 19, func(c *format.Context, r *acctRow) string {
			return txnText(r, func(t *wire.AcctTxn) string { return c.Time(t.Time.Unix(), "") })
		}},
		{"TimeEligible", "TimeEligible", 19, blank},
		{"TimeEnd", "TimeEnd", 19, func(_ *format.Context, r *acctRow) string {
			if r.event == nil {
				return ""
			}
			return "Unknown"
		}},
		{"TimeStart", "TimeStart", 19, func(c *format.Context, r *acctRow) string {
			if r.event == nil {
				return ""
			}
			return c.Time(r.event.start, "Unknown")
		}},
		{"TimeSubmit", "TimeSubmit", 19, blank},
		{"Type", "Type", 8, func(_ *format.Context, r *acctRow) string {
			if r.tres == nil {
				return ""
			}
			return r.tres.Type
		}},
		{"UnusedWall", "UnusedWall", 10, blank},
		{"UsageFactor", "UsageFactor", 11, either(nil, func(q *wire.QOS) string { return realNum(q.UsageFactor) })},
		{"UsageThreshold", "UsageThres", 10, either(nil, func(q *wire.QOS) string { return realNum(q.UsageThreshold) })},
		{"User", "User", 10, func(_ *format.Context, r *acctRow) string {
			switch {
			case r.user != nil:
				return r.user.Name
			case r.assoc != nil:
				return r.assoc.User
			case r.wckey != nil:
				return r.wckey.User
			}
			return ""
		}},
		{"WCKeys", "WCKey", 10, func(_ *format.Context, r *acctRow) string {
			if r.wckey == nil {
				return ""
			}
			return r.wckey.Name
		}},
		{"Where", "Where", 20, func(_ *format.Context, r *acctRow) string {
			return txnText(r, func(t *wire.AcctTxn) string { return t.Where })
		}},
	}
})

func share(_ *format.Context, r *acctRow) string {
	switch {
	case r.assoc == nil:
		return ""
	case r.assoc.SharesRaw == 0x7fffffff:
		return "parent"
	}
	return itoa(r.assoc.SharesRaw)
}

func txnText(r *acctRow, f func(*wire.AcctTxn) string) string {
	if r.txn == nil {
		return ""
	}
	return f(r.txn)
}

func clusterText(r *acctRow, f func(*wire.ClusterRec) string) string {
	if r.cluster == nil {
		return ""
	}
	return f(r.cluster)
}

func flagsText(_ *format.Context, r *acctRow) string {
	switch {
	case r.qos != nil:
		var out []string
		for _, f := range qosFlags {
			if slices.Contains(r.qos.Flags, f[1]) {
				out = append(out, f[0])
			}
		}
		return strings.Join(out, ",")
	case r.cluster != nil:
		return strings.ReplaceAll(strings.Join(r.cluster.Flags, ","), "MULTIPLE_SLURMD", "MultipleSlurmd")
	case r.account != nil:
		return or(strings.Join(r.account.Flags, ","), "None")
	}
	return "None"
}

// acctTable reads a list of columns; bad is the first that is not known.
func acctTable(columns string) (t format.Table[acctRow], bad string) {
	for _, item := range csv(columns) {
		name, width, told := strings.Cut(item, "%")
		f := acctColumn(name)
		if f == nil {
			return t, name
		}
		n := f.width
		if told {
			if w, err := strconv.Atoi(width); err == nil && w != 0 {
				n = w
			}
		}
		t.List = append(t.List, format.TableColumn[acctRow]{
			Field: &format.TableField[acctRow]{Name: f.header, Width: f.width, Value: f.value}, Width: max(n, -n), Left: n < 0,
		})
	}
	return t, ""
}

func acctColumn(name string) *acctField {
	fields := sacctmgrFields()
	for _, exact := range []bool{true, false} {
		for i := range fields {
			f := &fields[i]
			if exact && (strings.EqualFold(f.key, name) || strings.EqualFold(f.header, name)) || !exact && abbreviates(name, f.key, 1) {
				return f
			}
		}
	}
	return nil
}
