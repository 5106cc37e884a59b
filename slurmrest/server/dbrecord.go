package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// records turns accounting's records into the wire's, for one answer.
type records struct {
	*assoc.Book
	s    *state.State
	tres map[string]int64 // numbers by name
}

func (c *call) records() *records {
	s := c.s.cfg.Controller.Snapshot()
	r := &records{Book: s.Acct, s: s, tres: map[string]int64{}}
	for t := range s.Acct.AllTRES() {
		r.tres[t.String()] = int64(t.ID)
	}
	return r
}

// capOf is a limit: without one it is infinite.
func capOf(v *uint32) wire.Num {
	if v == nil {
		return wire.Infinite
	}
	return wire.N(*v)
}

func real(v *float64) wire.NumFloat {
	if v == nil {
		return wire.NumFloat{Infinite: true}
	}
	return wire.NumFloat{Set: true, Number: *v}
}

// list is a set of TRES as the API has it.
func (r *records) list(t tres.TRES) []wire.TRES {
	var out []wire.TRES
	for _, name := range t.Names() {
		typ, rest, _ := strings.Cut(name, "/")
		out = append(out, wire.TRES{Type: typ, Name: rest, ID: r.tres[name], Count: int64(t[name])})
	}
	return out
}

// The API's places of the limits, by the names of assoc.Numbers and assoc.Sets.

func assocNumbers(a *wire.Assoc) map[string]*wire.Num {
	return map[string]*wire.Num{
		"GrpJobs": &a.Max.Jobs.Per.Count, "GrpJobsAccrue": &a.Max.Jobs.Per.Accruing, "GrpSubmitJobs": &a.Max.Jobs.Per.Submitted,
		"GrpWall": &a.Max.Per.Account.WallClock, "MaxJobs": &a.Max.Jobs.Active, "MaxJobsAccrue": &a.Max.Jobs.Accruing,
		"MaxSubmitJobs": &a.Max.Jobs.Total, "MaxWall": &a.Max.Jobs.Per.WallClock, "MinPrioThresh": &a.Min.PriorityThreshold,
		"Priority": &a.Priority,
	}
}

func assocSets(a *wire.Assoc) map[string]*[]wire.TRES {
	return map[string]*[]wire.TRES{
		"GrpTRES": &a.Max.TRES.Total, "GrpTRESMins": &a.Max.TRES.Group.Minutes, "GrpTRESRunMins": &a.Max.TRES.Group.Active,
		"MaxTRES": &a.Max.TRES.Per.Job, "MaxTRESPerNode": &a.Max.TRES.Per.Node, "MaxTRESMins": &a.Max.TRES.Minutes.Per.Job,
		"MaxTRESRunMins": &a.Max.TRES.Minutes.Total,
	}
}

func qosNumbers(q *wire.QOS) map[string]*wire.Num {
	m := &q.Limits.Max
	return map[string]*wire.Num{
		"GrpJobs": &m.ActiveJobs.Count, "GrpJobsAccrue": &m.ActiveJobs.Accruing, "GrpSubmitJobs": &m.Jobs.Count,
		"GrpWall": &m.WallClock.Per.QOS, "MaxJobs": &m.Jobs.ActiveJobs.Per.User, "MaxJobsPA": &m.Jobs.ActiveJobs.Per.Account,
		"MaxJobsAccrue": &m.Accruing.Per.User, "MaxJobsAccruePA": &m.Accruing.Per.Account,
		"MaxSubmitJobs": &m.Jobs.Per.User, "MaxSubmitJobsPA": &m.Jobs.Per.Account, "MaxWall": &m.WallClock.Per.Job,
		"MinPrioThresh": &q.Limits.Min.PriorityThreshold,
	}
}

func qosSets(q *wire.QOS) map[string]*[]wire.TRES {
	t := &q.Limits.Max.TRES
	return map[string]*[]wire.TRES{
		"GrpTRES": &t.Total, "GrpTRESMins": &t.Minutes.Total, "GrpTRESRunMins": &t.Minutes.Per.QOS,
		"MaxTRES": &t.Per.Job, "MaxTRESPerNode": &t.Per.Node, "MaxTRESPU": &t.Per.User, "MaxTRESPA": &t.Per.Account,
		"MaxTRESMins": &t.Minutes.Per.Job, "MaxTRESRunMins": &t.Minutes.Per.User, "MaxTRESRunMinsPA": &t.Minutes.Per.Account,
		"MinTRES": &q.Limits.Min.TRES.Per.Job,
	}
}

// limits fills in the places of one record.
func (r *records) limits(l *assoc.Limits, numbers map[string]*wire.Num, sets map[string]*[]wire.TRES) {
	for _, n := range assoc.Numbers {
		if to := numbers[n.Name]; to != nil {
			*to = capOf(*n.Of(l))
		}
	}
	for _, s := range assoc.Sets {
		if to := sets[s.Name]; to != nil {
			*to = r.list(*s.Of(l))
		}
	}
}

func short(a *assoc.Assoc) wire.AssocShort {
	return wire.AssocShort{Account: a.Account, Cluster: a.Cluster, Partition: a.Partition, User: a.User, ID: int64(a.ID)}
}

