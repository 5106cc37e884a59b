package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// room is what a node has free in a plan.
type room struct {
	node *node.Node
	cpus int
	mem  int64
	gres map[string]uint64 // name -> taken devices
}

func roomOf(n *node.Node) room {
	return room{node: n, cpus: n.CPUs - n.UsedCPUs, mem: n.MemoryMiB - n.UsedMiB, gres: n.UsedGres}
}

// empty is the node as if nothing ran on it.
func empty(n *node.Node) room { return room{node: n, cpus: n.CPUs, mem: n.MemoryMiB} }

// take removes an allocation from the room.
func (r room) take(a job.NodeAlloc) room {
	r.cpus -= a.CPUs
	r.mem -= a.MemoryMiB
	taken := map[string]uint64{}
	maps.Copy(taken, r.gres)
	for name, devices := range a.Gres {
		for _, d := range devices {
			taken[name] |= 1 << d
		}
	}
	r.gres = taken
	return r
}

// give is the opposite of take.
func (r room) give(a job.NodeAlloc) room {
	r.cpus += a.CPUs
	r.mem += a.MemoryMiB
	taken := map[string]uint64{}
	maps.Copy(taken, r.gres)
	for name, devices := range a.Gres {
		for _, d := range devices {
			taken[name] &^= 1 << d
		}
	}
	r.gres = taken
	return r
}

// fit is how many of at most want tasks the room holds. 0 is none.
func (n Need) fit(r room, want int) int {
	if n.Exclusive && r.cpus < r.node.CPUs {
		return 0
	}
	most := want
	if n.TasksPerNode > 0 {
		most = min(most, n.TasksPerNode)
	}
	if !n.Overcommit {
		most = min(most, r.cpus/n.CPUsPerTask)
	}
	for t := most; t > 0; t-- {
		if _, ok := n.alloc(r, t); ok {
			return t
		}
	}
	return 0
}

// alloc is what t tasks of the job hold in a room.
func (n Need) alloc(r room, t int) (job.NodeAlloc, bool) {
	a := job.NodeAlloc{Node: r.node.Name, Tasks: t, CPUs: max(t*n.CPUsPerTask, n.MinCPUs)}
	if n.Overcommit {
		a.CPUs = max(1, n.MinCPUs)
	}
	if n.Exclusive {
		a.CPUs = r.node.CPUs
	}
	if a.CPUs > r.cpus || n.TmpDisk > r.node.TmpDiskMiB && n.TmpDisk > 0 {
		return a, false
	}
	want := slices.Clone(n.PerNode)
	for _, g := range n.PerTask {
		g.Count *= uint64(t)
		want = append(want, g)
	}
	if n.NodesMin == 1 && n.NodesMax <= 1 || n.NodesMax == 0 && n.NodesMin <= 1 {
		want = append(want, n.PerJob...)
	} else {
		for _, g := range n.PerJob {
			g.Count = (g.Count + uint64(n.NodesMin) - 1) / uint64(n.NodesMin)
			want = append(want, g)
		}
	}
	gpus := 0
	for _, g := range want {
		if g.Count == 0 || g.NoConsume {
			continue
		}
		devices, ok := pick(r, a.Gres[g.Name], g)
		if !ok {
			return a, false
		}
		if a.Gres == nil {
			a.Gres = map[string][]int{}
		}
		a.Gres[g.Name] = append(a.Gres[g.Name], devices...)
		slices.Sort(a.Gres[g.Name])
		if g.Name == "gpu" {
			gpus += len(devices)
		}
	}
	switch {
	case n.MemPerNode == AllMemory:
		a.MemoryMiB = r.node.MemoryMiB
	case n.MemPerCPU > 0:
		a.MemoryMiB = n.MemPerCPU * int64(a.CPUs)
	case n.MemPerGPU > 0:
		a.MemoryMiB = n.MemPerGPU * int64(max(1, gpus))
	default:
		a.MemoryMiB = n.MemPerNode
	}
	return a, a.MemoryMiB <= r.mem
}

