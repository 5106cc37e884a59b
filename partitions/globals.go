package partitions

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Defaults of keys that are ours, and of Slurm's where ours differ.
const (
	defaultStateDir      = "/var/lib/sbatchd"
	defaultRestListen    = "unix:/run/sbatchd/sbatchd.sock"
	defaultPort          = 6817
	defaultResumeTimeout = 900 * time.Second // with pools; else Slurm's 60 s
	defaultSuspendTime   = 300 * time.Second // with pools; else never
	defaultFenceTimeout  = 1800 * time.Second
	defaultOrphanTimeout = 3600 * time.Second
	defaultJobLogLimit   = 10 << 30
)

// globals reads the keys that stand alone and fills in their defaults.
func (l *loader) globals() {
	g, c := l.global, l.cfg
	c.Values = map[string]string{}
	for low, p := range g.pairs {
		c.Values[globalKind.keys[low].name] = p.Value
	}
	c.ClusterName = g.str("ClusterName", "")
	if c.ClusterName == "" {
		l.fault(g.at, "ClusterName is not set")
	}
	c.SlurmUser = g.str("SlurmUser", "root")
	c.StateSaveLocation = g.str("StateSaveLocation", defaultStateDir)
	if !filepath.IsAbs(c.StateSaveLocation) {
		g.fault("StateSaveLocation", "must be an absolute path")
	}
	c.PrivateData = g.list("PrivateData", false)
	c.GresTypes = g.list("GresTypes", false)
	c.SlurmctldDebug = g.str("SlurmctldDebug", "info")
	c.SlurmctldLogFile = g.path("SlurmctldLogFile")
	c.TmpFS = g.str("TmpFS", "/tmp")
	l.hosts()
	l.accountingStorage()
	l.authAlt()
	l.timeouts()
	l.jobRules()
	l.priorities()
	l.checkpointStore()
}

// timeouts reads the keys that are numbers of seconds.
func (l *loader) timeouts() {
	g, c := l.global, l.cfg
	resume, suspend := 60*time.Second, Never
	if len(l.records[poolKind]) > 0 {
		resume, suspend = defaultResumeTimeout, defaultSuspendTime
	}
	c.ResumeTimeout = g.seconds("ResumeTimeout", resume, false)
	c.SuspendTime = g.seconds("SuspendTime", suspend, true)
	c.SuspendTimeout = g.seconds("SuspendTimeout", 30*time.Second, false)
	c.SlurmdTimeout = g.seconds("SlurmdTimeout", 300*time.Second, false)
	c.FenceTimeout = g.seconds("FenceTimeout", max(defaultFenceTimeout, c.SlurmdTimeout), false)
	c.OrphanTimeout = g.seconds("OrphanTimeout", max(defaultOrphanTimeout, c.FenceTimeout), false)
	c.MinJobAge = g.seconds("MinJobAge", 300*time.Second, false)
	c.KillWait = g.seconds("KillWait", 30*time.Second, false)
	c.MessageTimeout = g.seconds("MessageTimeout", 10*time.Second, false)
	c.InteractiveIdle = max(g.seconds("InteractiveIdle", 0, true), 0)
	c.OverTimeLimit = tres.Minutes(0)
	if v := g.str("OverTimeLimit", ""); isUnlimited(v) {
		c.OverTimeLimit = tres.Infinite
	} else {
		c.OverTimeLimit = tres.Minutes(g.number("OverTimeLimit", 0, 0, 65533))
	}
	c.ResumeRate = g.number("ResumeRate", 300, 0, Unlimited)
	c.SuspendRate = g.number("SuspendRate", 60, 0, Unlimited)
	if c.FenceTimeout < c.SlurmdTimeout {
		g.fault("FenceTimeout", "must not be shorter than SlurmdTimeout (%d s)", int(c.SlurmdTimeout/time.Second))
	}
	if c.OrphanTimeout < c.FenceTimeout {
		g.fault("OrphanTimeout", "must not be shorter than FenceTimeout (%d s)", int(c.FenceTimeout/time.Second))
	}
}

