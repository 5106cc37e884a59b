package partitions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
)

// changeable are the keys of a partition that may be changed while running, and
// what each carries over.
var changeable = map[string]func(to, from *Partition){
	"allocnodes":        func(to, from *Partition) { to.AllocNodes = from.AllocNodes },
	"allowaccounts":     func(to, from *Partition) { to.AllowAccounts = from.AllowAccounts },
	"allowgroups":       func(to, from *Partition) { to.AllowGroups = from.AllowGroups },
	"allowqos":          func(to, from *Partition) { to.AllowQOS = from.AllowQOS },
	"alternate":         func(to, from *Partition) { to.Alternate = from.Alternate },
	"default":           func(to, from *Partition) { to.Default = from.Default },
	"defaulttime":       func(to, from *Partition) { to.DefaultTime = from.DefaultTime },
	"defmempercpu":      func(to, from *Partition) { to.DefMemPerCPU, to.DefMemPerNode = from.DefMemPerCPU, 0 },
	"defmempernode":     func(to, from *Partition) { to.DefMemPerNode, to.DefMemPerCPU = from.DefMemPerNode, 0 },
	"denyaccounts":      func(to, from *Partition) { to.DenyAccounts = from.DenyAccounts },
	"denyqos":           func(to, from *Partition) { to.DenyQOS = from.DenyQOS },
	"disablerootjobs":   func(to, from *Partition) { to.DisableRootJobs = from.DisableRootJobs },
	"gracetime":         func(to, from *Partition) { to.GraceTime = from.GraceTime },
	"hidden":            func(to, from *Partition) { to.Hidden = from.Hidden },
	"jobdefaults":       func(to, from *Partition) { to.JobDefs = from.JobDefs },
	"lln":               func(to, from *Partition) { to.LLN = from.LLN },
	"maxcpuspernode":    func(to, from *Partition) { to.MaxCPUsPerNode = from.MaxCPUsPerNode },
	"maxcpuspersocket":  func(to, from *Partition) { to.MaxCPUsPerSocket = from.MaxCPUsPerSocket },
	"maxmempercpu":      func(to, from *Partition) { to.MaxMemPerCPU, to.MaxMemPerNode = from.MaxMemPerCPU, 0 },
	"maxmempernode":     func(to, from *Partition) { to.MaxMemPerNode, to.MaxMemPerCPU = from.MaxMemPerNode, 0 },
	"maxnodes":          func(to, from *Partition) { to.MaxNodes = from.MaxNodes },
	"maxtime":           func(to, from *Partition) { to.MaxTime = from.MaxTime },
	"minnodes":          func(to, from *Partition) { to.MinNodes = from.MinNodes },
	"nodes":             func(to, from *Partition) { to.Nodes, to.NodesText = from.Nodes, from.NodesText },
	"oversubscribe":     func(to, from *Partition) { to.OverSubscribe, to.MaxShare = from.OverSubscribe, from.MaxShare },
	"overtimelimit":     func(to, from *Partition) { to.OverTimeLimit = from.OverTimeLimit },
	"pools":             func(to, from *Partition) { to.Pools = from.Pools },
	"preemptmode":       func(to, from *Partition) { to.PreemptMode = from.PreemptMode },
	"priorityjobfactor": func(to, from *Partition) { to.PriorityJobFactor = from.PriorityJobFactor },
	"prioritytier":      func(to, from *Partition) { to.PriorityTier = from.PriorityTier },
	"qos":               func(to, from *Partition) { to.QOS = from.QOS },
	"reqresv":           func(to, from *Partition) { to.ReqResv = from.ReqResv },
	"rootonly":          func(to, from *Partition) { to.RootOnly = from.RootOnly },
	"state":             func(to, from *Partition) { to.State = from.State },
}

// ChangePartition returns the config with a partition changed, or added, by keys
// as in slurm.conf. Like Slurm's scontrol it holds until the files are read again.
func (c *Config) ChangePartition(name string, values map[string]string) (*Config, error) {
	s := &section{kind: partitionKind, name: name, pairs: map[string]slurmconf.Pair{}}
	for key, value := range values {
		low := strings.ToLower(key)
		if changeable[low] == nil {
			return nil, fmt.Errorf("%s of a partition can not be changed", key)
		}
		s.pairs[low] = slurmconf.Pair{Key: key, Value: value}
	}
	next := *c
	next.Warnings = nil
	l := &loader{cfg: &next, nodeSets: map[string][]*Node{}}
	s.l = l
	p := l.onePartition(s)
	at := slices.IndexFunc(c.Partitions, func(p *Partition) bool { return p.Name == name })
	if at >= 0 {
		changed := *c.Partitions[at]
		for key := range values {
			changeable[strings.ToLower(key)](&changed, p)
		}
		p = &changed
	} else {
		s.checkName()
	}
	if len(l.faults) > 0 {
		return nil, fmt.Errorf("partition %s: %s", name, l.faults[0].Msg)
	}
	next.Warnings = c.Warnings
	next.Partitions = slices.Clone(c.Partitions)
	if at >= 0 {
		next.Partitions[at] = p
	} else {
		next.Partitions = append(next.Partitions, p)
	}
	if p.Default {
		next.onlyDefault(name)
	}
	next.index()
	return &next, nil
}

// onlyDefault leaves one default partition.
func (c *Config) onlyDefault(name string) {
	for i, p := range c.Partitions {
		if p.Default && p.Name != name {
			other := *p
			other.Default = false
			c.Partitions[i] = &other
		}
	}
}

// WithoutPartition returns the config less a partition.
func (c *Config) WithoutPartition(name string) *Config {
	next := *c
	next.Partitions = slices.DeleteFunc(slices.Clone(c.Partitions), func(p *Partition) bool { return p.Name == name })
	next.index()
	return &next
}
