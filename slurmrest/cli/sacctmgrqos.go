package cli

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// qosFlags are a QOS's flags: sacctmgr's and the API's names.
var qosFlags = [][2]string{
	{"DenyOnLimit", "DENY_LIMIT"}, {"EnforceUsageThreshold", "ENFORCE_USAGE_THRESHOLD"}, {"PartitionMinNodes", "PARTITION_MINIMUM_NODE"},
	{"PartitionMaxNodes", "PARTITION_MAXIMUM_NODE"}, {"PartitionTimeLimit", "PARTITION_TIME_LIMIT"}, {"RequiresReservation", "REQUIRED_RESERVATION"},
	{"OverPartQOS", "OVERRIDE_PARTITION_QOS"}, {"NoReserve", "NO_RESERVE"}, {"NoDecay", "NO_DECAY"}, {"Relative", "RELATIVE"}, {"UsageFactorSafe", "USAGE_FACTOR_SAFE"},
}

func setFlags(m *manager, s *spec, op, value string) error {
	s.settings++
	l := &wire.AcctList{Op: op}
	for _, w := range csv(value) {
		if w == "-1" {
			continue
		}
		i := slices.IndexFunc(qosFlags, func(f [2]string) bool { return abbreviates(w, f[0], 2) })
		if i < 0 {
			var all []string
			for _, f := range qosFlags {
				all = append(all, f[0])
			}
			m.complain(" Unknown QOS flag used in:\n  '%s'\n Valid QOS flags are\n  '%s'", value, strings.Join(all, ","))
			return errSaid
		}
		l.Names = append(l.Names, qosFlags[i][0])
	}
	s.set.Flags = l
	s.say(1, "Flags                    ", strings.Join(l.Names, ","))
	return nil
}

func setPreempt(m *manager, s *spec, op, value string) error {
	s.settings++
	l := &wire.AcctList{Op: op}
	for _, n := range csv(strings.ToLower(value)) {
		if !contains(s.known.qos, n) {
			m.fail()
			m.e.errorf("You gave a bad qos '%s'. Valid QOS's are %s", n, strings.Join(s.known.qos, ","))
			return errSaid
		}
		l.Names = append(l.Names, n)
	}
	s.set.Preempt = l
	s.say(30, "Preempt                  ", value)
	return nil
}

func setPreemptMode(m *manager, s *spec, _, value string) error {
	s.settings++
	mode := strings.ToLower(value)
	switch mode {
	case "cluster":
		mode = ""
	case "suspend", "requeue", "cancel", "gang":
	default:
		m.complain(" Bad Preempt Mode given: preemptmode=%s", value)
		return errSaid
	}
	s.set.PreemptMode = &mode
	s.say(31, "PreemptMode              ", strings.ToUpper(value))
	return nil
}

// count makes an option that sets a plain number of a QOS.
func count(to func(*spec) **uint32, order int, label string) func(*manager, *spec, string, string) error {
	return func(m *manager, s *spec, _, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < -1 || n >= 1<<32-2 {
			m.fail()
			m.e.errorf("Invalid value for %s (%s)", strings.TrimSpace(label), value)
			return errValue
		}
		s.settings++
		v := uint32(max(n, 0))
		*to(s) = &v
		s.say(order, label, value)
		return nil
	}
}

func setExempt(m *manager, s *spec, _, value string) error {
	s.settings++
	n := int64(-1)
	if value != "-1" {
		d, err := tres.ParseDuration(value)
		if err != nil {
			m.complain(" Bad Preempt Exempt Time given: preemptexempttime=%s", value)
			return errSaid
		}
		n = int64(d.Seconds())
	}
	s.set.PreemptExempt = &n
	s.say(32, "PreemptExemptTime        ", secondsText(max(n, 0)))
	return nil
}

