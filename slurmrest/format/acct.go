package format

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Acct is the record of sacct's lines: a job, or one of its steps.
type Acct struct {
	Job  *wire.DBJob
	Step *wire.DBStep // nil: the line of the whole job

	Units *tres.Unit              // of --units; nil: the largest that keeps sizes exact
	UID   func(name string) int64 // number of a user, -1 if unknown
	GID   func(name string) int64 // number of a group, -1 if unknown
}

type acctFunc = func(*Context, *Acct) string

// job makes a column that is empty on the lines of steps.
func job(value func(c *Context, a *Acct) string) acctFunc {
	return func(c *Context, a *Acct) string {
		if a.Step != nil {
			return ""
		}
		return value(c, a)
	}
}

// step makes a column that is empty on the lines of jobs.
func step(value func(c *Context, a *Acct) string) acctFunc {
	return func(c *Context, a *Acct) string {
		if a.Step == nil {
			return ""
		}
		return value(c, a)
	}
}

func empty(*Context, *Acct) string { return "" }

// AcctFields are sacct's columns in the order of --helpformat.
var AcctFields = []TableField[Acct]{
	{"Account", 10, func(_ *Context, a *Acct) string { return a.Job.Account }},
	{"AdminComment", 15, job(func(_ *Context, a *Acct) string { return a.Job.Comment.Administrator })},
	{"AllocCPUS", 10, func(_ *Context, a *Acct) string { return itoa(a.cpus()) }},
	{"AllocNodes", 10, func(_ *Context, a *Acct) string { return itoa(a.nodes()) }},
	{"AllocTRES", 10, func(_ *Context, a *Acct) string { return a.tres(a.allocated()) }},
	{"AssocID", 7, job(func(_ *Context, a *Acct) string { return itoa(a.Job.Association.ID) })},
	{"AveCPU", 10, step(func(_ *Context, a *Acct) string { return a.cpuUsage(a.Step.TRES.Requested.Average) })},
	{"AveCPUFreq", 10, step(func(_ *Context, a *Acct) string { return itoa(a.Step.Statistics.CPU.ActualFrequency) })},
	{"AveDiskRead", 14, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Average, "fs") })},
	{"AveDiskWrite", 14, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Consumed.Average, "fs") })},
	{"AvePages", 10, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Average, "pages") })},
	{"AveRSS", 10, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Average, "mem") })},
	{"AveVMSize", 10, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Average, "vmem") })},
	{"BlockID", 16, empty},
	{"Cluster", 10, func(_ *Context, a *Acct) string { return a.Job.Cluster }},
	{"Comment", 14, job(func(_ *Context, a *Acct) string { return a.Job.Comment.Job })},
	{"Constraints", 19, job(func(_ *Context, a *Acct) string { return a.Job.Constraints })},
	{"ConsumedEnergy", 14, func(_ *Context, a *Acct) string { return a.energy() }},
	{"ConsumedEnergyRaw", 17, func(_ *Context, a *Acct) string { return a.energy() }},
	{"Container", 19, job(func(_ *Context, a *Acct) string { return a.Job.Container })},
	{"CPUTime", 10, func(_ *Context, a *Acct) string { return seconds(a.elapsed() * a.cpus()) }},
	{"CPUTimeRAW", 10, func(_ *Context, a *Acct) string { return itoa(a.elapsed() * a.cpus()) }},
	{"DBIndex", -21, job(func(_ *Context, a *Acct) string { return itoa(a.Job.JobID) })},
	{"DerivedExitCode", 15, job(func(_ *Context, a *Acct) string { return ExitCode(a.Job.DerivedExitCode) })},
	{"Elapsed", 10, func(_ *Context, a *Acct) string { return seconds(a.elapsed()) }},
	{"ElapsedRaw", 10, func(_ *Context, a *Acct) string { return itoa(a.elapsed()) }},
	{"Eligible", 19, job(func(c *Context, a *Acct) string { return c.Time(a.Job.Time.Eligible, "Unknown") })},
	{"End", 19, func(c *Context, a *Acct) string { return c.Time(a.end(), "Unknown") }},
	{"Exclusive", 9, job(func(_ *Context, a *Acct) string { return or(a.Job.Exclusive, "NO") })},
	{"ExitCode", 8, func(_ *Context, a *Acct) string { return a.exitCode() }},
	{"Extra", 14, job(func(_ *Context, a *Acct) string { return a.Job.Extra })},
	{"FailedNode", 8, job(func(_ *Context, a *Acct) string { return a.Job.FailedNode })},
	{"Flags", 19, job(func(_ *Context, a *Acct) string { return a.flags() })},
	{"GID", 6, job(func(_ *Context, a *Acct) string { return number(a.GID, a.Job.Group) })},
	{"Group", 9, job(func(_ *Context, a *Acct) string { return a.Job.Group })},
	{"JobID", -12, func(_ *Context, a *Acct) string { return a.ID() }},
	{"JobIDRaw", -12, func(_ *Context, a *Acct) string { return itoa(a.Job.JobID) + a.stepSuffix() }},
	{"JobName", 10, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return a.Step.Step.Name
		}
		return a.Job.Name
	}},
	{"Layout", 9, step(func(_ *Context, a *Acct) string { return or(a.Step.Task.Distribution, "Unknown") })},
	{"Licenses", 10, job(func(_ *Context, a *Acct) string { return a.Job.Licenses })},
	{"MaxDiskRead", 12, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Max, "fs") })},
	{"MaxDiskReadNode", 15, empty},
	{"MaxDiskReadTask", 15, empty},
	{"MaxDiskWrite", 12, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Consumed.Max, "fs") })},
	{"MaxDiskWriteNode", 16, empty},
	{"MaxDiskWriteTask", 16, empty},
	{"MaxPages", 8, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Max, "pages") })},
	{"MaxPagesNode", 12, empty},
	{"MaxPagesTask", 14, empty},
	{"MaxRSS", 10, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Max, "mem") })},
	{"MaxRSSNode", 10, empty},
	{"MaxRSSTask", 10, empty},
	{"MaxVMSize", 10, step(func(_ *Context, a *Acct) string { return a.usage(a.Step.TRES.Requested.Max, "vmem") })},
	{"MaxVMSizeNode", 14, empty},
	{"MaxVMSizeTask", 14, empty},
	{"McsLabel", 12, job(func(_ *Context, a *Acct) string { return a.Job.MCS.Label })},
	{"MinCPU", 10, step(func(_ *Context, a *Acct) string { return a.cpuUsage(a.Step.TRES.Requested.Min) })},
	{"MinCPUNode", 10, empty},
	{"MinCPUTask", 10, empty},
	{"NCPUS", 10, func(_ *Context, a *Acct) string { return itoa(a.cpus()) }},
	{"NNodes", 8, func(_ *Context, a *Acct) string { return itoa(a.nodes()) }},
	{"NodeList", 15, func(_ *Context, a *Acct) string { return a.nodeList() }},
	{"NTasks", 8, step(func(_ *Context, a *Acct) string { return itoa(a.Step.Tasks.Count) })},
	{"OriginalSLUID", 14, job(func(_ *Context, a *Acct) string { return a.Job.OriginalSLUID })},
	{"OverSubscribe", 13, job(func(_ *Context, a *Acct) string { return or(a.Job.Oversubscribe, "NO") })},
	{"Partition", 10, job(func(_ *Context, a *Acct) string { return a.Job.Partition })},
	{"Planned", 10, job(func(_ *Context, a *Acct) string { return seconds(a.Job.Time.Planned.Or(0)) })},
	{"PlannedCPU", 10, job(func(_ *Context, a *Acct) string { return seconds(a.Job.Time.Planned.Or(0) * a.Job.Required.CPUs) })},
	{"PlannedCPURAW", 13, job(func(_ *Context, a *Acct) string { return itoa(a.Job.Time.Planned.Or(0) * a.Job.Required.CPUs) })},
	{"Priority", 10, job(func(_ *Context, a *Acct) string { return itoa(a.Job.Priority.Or(0)) })},
	{"QOS", 10, job(func(_ *Context, a *Acct) string { return a.Job.QOS })},
	{"QOSRAW", 6, job(func(_ *Context, a *Acct) string { return a.Job.QOS })},
	{"QOSREQ", 10, job(func(_ *Context, a *Acct) string { return a.Job.Qosreq })},
	{"Reason", 22, job(func(_ *Context, a *Acct) string { return or(a.Job.State.Reason, "None") })},
	{"ReqCPUFreq", 10, step(func(_ *Context, _ *Acct) string { return "Unknown" })},
	{"ReqCPUFreqGov", 13, step(func(_ *Context, _ *Acct) string { return "Unknown" })},
	{"ReqCPUFreqMax", 13, step(func(_ *Context, _ *Acct) string { return "Unknown" })},
	{"ReqCPUFreqMin", 13, step(func(_ *Context, _ *Acct) string { return "Unknown" })},
	{"ReqCPUS", 8, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return itoa(a.cpus())
		}
		return itoa(a.Job.Required.CPUs)
	}},
	{"ReqMem", 10, job(func(_ *Context, a *Acct) string { return a.reqMem() })},
	{"ReqNodes", 8, job(func(_ *Context, a *Acct) string { return itoa(max(count(a.Job.TRES.Requested, "node"), 1)) })},
	{"ReqTRES", 10, job(func(_ *Context, a *Acct) string { return a.tres(a.Job.TRES.Requested) })},
	{"Reservation", 20, job(func(_ *Context, a *Acct) string { return a.Job.Reservation.Name })},
	{"ReservationId", 8, job(func(_ *Context, a *Acct) string {
		if a.Job.Reservation.ID == 0 {
			return ""
		}
		return itoa(a.Job.Reservation.ID)
	})},
	{"ReqReservation", 20, job(func(_ *Context, a *Acct) string { return a.Job.Reservation.Requested })},
	{"Restarts", 8, job(func(_ *Context, a *Acct) string { return itoa(a.Job.RestartCnt) })},
	{"SegmentSize", 11, job(func(_ *Context, a *Acct) string { return itoa(a.Job.SegmentSize) })},
	{"SLUID", 14, job(func(_ *Context, a *Acct) string { return a.Job.SLUID })},
	{"Start", 19, func(c *Context, a *Acct) string { return c.Time(a.start(), "Unknown") }},
	{"State", 10, func(_ *Context, a *Acct) string { return a.State() }},
	{"StdErr", 20, job(func(_ *Context, a *Acct) string { return a.Job.Stderr })},
	{"StdIn", 20, job(func(_ *Context, a *Acct) string { return a.Job.Stdin })},
	{"StdOut", 20, job(func(_ *Context, a *Acct) string { return a.Job.Stdout })},
	{"Submit", 19, func(c *Context, a *Acct) string {
		if a.Step != nil {
			return c.Time(a.start(), "Unknown")
		}
		return c.Time(a.Job.Time.Submission, "Unknown")
	}},
	{"SubmitLine", 20, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return a.Step.SubmitLine
		}
		return a.Job.SubmitLine
	}},
	{"Suspended", 10, func(_ *Context, a *Acct) string { return seconds(a.Job.Time.Suspended) }},
	{"SystemComment", 15, job(func(_ *Context, a *Acct) string { return a.Job.Comment.System })},
	{"SystemCPU", 10, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return cpuTime(a.Step.Time.System.Seconds, a.Step.Time.System.Microseconds)
		}
		return cpuTime(a.Job.Time.System.Seconds, a.Job.Time.System.Microseconds)
	}},
	{"Timelimit", 10, job(func(_ *Context, a *Acct) string { return timeLimit(a.Job.Time.Limit) })},
	{"TimelimitRaw", 10, job(func(_ *Context, a *Acct) string {
		if l := Limit(a.Job.Time.Limit); l == tres.Infinite || l == tres.NoVal {
			return timeLimit(a.Job.Time.Limit)
		}
		return itoa(a.Job.Time.Limit.Number)
	})},
	{"TotalCPU", 10, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return cpuTime(a.Step.Time.Total.Seconds, a.Step.Time.Total.Microseconds)
		}
		return cpuTime(a.Job.Time.Total.Seconds, a.Job.Time.Total.Microseconds)
	}},
	{"TRESUsageInAve", 14, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Requested.Average) })},
	{"TRESUsageInMax", 14, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Requested.Max) })},
	{"TRESUsageInMaxNode", 18, empty},
	{"TRESUsageInMaxTask", 18, empty},
	{"TRESUsageInMin", 14, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Requested.Min) })},
	{"TRESUsageInMinNode", 18, empty},
	{"TRESUsageInMinTask", 18, empty},
	{"TRESUsageInTot", 14, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Requested.Total) })},
	{"TRESUsageOutAve", 15, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Consumed.Average) })},
	{"TRESUsageOutMax", 15, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Consumed.Max) })},
	{"TRESUsageOutMaxNode", 19, empty},
	{"TRESUsageOutMaxTask", 19, empty},
	{"TRESUsageOutMin", 15, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Consumed.Min) })},
	{"TRESUsageOutMinNode", 19, empty},
	{"TRESUsageOutMinTask", 19, empty},
	{"TRESUsageOutTot", 15, step(func(_ *Context, a *Acct) string { return a.usages(a.Step.TRES.Consumed.Total) })},
	{"UID", 6, job(func(_ *Context, a *Acct) string { return number(a.UID, a.Job.User) })},
	{"User", 9, job(func(_ *Context, a *Acct) string { return a.Job.User })},
	{"UserCPU", 10, func(_ *Context, a *Acct) string {
		if a.Step != nil {
			return cpuTime(a.Step.Time.User.Seconds, a.Step.Time.User.Microseconds)
		}
		return cpuTime(a.Job.Time.User.Seconds, a.Job.Time.User.Microseconds)
	}},
	{"WCKey", 10, job(func(_ *Context, a *Acct) string { return a.Job.Wckey.Wckey })},
	{"WCKeyID", 10, job(func(_ *Context, _ *Acct) string { return "0" })},
	{"WorkDir", 20, job(func(_ *Context, a *Acct) string { return a.Job.WorkingDirectory })},
}