// jobRules reads limits and defaults of jobs.
func (l *loader) jobRules() {
	g, c := l.global, l.cfg
	c.FirstJobID = uint32(g.number("FirstJobId", 1, 1, 0x03ffffff))
	c.MaxJobID = uint32(g.number("MaxJobId", 0x03ff0000, 1, 0x03ffffff))
	if c.FirstJobID >= c.MaxJobID {
		g.fault("FirstJobId", "must be below MaxJobId (%d)", c.MaxJobID)
	}
	// An older slurm.conf has it among the SchedulerParameters.
	params := g.str("DependencyParameters", "") + "," + g.str("SchedulerParameters", "")
	c.KillInvalidDepend = slices.Contains(strings.Split(strings.ToLower(params), ","), "kill_invalid_depend")
	c.MaxArraySize = g.number("MaxArraySize", 1001, 0, 4000001)
	c.MaxJobCount = g.number("MaxJobCount", 10000, 1, Unlimited)
	c.MaxBatchRequeue = g.number("MaxBatchRequeue", 5, 0, Unlimited)
	c.JobRequeue = g.flag("JobRequeue", true)
	c.JobFileAppend = g.flag("JobFileAppend", true)
	c.DisableRootJobs = g.flag("DisableRootJobs", false)
	c.ReturnToService = g.number("ReturnToService", 0, 0, 2)
	c.EnforcePartLimits = "NO"
	switch v := strings.ToUpper(g.str("EnforcePartLimits", "NO")); v {
	case "YES", "ALL":
		c.EnforcePartLimits = "ALL"
	case "ANY", "NO":
		c.EnforcePartLimits = v
	default:
		g.fault("EnforcePartLimits", "must be one of NO, ANY, ALL")
	}
	c.DefMemPerCPU, c.DefMemPerNode = g.memoryPair("DefMemPerCPU", "DefMemPerNode")
	c.MaxMemPerCPU, c.MaxMemPerNode = g.memoryPair("MaxMemPerCPU", "MaxMemPerNode")
	c.SchedulerParameters = g.options("SchedulerParameters")
	c.SlurmctldParameters = g.options("SlurmctldParameters")
	c.SelectTypeParameters = g.list("SelectTypeParameters", false)
	c.JobLogLimit = defaultJobLogLimit
	if g.has("JobLogLimit") {
		c.JobLogLimit = g.memory("JobLogLimit").Bytes()
	}
}

// memoryPair reads two sizes of which one counts: the first, as in Slurm.
func (s *section) memoryPair(perCPU, perNode string) (cpu, node tres.Memory) {
	cpu, node = s.memory(perCPU), s.memory(perNode)
	if cpu > 0 && node > 0 {
		s.warn(perNode, "%s has no effect beside %s", perNode, perCPU)
		node = 0
	}
	return cpu, node
}

