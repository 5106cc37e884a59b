package format

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// NodeGroup is the record of sinfo's lines: nodes of one partition that look the
// same in the columns printed. Part is nil for lines that span partitions, Nodes
// is empty for a partition without nodes.
type NodeGroup struct {
	Part  *wire.PartitionInfo
	Nodes []*wire.Node
}

// NodeFields are sinfo's columns.
var NodeFields = []Field[NodeGroup]{
	{0, "AllocMem", "ALLOCMEM", false, func(_ *Context, g *NodeGroup) string {
		return span(g, func(n *wire.Node) int64 { return n.AllocMemory })
	}},
	{'S', "AllocNodes", "ALLOCNODES", false, part(func(p *wire.PartitionInfo) string { return or(p.Nodes.AllowedAllocation, "all") })},
	{'a', "Available", "AVAIL", false, part(available)},
	{'V', "Cluster", "CLUSTER", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return or(n.ClusterName, "N/A") })
	}},
	{0, "Comment", "COMMENT", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return null(n.Comment) })
	}},
	{'Y', "Cores", "CORES", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.Cores }) }},
	{'c', "CPUs", "CPUS", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.CPUs }) }},
	{'O', "CPUsLoad", "CPU_LOAD", false, func(_ *Context, g *NodeGroup) string { return load(g) }},
	{'C', "CPUsState", "CPUS(A/I/O/T)", false, func(_ *Context, g *NodeGroup) string { return cpuStates(g) }},
	{'L', "DefaultTime", "DEFAULTTIME", false, part(func(p *wire.PartitionInfo) string { return defaultTime(p) })},
	{'d', "Disk", "TMP_DISK", false, func(_ *Context, g *NodeGroup) string {
		return span(g, func(n *wire.Node) int64 { return n.TemporaryDisk })
	}},
	{0, "Extra", "EXTRA", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return null(n.Extra) })
	}},
	{'f', "Features", "AVAIL_FEATURES", false, func(_ *Context, g *NodeGroup) string { return first(g, features) }},
	{'b', "features_act", "ACTIVE_FEATURES", false, func(_ *Context, g *NodeGroup) string { return first(g, activeFeatures) }},
	{'e', "FreeMem", "FREE_MEM", false, func(_ *Context, g *NodeGroup) string { return freeMemory(g) }},
	{'G', "Gres", "GRES", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return null(n.GRES) })
	}},
	{0, "GresUsed", "GRES_USED", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return null(n.GRESUsed) })
	}},
	{'g', "Groups", "GROUPS", false, part(func(p *wire.PartitionInfo) string { return or(p.Groups.Allowed, "all") })},
	{'B', "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", false, part(func(p *wire.PartitionInfo) string { return unlimited(p.Maximums.CPUsPerNode, "UNLIMITED") })},
	{'m', "Memory", "MEMORY", false, func(_ *Context, g *NodeGroup) string {
		return span(g, func(n *wire.Node) int64 { return n.RealMemory })
	}},
	{'o', "NodeAddr", "NODE_ADDR", false, func(_ *Context, g *NodeGroup) string {
		return names(g, func(n *wire.Node) string { return or(n.Address, n.Name) })
	}},
	{'A', "NodeAI", "NODES(A/I)", false, func(_ *Context, g *NodeGroup) string { a, i, _ := CountNodes(g); return fmt.Sprintf("%d/%d", a, i) }},
	{'F', "NodeAIOT", "NODES(A/I/O/T)", false, func(_ *Context, g *NodeGroup) string {
		a, i, o := CountNodes(g)
		return fmt.Sprintf("%d/%d/%d/%d", a, i, o, a+i+o)
	}},
	{'n', "NodeHost", "HOSTNAMES", false, func(_ *Context, g *NodeGroup) string {
		return names(g, func(n *wire.Node) string { return or(n.Hostname, n.Name) })
	}},
	{'N', "NodeList", "NODELIST", false, func(_ *Context, g *NodeGroup) string { return names(g, func(n *wire.Node) string { return n.Name }) }},
	{'D', "Nodes", "NODES", false, func(_ *Context, g *NodeGroup) string { return itoa(int64(len(g.Nodes))) }},
	{'h', "OverSubscribe", "OVERSUBSCRIBE", false, part(PartitionOversubscribe)},
	{'P', "Partition", "PARTITION", false, part(starred)},
	{'R', "PartitionName", "PARTITION", false, part(func(p *wire.PartitionInfo) string { return p.Name })},
	{0, "Port", "PORT", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.Port }) }},
	{'M', "PreemptMode", "PREEMPT_MODE", false, part(PreemptMode)},
	{'I', "PriorityJobFactor", "PRIO_JOB_FACTOR", false, part(func(p *wire.PartitionInfo) string { return itoa(p.Priority.JobFactor) })},
	{'p', "PriorityTier", "PRIO_TIER", false, part(func(p *wire.PartitionInfo) string { return itoa(p.Priority.Tier) })},
	{'E', "Reason", "REASON", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return or(n.Reason, "none") })
	}},
	{'i', "Reservation", "RESERVATION", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return n.Reservation })
	}},
	{'r', "Root", "ROOT", false, part(func(p *wire.PartitionInfo) string { return lowerYesNo(slices.Contains(p.Flags, "ROOT_ONLY")) })},
	{0, "Share", "OVERSUBSCRIBE", true, part(PartitionOversubscribe)},
	{'s', "Size", "JOB_SIZE", false, part(jobSize)},
	{'X', "Sockets", "SOCKETS", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.Sockets }) }},
	{'z', "SocketCoreThread", "S:C:T", false, func(_ *Context, g *NodeGroup) string { return socketCoreThread(g) }},
	{'t', "StateCompact", "STATE", false, func(_ *Context, g *NodeGroup) string { _, c := g.state(); return c }},
	{0, "StateComplete", "STATECOMPLETE", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return strings.ToLower(strings.Join(n.State, "+")) })
	}},
	{'T', "StateLong", "STATE", false, func(_ *Context, g *NodeGroup) string { l, _ := g.state(); return l }},
	{'Z', "Threads", "THREADS", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.Threads }) }},
	{'l', "Time", "TIMELIMIT", false, part(func(p *wire.PartitionInfo) string { return partLimit(p.Maximums.Time) })},
	{'H', "TimeStamp", "TIMESTAMP", false, func(c *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return c.Time(n.ReasonChangedAt.Number, "Unknown") })
	}},
	{'u', "User", "USER", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return or(n.ReasonSetByUser, "Unknown") })
	}},
	{'U', "UserLong", "USER", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return or(n.ReasonSetByUser, "Unknown") })
	}},
	{'v', "Version", "VERSION", false, func(_ *Context, g *NodeGroup) string {
		return first(g, func(n *wire.Node) string { return null(n.Version) })
	}},
	{'w', "Weight", "WEIGHT", false, func(_ *Context, g *NodeGroup) string { return span(g, func(n *wire.Node) int64 { return n.Weight }) }},
}