var qosSettings = sync.OnceValue(func() []word {
	return []word{
		{"description", 1, sets(func(s *spec) **string { return &s.set.Description }, 0, ""), false},
		{"flags", 2, setFlags, false},
		{"newname", 4, sets(func(s *spec) **string { return &s.set.NewName }, 0, ""), false},
		{"gracetime", 3, count(func(s *spec) **uint32 { return &s.set.GraceTime }, 2, "GraceTime                "), false},
		{"grpcpumins", 7, resource("GrpTRESMins", "cpu"), false}, {"grpcpurunmins", 7, resource("GrpTRESRunMins", "cpu"), false},
		{"grpcpus", 4, resource("GrpTRES", "cpu"), false}, {"grpmemory", 4, resource("GrpTRES", "mem"), false}, {"grpnodes", 4, resource("GrpTRES", "node"), false},
		{"grpjobs", 7, limitNumber("GrpJobs", 3, "GrpJobs                  "), false},
		{"grpjobsaccrue", 8, limitNumber("GrpJobsAccrue", 4, "GrpJobsAccrue            "), false},
		{"grpsubmitjobs", 8, limitNumber("GrpSubmitJobs", 5, "GrpSubmitJobs            "), false},
		{"grptres", 7, resources("GrpTRES", 6, "GrpTRES                  "), false},
		{"grptresmins", 8, resources("GrpTRESMins", 7, "GrpTRESMins              "), false},
		{"grptresrunmins", 8, resources("GrpTRESRunMins", 8, "GrpTRESRunMins           "), false},
		{"grpwall", 4, wall("GrpWall", 9, "GrpWall                  "), false},
		{"maxjobsaccrueperaccount", 18, limitNumber("MaxJobsAccruePA", 10, "MaxJobsAccruePerAccount  "), false}, {"maxjobsaccruepa", 15, limitNumber("MaxJobsAccruePA", 10, "MaxJobsAccruePerAccount  "), false},
		{"maxjobsaccrueperuser", 8, limitNumber("MaxJobsAccrue", 11, "MaxJobsAccruePerUser     "), false}, {"maxjobsaccruepu", 15, limitNumber("MaxJobsAccrue", 11, "MaxJobsAccruePerUser     "), false},
		{"maxjobsperaccount", 11, limitNumber("MaxJobsPA", 12, "MaxJobsPerAccount        "), false}, {"maxjobspa", 9, limitNumber("MaxJobsPA", 12, "MaxJobsPerAccount        "), false},
		{"maxjobsperuser", 4, limitNumber("MaxJobs", 13, "MaxJobsPerUser "), false}, {"maxjobspu", 9, limitNumber("MaxJobs", 13, "MaxJobsPerUser "), false},
		{"maxsubmitjobsperaccount", 17, limitNumber("MaxSubmitJobsPA", 14, "MaxSubmitJobsPerAccount  "), false}, {"maxsubmitjobspa", 15, limitNumber("MaxSubmitJobsPA", 14, "MaxSubmitJobsPerAccount  "), false},
		{"maxsubmitjobsperuser", 4, limitNumber("MaxSubmitJobs", 15, "MaxSubmitJobsPerUser     "), false}, {"maxsubmitjobspu", 15, limitNumber("MaxSubmitJobs", 15, "MaxSubmitJobsPerUser     "), false},
		{"maxtresperaccount", 11, resources("MaxTRESPA", 16, "MaxTRESPerAccount        "), false}, {"maxtrespa", 9, resources("MaxTRESPA", 16, "MaxTRESPerAccount        "), false},
		{"maxtresperjob", 7, resources("MaxTRES", 17, "MaxTRESPerJob            "), false},
		{"maxtrespernode", 11, resources("MaxTRESPerNode", 18, "MaxTRESPerNode           "), false},
		{"maxtresperuser", 11, resources("MaxTRESPU", 19, "MaxTRESPerUser           "), false}, {"maxtrespu", 9, resources("MaxTRESPU", 19, "MaxTRESPerUser           "), false},
		{"maxcpusperuser", 11, resource("MaxTRESPU", "cpu"), false}, {"maxnodesperuser", 12, resource("MaxTRESPU", "node"), false},
		{"maxcpusperjob", 7, resource("MaxTRES", "cpu"), false}, {"maxnodesperjob", 4, resource("MaxTRES", "node"), false}, {"maxcpuminsperjob", 7, resource("MaxTRESMins", "cpu"), false},
		{"minpriothreshold", 4, limitNumber("MinPrioThresh", 20, "MinPrioThresh            "), false},
		{"mintresperjob", 7, resources("MinTRES", 21, "MinTRESPerJob            "), false}, {"mincpusperjob", 4, resource("MinTRES", "cpu"), false},
		{"maxtresminsperjob", 8, resources("MaxTRESMins", 22, "MaxTRESMins              "), false},
		{"maxtresrunminsperaccount", 18, resources("MaxTRESRunMinsPA", 23, "MaxTRESRUNMinsPerAccount "), false}, {"maxtresrunminspa", 16, resources("MaxTRESRunMinsPA", 23, "MaxTRESRUNMinsPerAccount "), false},
		{"maxtresrunminsperuser", 8, resources("MaxTRESRunMins", 24, "MaxTRESRUNMinsPerUser    "), false}, {"maxtresrunminspu", 16, resources("MaxTRESRunMins", 24, "MaxTRESRUNMinsPerUser    "), false},
		{"maxwalldurationperjob", 4, wall("MaxWall", 25, "MaxWall                  "), false},
		{"preempt", 7, setPreempt, false}, {"preemptmode", 8, setPreemptMode, false}, {"preemptexempttime", 8, setExempt, false},
		{"priority", 3, count(func(s *spec) **uint32 { return &s.set.Priority }, 33, "Priority                 "), false},
		{"usagefactor", 6, float(func(s *spec) **float64 { return &s.set.UsageFactor }, 34, "UsageFactor              "), false},
		{"usagethreshold", 6, float(func(s *spec) **float64 { return &s.set.UsageThreshold }, 35, "UsageThreshold           "), false},
		{"limitfactor", 6, float(func(s *spec) **float64 { return &s.set.LimitFactor }, 36, "LimitFactor              "), false},
	}
})

var qosEntity = sync.OnceValue(func() entity {
	return entity{
		name: "QOS", of: "qos", least: 1,
		conditions: slices.Concat([]word{
			{"names", 1, lower(namesOf), false}, {"qoslevel", 1, lower(namesOf), false}, {"descriptions", 3, into(func(s *spec) *[]string { return &s.where.Descriptions }), false},
			{"id", 1, ids, false},
		}, listing()),
		settings: qosSettings(),
		list:     (*manager).listQOS,
		columns: "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins," +
			"GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxTRESRunMinsPA%22," +
			"MaxTRESRunMinsPU%22,MaxJobsPA,MaxSubmitPA,MinTRES",
	}
})