func (l *loader) priorities() {
	g, c := l.global, l.cfg
	week := 7 * 24 * time.Hour
	c.Priority = Priority{
		Type:            g.enum("PriorityType", "priority/multifactor", "priority/multifactor", "priority/basic"),
		MaxAge:          g.span("PriorityMaxAge", week),
		DecayHalfLife:   g.span("PriorityDecayHalfLife", week),
		CalcPeriod:      g.span("PriorityCalcPeriod", 5*time.Minute),
		UsageReset:      g.enum("PriorityUsageResetPeriod", "NONE", "NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"),
		FavorSmall:      g.flag("PriorityFavorSmall", false),
		Flags:           g.list("PriorityFlags", false),
		WeightAge:       g.number("PriorityWeightAge", 0, 0, Unlimited),
		WeightAssoc:     g.number("PriorityWeightAssoc", 0, 0, Unlimited),
		WeightFairshare: g.number("PriorityWeightFairshare", 0, 0, Unlimited),
		WeightJobSize:   g.number("PriorityWeightJobSize", 0, 0, Unlimited),
		WeightPartition: g.number("PriorityWeightPartition", 0, 0, Unlimited),
		WeightQOS:       g.number("PriorityWeightQOS", 0, 0, Unlimited),
		WeightTRES:      g.weights("PriorityWeightTRES"),
	}
	c.Preempt = Preempt{
		Type:       g.enum("PreemptType", "preempt/none", "preempt/none", "preempt/partition_prio", "preempt/qos"),
		Mode:       g.enums("PreemptMode", preemptModes...),
		ExemptTime: max(g.span("PreemptExemptTime", 0), 0),
		Parameters: g.options("PreemptParameters"),
	}
	if c.Preempt.ExemptTime == tres.Forever {
		c.Preempt.ExemptTime = 0
	}
}

var preemptModes = []string{"OFF", "CANCEL", "CHECKPOINT", "GANG", "PRIORITY", "REQUEUE", "SUSPEND", "WITHIN"}

// accountingStorage reads where records go. Kinds of storage that only Slurm has
// become SQLite, so that a site's own slurm.conf loads.
func (l *loader) accountingStorage() {
	g, a := l.global, &l.cfg.AccountingStorage
	const sqlite, mysql, none = "accounting_storage/sqlite", StorageMySQL, "accounting_storage/none"
	a.Type = sqlite
	switch v := strings.ToLower(g.str("AccountingStorageType", sqlite)); v {
	case sqlite, mysql, none:
		a.Type = v
	case "accounting_storage/slurmdbd", "accounting_storage/filetxt":
		g.warn("AccountingStorageType", "%s is not used here: records are kept by %s", v, sqlite)
	default:
		g.fault("AccountingStorageType", "must be one of %s, %s, %s", sqlite, mysql, none)
	}
	a.Enforce = g.list("AccountingStorageEnforce", false)
	a.TRES = g.list("AccountingStorageTRES", false)
	a.Loc = g.str("AccountingStorageLoc", "")
	if a.Type == mysql {
		a.Host = g.str("AccountingStorageHost", "localhost")
		a.Port = g.number("AccountingStoragePort", 3306, 1, 65535)
		a.User = g.str("AccountingStorageUser", l.cfg.SlurmUser)
		a.Pass = g.str("AccountingStoragePass", "")
		if a.Loc == "" {
			a.Loc = "sbatchd"
		}
		if path, ok := strings.CutPrefix(a.Pass, "file:"); ok {
			if err := secret(path, 0o600); err != nil {
				l.fault(posOf(g.pairs["accountingstoragepass"]), "AccountingStoragePass: %s: %v", path, err)
			}
		} else if a.Pass != "" && !strings.HasPrefix(a.Pass, "env:") {
			l.secretsIn("AccountingStoragePass")
		}
	}
	if _, ok := l.cfg.Values["AccountingStoragePass"]; ok {
		l.cfg.Values["AccountingStoragePass"] = "(null)"
	}
	if a.Type != mysql && len(l.cfg.SlurmctldHosts) > 1 {
		l.warn(posOf(l.repeated["slurmctldhost"][1]), "standby controllers need AccountingStorageType=%s; only %s will serve", mysql, l.cfg.SlurmctldHosts[0])
	}
}

// secretsIn reports a password that stands in a file others may read.
func (l *loader) secretsIn(key string) {
	p, ok := l.global.get(key)
	if !ok {
		return
	}
	if err := secret(p.File, 0o640); err != nil {
		l.warn(posOf(p), "%s stands in a file that others may read; use file:PATH or env:NAME", key)
	}
}

