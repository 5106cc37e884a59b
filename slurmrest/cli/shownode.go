package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// showNodes prints scontrol show node.
func showNodes(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_load_node error: %s", text(err))
	}
	resp, err := c.Nodes(ctx, allFlag(s.all)...)
	if err != nil {
		return fail("slurm_load_node error: %s", text(err))
	}
	var names []string
	if len(args) > 0 {
		if names, err = hosts(strings.Join(args, ",")); err != nil {
			return fail("%s", err)
		}
	}
	if names != nil || !s.future {
		resp.Nodes = slices.DeleteFunc(resp.Nodes, func(n wire.Node) bool {
			if names != nil {
				return !slices.Contains(names, n.Name)
			}
			return slices.Contains(n.State, "FUTURE")
		})
	}
	if s.structured() {
		return printStructured(s.e, s.in, resp)
	}
	if names == nil && len(resp.Nodes) == 0 {
		s.e.printf("No nodes in the system\n")
		return nil
	}
	fc := s.e.format()
	missing := false
	if names == nil {
		for i := range resp.Nodes {
			s.e.printf("%s", s.nodeRecord(fc, &resp.Nodes[i]))
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(resp.Nodes, func(n wire.Node) bool { return n.Name == name })
		if i < 0 {
			s.e.printf("Node %s not found\n", name)
			missing = true
			continue
		}
		s.e.printf("%s", s.nodeRecord(fc, &resp.Nodes[i]))
	}
	if missing {
		return exit(1)
	}
	return nil
}

func (s *scontrolRun) nodeRecord(fc *format.Context, n *wire.Node) string {
	r := &record{one: s.oneline}
	when := func(t wire.Num, none string) string { return fc.Time(t.Number, none) }
	r.last("NodeName", n.Name)
	if n.Architecture != "" {
		r.last("Arch", n.Architecture)
	}
	r.last("CoresPerSocket", itoa(n.Cores))
	r.b.WriteByte(' ')
	r.end()
	load := "N/A"
	if n.CPULoad > 0 || slices.Contains(n.State, "ALLOCATED") || slices.Contains(n.State, "MIXED") {
		load = strconv.FormatFloat(float64(n.CPULoad)/100, 'f', 2, 64)
	}
	r.line("CPUAlloc", itoa(n.AllocCPUs), "CPUEfctv", itoa(n.EffectiveCPUs), "CPUTot", itoa(n.CPUs), "CPULoad", load)
	r.line("AvailableFeatures", format.List(n.Features))
	r.line("ActiveFeatures", format.List(n.ActiveFeatures))
	r.line("Gres", null(n.GRES))
	if s.details {
		r.line("GresDrain", null(n.GRESDrained))
		r.line("GresUsed", null(n.GRESUsed))
	}
	r.last("NodeAddr", or(n.Address, n.Name), "NodeHostName", or(n.Hostname, n.Name))
	if n.Port != 0 && n.Port != 6818 {
		r.last("Port", itoa(n.Port))
	}
	if n.Version != "" {
		r.last("Version", n.Version)
	}
	r.end()
	if n.OperatingSystem != "" {
		r.line("OS", n.OperatingSystem+" ")
	}
	free := "N/A"
	if n.FreeMem.Set {
		free = itoa(n.FreeMem.Number)
	}
	r.line("RealMemory", itoa(n.RealMemory), "AllocMem", itoa(n.AllocMemory), "FreeMem", free,
		"Sockets", itoa(n.Sockets), "Boards", itoa(max(n.Boards, 1)))
	if n.SpecializedCores > 0 || n.SpecializedMemory > 0 {
		r.line("CoreSpecCount", itoa(n.SpecializedCores), "CPUSpecList", n.SpecializedCPUs, "MemSpecLimit", itoa(n.SpecializedMemory))
	}
	r.line("State", strings.Join(n.State, "+"), "ThreadsPerCore", itoa(n.Threads), "TmpDisk", itoa(n.TemporaryDisk),
		"Weight", itoa(n.Weight), "Owner", or(n.Owner, "N/A"), "MCS_label", or(n.MCSLabel, "N/A"))
	if len(n.NextStateAfterReboot) > 0 && n.NextStateAfterReboot[0] != "INVALID" {
		r.line("NextState", strings.Join(n.NextStateAfterReboot, "+"))
	}
	if len(n.Partitions) > 0 {
		r.line("Partitions", strings.Join(n.Partitions, ",")+" ")
	}
	r.line("BootTime", when(n.BootTime, "None"), "SlurmdStartTime", when(n.SlurmdStartTime, "None"))
	suspend := "INFINITE"
	if n.SuspendTime.Set {
		suspend = itoa(n.SuspendTime.Number)
	}
	r.line("LastBusyTime", when(n.LastBusy, "Unknown"), "ResumeAfterTime", when(n.ResumeAfter, "None"), "SuspendTime", suspend)
	r.line("CfgTRES", n.TRES)
	r.line("AllocTRES", n.TRESUsed)
	r.line("CurrentWatts", "0", "AveWatts", "0")
	if n.Reason != "" {
		by := ""
		if n.ReasonSetByUser != "" || n.ReasonChangedAt.Number != 0 {
			by = fmt.Sprintf(" [%s@%s]", or(n.ReasonSetByUser, "root"), when(n.ReasonChangedAt, "Unknown"))
		}
		r.line("Reason", n.Reason+by)
	}
	r.optional("Comment", n.Comment)
	r.optional("Extra", n.Extra)
	if n.InstanceID != "" || n.InstanceType != "" {
		r.line("InstanceId", n.InstanceID, "InstanceType", n.InstanceType)
	}
	r.optional("ReservationName", n.Reservation)
	r.optional("Topology", n.Topology)
	return r.String()
}

