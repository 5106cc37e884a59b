package partitions

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Settings returns every global key as "scontrol show config" prints it: those
// acted on with their defaults filled in and in Slurm's notation ("300 sec",
// "(null)"), the other ones of the file as written. Passwords are "(null)".
func (c *Config) Settings() map[string]string {
	m := maps.Clone(c.Values)
	for key, v := range c.effective() {
		if v == "" {
			v = "(null)"
		}
		m[key] = v
	}
	delete(m, "SlurmctldHost")
	delete(m, "PriorityWeightFairshare") // printed as FairShare
	for i, h := range c.SlurmctldHosts {
		m["SlurmctldHost["+strconv.Itoa(i)+"]"] = h
	}
	return m
}

// effective lists the keys that have a default or another notation than the file.
func (c *Config) effective() map[string]string {
	storage, port := "(null)", "0"
	if c.AccountingStorage.Host != "" {
		storage, port = c.AccountingStorage.Host, strconv.Itoa(c.AccountingStorage.Port)
	}
	return map[string]string{
		"AccountingStorageEnforce": orNone(c.AccountingStorage.Enforce),
		"AccountingStorageHost":    storage,
		"AccountingStoragePass":    "",
		"AccountingStoragePort":    port,
		"AccountingStorageTRES":    accountedTRES(c.AccountingStorage.TRES),
		"AccountingStorageType":    c.AccountingStorage.Type,
		"AccountingStorageUser":    orNA(c.AccountingStorage.User),
		"AcctGatherNodeFreq":       orDefault(c.Values["AcctGatherNodeFreq"], "0") + " sec",
		"AgentAddress":             c.AgentAddress,
		"AgentListen":              listenText(c.AgentListen),
		"CheckpointStore":          c.CheckpointStore,
		"ClusterName":              c.ClusterName,
		"DefMemPerCPU":             memoryLimit(c.DefMemPerCPU),
		"DefMemPerNode":            memoryLimit(c.DefMemPerNode),
		"DisableRootJobs":          yesNo(c.DisableRootJobs),
		"EnforcePartLimits":        c.EnforcePartLimits,
		"FenceTimeout":             sec(c.FenceTimeout),
		"FirstJobId":               fmt.Sprint(c.FirstJobID),
		"GresTypes":                strings.Join(c.GresTypes, ","),
		"InteractiveIdle":          sec(c.InteractiveIdle),
		"JobFileAppend":            bit(c.JobFileAppend),
		"JobLogLimit":              logLimit(c.JobLogLimit),
		"JobRequeue":               bit(c.JobRequeue),
		"KillWait":                 sec(c.KillWait),
		"MaxArraySize":             strconv.Itoa(c.MaxArraySize),
		"MaxBatchRequeue":          strconv.Itoa(c.MaxBatchRequeue),
		"MaxJobCount":              strconv.Itoa(c.MaxJobCount),
		"MaxJobId":                 fmt.Sprint(c.MaxJobID),
		"MaxMemPerCPU":             memoryLimit(c.MaxMemPerCPU),
		"MaxMemPerNode":            memoryLimit(c.MaxMemPerNode),
		"MessageTimeout":           sec(c.MessageTimeout),
		"MinJobAge":                sec(c.MinJobAge),
		"OrphanTimeout":            sec(c.OrphanTimeout),
		"OverTimeLimit":            overTime(c.OverTimeLimit),
		"PreemptExemptTime":        tres.FormatDuration(c.Preempt.ExemptTime),
		"PreemptMode":              orDefault(strings.Join(c.Preempt.Mode, ","), "OFF"),
		"PreemptType":              orDefault(strings.TrimSuffix(c.Preempt.Type, "preempt/none"), "(null)"),
		"PriorityCalcPeriod":       tres.FormatDuration(c.Priority.CalcPeriod),
		"PriorityDecayHalfLife":    tres.FormatDuration(c.Priority.DecayHalfLife),
		"PriorityFavorSmall":       yesNo(c.Priority.FavorSmall),
		"PriorityFlags":            strings.Join(c.Priority.Flags, ","),
		"PriorityMaxAge":           tres.FormatDuration(c.Priority.MaxAge),
		"PriorityType":             c.Priority.Type,
		"PriorityUsageResetPeriod": c.Priority.UsageReset,
		"PriorityWeightAge":        strconv.Itoa(c.Priority.WeightAge),
		"PriorityWeightAssoc":      strconv.Itoa(c.Priority.WeightAssoc),
		"PriorityWeightFairShare":  strconv.Itoa(c.Priority.WeightFairshare),
		"PriorityWeightJobSize":    strconv.Itoa(c.Priority.WeightJobSize),
		"PriorityWeightPartition":  strconv.Itoa(c.Priority.WeightPartition),
		"PriorityWeightQOS":        strconv.Itoa(c.Priority.WeightQOS),
		"PriorityWeightTRES":       c.Values["PriorityWeightTRES"],
		"PrivateData":              orNone(c.PrivateData),
		"RestListen":               listenText(c.RestListen),
		"ResumeRate":               fmt.Sprintf("%d nodes/min", c.ResumeRate),
		"ResumeTimeout":            sec(c.ResumeTimeout),
		"ReturnToService":          strconv.Itoa(c.ReturnToService),
		"SchedulerParameters":      c.Values["SchedulerParameters"],
		"SchedulerTimeSlice":       orDefault(c.Values["SchedulerTimeSlice"], "30") + " sec",
		"SelectTypeParameters":     strings.ToUpper(orDefault(strings.Join(c.SelectTypeParameters, ","), "CR_Core_Memory")),
		"SlurmUser":                c.SlurmUser,
		"SlurmctldDebug":           c.SlurmctldDebug,
		"SlurmctldLogFile":         c.SlurmctldLogFile,
		"SlurmctldParameters":      c.Values["SlurmctldParameters"],
		"SlurmctldPort":            c.agentPort(),
		"SlurmdTimeout":            sec(c.SlurmdTimeout),
		"StateSaveLocation":        c.StateSaveLocation,
		"SuspendRate":              fmt.Sprintf("%d nodes/min", c.SuspendRate),
		"SuspendTime":              sec(c.SuspendTime),
		"SuspendTimeout":           sec(c.SuspendTimeout),
		"TmpFS":                    c.TmpFS,
	}
}