func number(resolve func(string) int64, name string) string {
	if resolve == nil || name == "" {
		return ""
	}
	if n := resolve(name); n >= 0 {
		return itoa(n)
	}
	return ""
}

// ID is the job's or step's id as sacct shows it: 7, 7_1, 7_[2-5], 7+1, 7.batch.
func (a *Acct) ID() string {
	j := a.Job
	id := itoa(j.JobID)
	switch {
	case j.Array.JobID != 0 && j.Array.TaskID.Set:
		id = itoa(j.Array.JobID) + "_" + itoa(j.Array.TaskID.Number)
	case j.Array.JobID != 0 && j.Array.Task != "":
		id = itoa(j.Array.JobID) + "_[" + j.Array.Task + "]"
	case j.Het.JobID != 0:
		id = itoa(j.Het.JobID) + "+" + itoa(j.Het.JobOffset.Or(0))
	}
	return id + a.stepSuffix()
}

func (a *Acct) stepSuffix() string {
	if a.Step == nil {
		return ""
	}
	if _, after, ok := strings.Cut(a.Step.Step.ID, "."); ok {
		return "." + after
	}
	return "." + a.Step.Step.ID
}

// State is the base state; a cancelled job also says by whom.
func (a *Acct) State() string {
	if a.Step != nil {
		return BaseState(a.Step.State).Name
	}
	if slices.Contains(a.Job.State.Current, "REQUEUED") {
		return "REQUEUED"
	}
	s := BaseState(a.Job.State.Current).Name
	if s == "CANCELLED" && a.Job.KillRequestUser != "" {
		return s + " by " + or(number(a.UID, a.Job.KillRequestUser), a.Job.KillRequestUser)
	}
	return s
}

