package partitions

import (
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

func (l *loader) partitionRecords() {
	l.each(partitionKind, func(s *section) {
		p := l.onePartition(s)
		l.partitionRules(s, p)
		l.cfg.Partitions = append(l.cfg.Partitions, p)
	})
	if len(l.cfg.Partitions) == 0 {
		l.warn(Position{File: l.cfg.Path}, "no PartitionName: there is nothing to submit jobs to")
	}
}

// onePartition reads a partition's keys and fills in their defaults.
func (l *loader) onePartition(s *section) *Partition {
	p := &Partition{
		Name:              s.name,
		Default:           s.flag("Default", false),
		State:             s.enum("State", "UP", "UP", "DOWN", "DRAIN", "INACTIVE"),
		NodesText:         s.str("Nodes", ""),
		Nodes:             l.nodeList(s, "Nodes", true),
		Pools:             l.poolList(s),
		Image:             s.image(),
		Overflow:          s.str("Overflow", ""),
		ModuleMap:         s.file("ModuleMap"),
		Alternate:         s.str("Alternate", ""),
		QOS:               s.str("QOS", ""),
		JobDefs:           s.list("JobDefaults", false),
		MaxTime:           s.minutes("MaxTime", tres.Infinite),
		DefaultTime:       s.minutes("DefaultTime", tres.NoVal),
		OverTimeLimit:     tres.NoVal,
		MaxNodes:          s.limit("MaxNodes", Unlimited),
		MinNodes:          s.number("MinNodes", 0, 0, Unlimited),
		GraceTime:         s.seconds("GraceTime", 0, false),
		AllowGroups:       s.list("AllowGroups", true),
		AllowAccounts:     s.list("AllowAccounts", true),
		DenyAccounts:      s.list("DenyAccounts", false),
		AllowQOS:          s.list("AllowQos", true),
		DenyQOS:           s.list("DenyQos", false),
		AllocNodes:        s.list("AllocNodes", true),
		PreemptMode:       s.enums("PreemptMode", preemptModes...),
		DefCPUPerGPU:      s.number("DefCpuPerGPU", 0, 0, Unlimited),
		DefMemPerGPU:      s.memory("DefMemPerGPU"),
		MaxCPUsPerNode:    s.limit("MaxCPUsPerNode", Unlimited),
		MaxCPUsPerSocket:  s.limit("MaxCPUsPerSocket", Unlimited),
		Hidden:            s.flag("Hidden", false),
		RootOnly:          s.flag("RootOnly", false),
		ReqResv:           s.flag("ReqResv", false),
		DisableRootJobs:   s.flag("DisableRootJobs", l.cfg.DisableRootJobs),
		LLN:               s.flag("LLN", false),
		PowerDownOnIdle:   s.flag("PowerDownOnIdle", false),
		SuspendTime:       s.seconds("SuspendTime", 0, true),
		ResumeTimeout:     s.seconds("ResumeTimeout", 0, false),
		SuspendTimeout:    s.seconds("SuspendTimeout", 0, false),
		SelectTypeParams:  s.list("SelectTypeParameters", false),
		TRESBillingWeight: s.weights("TRESBillingWeights"),
		At:                s.at,
	}
	p.DefMemPerCPU, p.DefMemPerNode = s.memoryPair("DefMemPerCPU", "DefMemPerNode")
	p.MaxMemPerCPU, p.MaxMemPerNode = s.memoryPair("MaxMemPerCPU", "MaxMemPerNode")
	priority := s.number("Priority", 1, 0, 65533) // old: sets both
	p.PriorityTier = s.number("PriorityTier", priority, 0, 65533)
	p.PriorityJobFactor = s.number("PriorityJobFactor", priority, 0, 65533)
	for _, t := range s.enums("AllowTrust", string(TrustOwn), string(TrustCloud), string(TrustShared)) {
		p.AllowTrust = append(p.AllowTrust, Trust(t))
	}
	if v := s.str("OverTimeLimit", ""); isUnlimited(v) {
		p.OverTimeLimit = tres.Infinite
	} else if v != "" {
		p.OverTimeLimit = tres.Minutes(s.number("OverTimeLimit", 0, 0, 65533))
	}
	s.sharing(p)
	return p
}

// poolList resolves Pools=, which may be ALL.
func (l *loader) poolList(s *section) []*Pool {
	names := s.list("Pools", false)
	if len(names) == 1 && strings.EqualFold(names[0], "ALL") {
		return l.cfg.Pools
	}
	var list []*Pool
	seen := map[string]bool{}
	for _, name := range names {
		pool := l.cfg.pool[name]
		switch {
		case pool == nil:
			s.fault("Pools", "there is no PoolName=%s", name)
		case seen[name]:
			s.fault("Pools", "%s is given twice", name)
		default:
			list = append(list, pool)
		}
		seen[name] = true
	}
	return list
}

// sharing reads OverSubscribe (once Shared) and Exclusive, of which the second
// replaced a part of the first in 26.05.
func (s *section) sharing(p *Partition) {
	key := "OverSubscribe"
	if !s.has(key) {
		key = "Shared"
	}
	p.OverSubscribe, p.MaxShare = "NO", 1
	p.Exclusive = s.enum("Exclusive", "NO", "NO", "NODE", "USER", "TOPO")
	if s.flag("ExclusiveTopo", false) {
		p.Exclusive = "TOPO"
	}
	if s.flag("ExclusiveUser", false) {
		p.Exclusive = "USER"
	}
	if !s.has(key) {
		return
	}
	word, count, hasCount := strings.Cut(s.str(key, ""), ":")
	switch word = strings.ToUpper(word); word {
	case "NO":
	case "EXCLUSIVE":
		p.OverSubscribe = word
		if !s.has("Exclusive") {
			p.Exclusive = "NODE"
		}
	case "YES", "FORCE":
		p.OverSubscribe, p.MaxShare = word, 4
		if n, err := strconv.Atoi(count); err == nil && n > 0 && n < 1<<15 {
			p.MaxShare = n
		} else if hasCount {
			s.fault(key, "the count must be a whole number from 1")
		}
		return
	default:
		s.fault(key, "must be one of NO, YES[:count], FORCE[:count], EXCLUSIVE")
	}
	if hasCount {
		s.fault(key, "%s takes no count", word)
	}
}

// partitionRules checks what one key alone does not tell.
func (l *loader) partitionRules(s *section, p *Partition) {
	if p.DefaultTime != tres.NoVal && p.DefaultTime > p.MaxTime {
		s.warn("DefaultTime", "DefaultTime is above MaxTime, which counts")
		p.DefaultTime = p.MaxTime
	}
	if p.MinNodes > p.MaxNodes {
		s.fault("MinNodes", "is more than MaxNodes (%d)", p.MaxNodes)
	}
	if len(p.AllowAccounts) > 0 && len(p.DenyAccounts) > 0 {
		s.warn("DenyAccounts", "DenyAccounts has no effect beside AllowAccounts")
	}
	if len(p.AllowQOS) > 0 && len(p.DenyQOS) > 0 {
		s.warn("DenyQos", "DenyQos has no effect beside AllowQos")
	}
	for _, pool := range p.Pools {
		if !p.Allows(pool.Trust) {
			s.warn("AllowTrust", "partition %s: AllowTrust keeps jobs off pool %s, which is Trust=%s", p.Name, pool.Name, pool.Trust)
		}
		if pool.Runtime == Containerd && p.ImageFor(pool) == nil {
			s.warn("Pools", "partition %s: jobs on pool %s need --container-image, neither names an Image", p.Name, pool.Name)
		}
		if p.Image != nil {
			l.driverRule(s.at, pool, p.Image)
		}
	}
	if p.GraceTime > 24*time.Hour*365 {
		s.fault("GraceTime", "is longer than a year")
	}
}