func part(value func(*wire.PartitionInfo) string) func(*Context, *NodeGroup) string {
	return func(_ *Context, g *NodeGroup) string {
		if g.Part == nil {
			return "n/a"
		}
		return value(g.Part)
	}
}

func first(g *NodeGroup, value func(*wire.Node) string) string {
	if len(g.Nodes) == 0 {
		return ""
	}
	return value(g.Nodes[0])
}

// span prints a number that may differ in a group: the least, with + if there
// are greater ones.
func span(g *NodeGroup, value func(*wire.Node) int64) string {
	if len(g.Nodes) == 0 {
		return "0"
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, n := range g.Nodes {
		least, most = min(least, value(n)), max(most, value(n))
	}
	if least < most {
		return itoa(least) + "+"
	}
	return itoa(least)
}

func names(g *NodeGroup, name func(*wire.Node) string) string {
	list := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		list[i] = name(n)
	}
	return hostlist.CompressSet(list)
}

func (g *NodeGroup) state() (long, compact string) {
	if len(g.Nodes) == 0 {
		return "n/a", "n/a"
	}
	return NodeState(g.Nodes[0].State)
}

func available(p *wire.PartitionInfo) string {
	switch s := p.Partition.State; {
	case slices.Contains(s, "UP") || len(s) == 0:
		return "up"
	case slices.Contains(s, "DRAIN"):
		return "drain"
	case slices.Contains(s, "INACTIVE"):
		return "inact"
	}
	return "down"
}