// assoc shows an association with what it inherits, unless own is set.
func (r *records) assoc(a *assoc.Assoc, own bool) *wire.Assoc {
	e := a
	if !own {
		e = r.Effective(a)
	}
	w := &wire.Assoc{
		Account: a.Account, Cluster: a.Cluster, Comment: a.Comment, ID: int64(a.ID), IsDefault: a.Default, Lineage: r.Lineage(a),
		Partition: a.Partition, QOS: r.qosNames(e.QOS), SharesRaw: int64(a.Shares), User: a.User,
	}
	if e.DefaultQOS != 0 {
		w.Default.QOS = strings.Join(r.QOSNames([]assoc.ID{e.DefaultQOS}), "")
	}
	if p, ok := r.Assoc(a.Parent); ok && a.User == "" {
		w.ParentAccount = p.Account
	}
	r.limits(&e.Limits, assocNumbers(w), assocSets(w))
	return w
}

// qosNames are sorted by name, as everywhere in Slurm.
func (r *records) qosNames(ids []assoc.ID) []string {
	return slices.Sorted(slices.Values(r.QOSNames(ids)))
}

// account shows an account, with its associations and coordinators where they
// are asked for.
func (r *records) account(a *assoc.Account, assocs, coords bool) *wire.Account {
	w := &wire.Account{Name: a.Name, Description: a.Description, Organization: a.Organization}
	if a.UsersCoords {
		w.Flags = []string{"UsersAreCoords"}
	}
	if assocs {
		for _, as := range r.Select(assoc.Filter{Accounts: []string{a.Name}}) {
			w.Associations = append(w.Associations, short(as))
		}
	}
	if coords {
		w.Coordinators = coordinators(r.Coordinators(a.Name))
	}
	return w
}

func coordinators(m map[string]bool) []wire.Coord {
	var out []wire.Coord
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, wire.Coord{Name: name, Direct: m[name]})
	}
	return out
}

// userDetail is what of a user is asked for.
type userDetail struct{ assocs, coords, wckeys bool }

func (r *records) user(u *assoc.User, d userDetail) *wire.User {
	w := &wire.User{Name: u.Name, AdministratorLevel: []string{u.Level.String()}, Flags: []string{"NONE"}}
	if d.assocs {
		w.Default.Account = r.DefaultAccount(r.s.Config.ClusterName, u.Name)
		for _, as := range r.Select(assoc.Filter{Users: []string{u.Name}}) {
			w.Associations = append(w.Associations, short(as))
		}
	}
	if d.coords {
		w.Coordinators = coordinators(r.Coordinates(u.Name))
	}
	if d.wckeys {
		w.Default.Wckey = u.DefaultWCKey
		for k := range r.WCKeys() {
			if k.User == u.Name {
				w.Wckeys = append(w.Wckeys, *wckey(k))
			}
		}
	}
	return w
}

func wckey(k *assoc.WCKey) *wire.Wckey {
	return &wire.Wckey{Cluster: k.Cluster, ID: int64(k.ID), Name: k.Name, User: k.User}
}

func (r *records) qos(q *assoc.QOS) *wire.QOS {
	w := &wire.QOS{
		Description: q.Description, ID: int64(q.ID), Name: q.Name, Priority: wire.N(q.Priority),
		UsageFactor: wire.NumFloat{Set: true, Number: q.UsageFactor}, UsageThreshold: real(q.UsageThreshold),
	}
	for _, f := range assoc.Flags {
		if slices.Contains(q.Flags, f.Flag) {
			w.Flags = append(w.Flags, f.Wire)
		}
	}
	w.Limits.Factor, w.Limits.GraceTime = real(q.LimitFactor), int64(q.GraceTime)
	w.Preempt = wire.QOSPreempt{ExemptTime: capOf(q.PreemptExempt), List: r.QOSNames(q.Preempt), Mode: []string{"DISABLED"}}
	if q.PreemptMode != "" {
		w.Preempt.Mode = []string{strings.ToUpper(q.PreemptMode)}
	}
	r.limits(&q.Limits, qosNumbers(w), qosSets(w))
	return w
}

// cluster shows a cluster; of one's own also what is in it.
func (r *records) cluster(cl *assoc.Cluster, host string) *wire.ClusterRec {
	w := &wire.ClusterRec{Name: cl.Name}
	if root, ok := r.At(assoc.Place{Cluster: cl.Name, Account: assoc.Root}); ok {
		w.Associations.Root = short(root)
	}
	if cl.Name != r.s.Config.ClusterName {
		return w
	}
	w.Controller = wire.ClusterRecController{Host: host, Port: controllerPort}
	w.Flags, w.RPCVersion = []string{"MULTIPLE_SLURMD"}, rpcVersion
	var names []string
	total := tres.TRES{}
	for n := range r.s.Nodes() {
		names = append(names, n.Name)
		total[tres.CPU] += uint64(n.CPUs)
		total[tres.Mem] += uint64(n.MemoryMiB)
		total[tres.Node]++
		for _, g := range n.Gres {
			total["gres/"+g.Name] += uint64(g.Count)
		}
	}
	total[tres.Billing] = total[tres.CPU]
	w.Nodes = hostlist.Compress(names)
	for t := range r.AllTRES() {
		w.TRES = append(w.TRES, wire.TRES{Type: t.Type, Name: t.Name, ID: int64(t.ID), Count: int64(total[t.String()])})
	}
	return w
}

// What a client of slurmctld's own protocol would need; we speak REST only.
const (
	controllerPort = 6817
	rpcVersion     = 11520 // Slurm 26.05's
)
