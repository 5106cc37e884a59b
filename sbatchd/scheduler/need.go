package scheduler

import (
	"cmp"
	"strings"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Need is what a job asks of nodes, with the partition's defaults filled in.
type Need struct {
	NodesMin, NodesMax int // NodesMax 0 is no limit
	Tasks              int
	TasksPerNode       int // 0 is no limit
	CPUsPerTask        int
	MinCPUs            int   // of the node
	MemPerNode         int64 // MiB; AllMemory is all the node has
	MemPerCPU          int64
	MemPerGPU          int64
	TmpDisk            int64
	PerNode, PerTask   []tres.Gres
	PerJob             []tres.Gres
	Exclusive          bool
	Overcommit         bool // a node's tasks share one CPU, or MinCPUs
	Features           constraint
}

// AllMemory asks for all memory of the node (--mem=0, or no default in force).
const AllMemory = int64(-1)

// NeedOf reads a spec against the partition it would run in. Errors are Slurm's.
func NeedOf(s *job.Spec, p *partitions.Partition, c *partitions.Config) (Need, error) {
	n := Need{
		NodesMin: max(1, s.NodesMin), NodesMax: s.NodesMax,
		Tasks: max(1, s.Tasks), TasksPerNode: s.TasksPerNode,
		CPUsPerTask: max(1, s.CPUsPerTask), MinCPUs: s.MinCPUs, TmpDisk: s.TmpDisk,
		Exclusive: s.Exclusive, Overcommit: s.Overcommit,
	}
	if n.NodesMax != 0 && n.NodesMax < n.NodesMin {
		return n, errno.InvalidNodeCount
	}
	// -N without -n is one task a node (or as many as --ntasks-per-node says).
	if !s.TasksSet {
		n.Tasks = max(n.Tasks, n.NodesMin*max(1, s.TasksPerNode))
	}
	if n.NodesMax != 0 && n.Tasks < n.NodesMin {
		n.Tasks = n.NodesMin
	}
	n.memory(s, p, c)
	var err error
	if n.PerNode, err = gres(s.TRESPerNode); err != nil {
		return n, err
	}
	if n.PerTask, err = gres(s.TRESPerTask); err != nil {
		return n, err
	}
	if n.PerJob, err = gres(s.TRESPerJob); err != nil {
		return n, err
	}
	if per, err := gres(s.TRESPerSocket); err != nil {
		return n, err
	} else if len(per) > 0 { // a node is one socket here
		n.PerNode = append(n.PerNode, per...)
	}
	for _, g := range append(append(append([]tres.Gres(nil), n.PerNode...), n.PerTask...), n.PerJob...) {
		if !knownGres(c, g.Name) {
			return n, errno.InvalidGRES
		}
	}
	// --cpus-per-gpu: as many CPUs as the job's GPUs ask.
	if per := cpusPerGPU(s.CPUsPerTRES); per > 0 {
		switch {
		case countOf(n.PerTask) > 0:
			n.CPUsPerTask = max(n.CPUsPerTask, per*countOf(n.PerTask))
		case countOf(n.PerNode) > 0:
			n.MinCPUs = max(n.MinCPUs, per*countOf(n.PerNode))
		case n.NodesMin <= 1:
			n.MinCPUs = max(n.MinCPUs, per*countOf(n.PerJob))
		}
	}
	if n.Features, err = parseConstraint(s.Constraint); err != nil {
		return n, errno.InvalidFeature
	}
	return n, nil
}

func (n *Need) memory(s *job.Spec, p *partitions.Partition, c *partitions.Config) {
	switch {
	case s.MemPerCPU > 0:
		n.MemPerCPU = s.MemPerCPU
	case s.MemPerGPU > 0:
		n.MemPerGPU = s.MemPerGPU
	case s.MemSet && s.MemPerNode == 0:
		n.MemPerNode = AllMemory
	case s.MemPerNode > 0:
		n.MemPerNode = s.MemPerNode
	case p.DefMemPerCPU > 0:
		n.MemPerCPU = int64(p.DefMemPerCPU)
	case p.DefMemPerNode > 0:
		n.MemPerNode = int64(p.DefMemPerNode)
	case c.DefMemPerCPU > 0:
		n.MemPerCPU = int64(c.DefMemPerCPU)
	case c.DefMemPerNode > 0:
		n.MemPerNode = int64(c.DefMemPerNode)
	default:
		n.MemPerNode = AllMemory
	}
}

// gres reads the GRES part of a TRES request such as "gres/gpu:a100:2,cpu=4".
func gres(text string) ([]tres.Gres, error) {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(item, "gres/"); ok {
			items = append(items, rest)
		} else if rest, ok := strings.CutPrefix(item, "gres:"); ok {
			items = append(items, rest)
		} else if name, _, _ := strings.Cut(item, "="); name == "cpu" || name == "mem" || strings.HasPrefix(name, "license/") {
			continue
		} else {
			items = append(items, item)
		}
	}
	list, err := tres.ParseGres(strings.Join(items, ","))
	switch {
	case err != nil && strings.Count(text, ":") > 1: // name:type:count, and the count is none
		return nil, errno.InvalidTRES
	case err != nil:
		return nil, errno.InvalidGRES
	}
	return list, nil
}

func knownGres(c *partitions.Config, name string) bool {
	for _, t := range c.GresTypes {
		if strings.EqualFold(t, name) {
			return true
		}
	}
	return false
}

func countOf(list []tres.Gres) int {
	c := uint64(0)
	for _, g := range list {
		c += g.Count
	}
	return int(c)
}

func cpusPerGPU(text string) int {
	list, err := gres(text)
	if err != nil || len(list) == 0 {
		return 0
	}
	return int(list[0].Count)
}

// GPUs is the number of GPUs the job asks in all, given its node count.
func (n Need) GPUs(nodes int) int {
	return cmp.Or(countOf(n.PerJob), 0) + countOf(n.PerNode)*nodes + countOf(n.PerTask)*n.Tasks
}
