package partitions

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// each calls f for each record of a kind with a new name; a name used again is
// reported.
func (l *loader) each(k *kind, f func(s *section)) {
	seen := map[string]Position{}
	for _, s := range l.records[k] {
		if at, twice := seen[s.name]; twice {
			l.fault(s.at, "%s=%s is defined twice, first at %s", k.name, s.name, at)
			continue
		}
		seen[s.name] = s.at
		s.checkName()
		f(s)
	}
}

var pinned = regexp.MustCompile(`^[^@\s]+@(sha256:[0-9a-f]{64})$`)

func (l *loader) images() {
	l.each(imageKind, func(s *section) {
		i := &Image{
			Name:      s.name,
			Ref:       s.str("Ref", ""),
			Cuda:      s.version("Cuda"),
			Cann:      s.version("Cann"),
			MinDriver: s.version("MinDriver"),
			Source:    s.str("Source", ""),
			At:        s.at,
		}
		switch m := pinned.FindStringSubmatch(i.Ref); {
		case m != nil:
			i.Digest = m[1]
		case i.Ref == "":
			l.fault(s.at, "ImageName=%s has no Ref", s.name)
		default:
			s.fault("Ref", "image %s is not pinned by digest; write NAME@sha256: and 64 hex digits", s.name)
		}
		l.cfg.Images = append(l.cfg.Images, i)
	})
}

func (l *loader) providers() {
	l.each(providerKind, func(s *section) {
		p := &Provider{
			Name:           s.name,
			Type:           strings.ToLower(s.str("Type", "")),
			CredentialFile: s.str("CredentialFile", ""),
			Market:         s.file("Market"),
			URL:            s.str("Url", ""),
			Program:        s.str("Program", ""),
			At:             s.at,
		}
		if p.Type == "" {
			l.fault(s.at, "ProviderName=%s has no Type", s.name)
		}
		p.Trust = Trust(s.enum("Trust", string(trustOf(p.Type)), string(TrustOwn), string(TrustCloud), string(TrustShared)))
		if name, ok := strings.CutPrefix(p.CredentialFile, "env:"); ok {
			if name == "" {
				s.fault("CredentialFile", "names no variable")
			}
		} else if p.CredentialFile != "" {
			p.CredentialFile = s.path("CredentialFile")
			if err := secret(p.CredentialFile, 0o600); err != nil {
				s.fault("CredentialFile", "%v", err)
			}
		}
		if p.Market != "" && p.Type != "local" && p.Type != "fake" {
			s.fault("Market", "only a provider of Type=local has a market file")
		}
		if p.Type == "exec" && p.Program == "" {
			l.fault(s.at, "ProviderName=%s: Type=exec needs Program", s.name)
		}
		l.cfg.Providers = append(l.cfg.Providers, p)
	})
}

// trustOf is whose machines a type of provider gives.
func trustOf(provider string) Trust {
	switch provider {
	case "local", "ssh", "slurm", "fake":
		return TrustOwn
	}
	return TrustCloud
}

func (l *loader) pools() {
	l.each(poolKind, func(s *section) {
		p := l.pool(s)
		l.poolRules(s, p)
		l.cfg.Pools = append(l.cfg.Pools, p)
	})
}

// pool reads a pool's keys and fills in their defaults.
func (l *loader) pool(s *section) *Pool {
	p := &Pool{
		Name:            s.name,
		State:           s.enum("State", "UP", "UP", "DOWN"),
		GpuMemory:       s.memory("GpuMemory"),
		CPUs:            s.number("CPUs", 0, 1, 1<<16),
		RealMemory:      s.memory("RealMemory"),
		TmpDisk:         s.memory("TmpDisk"),
		Disk:            s.memory("Disk"),
		Volume:          s.str("Volume", ""),
		ScratchPath:     s.str("ScratchPath", ""),
		Capacity:        Capacity(s.enum("Capacity", string(OnDemand), string(Spot), string(OnDemand), string(Auto), string(Reserved), string(Prepaid))),
		MinNodes:        s.number("MinNodes", 0, 0, maxPoolNodes),
		MaxNodes:        s.number("MaxNodes", 0, 1, maxPoolNodes),
		MaxPrice:        s.money("MaxPrice"),
		Budget:          s.money("Budget"),
		MinBalance:      s.money("MinBalance"),
		CostAccount:     s.str("CostAccount", ""),
		Weight:          s.number("Weight", 1, 0, Unlimited),
		Regions:         s.list("Regions", true),
		Zones:           s.list("Zones", true),
		InstanceType:    s.str("InstanceType", ""),
		Interconnect:    Interconnect(s.enum("Interconnect", string(AnyLink), string(NVLink), string(PCIe), string(InfiniBand), string(AnyLink))),
		Encrypt:         s.flag("Encrypt", false),
		Driver:          s.version("Driver"),
		DriverURL:       s.str("DriverUrl", ""),
		DriverSHA256:    strings.ToLower(s.str("DriverSha256", "")),
		BootImage:       s.str("BootImage", ""),
		UserData:        s.file("UserData"),
		Runtime:         Runtime(s.enum("Runtime", string(Containerd), string(Containerd), string(Process), string(Kubernetes))),
		Workdir:         Workdir(s.enum("Workdir", string(WorkdirSync), string(WorkdirShared), string(WorkdirSync), string(WorkdirNone))),
		SyncInterval:    s.seconds("SyncInterval", 5*time.Minute, false),
		StageOutTimeout: s.seconds("StageOutTimeout", 10*time.Minute, false),
		HomeFiles:       s.list("HomeFiles", false),
		Mounts:          s.list("Mounts", false),
		Proxy:           s.str("Proxy", ""),
		AgentLink:       AgentLink(s.enum("AgentLink", string(Dial), string(Dial), string(SSH))),
		Features:        s.features(),
		SuspendTime:     s.seconds("SuspendTime", l.cfg.SuspendTime, true),
		ResumeTimeout:   s.seconds("ResumeTimeout", l.cfg.ResumeTimeout, false),
		PreemptNotice:   s.seconds("PreemptNotice", 0, false),
		At:              s.at,
	}
	p.Gres = s.gresRange()
	p.Env = s.env()
	p.Image = s.image()
	name := s.str("Provider", "")
	p.Provider = l.cfg.provider[name]
	switch {
	case name == "":
		l.fault(s.at, "PoolName=%s has no Provider", s.name)
	case p.Provider == nil:
		s.fault("Provider", "pool %s: there is no ProviderName=%s", s.name, name)
	}
	trust := TrustCloud
	if p.Provider != nil {
		trust = p.Provider.Trust
	}
	p.Trust = Trust(s.enum("Trust", string(trust), string(TrustOwn), string(TrustCloud), string(TrustShared)))
	if p.Provider != nil && p.Provider.Type == "local" {
		p.CPUs = max(p.CPUs, 1)
		if p.RealMemory == 0 {
			p.RealMemory = tres.Memory(p.CPUs) * localMemoryPerCPU
		}
	}
	return p
}

