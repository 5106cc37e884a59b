package scheduler

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// Decisions is what one pass wants of the queue.
type Decisions struct {
	Starts  []Start
	Reasons []Waiting
	Depends []Depends
	Dead    []Dead
}

// Depends says what a job still waits for.
type Depends struct {
	Job  uint32
	Left *job.Depends
}

// Dead is a job, or tasks of an array, whose dependency can never be met and that
// is to be cancelled then.
type Dead struct {
	Job   uint32
	Tasks job.TaskSet
}

// Start gives a job its nodes.
type Start struct {
	Job       uint32
	Task      uint32 // of the array whose waiting tasks the job is; else job.NoTask
	Partition string
	Nodes     []job.NodeAlloc
	Parts     []Start // of the components that the job leads, at the same moment
}

// Waiting says why a job does not start now.
type Waiting struct {
	Job    uint32
	Reason job.Reason
	Detail string
}

// maxTested bounds the jobs one pass looks at (bf_max_job_test's role).
const maxTested = 1000

// Plan decides which pending jobs start at now.
func Plan(s *state.State, now time.Time) Decisions {
	p := newPass(s, now)
	for _, j := range p.order() {
		p.consider(j)
	}
	return p.out
}

// pass is one run of the scheduler.
type pass struct {
	s       *state.State
	now     time.Time
	rooms   map[string]room  // what this pass has left on a node
	blocked map[string]*hold // partition -> the reservation of its first waiting job
	ends    []end            // of the jobs this pass starts
	tested  int
	ready   map[uint32]job.TaskSet // array -> its tasks whose dependency is met
	fates   map[uint32]fate        // of arrays that others wait for
	eldest  map[named]uint32       // lowest id of the jobs that one name has, filled on first use
	arrays  map[uint32]int         // array -> tasks that hold nodes, filled on first use
	out     Decisions
}

func newPass(s *state.State, now time.Time) *pass {
	return &pass{s: s, now: now, rooms: map[string]room{}, blocked: map[string]*hold{}, ready: map[uint32]job.TaskSet{}}
}

// end is when an allocation is given back at the latest.
type end struct {
	at    time.Time
	alloc job.NodeAlloc
}

// hold is the reservation of a waiting job: nodes it will get at a time.
type hold struct {
	at    time.Time
	nodes map[string]job.NodeAlloc
}

// order lists the jobs that may start at all, best first, and says of the
// others why they wait.
func (p *pass) order() []*job.Job {
	var list []*job.Job
	for j := range p.s.Pending() {
		if j.Flags.Has(job.Completing) || j.Follows() {
			continue
		}
		switch reason := p.gate(j); reason {
		case job.ReasonNone:
			list = append(list, j)
		default:
			p.wait(j, reason, "")
		}
	}
	slices.SortStableFunc(list, func(a, b *job.Job) int {
		return cmp.Or(cmp.Compare(p.tier(b), p.tier(a)), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID.Raw, b.ID.Raw))
	})
	return list
}

func (p *pass) tier(j *job.Job) int {
	if part := p.s.Config.Partition(j.Partition); part != nil {
		return part.PriorityTier
	}
	return 0
}

// gate is what keeps a job from being looked at.
func (p *pass) gate(j *job.Job) job.Reason {
	switch {
	case j.Held():
		if j.Reason.Held() {
			return j.Reason
		}
		return job.ReasonHeldUser
	case j.Begin.After(p.now):
		return job.ReasonBeginTime
	}
	switch v, tasks := p.depends(j); v {
	case depWait:
		return job.ReasonDependency
	case depNever:
		return job.ReasonNeverSatisfied
	case depMet:
		if tasks.Len() > 0 {
			p.ready[j.ID.Raw] = tasks
		}
	}
	return job.ReasonNone
}

func (p *pass) wait(j *job.Job, r job.Reason, detail string) {
	if j.Reason != r || j.Detail != detail {
		p.out.Reasons = append(p.out.Reasons, Waiting{Job: j.ID.Raw, Reason: r, Detail: detail})
	}
}

// consider starts a job, or as many tasks of an array as may and can start now.
func (p *pass) consider(j *job.Job) {
	if j.Leads() {
		p.together(j)
		return
	}
	one := func(yield func(uint32) bool) { yield(job.NoTask) }
	tasks := iter.Seq[uint32](one)
	if j.Waiting() {
		tasks = p.ready[j.ID.Raw].All()
	}
	limit := int(p.s.TaskLimit(j))
	for task := range tasks {
		if limit > 0 && p.running(j.ID.Array) >= limit {
			p.wait(j, job.ReasonArrayTaskLimit, "")
			return
		}
		if !p.start(j, task) {
			return
		}
		if limit > 0 {
			p.arrays[j.ID.Array]++
		}
	}
}