// showPartitions prints scontrol show partition.
func showPartitions(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_load_partitions error: %s", text(err))
	}
	resp, err := c.Partitions(ctx, allFlag(s.all)...)
	if err != nil {
		return fail("slurm_load_partitions error: %s", text(err))
	}
	if len(args) > 0 {
		all := resp.Partitions
		resp.Partitions = nil
		for _, p := range all {
			if slices.Contains(args, p.Name) {
				resp.Partitions = append(resp.Partitions, p)
			}
		}
		if len(resp.Partitions) == 0 {
			s.e.printf("Partition %s not found\n", args[0])
			return exit(1)
		}
	} else if !s.all && s.e.UID != 0 {
		resp.Partitions = slices.DeleteFunc(resp.Partitions, func(p wire.PartitionInfo) bool { return slices.Contains(p.Flags, "HIDDEN") })
	}
	if s.structured() {
		return printStructured(s.e, s.in, resp)
	}
	if len(resp.Partitions) == 0 {
		s.e.printf("No partitions in the system\n")
	}
	for i := range resp.Partitions {
		s.e.printf("%s", s.partitionRecord(&resp.Partitions[i]))
	}
	return nil
}

func (s *scontrolRun) partitionRecord(p *wire.PartitionInfo) string {
	r := &record{one: s.oneline}
	flag := func(name string) string { return yesNo(slices.Contains(p.Flags, name)) }
	r.line("PartitionName", p.Name)
	r.last("AllowGroups", or(p.Groups.Allowed, "ALL"))
	if p.Accounts.Deny != "" {
		r.last("DenyAccounts", p.Accounts.Deny)
	} else {
		r.last("AllowAccounts", or(p.Accounts.Allowed, "ALL"))
	}
	if p.QOS.Deny != "" {
		r.line("DenyQos", p.QOS.Deny)
	} else {
		r.line("AllowQos", or(p.QOS.Allowed, "ALL"))
	}
	r.last("AllocNodes", or(p.Nodes.AllowedAllocation, "ALL"))
	if p.Alternate != "" {
		r.last("Alternate", p.Alternate)
	}
	r.line("Default", flag("DEFAULT"), "QoS", or(p.QOS.Assigned, "N/A"))
	defaultTime := "NONE"
	if p.Defaults.Time.Given() {
		defaultTime = format.Limit(p.Defaults.Time).String()
	}
	r.line("DefaultTime", defaultTime, "DisableRootJobs", flag("NO_ROOT"), "Exclusive", or(p.Partition.Exclusive, "NO"),
		"GraceTime", itoa(p.GraceTime), "Hidden", flag("HIDDEN"))
	maxTime := tres.Infinite.String()
	if p.Maximums.Time.Set {
		maxTime = format.Limit(p.Maximums.Time).String()
	}
	r.line("MaxNodes", number(p.Maximums.Nodes), "MaxTime", maxTime, "MinNodes", itoa(p.Minimums.Nodes), "LLN", flag("LLN"),
		"MaxCPUsPerNode", number(p.Maximums.CPUsPerNode), "MaxCPUsPerSocket", number(p.Maximums.CPUsPerSocket))
	r.optional("NodeSets", p.NodeSets)
	r.line("Nodes", null(p.Nodes.Configured))
	r.line("PriorityJobFactor", itoa(p.Priority.JobFactor), "PriorityTier", itoa(p.Priority.Tier), "RootOnly", flag("ROOT_ONLY"),
		"ReqResv", flag("REQ_RESV"), "OverSubscribe", format.PartitionOversubscribe(p))
	over := "NONE"
	if p.Maximums.OverTimeLimit.Set {
		over = itoa(p.Maximums.OverTimeLimit.Number)
	}
	r.line("OverTimeLimit", over, "PreemptMode", format.PreemptMode(p))
	r.optional("Topology", p.Topology)
	r.line("State", or(strings.Join(p.Partition.State, ","), "UP"), "TotalCPUs", itoa(p.CPUs.Total), "TotalNodes", itoa(p.Nodes.Total),
		"SelectTypeParameters", or(strings.Join(p.SelectType, ","), "NONE"))
	r.line("JobDefaults", null(p.Defaults.Job))
	memoryLine(r, p)
	r.last("TRES", null(p.TRES.Configured))
	if p.TRES.BillingWeights != "" {
		r.end()
		r.last("TRESBillingWeights", p.TRES.BillingWeights)
	}
	var power []string
	for _, t := range []struct {
		key string
		n   wire.Num
	}{{"ResumeTimeout", p.Timeouts.Resume}, {"SuspendTimeout", p.Timeouts.Suspend}, {"SuspendTime", p.SuspendTime}} {
		if t.n.Set {
			power = append(power, t.key, itoa(t.n.Number))
		}
	}
	if len(power) > 0 {
		r.end()
		r.last(power...)
	}
	return r.String()
}