const (
	// maxPoolNodes bounds a pool, as Slurm bounds the hosts of one range.
	maxPoolNodes = 1 << 16
	// localMemoryPerCPU is the memory of a local node that declares none:
	// Slurm's 1 MiB would refuse nearly every job.
	localMemoryPerCPU tres.Memory = 1024
)

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// poolRules checks what one key alone does not tell.
func (l *loader) poolRules(s *section, p *Pool) {
	if !s.has("MaxNodes") {
		l.fault(s.at, "PoolName=%s has no MaxNodes", s.name)
	} else if p.MinNodes > p.MaxNodes {
		s.fault("MinNodes", "is more than MaxNodes (%d)", p.MaxNodes)
	}
	if (p.DriverURL == "") != (p.DriverSHA256 == "") {
		l.fault(s.at, "PoolName=%s: DriverUrl and DriverSha256 go together", s.name)
	}
	if p.DriverSHA256 != "" && !hexSum.MatchString(p.DriverSHA256) {
		s.fault("DriverSha256", "must be 64 hex digits")
	}
	for _, key := range [...]string{"Regions", "Zones"} {
		for _, pattern := range s.list(key, true) {
			if _, err := path.Match(pattern, ""); err != nil {
				s.fault(key, "%q is not a pattern", pattern)
			}
		}
	}
	for _, m := range p.Mounts {
		words := strings.Split(m, ":")
		if len(words) < 2 || len(words) > 3 || !filepath.IsAbs(words[0]) || !filepath.IsAbs(words[1]) {
			s.fault("Mounts", "%q is not /host/path:/node/path[:options]", m)
		}
	}
	if p.ScratchPath != "" && !filepath.IsAbs(p.ScratchPath) {
		s.fault("ScratchPath", "must be an absolute path")
	}
	if len(p.Gres) == 0 && p.GpuMemory > 0 {
		s.fault("GpuMemory", "pool %s has no Gres=gpu", p.Name)
	}
	if p.SyncInterval > 0 && p.Workdir != WorkdirSync && s.has("SyncInterval") {
		s.warn("SyncInterval", "SyncInterval has no effect with Workdir=%s", p.Workdir)
	}
	l.driverRule(s.at, p, p.Image)
}

// driverRule reports an image that cannot run on the driver of a pool.
func (l *loader) driverRule(at Position, p *Pool, i *Image) {
	if i == nil || i.MinDriver == "" || p.Driver == "" || compareVersions(p.Driver, i.MinDriver) >= 0 {
		return
	}
	l.fault(at, "image %s needs driver %s or newer, pool %s has %s", i.Name, i.MinDriver, p.Name, p.Driver)
}

// compareVersions orders dotted numbers.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

// features reads Feature=, which may also be written Features=.
func (s *section) features() []string {
	if s.has("Features") {
		return s.list("Features", false)
	}
	return s.list("Feature", false)
}

func (s *section) gresRange() []tres.GresRange {
	list, err := tres.ParseGresRange(s.str("Gres", ""))
	if err != nil {
		s.fault("Gres", "must be name[:type]:count, a count may be a range as in gpu:a100:1-8")
		return nil
	}
	for _, g := range list {
		s.knownGres(g.Name)
	}
	return list
}

// knownGres reports a name that GresTypes lacks.
func (s *section) knownGres(name string) {
	if !slices.Contains(s.l.cfg.GresTypes, name) {
		s.fault("Gres", "%s is not in GresTypes", name)
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *section) env() map[string]string {
	items := s.list("Env", false)
	if len(items) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, item := range items {
		name, value, ok := strings.Cut(item, "=")
		if !ok || !envName.MatchString(name) {
			s.fault("Env", "%q is not NAME=value", item)
			continue
		}
		m[name] = value
	}
	return m
}

func (s *section) image() *Image {
	name := s.str("Image", "")
	i := s.l.cfg.image[name]
	if name != "" && i == nil {
		s.fault("Image", "there is no ImageName=%s", name)
	}
	return i
}
