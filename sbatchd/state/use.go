package state

import (
	"slices"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// recount moves the use of nodes from one version of a job to the next. Use is
// derived from jobs and never stored, so it marks no rows.
func (t *tx) recount(was, is *job.Job) {
	held, holds := allocs(was), allocs(is)
	if sameUse(was, is) {
		return
	}
	for _, a := range held {
		t.use(was, a, -1)
	}
	for _, a := range holds {
		t.use(is, a, +1)
	}
}

func allocs(j *job.Job) []job.NodeAlloc {
	if j == nil || !j.Active() || j.Run == nil {
		return nil
	}
	return j.Run.Nodes
}

func sameUse(a, b *job.Job) bool {
	if a == nil || b == nil || a.Active() != b.Active() {
		return false
	}
	if !a.Active() {
		return true
	}
	return a.Run != nil && b.Run != nil && a.Run.Attempt == b.Run.Attempt && sameNodes(a.Run.Nodes, b.Run.Nodes) &&
		a.Flags.Has(job.Completing) == b.Flags.Has(job.Completing)
}

// sameNodes says whether two versions of a run share their list of nodes, which
// is replaced when it changes.
func sameNodes(a, b []job.NodeAlloc) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (t *tx) use(j *job.Job, a job.NodeAlloc, sign int) {
	n, ok := t.nodes.Get(a.Node)
	if !ok {
		return
	}
	n = n.Clone()
	n.UsedCPUs += sign * a.CPUs
	n.UsedMiB += int64(sign) * a.MemoryMiB
	at, found := slices.BinarySearch(n.Jobs, j.ID.Raw)
	n.Jobs = slices.Clone(n.Jobs)
	switch {
	case sign > 0 && !found:
		n.Jobs = slices.Insert(n.Jobs, at, j.ID.Raw)
	case sign < 0 && found:
		n.Jobs = slices.Delete(n.Jobs, at, at+1)
	}
	if len(a.Gres) > 0 {
		n.UsedGres = t.usedGres(n)
	}
	if j.Flags.Has(job.Completing) {
		n.CompletingJobs += sign
	}
	t.nodes.Set(n.Name, n)
}

// usedGres is the devices that the jobs on a node hold. It is counted anew each
// time: while jobs are fitted to a machine two may hold one device for a moment.
func (t *tx) usedGres(n *node.Node) map[string]uint64 {
	out := map[string]uint64{}
	for _, id := range n.Jobs {
		j, ok := t.jobs.Get(id)
		if !ok {
			continue
		}
		for _, a := range allocs(j) {
			if a.Node != n.Name {
				continue
			}
			for name, devices := range a.Gres {
				for _, d := range devices {
					out[name] |= 1 << d
				}
			}
		}
	}
	return out
}

// Restore rebuilds a state from loaded rows: the indexes and the use of nodes
// follow from the jobs. Nodes of the config that have no row yet are added,
// rows of nodes that left the config are kept while something lives on them.
func Restore(s *State, nextID uint32, jobs []*job.Job, nodes []*node.Node, instances []*node.Instance) (*State, error) {
	t := &tx{State: s.fork()}
	t.NextJobID = max(t.NextJobID, nextID)
	for _, i := range instances {
		t.instances.Set(i.Tag, i)
	}
	for _, n := range nodes {
		n = n.Clone()
		n.Jobs, n.UsedCPUs, n.UsedMiB, n.UsedGres, n.CompletingJobs = nil, 0, 0, nil, 0
		t.nodes.Set(n.Name, n)
	}
	want := t.conform()
	for _, j := range jobs {
		if err := t.putJob(j); err != nil {
			return nil, err
		}
		t.NextJobID = max(t.NextJobID, j.ID.Raw+1)
	}
	t.dismiss(want)
	return t.State, nil
}