func sec(d time.Duration) string {
	if d == Never {
		return "INFINITE"
	}
	return fmt.Sprintf("%d sec", int64(d/time.Second))
}

func memoryLimit(m tres.Memory) string {
	if m == 0 {
		return "UNLIMITED"
	}
	return strconv.FormatUint(uint64(m), 10)
}

func logLimit(n int64) string {
	if n == 0 {
		return "UNLIMITED"
	}
	return tres.FormatUnits(float64(n), tres.UnitNone, tres.UnitsExact)
}

func overTime(m tres.Minutes) string {
	if m == tres.Infinite {
		return "UNLIMITED"
	}
	return fmt.Sprintf("%d min", uint32(m))
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func yesNo(b bool) string {
	if b {
		return "Yes"
	}
	return "No"
}

func orDefault(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

func orNA(v string) string { return orDefault(v, "N/A") }

func orNone(list []string) string { return orDefault(strings.Join(list, ","), "none") }

func listenText(list []Listen) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// accountedTRES are the TRES that are always counted, then the configured ones.
func accountedTRES(more []string) string {
	list := []string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}
	for _, t := range more {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return strings.Join(list, ",")
}

// agentPort is the port of the first TCP listener for agents.
func (c *Config) agentPort() string {
	for _, a := range c.AgentListen {
		if a.Network != "unix" {
			if _, port, err := net.SplitHostPort(a.Address); err == nil {
				return port
			}
		}
	}
	return "0"
}