func memoryLine(r *record, p *wire.PartitionInfo) {
	one := func(kind string, node, cpu wire.Num) {
		switch {
		case cpu.Set && cpu.Number > 0:
			r.word(kind+"MemPerCPU", itoa(cpu.Number))
		case node.Set && node.Number > 0:
			r.word(kind+"MemPerNode", itoa(node.Number))
		default:
			r.word(kind+"MemPerNode", "UNLIMITED")
		}
	}
	one("Def", p.Defaults.PartitionMemoryPerNode, p.Defaults.PartitionMemoryPerCPU)
	one("Max", p.Maximums.PartitionMemoryPerNode, p.Maximums.PartitionMemoryPerCPU)
	r.end()
}

func number(n wire.Num) string {
	if n.Infinite || !n.Set {
		return "UNLIMITED"
	}
	return itoa(n.Number)
}

// showConfig prints scontrol show config.
func showConfig(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_load_ctl_conf error: %s", text(err))
	}
	var conf wire.ConfigValues
	if err := c.Get(ctx, "/sbatchd/v1/config", nil, &conf); err != nil {
		return fail("slurm_load_ctl_conf error: %s", text(err))
	}
	keys := make([]string, 0, len(conf.Values))
	for k := range conf.Values {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	s.e.printf("Configuration data as of %s\n", tres.FormatTime(conf.Time.In(s.e.Local)))
	for _, k := range keys {
		s.e.printf("%-23s = %s\n", k, conf.Values[k])
	}
	s.e.printf("\n")
	return ping(ctx, s, nil)
}

// ping prints which controllers respond.
func ping(ctx context.Context, s *scontrolRun, _ []string) error {
	c, err := s.client(ctx)
	if err != nil {
		s.e.printf("Slurmctld(primary) at %s is DOWN\n", s.e.Host)
		return exit(1)
	}
	resp, err := c.Ping(ctx)
	if errors.Is(err, errno.ControllerConnect) || errors.Is(err, errno.ControllerReceive) {
		s.e.printf("Slurmctld(primary) at %s is DOWN\n", s.e.Host)
		return exit(1)
	}
	if err != nil {
		return fail("slurm_ping error: %s", text(err))
	}
	if s.structured() {
		return printStructured(s.e, s.in, resp)
	}
	up := false
	for i, p := range resp.Pings {
		role := "primary"
		if !p.Primary {
			role = "backup"
			if i > 1 {
				role += strconv.Itoa(i - 1)
			}
		}
		state := "DOWN"
		if p.Responding {
			state, up = "UP", true
		}
		s.e.printf("Slurmctld(%s) at %s is %s\n", role, p.Hostname, state)
	}
	if !up {
		s.e.printf("%s\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n%[1]s\n", strings.Repeat("*", 41))
		return exit(1)
	}
	return nil
}
