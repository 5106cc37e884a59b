package server

import (
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getPartitions answers GET /partitions.
func getPartitions(c *call) {
	if !c.since() {
		return
	}
	s := c.s.cfg.Controller.Snapshot()
	all := c.flagged("ALL")
	c.list("partitions", "partition_info", func(yield func(wire.Value) bool) {
		for _, p := range s.Config.Partitions {
			if !all && !c.shown(p) {
				continue
			}
			if !yield(partitionRecord(s, p)) {
				return
			}
		}
	}, c.now("last_update"))
}

// flagged reports whether the query's flags have a word.
func (c *call) flagged(word string) bool {
	return slices.Contains(strings.Split(strings.ToUpper(c.r.URL.Query().Get("flags")), ","), word)
}

// shown reports whether a list without flags=ALL has the partition: not a hidden
// one, nor one of groups that the caller isn't in.
func (c *call) shown(p *partitions.Partition) bool {
	switch {
	case c.who.Role == auth.Admin:
		return true
	case p.Hidden:
		return false
	case len(p.AllowGroups) == 0 || c.s.cfg.Users == nil:
		return true
	}
	return slices.ContainsFunc(p.AllowGroups, func(name string) bool {
		gid, err := c.s.cfg.Users.Group(c.r.Context(), name)
		return err == nil && c.who.InGroup(gid)
	})
}

// getPartition answers GET /partition/{partition_name}. One that isn't there is
// no error in Slurm but a warning, and the list is missing.
func getPartition(c *call) {
	name := mux.Vars(c.r)["partition_name"]
	s := c.s.cfg.Controller.Snapshot()
	for _, p := range s.Config.Partitions {
		if strings.EqualFold(p.Name, name) {
			c.list("partitions", "partition_info", func(yield func(wire.Value) bool) {
				yield(partitionRecord(s, p))
			}, c.now("last_update"))
			return
		}
	}
	c.warn("Unable to find partition "+name, "_partition_get")
	c.reply(nil)
}

// partitionRecord makes a partition's record.
func partitionRecord(s *state.State, p *partitions.Partition) *wire.PartitionInfo {
	names := p.NodeNames()
	total := tres.TRES{tres.Node: uint64(len(names))}
	for _, name := range names {
		if n, ok := s.Node(name); ok {
			total = total.Add(nodeTRES(n))
		}
	}
	r := &wire.PartitionInfo{
		Name: p.Name, Alternate: p.Alternate, GraceTime: int64(p.GraceTime.Seconds()),
		Nodes: wire.PartitionInfoNodes{
			AllowedAllocation: strings.Join(p.AllocNodes, ","), Configured: hostlist.Compress(names), Total: int64(len(names)),
		},
		Accounts: wire.PartitionInfoAccounts{Allowed: strings.Join(p.AllowAccounts, ","), Deny: strings.Join(p.DenyAccounts, ",")},
		Groups:   wire.PartitionInfoGroups{Allowed: strings.Join(p.AllowGroups, ",")},
		QOS: wire.PartitionInfoQOS{
			Allowed: strings.Join(p.AllowQOS, ","), Assigned: p.QOS, Deny: strings.Join(p.DenyQOS, ","),
		},
		CPUs:     wire.PartitionInfoCPUs{Total: int64(total[tres.CPU])},
		Defaults: wire.PartitionInfoDefaults{Time: limit(p.DefaultTime), Job: strings.Join(p.JobDefs, ",")},
		Maximums: wire.PartitionInfoMaximums{
			CPUsPerNode: count32(p.MaxCPUsPerNode), CPUsPerSocket: count32(p.MaxCPUsPerSocket), Nodes: count32(p.MaxNodes),
			Time: limit(p.MaxTime), OverTimeLimit: limit(p.OverTimeLimit), Shares: shares(p),
			Oversubscribe: wire.PartitionInfoMaximumsOversubscribe{Jobs: shares(p)},
		},
		Minimums:    wire.PartitionInfoMinimums{Nodes: int64(p.MinNodes)},
		Priority:    wire.PartitionInfoPriority{JobFactor: int64(p.PriorityJobFactor), Tier: int64(p.PriorityTier)},
		Flags:       partitionFlags(p),
		PreemptMode: preemptMode(p.PreemptMode),
		Partition: wire.PartitionInfoPartition{
			State: []string{or(strings.ToUpper(p.State), "UP")}, Exclusive: or(p.Exclusive, "NO"), Oversubscribe: or(p.OverSubscribe, "NO"),
		},
		SelectType: []string{"NONE"},
		TRES:       wire.PartitionInfoTRES{Configured: total.String()},
	}
	if p.OverSubscribe == "FORCE" {
		r.Maximums.Oversubscribe.Flags = []string{"force"}
	}
	d, m := &r.Defaults, &r.Maximums
	d.MemoryPerCPU, d.PartitionMemoryPerCPU, d.PartitionMemoryPerNode = memoryOf(p.DefMemPerCPU, p.DefMemPerNode)
	m.MemoryPerCPU, m.PartitionMemoryPerCPU, m.PartitionMemoryPerNode = memoryOf(p.MaxMemPerCPU, p.MaxMemPerNode)
	if p.SuspendTime > 0 {
		r.SuspendTime = wire.N(int64(p.SuspendTime.Seconds()))
	}
	if p.ResumeTimeout > 0 {
		r.Timeouts.Resume = wire.N(int64(p.ResumeTimeout.Seconds()))
	}
	if p.SuspendTimeout > 0 {
		r.Timeouts.Suspend = wire.N(int64(p.SuspendTimeout.Seconds()))
	}
	return r
}

// postPartition answers POST /sbatchd/v1/partition, which Slurm's REST lacks.
func postPartition(c *call) {
	var in wire.PartitionChange
	if !c.json(&in) {
		return
	}
	err := c.s.cfg.Controller.UpdatePartition(c.r.Context(), c.who, queue.PartitionChange{
		Name: in.Name, Create: in.Create, Delete: in.Delete, Values: in.Values,
	})
	if err != nil {
		c.refuse(notAdmin(err), "", "")
		return
	}
	c.reply(nil)
}

// shares is how many jobs may share a resource; 0 where none may, which Slurm 26.05
// no longer calls 1.
func shares(p *partitions.Partition) int64 {
	if p.OverSubscribe == "YES" || p.OverSubscribe == "FORCE" {
		return int64(p.MaxShare)
	}
	return 0
}

// memoryOf shows a memory limit: by CPU, or else by node, where 0 is none.
func memoryOf(perCPU, perNode tres.Memory) (old int64, cpu, node wire.Num) {
	if perCPU > 0 {
		return int64(perCPU), wire.N(int64(perCPU)), wire.Num{}
	}
	return int64(perNode), wire.Num{}, wire.N(int64(perNode))
}

func limit(m tres.Minutes) wire.Num {
	switch m {
	case tres.Infinite:
		return wire.Infinite
	case tres.NoVal:
		return wire.Num{}
	}
	return wire.N(int64(m))
}

func count32(n int) wire.Num {
	if n <= 0 || n >= partitions.Unlimited {
		return wire.Infinite
	}
	return wire.N(n)
}

func partitionFlags(p *partitions.Partition) []string {
	var list []string
	for _, f := range []struct {
		on   bool
		name string
	}{
		{p.Default, "DEFAULT"}, {p.Hidden, "HIDDEN"}, {p.DisableRootJobs, "NO_ROOT"}, {p.RootOnly, "ROOT_ONLY"},
		{p.ReqResv, "REQ_RESV"}, {p.LLN, "LLN"}, {p.PowerDownOnIdle, "PDOI"},
	} {
		if f.on {
			list = append(list, f.name)
		}
	}
	return list
}

func preemptMode(modes []string) []string {
	var list []string
	for _, m := range modes {
		switch m = strings.ToUpper(m); m {
		case "OFF":
			list = append(list, "DISABLED")
		case "SUSPEND", "REQUEUE", "CANCEL", "PRIORITY":
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return []string{"CLUSTER_GLOBAL"}
	}
	return list
}