// starred is the partition's name, with a star if it is the default one.
func starred(p *wire.PartitionInfo) string {
	if slices.Contains(p.Flags, "DEFAULT") {
		return p.Name + "*"
	}
	return p.Name
}

func partLimit(n wire.Num) string {
	if n.Infinite || !n.Set {
		return "infinite"
	}
	return tres.FormatElapsed(tres.Minutes(n.Number).Duration())
}

func defaultTime(p *wire.PartitionInfo) string {
	if !p.Defaults.Time.Given() {
		return "n/a"
	}
	return partLimit(p.Defaults.Time)
}

func unlimited(n wire.Num, none string) string {
	if n.Infinite || !n.Set {
		return none
	}
	return itoa(n.Number)
}

func lowerYesNo(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}

func jobSize(p *wire.PartitionInfo) string {
	least := max(p.Minimums.Nodes, 1)
	most := unlimited(p.Maximums.Nodes, "infinite")
	if itoa(least) == most {
		return most
	}
	return itoa(least) + "-" + most
}

// PartitionOversubscribe prints how jobs share a partition's nodes.
func PartitionOversubscribe(p *wire.PartitionInfo) string {
	jobs, forced := p.Maximums.Oversubscribe.Jobs, slices.Contains(p.Maximums.Oversubscribe.Flags, "force")
	switch {
	case p.Partition.Oversubscribe != "":
		return p.Partition.Oversubscribe
	case forced:
		return fmt.Sprintf("FORCE:%d", jobs)
	case jobs == 0:
		return "NO"
	case jobs == 1:
		return "NO"
	}
	return fmt.Sprintf("YES:%d", jobs)
}

// PreemptMode prints a partition's preemption mode.
func PreemptMode(p *wire.PartitionInfo) string {
	if len(p.PreemptMode) == 0 || p.PreemptMode[0] == "DISABLED" || p.PreemptMode[0] == "CLUSTER_GLOBAL" {
		return "OFF"
	}
	return strings.Join(p.PreemptMode, ",")
}

func features(n *wire.Node) string       { return List(n.Features) }
func activeFeatures(n *wire.Node) string { return List(n.ActiveFeatures) }