// pick chooses free devices of a gres on a node, lowest index first. Devices
// are numbered through the node's gres of one name, type after type.
func pick(r room, already []int, g tres.Gres) ([]int, bool) {
	var out []int
	at := 0
	for _, have := range r.node.Gres {
		if have.Name != g.Name {
			continue
		}
		for d := at; d < at+have.Count && d < 64; d++ {
			if uint64(len(out)) == g.Count {
				break
			}
			free := r.gres[g.Name]&(1<<d) == 0 && !slices.Contains(already, d)
			if free && (g.Type == "" || strings.EqualFold(g.Type, have.Type)) {
				out = append(out, d)
			}
		}
		at += have.Count
	}
	return out, uint64(len(out)) == g.Count
}

// place puts the job on rooms. Of a matching constraint each list is tried by
// itself, in order.
func (n Need) place(rooms []room) ([]job.NodeAlloc, bool) {
	if !n.Features.same {
		return n.fill(rooms)
	}
	for _, all := range n.Features.any {
		one := constraint{any: alternatives{all}}
		matching := slices.DeleteFunc(slices.Clone(rooms), func(r room) bool { return !one.holds(r.node.Features) })
		if out, ok := n.fill(matching); ok {
			return out, true
		}
	}
	return nil, false
}

// fill puts the job on rooms, tried in order: the fewest nodes that satisfy
// the node range and hold all tasks, tasks filled block-wise (Slurm's default
// distribution over nodes). All nodes or none.
func (n Need) fill(rooms []room) ([]job.NodeAlloc, bool) {
	type cand struct {
		room room
		most int
	}
	var cands []cand
	for _, r := range rooms {
		if most := n.fit(r, n.Tasks); most > 0 {
			cands = append(cands, cand{r, most})
		}
	}
	if len(cands) < n.NodesMin {
		return nil, false
	}
	limit := n.NodesMax
	if limit == 0 {
		limit = max(n.NodesMin, n.Tasks)
	}
	chosen := cands[:n.NodesMin]
	sum := 0
	for _, c := range chosen {
		sum += c.most
	}
	if sum < n.Tasks {
		for _, c := range cands[n.NodesMin:] {
			if sum >= n.Tasks || len(chosen) == limit {
				break
			}
			chosen, sum = append(slices.Clone(chosen), c), sum+c.most
		}
	}
	if sum < n.Tasks {
		// The first ones are too small: take the roomiest, keeping their order.
		big := slices.Clone(cands)
		slices.SortStableFunc(big, func(a, b cand) int { return b.most - a.most })
		chosen = big[:min(limit, len(big))]
		sum = 0
		for _, c := range chosen {
			sum += c.most
		}
		if sum < n.Tasks {
			return nil, false
		}
	}
	left := n.Tasks
	out := make([]job.NodeAlloc, 0, len(chosen))
	for i, c := range chosen {
		others := len(chosen) - i - 1
		t := min(c.most, left-others)
		a, ok := n.alloc(c.room, max(1, t))
		if !ok {
			return nil, false
		}
		left -= a.Tasks
		out = append(out, a)
	}
	return out, left <= 0
}

// Fit gives a job's part on a node again, on the machine that turned out to be
// behind it and beside what others hold there; false when it is too small.
func Fit(c *partitions.Config, j *job.Job, a job.NodeAlloc, n *node.Node, beside []job.NodeAlloc) (job.NodeAlloc, bool) {
	part := c.Partition(j.Run.Partition)
	if part == nil {
		return a, false
	}
	need, err := NeedOf(j.Spec, part, c)
	if err != nil {
		return a, false
	}
	r := empty(n)
	for _, b := range beside {
		r = r.take(b)
	}
	if need.Exclusive && len(beside) > 0 {
		return a, false
	}
	return need.alloc(r, a.Tasks)
}