// together starts all components of a heterogeneous job, or none.
func (p *pass) together(j *job.Job) {
	rooms, ends, starts, reasons := maps.Clone(p.rooms), len(p.ends), len(p.out.Starts), len(p.out.Reasons)
	began := p.start(j, job.NoTask)
	for part := range p.s.Parts(j) {
		began = began && p.start(part, job.NoTask)
	}
	if !began {
		p.rooms, p.ends, p.out.Starts = rooms, p.ends[:ends], p.out.Starts[:starts]
		p.out.Reasons = p.out.Reasons[:reasons]
		p.wait(j, job.ReasonResources, "")
		return
	}
	lead := p.out.Starts[starts]
	lead.Parts = slices.Clone(p.out.Starts[starts+1:])
	p.out.Starts = append(p.out.Starts[:starts], lead)
}

// running is how many tasks of an array hold nodes, this pass's included.
func (p *pass) running(array uint32) int {
	if p.arrays == nil {
		p.arrays = map[uint32]int{}
		for j := range p.s.Active() {
			if j.ID.Array != 0 {
				p.arrays[j.ID.Array]++
			}
		}
	}
	return p.arrays[array]
}

// start tries every partition the job names, in order.
func (p *pass) start(j *job.Job, task uint32) bool {
	if p.tested >= maxTested {
		p.wait(j, job.ReasonPriority, "")
		return false
	}
	p.tested++
	reason, detail := job.ReasonPartitionDown, ""
	for i, name := range strings.Split(j.Spec.Partitions, ",") {
		part := p.s.Config.Partition(name)
		if part == nil {
			continue
		}
		r, d, started := p.tryPartition(j, task, part)
		if started {
			return true
		}
		if i == 0 || r == job.ReasonResources {
			reason, detail = r, d
		}
	}
	p.wait(j, reason, detail)
	return false
}

func (p *pass) tryPartition(j *job.Job, task uint32, part *partitions.Partition) (job.Reason, string, bool) {
	switch strings.ToUpper(part.State) {
	case "DOWN":
		return job.ReasonPartitionDown, "", false
	case "INACTIVE":
		return job.ReasonPartitionInactive, "", false
	}
	if over := overLimit(j.Spec, part); over != job.ReasonNone {
		return over, "", false
	}
	need, err := NeedOf(j.Spec, part, p.s.Config)
	if err != nil {
		return job.ReasonBadConstraints, err.Error(), false
	}
	rooms, why := p.candidates(j, part, need)
	ahead := p.blocked[part.Name]
	if ahead != nil {
		rooms = p.besides(rooms, ahead, j)
	}
	if nodes, ok := need.place(rooms); ok {
		for _, a := range nodes {
			left := p.room(a.Node).take(a)
			if p.unknown(left.node) {
				left.cpus = 0
			}
			p.rooms[a.Node] = left
			p.ends = append(p.ends, end{state.EndOf(p.now, j.Spec.TimeLimit), a})
		}
		p.out.Starts = append(p.out.Starts, Start{Job: j.ID.Raw, Task: task, Partition: part.Name, Nodes: nodes})
		return "", "", true
	}
	if ahead != nil {
		return job.ReasonPriority, "", false
	}
	p.blocked[part.Name] = p.reserve(j, part, need)
	return job.ReasonResources, why, false
}

// overLimit is the partition limit a job exceeds, if any.
func overLimit(s *job.Spec, p *partitions.Partition) job.Reason {
	if s.TimeLimit > uint32(p.MaxTime) {
		return job.ReasonPartitionTime
	}
	if p.MaxNodes > 0 && max(1, s.NodesMin) > p.MaxNodes || s.NodesMax > 0 && s.NodesMax < p.MinNodes {
		return job.ReasonPartitionNodes
	}
	return job.ReasonNone
}

func (p *pass) room(name string) room {
	if r, ok := p.rooms[name]; ok {
		return r
	}
	n, _ := p.s.Node(name)
	r := roomOf(n)
	if p.unknown(n) && len(n.Jobs) > 0 {
		r.cpus = 0
	}
	p.rooms[name] = r
	return r
}

// unknown says whether nobody knows yet how large a node will be: its pool takes
// what is offered, and nothing is rented. Such a node waits for one job alone,
// so that more than any machine has is never asked for; others join it once it
// has a size.
func (p *pass) unknown(n *node.Node) bool {
	pool := p.s.Config.Pool(n.Pool)
	return pool != nil && (pool.CPUs == 0 || pool.RealMemory == 0) && n.Instance == "" &&
		n.Flags&(node.PoweredDown|node.PoweringUp) != 0
}

// candidates lists the partition's nodes the job may use now, best first:
// machines that are there before machines that must be rented, then by the
// order of pools, weight and place in the partition. why is a sentence on
// pools that are set aside.
func (p *pass) candidates(j *job.Job, part *partitions.Partition, need Need) ([]room, string) {
	type ranked struct {
		room
		key [4]int
	}
	var list []ranked
	var why []string
	only, exclude := nodeSets(j.Spec)
	usable := map[string]bool{}
	rank := map[string]int{}
	for i, pool := range part.Pools {
		rank[pool.Name] = i
		ok, sentence := p.poolUsable(j, pool)
		usable[pool.Name] = ok
		if !ok {
			why = append(why, sentence)
		}
	}
	for i, name := range part.NodeNames() {
		n, ok := p.s.Node(name)
		if !ok || !n.Schedulable() || exclude[name] || len(only) > 0 && !only[name] || !need.Features.holds(n.Features) {
			continue
		}
		up := 0
		switch {
		case n.Flags.Has(node.PoweringUp):
			up = 1
		case n.Flags.Has(node.PoweredDown):
			up = 2
			if !usable[n.Pool] {
				continue
			}
		}
		list = append(list, ranked{p.room(name), [4]int{up, rank[n.Pool], n.Weight, i}})
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return slices.Compare(a.key[:], b.key[:]) })
	rooms := make([]room, len(list))
	for i, r := range list {
		rooms[i] = r.room
	}
	return rooms, strings.Join(why, "; ")
}