func load(g *NodeGroup) string {
	if len(g.Nodes) == 0 {
		return "N/A"
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, n := range g.Nodes {
		least, most = min(least, n.CPULoad), max(most, n.CPULoad)
	}
	text := fmt.Sprintf("%.2f", float64(least)/100)
	if least != most {
		text += "-" + fmt.Sprintf("%.2f", float64(most)/100)
	}
	return text
}

func freeMemory(g *NodeGroup) string {
	if len(g.Nodes) == 0 || !g.Nodes[0].FreeMem.Set {
		return "N/A"
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, n := range g.Nodes {
		least, most = min(least, n.FreeMem.Or(0)), max(most, n.FreeMem.Or(0))
	}
	if least != most {
		return itoa(least) + "-" + itoa(most)
	}
	return itoa(least)
}

func socketCoreThread(g *NodeGroup) string {
	if len(g.Nodes) == 0 {
		return "0:0:0"
	}
	return span(g, func(n *wire.Node) int64 { return n.Sockets }) + ":" +
		span(g, func(n *wire.Node) int64 { return n.Cores }) + ":" +
		span(g, func(n *wire.Node) int64 { return n.Threads })
}

// List joins features as Slurm prints them, (null) for none.
func List(features []string) string { return null(strings.Join(features, ",")) }

// usable says whether a node's idle CPUs count as idle.
func usable(n *wire.Node) bool {
	return !slices.ContainsFunc(n.State, func(s string) bool {
		return s == "DOWN" || s == "DRAIN" || s == "FAIL" || s == "FUTURE" || s == "UNKNOWN" || s == "ERROR"
	})
}

func cpuStates(g *NodeGroup) string {
	var alloc, idle, other, total int64
	for _, n := range g.Nodes {
		total += n.CPUs
		alloc += n.AllocCPUs
		if usable(n) {
			idle += n.CPUs - n.AllocCPUs
		} else {
			other += n.CPUs - n.AllocCPUs
		}
	}
	return fmt.Sprintf("%d/%d/%d/%d", alloc, idle, other, total)
}

// CountNodes counts a group's nodes that run jobs, that could, and the others.
func CountNodes(g *NodeGroup) (alloc, idle, other int) {
	for _, n := range g.Nodes {
		busy := slices.Contains(n.State, "ALLOCATED") || slices.Contains(n.State, "MIXED") || slices.Contains(n.State, "COMPLETING")
		switch {
		case busy:
			alloc++
		case usable(n) && slices.Contains(n.State, "IDLE"):
			idle++
		default:
			other++
		}
	}
	return alloc, idle, other
}

// groupKeys are the columns that keep unlike nodes apart when printed; numbers
// only do so if the command asks for exact lines.
var (
	groupKeys = []string{
		"Features", "features_act", "Gres", "GresUsed", "Reason", "Reservation", "StateCompact", "StateLong", "StateComplete",
		"TimeStamp", "User", "UserLong", "NodeHost", "NodeAddr", "Comment", "Extra", "Version", "Cluster",
	}
	exactKeys = []string{
		"AllocMem", "Cores", "CPUs", "CPUsLoad", "Disk", "FreeMem", "Memory", "Sockets", "SocketCoreThread", "Threads", "Weight", "Port",
	}
	partitionKeys = []string{
		"AllocNodes", "Available", "DefaultTime", "Groups", "MaxCPUsPerNode", "OverSubscribe", "Share", "PreemptMode",
		"PriorityJobFactor", "PriorityTier", "Root", "Size", "Time", "Partition", "PartitionName",
	}
)

// keys picks the printed columns that keep nodes, and partitions, apart.
func (c *Columns[R]) keys(exact bool) (node, partition []string) {
	for i := range c.List {
		name := c.List[i].Field.Name
		switch {
		case slices.Contains(groupKeys, name), exact && slices.Contains(exactKeys, name):
			node = append(node, name)
		case slices.Contains(partitionKeys, name):
			partition = append(partition, name)
		}
	}
	return node, partition
}

// Group makes the lines of sinfo: for each partition its nodes, together if the
// columns cannot tell them apart. Partitions that the columns cannot tell apart
// share lines, each node once. single gives each node of a partition its own line.
func Group(c *Columns[NodeGroup], ctx *Context, parts []*wire.PartitionInfo, members func(*wire.PartitionInfo) []*wire.Node, exact, single bool) []NodeGroup {
	nodeKeys, partKeys := c.keys(exact)
	value := func(name string, g *NodeGroup) string {
		return fieldNamed(NodeFields, name).Value(ctx, g)
	}
	var out []NodeGroup
	at := map[string]int{}
	seen := map[string]bool{}
	var key strings.Builder
	for _, p := range parts {
		key.Reset()
		for _, k := range partKeys {
			key.WriteString(value(k, &NodeGroup{Part: p}))
			key.WriteByte(0)
		}
		prefix := key.String()
		nodes := members(p)
		if len(nodes) == 0 && len(partKeys) > 0 {
			out = append(out, NodeGroup{Part: p})
		}
		for _, n := range nodes {
			key.Reset()
			key.WriteString(prefix)
			g := NodeGroup{Part: p, Nodes: []*wire.Node{n}}
			for _, k := range nodeKeys {
				key.WriteString(value(k, &g))
				key.WriteByte(0)
			}
			if single {
				key.WriteString(n.Name + "\x00" + p.Name)
			}
			k := key.String()
			if seen[k+"\x01"+n.Name] {
				continue
			}
			seen[k+"\x01"+n.Name] = true
			if i, ok := at[k]; ok {
				out[i].Nodes = append(out[i].Nodes, n)
				continue
			}
			at[k] = len(out)
			out = append(out, g)
		}
	}
	return out
}
