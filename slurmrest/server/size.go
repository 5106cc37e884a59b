package server

import (
	"strings"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// size is what a job asks for or holds. What it asks for is counted as Slurm
// 26.05 counts it for its records (asked of a real one); what it will be given
// is the scheduler's to say.
type size struct {
	nodes, tasks, cpus   int
	shown                int // nodes of the record of a waiting job
	requested, allocated tres.TRES
	requestedText        string
}

// request is all of a spec that says its size. Most jobs of a list ask for what
// another one asks for.
type request struct {
	nodesMin, nodesMax, tasks, tasksPerNode, cpusPerTask int
	memPerCPU, memPerGPU, memPerNode                     int64
	tasksSet, memSet, overcommit                         bool
	partitions, cpusPerTRES                              string
	perNode, perSocket, perTask, perJob                  string
}

func requestOf(s *job.Spec) request {
	return request{
		nodesMin: s.NodesMin, nodesMax: s.NodesMax, tasks: s.Tasks, tasksPerNode: s.TasksPerNode, cpusPerTask: s.CPUsPerTask,
		memPerCPU: s.MemPerCPU, memPerGPU: s.MemPerGPU, memPerNode: s.MemPerNode,
		tasksSet: s.TasksSet, memSet: s.MemSet, overcommit: s.Overcommit,
		partitions: s.Partitions, cpusPerTRES: s.CPUsPerTRES,
		perNode: s.TRESPerNode, perSocket: s.TRESPerSocket, perTask: s.TRESPerTask, perJob: s.TRESPerJob,
	}
}

// maxSizes bounds what a viewer remembers.
const maxSizes = 1000

func (v *viewer) size(j *job.Job) size {
	key := requestOf(j.Spec)
	z, known := v.sizes[key]
	if !known {
		z = v.requested(j.Spec)
		if v.sizes == nil || len(v.sizes) >= maxSizes {
			v.sizes = map[request]size{}
		}
		v.sizes[key] = z
	}
	if j.Run == nil || j.State == job.Pending && !j.Flags.Has(job.Completing) {
		return z
	}
	z.nodes, z.cpus = len(j.Run.Nodes), j.Run.CPUs()
	z.shown = z.nodes
	z.allocated = allocated(j.Run)
	return z
}

func (v *viewer) requested(s *job.Spec) size {
	z := size{nodes: max(1, s.NodesMin), tasks: s.Tasks}
	if !s.TasksSet || z.tasks == 0 {
		z.tasks = max(s.Tasks, z.nodes*max(1, s.TasksPerNode))
	}
	if s.TasksPerNode > 0 {
		z.nodes = max(z.nodes, (z.tasks+s.TasksPerNode-1)/s.TasksPerNode)
	}
	perTask := max(1, s.CPUsPerTask)
	switch {
	case s.Overcommit:
		z.cpus = max(1, s.NodesMin)
	case s.NodesMax > s.NodesMin && !s.TasksSet && s.TasksPerNode == 0:
		z.cpus = perTask // a range of nodes leaves the tasks open
	default:
		z.cpus = z.tasks * perTask
	}
	gres := tres.TRES{}
	addGres(gres, s.TRESPerNode, z.nodes)
	addGres(gres, s.TRESPerSocket, z.nodes)
	addGres(gres, s.TRESPerTask, z.tasks)
	addGres(gres, s.TRESPerJob, 1)
	gpus := int(gres["gres/gpu"])
	if per := perTRES(s.CPUsPerTRES); per > 0 {
		z.cpus = max(z.cpus, gpus*int(per))
	}
	z.requested = tres.TRES{
		tres.CPU: uint64(z.cpus), tres.Mem: uint64(v.requestedMemory(s, z, gpus)), tres.Node: uint64(z.nodes), tres.Billing: uint64(z.cpus),
	}
	for name, n := range gres {
		z.requested[name] = n
	}
	z.shown = max(z.nodes, v.spread(s, z))
	z.requestedText = z.requested.String()
	return z
}

// requestedMemory is in MiB. --mem=0 counts as the smallest node's memory.
func (v *viewer) requestedMemory(s *job.Spec, z size, gpus int) int64 {
	switch {
	case s.MemPerCPU > 0:
		return s.MemPerCPU * int64(z.cpus)
	case s.MemPerGPU > 0:
		return s.MemPerGPU * int64(gpus)
	case s.MemSet && s.MemPerNode == 0:
		return v.smallest(v.partition(s)) * int64(z.nodes)
	case s.MemSet:
		return s.MemPerNode * int64(z.nodes)
	}
	if n := v.defaultPerCPU(s); n > 0 {
		return n * int64(z.cpus)
	}
	return v.defaultPerNode(s) * int64(z.nodes)
}

// smallest is the memory of the partition's smallest node in MiB.
func (v *viewer) smallest(p *partitions.Partition) int64 {
	if p == nil {
		return 0
	}
	least, known := v.least[p]
	if known {
		return least
	}
	for _, name := range p.NodeNames() {
		if n, ok := v.s.Node(name); ok && n.MemoryMiB > 0 && (least == 0 || n.MemoryMiB < least) {
			least = n.MemoryMiB
		}
	}
	if v.least == nil {
		v.least = map[*partitions.Partition]int64{}
	}
	v.least[p] = least
	return least
}

// spread is the fewest nodes that a waiting job's tasks can be on, by the CPUs
// of the largest node.
func (v *viewer) spread(s *job.Spec, z size) int {
	if z.cpus <= 1 || s.Overcommit || s.TasksPerNode > 0 {
		return 0
	}
	p := v.partition(s)
	if p == nil {
		return 0
	}
	most := 0
	for _, n := range p.Nodes {
		most = max(most, n.CPUs)
	}
	for _, pool := range p.Pools {
		most = max(most, pool.CPUs)
	}
	if most == 0 || z.tasks <= 1 {
		return 0
	}
	return (z.tasks + most - 1) / most
}

// cpusOfNode is the least number of CPUs each node must give.
func cpusOfNode(s *job.Spec) int {
	n := max(1, s.CPUsPerTask)
	if !s.Overcommit {
		n *= max(1, tasksOfNode(s))
	}
	return max(n, s.MinCPUs)
}

// tasksOfNode is --ntasks-per-node, or how many tasks the node's GPUs are for.
func tasksOfNode(s *job.Spec) int {
	if s.TasksPerNode > 0 {
		return s.TasksPerNode
	}
	node, task := tres.TRES{}, tres.TRES{}
	addGres(node, s.TRESPerNode, 1)
	addGres(task, s.TRESPerTask, 1)
	if task["gres/gpu"] == 0 {
		return 0
	}
	return int(node["gres/gpu"] / task["gres/gpu"])
}

// maxNodes is --nodes' upper end; without it Slurm shows as many nodes as a held
// job's tasks can be on, for it gets no more than that, and nothing for another.
func maxNodes(j *job.Job, z size) int {
	s := j.Spec
	switch {
	case s.NodesMax > 0 || j.Priority > 0:
		return s.NodesMax
	case !s.TasksSet && z.tasks == 1 && s.CPUsPerTask > 1 && s.TasksPerNode == 0:
		return 0
	case tasksOfNode(s) > 0:
		return (z.tasks + tasksOfNode(s) - 1) / tasksOfNode(s)
	}
	return z.tasks
}

// allocated counts what an attempt held.
func allocated(r *job.Run) tres.TRES {
	cpus := uint64(r.CPUs())
	t := tres.TRES{tres.CPU: cpus, tres.Node: uint64(len(r.Nodes)), tres.Billing: cpus}
	for _, a := range r.Nodes {
		t[tres.Mem] += uint64(max(0, a.MemoryMiB))
		for name, devices := range a.Gres {
			t["gres/"+name] += uint64(len(devices))
		}
	}
	return t
}

// addGres adds times the GRES of a request such as gres/gpu:2; what else it
// names (cpu=2) is counted elsewhere.
func addGres(t tres.TRES, text string, times int) {
	for item := range strings.SplitSeq(text, ",") {
		if !strings.HasPrefix(item, "gres") {
			continue
		}
		list, err := tres.ParseGres(item)
		if err != nil {
			continue
		}
		for _, g := range list {
			g.Count *= uint64(max(times, 0))
			t.AddGres([]tres.Gres{g})
		}
	}
}