// poolUsable says whether the job may have a new node of the pool now.
func (p *pass) poolUsable(j *job.Job, pool *partitions.Pool) (bool, string) {
	if st, ok := p.s.Pools[pool.Name]; ok && st.Until.After(p.now) {
		return false, fmt.Sprintf("pool %s: %s", pool.Name, st.Why)
	}
	if sentence := Forbidden(j.Spec.Burst, pool); sentence != "" {
		return false, sentence
	}
	if pool.Down() {
		return false, fmt.Sprintf("pool %s is DOWN", pool.Name)
	}
	return true, ""
}

// Forbidden says why a job's own #BURST rules exclude a pool, or nothing.
func Forbidden(b *job.Burst, pool *partitions.Pool) string {
	if b == nil {
		return ""
	}
	if len(b.Providers) > 0 && !slices.Contains(b.Providers, pool.Provider.Name) && !slices.Contains(b.Providers, pool.Provider.Type) {
		return fmt.Sprintf("pool %s: provider %s is not among --providers", pool.Name, pool.Provider.Name)
	}
	if b.Trust != "" && trustRank(string(pool.Trust)) < trustRank(b.Trust) {
		return fmt.Sprintf("pool %s: trust %s is less than --trust=%s", pool.Name, pool.Trust, b.Trust)
	}
	if b.Interconnect != "" && !strings.EqualFold(b.Interconnect, "any") && !strings.EqualFold(string(pool.Interconnect), b.Interconnect) {
		return fmt.Sprintf("pool %s: interconnect %s is not --interconnect=%s", pool.Name, pool.Interconnect, b.Interconnect)
	}
	return ""
}

func trustRank(t string) int {
	switch strings.ToLower(t) {
	case "own":
		return 2
	case "cloud":
		return 1
	}
	return 0
}

func nodeSets(s *job.Spec) (only, exclude map[string]bool) {
	return nameSet(s.ReqNodes), nameSet(s.ExcNodes)
}

func nameSet(list string) map[string]bool {
	if list == "" {
		return nil
	}
	names, err := hostlist.Parse(list)
	if err != nil {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// besides removes the nodes a waiting job has reserved, unless j ends before
// it wants them or leaves it enough.
func (p *pass) besides(rooms []room, ahead *hold, j *job.Job) []room {
	ends := state.EndOf(p.now, j.Spec.TimeLimit)
	if !ends.After(ahead.at) {
		return rooms
	}
	out := make([]room, 0, len(rooms))
	for _, r := range rooms {
		if a, ok := ahead.nodes[r.node.Name]; ok {
			// What is left of the whole node after the reservation bounds j.
			left := empty(r.node).take(a)
			r.cpus, r.mem = min(r.cpus, left.cpus), min(r.mem, left.mem)
			if r.cpus <= 0 {
				continue
			}
			merged := r.take(a)
			r.gres = merged.gres
		}
		out = append(out, r)
	}
	return out
}

// reserve finds the earliest moment the job fits on the partition's nodes, as
// running jobs end, and which nodes it would get. No moment is an empty hold:
// it keeps nothing from jobs behind.
func (p *pass) reserve(j *job.Job, part *partitions.Partition, need Need) *hold {
	rooms := map[string]room{}
	var names []string
	only, exclude := nodeSets(j.Spec)
	for _, name := range part.NodeNames() {
		n, ok := p.s.Node(name)
		if !ok || n.Down || n.Flags&(node.Drain|node.Fail) != 0 || exclude[name] || len(only) > 0 && !only[name] || !need.Features.holds(n.Features) {
			continue
		}
		rooms[name] = p.room(name)
		names = append(names, name)
	}
	var ends []end
	for _, e := range p.ends {
		if _, ok := rooms[e.alloc.Node]; ok {
			ends = append(ends, e)
		}
	}
	for r := range p.s.Active() {
		for _, a := range r.Run.Nodes {
			if _, ok := rooms[a.Node]; ok {
				ends = append(ends, end{r.End, a})
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	for i, e := range ends {
		rooms[e.alloc.Node] = rooms[e.alloc.Node].give(e.alloc)
		if i+1 < len(ends) && ends[i+1].at.Equal(e.at) {
			continue
		}
		list := make([]room, len(names))
		for k, name := range names {
			list[k] = rooms[name]
		}
		if nodes, ok := need.place(list); ok {
			h := &hold{at: e.at, nodes: map[string]job.NodeAlloc{}}
			for _, a := range nodes {
				h.nodes[a.Node] = a
			}
			return h
		}
	}
	return &hold{}
}