// authAlt reads AuthAltParameters.
func (l *loader) authAlt() {
	g, a := l.global, &l.cfg.AuthAlt
	for _, item := range g.list("AuthAltParameters", false) {
		key, value, _ := strings.Cut(item, "=")
		switch strings.ToLower(key) {
		case "jwt_key":
			a.JWTKey = l.abs(value)
			if err := secret(a.JWTKey, 0o640); err != nil {
				g.fault("AuthAltParameters", "jwt_key: %v", err)
			}
		case "jwks":
			a.JWKS = l.abs(value)
			if err := readable(a.JWKS); err != nil {
				g.fault("AuthAltParameters", "jwks: %v", err)
			}
		case "userclaimfield":
			a.UserClaimField = value
		case "disable_token_creation":
			a.DisableTokenCreation = true
		case "max_token_lifespan":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				g.fault("AuthAltParameters", "max_token_lifespan must be a number of seconds")
			}
			a.MaxTokenLifespan = time.Duration(n) * time.Second
		default:
			g.warn("AuthAltParameters", "AuthAltParameters: %s has no effect here", key)
		}
	}
}

func (l *loader) abs(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}

// checkpointStore checks the form of the store's address; nothing is contacted.
func (l *loader) checkpointStore() {
	g, c := l.global, l.cfg
	if !g.has("CheckpointStore") {
		c.CheckpointStore = (&url.URL{Scheme: "file", Path: filepath.Join(c.StateSaveLocation, "checkpoints")}).String()
		return
	}
	c.CheckpointStore = g.str("CheckpointStore", "")
	u, err := url.Parse(c.CheckpointStore)
	switch {
	case err != nil:
		g.fault("CheckpointStore", "not a URL")
	case u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path):
	case u.Scheme == "s3" && u.Host != "":
		if u.User != nil {
			g.fault("CheckpointStore", "must not hold a password")
		}
		for _, e := range u.Query()["endpoint"] {
			if v, err := url.Parse(e); err != nil || (v.Scheme != "http" && v.Scheme != "https") || v.Host == "" {
				g.fault("CheckpointStore", "endpoint must be a http or https URL")
			}
		}
	default:
		g.fault("CheckpointStore", "must be file:///path or s3://bucket?endpoint=https://host")
	}
}

// hosts reads controllers and listeners.
func (l *loader) hosts() {
	g, c := l.global, l.cfg
	addr := ""
	for i, p := range l.repeated["slurmctldhost"] {
		name, in, ok := strings.Cut(p.Value, "(")
		in, closed := strings.CutSuffix(in, ")")
		if name == "" || (ok && (!closed || in == "")) {
			l.fault(posOf(p), "SlurmctldHost=%s: must be a host name, or name(address)", p.Value)
			continue
		}
		c.SlurmctldHosts = append(c.SlurmctldHosts, name)
		if i == 0 {
			if addr = name; ok {
				addr = in
			}
		}
	}
	port := defaultPort
	if g.has("SlurmctldPort") {
		first, _, _ := strings.Cut(g.str("SlurmctldPort", ""), "-")
		n, err := strconv.ParseUint(first, 10, 16)
		if err != nil || n == 0 {
			g.fault("SlurmctldPort", "not a port")
		} else {
			port = int(n)
		}
	}
	c.AgentListen = l.listeners("AgentListen", "tcp:0.0.0.0:"+strconv.Itoa(port))
	c.RestListen = l.listeners("RestListen", defaultRestListen)
	c.AgentAddress = g.str("AgentAddress", "")
	if c.AgentAddress != "" {
		if _, _, err := splitAddress(c.AgentAddress); err != nil {
			g.fault("AgentAddress", "must be host:port")
		}
		return
	}
	for _, a := range c.AgentListen {
		if a.Network != "tcp" {
			continue
		}
		host, port, err := splitAddress(a.Address)
		if err != nil {
			return
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			if host = addr; host == "" {
				host = "localhost"
			}
		}
		c.AgentAddress = net.JoinHostPort(host, port)
		return
	}
}