func (a *Acct) exitCode() string {
	if a.Step != nil {
		return ExitCode(a.Step.ExitCode)
	}
	return ExitCode(a.Job.ExitCode)
}

func (a *Acct) elapsed() int64 {
	if a.Step != nil {
		return a.Step.Time.Elapsed
	}
	return a.Job.Time.Elapsed
}

func (a *Acct) start() int64 {
	if a.Step != nil {
		return a.Step.Time.Start.Or(0)
	}
	return a.Job.Time.Start
}

func (a *Acct) end() int64 {
	if a.Step != nil {
		return a.Step.Time.End.Or(0)
	}
	return a.Job.Time.End
}

func (a *Acct) allocated() []wire.TRES {
	if a.Step != nil {
		return a.Step.TRES.Allocated
	}
	return a.Job.TRES.Allocated
}

func (a *Acct) cpus() int64 { return count(a.allocated(), "cpu") }

func (a *Acct) nodes() int64 {
	if a.Step != nil {
		return a.Step.Nodes.Count
	}
	if a.Job.AllocationNodes > 0 {
		return a.Job.AllocationNodes
	}
	return max(count(a.Job.TRES.Allocated, "node"), count(a.Job.TRES.Requested, "node"))
}

func (a *Acct) nodeList() string {
	if a.Step != nil {
		return a.Step.Nodes.Range
	}
	if n := a.Job.Nodes; n != "" {
		return n
	}
	return "None assigned"
}

func count(list []wire.TRES, kind string) int64 {
	for _, t := range list {
		if t.Type == kind && t.Name == "" {
			return max(t.Count, 0)
		}
	}
	return 0
}

func (a *Acct) size(mib int64) string {
	if a.Units != nil {
		return tres.FormatUnitsAs(float64(mib), tres.UnitMega, *a.Units)
	}
	return tres.Memory(max(mib, 0)).String()
}

func (a *Acct) reqMem() string {
	if n := count(a.Job.TRES.Requested, "mem"); n > 0 {
		return a.size(n)
	}
	switch r := a.Job.Required; {
	case r.MemoryPerCPU.Set:
		return a.size(r.MemoryPerCPU.Number * max(r.CPUs, 1))
	case r.MemoryPerNode.Set:
		return a.size(r.MemoryPerNode.Number * max(count(a.Job.TRES.Requested, "node"), 1))
	}
	return "0"
}

// tres prints what was asked for or given, by name.
func (a *Acct) tres(list []wire.TRES) string {
	var out []string
	for _, t := range list {
		if t.Count <= 0 {
			continue
		}
		name := t.Type
		if t.Name != "" {
			name += "/" + t.Name
		}
		value := itoa(t.Count)
		if t.Type == "mem" {
			value = a.size(t.Count)
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// usage prints one measured amount; memory and disk come in bytes.
func (a *Acct) usage(list []wire.TRES, kind string) string {
	for _, t := range list {
		if t.Type != kind {
			continue
		}
		switch {
		case kind == "pages":
			return itoa(t.Count)
		case a.Units != nil:
			return tres.FormatUnitsAs(float64(t.Count), tres.UnitNone, *a.Units)
		case kind == "fs":
			return fmt.Sprintf("%.2fM", float64(t.Count)/(1<<20))
		default:
			return tres.FormatUnits(float64(t.Count/1024), tres.UnitKilo, tres.UnitsExact)
		}
	}
	return ""
}

func (a *Acct) usages(list []wire.TRES) string {
	var out []string
	for _, t := range list {
		name := t.Type
		if t.Name != "" {
			name += "/" + t.Name
		}
		value := a.usage([]wire.TRES{t}, t.Type)
		if t.Type == "cpu" {
			value = a.cpuUsage([]wire.TRES{t})
		}
		out = append(out, name+"="+value)
	}
	return strings.Join(out, ",")
}

// cpuUsage prints CPU time, which comes in milliseconds.
func (a *Acct) cpuUsage(list []wire.TRES) string {
	for _, t := range list {
		if t.Type == "cpu" {
			return tres.FormatDuration((time.Duration(t.Count) * time.Millisecond).Truncate(time.Second))
		}
	}
	return ""
}

func (a *Acct) energy() string {
	if a.Step != nil {
		return itoa(a.Step.Statistics.Energy.Consumed.Or(0))
	}
	return itoa(max(count(a.Job.TRES.Allocated, "energy"), 0))
}

// flags have other names in sacct than in the API.
func (a *Acct) flags() string {
	var out []string
	for _, f := range a.Job.Flags {
		switch f {
		case "STARTED_ON_SCHEDULE":
			out = append(out, "SchedMain")
		case "STARTED_ON_BACKFILL":
			out = append(out, "SchedBackfill")
		case "STARTED_ON_SUBMIT":
			out = append(out, "SchedSubmit")
		case "START_RECEIVED":
			out = append(out, "StartReceived")
		case "JOB_ALTERED":
			out = append(out, "JobAltered")
		}
	}
	return strings.Join(out, ",")
}

// cpuTime prints [[D-]HH:]MM:SS.mmm, and 00:00:00 for none.
func cpuTime(sec, micro int64) string {
	sec, micro = sec+micro/1e6, micro%1e6
	if sec == 0 && micro == 0 {
		return "00:00:00"
	}
	if sec >= 3600 {
		return seconds(sec)
	}
	return fmt.Sprintf("%02d:%02d.%03d", sec/60, sec%60, micro/1000)
}

func timeLimit(n wire.Num) string {
	switch l := Limit(n); l {
	case tres.NoVal:
		return "Partition_Limit"
	case tres.Infinite:
		return "UNLIMITED"
	default:
		return l.String()
	}
}
