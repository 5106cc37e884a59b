package format

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Job is the record of squeue's lines: a job, and of an array perhaps one of the
// tasks it still holds together.
type Job struct {
	*wire.JobInfo
}

// JobFields are squeue's columns for jobs, in the order of its help.
var JobFields = []Field[Job]{
	{'a', "Account", "ACCOUNT", false, func(_ *Context, j *Job) string { return null(j.Account) }},
	{0, "AccrueTime", "ACCRUE_TIME", false, func(c *Context, j *Job) string { return c.Time(j.AccrueTime.Number, "N/A") }},
	{0, "admin_comment", "ADMIN_COMMENT", false, func(_ *Context, j *Job) string { return null(j.AdminComment) }},
	{0, "AllocNodes", "ALLOC_NODES", false, func(_ *Context, j *Job) string { return or(j.AllocatingNode, "N/A") }},
	{0, "AllocSID", "ALLOC_SID", false, func(_ *Context, _ *Job) string { return "0" }},
	{'F', "ArrayJobId", "ARRAY_JOB_ID", false, func(_ *Context, j *Job) string { return itoa(j.arrayJob()) }},
	{'K', "ArrayTaskId", "ARRAY_TASK_ID", false, func(c *Context, j *Job) string { return or(j.task(c), "N/A") }},
	{0, "AssocId", "ASSOC_ID", false, func(_ *Context, j *Job) string { return itoa(j.AssociationID) }},
	{0, "BatchFlag", "BATCH_FLAG", false, func(_ *Context, j *Job) string { return bit(j.BatchFlag) }},
	{'B', "BatchHost", "EXEC_HOST", false, func(_ *Context, j *Job) string { return or(j.BatchHost, "n/a") }},
	{0, "BoardsPerNode", "BOARDS_PER_NODE", false, star},
	{0, "BurstBuffer", "BURST_BUFFER", false, func(_ *Context, j *Job) string { return null(j.BurstBuffer) }},
	{0, "BurstBufferState", "BURST_BUFFER_STATE", false, func(_ *Context, j *Job) string { return null(j.BurstBufferState) }},
	{0, "Cluster", "CLUSTER", false, func(_ *Context, j *Job) string { return or(j.Cluster, "N/A") }},
	{0, "ClusterFeature", "CLUSTER_FEATURES", false, func(_ *Context, j *Job) string { return null(j.ClusterFeatures) }},
	{'o', "Command", "COMMAND", false, func(_ *Context, j *Job) string { return null(j.Command) }},
	{'k', "Comment", "COMMENT", false, func(_ *Context, j *Job) string { return null(j.Comment) }},
	{0, "Container", "CONTAINER", false, func(_ *Context, j *Job) string { return j.Container }},
	{0, "ContainerId", "CONTAINERID", false, func(_ *Context, j *Job) string { return j.ContainerID }},
	{0, "ContainerType", "CONTAINERTYPE", false, func(_ *Context, j *Job) string { return j.ContainerType }},
	{'O', "Contiguous", "CONTIGUOUS", false, func(_ *Context, j *Job) string { return bit(j.Contiguous) }},
	{'I', "Cores", "CORES_PER_SOCKET", false, func(_ *Context, j *Job) string { return orStar(j.CoresPerSocket) }},
	{'X', "CoreSpec", "CORE_SPEC", false, func(_ *Context, j *Job) string { return j.coreSpec() }},
	{0, "CPUsPerTask", "CPUS_PER_TASK", false, func(_ *Context, j *Job) string { return itoa(j.CPUsPerTask.Or(0)) }},
	{0, "cpus-per-task", "CPUS_PER_TASK", false, func(_ *Context, j *Job) string { return itoa(j.CPUsPerTask.Or(0)) }},
	{0, "cpus-per-tres", "CPUS_PER_TRES", false, func(_ *Context, j *Job) string { return or(j.CPUsPerTRES, "N/A") }},
	{0, "CronJob", "CRON_JOB", false, func(_ *Context, j *Job) string { return yesNo(slices.Contains(j.Flags, "CRON_JOB")) }},
	{0, "Deadline", "DEADLINE", false, func(c *Context, j *Job) string { return c.Time(j.Deadline.Number, "N/A") }},
	{0, "DelayBoot", "DELAY_BOOT", false, func(_ *Context, j *Job) string { return seconds(j.DelayBoot.Or(0)) }},
	{'E', "Dependency", "DEPENDENCY", false, func(_ *Context, j *Job) string { return null(j.Dependency) }},
	{0, "DerivedEC", "DERIVED_EC", false, func(_ *Context, j *Job) string { return ExitCode(j.DerivedExitCode) }},
	{0, "EligibleTime", "ELIGIBLE_TIME", false, func(c *Context, j *Job) string { return c.Time(j.EligibleTime.Number, "N/A") }},
	{'e', "EndTime", "END_TIME", false, func(c *Context, j *Job) string { return c.Time(j.EndTime.Number, "N/A") }},
	{'x', "ExcNodes", "EXC_NODES", false, func(_ *Context, j *Job) string { return j.ExcludedNodes }},
	{0, "Exclusive", "EXCLUSIVE", false, func(_ *Context, j *Job) string { return Exclusive(j.Shared) }},
	{0, "exit_code", "EXIT_CODE", false, func(_ *Context, j *Job) string { return ExitCode(j.ExitCode) }},
	{'f', "Feature", "FEATURES", false, func(_ *Context, j *Job) string { return null(j.Features) }},
	{'b', "Gres", "TRES_PER_NODE", true, func(_ *Context, j *Job) string { return or(j.TRESPerNode, "N/A") }},
	{'G', "GroupId", "GROUP", false, func(_ *Context, j *Job) string { return itoa(j.GroupID) }},
	{'g', "GroupName", "GROUP", false, func(_ *Context, j *Job) string { return j.GroupName }},
	{0, "HetJobId", "HET_JOB_ID", false, func(_ *Context, j *Job) string { return j.het(j.HetJobID) }},
	{0, "HetJobIdSet", "HET_JOB_ID_SET", false, func(_ *Context, j *Job) string { return or(j.HetJobIDSet, "N/A") }},
	{0, "HetJobOffset", "HET_JOB_OFFSET", false, func(_ *Context, j *Job) string { return j.het(j.HetJobOffset) }},
	{'i', "JobArrayId", "JOBID", false, func(c *Context, j *Job) string { return j.ID(c) }},
	{'A', "JobId", "JOBID", false, func(_ *Context, j *Job) string { return itoa(j.JobID) }},
	{0, "LastSchedEval", "LAST_SCHED_EVAL", false, func(c *Context, j *Job) string { return c.Time(j.LastSchedEvaluation.Number, "N/A") }},
	{'W', "Licenses", "LICENSES", false, func(_ *Context, j *Job) string { return null(j.JobInfo.Licenses) }},
	{0, "LicensesAlloc", "LICENSES_ALLOC", false, func(_ *Context, j *Job) string { return null(j.LicensesAllocated) }},
	{0, "MaxCPUs", "MAX_CPUS", false, func(_ *Context, j *Job) string { return itoa(j.MaxCPUs.Or(0)) }},
	{0, "MaxNodes", "MAX_NODES", false, func(_ *Context, j *Job) string { return itoa(j.MaxNodes.Or(0)) }},
	{0, "mem-per-tres", "MEM_PER_TRES", false, func(_ *Context, j *Job) string { return or(j.MemoryPerTRES, "N/A") }},
	{0, "MCSLabel", "MCSLABEL", false, func(_ *Context, j *Job) string { return or(j.MCSLabel, "N/A") }},
	{'c', "MinCPUs", "MIN_CPUS", false, func(_ *Context, j *Job) string { return itoa(j.MinimumCPUsPerNode.Or(0)) }},
	{'m', "MinMemory", "MIN_MEMORY", false, func(c *Context, j *Job) string { return c.memory(j.memory()) }},
	{0, "MinTime", "TIME_MIN", false, func(_ *Context, j *Job) string { return minimum(j.TimeMinimum) }},
	{'d', "MinTmpDisk", "MIN_TMP_DISK", false, func(c *Context, j *Job) string { return c.memory(j.MinimumTmpDiskPerNode.Or(0)) }},
	{'j', "Name", "NAME", false, func(_ *Context, j *Job) string { return j.JobInfo.Name }},
	{0, "Network", "NETWORK", false, func(_ *Context, j *Job) string { return null(j.Network) }},
	{'y', "Nice", "NICE", false, func(_ *Context, j *Job) string { return itoa(j.Nice) }},
	{'N', "NodeList", "NODELIST", false, func(_ *Context, j *Job) string { return j.JobInfo.Nodes }},
	{0, "NTPerCore", "NTASKS_PER_CORE", false, func(_ *Context, j *Job) string { return orNA(j.TasksPerCore) }},
	{0, "NTPerNode", "NTASKS_PER_NODE", false, func(_ *Context, j *Job) string { return itoa(j.TasksPerNode.Or(0)) }},
	{0, "NTPerSocket", "NTASKS_PER_SOCKET", false, func(_ *Context, j *Job) string { return orNA(j.TasksPerSocket) }},
	{0, "NTPerBoard", "NTASKS_PER_BOARD", false, func(_ *Context, j *Job) string { return itoa(j.TasksPerBoard.Or(0)) }},
	{'C', "NumCPUs", "CPUS", false, func(_ *Context, j *Job) string { return itoa(j.CPUs.Or(0)) }},
	{'D', "NumNodes", "NODES", false, func(_ *Context, j *Job) string { return itoa(j.NodeCount.Or(0)) }},
	{0, "NumTasks", "TASKS", false, func(_ *Context, j *Job) string { return itoa(j.Tasks.Or(1)) }},
	{0, "Origin", "ORIGIN", false, func(_ *Context, _ *Job) string { return "NA" }},
	{0, "OriginRaw", "ORIGIN_RAW", false, func(_ *Context, _ *Job) string { return "0" }},
	{'h', "OverSubscribe", "OVER_SUBSCRIBE", false, func(_ *Context, j *Job) string { return Oversubscribe(j.Shared) }},
	{0, "PackJobId", "HET_JOB_ID", true, func(_ *Context, j *Job) string { return j.het(j.HetJobID) }},
	{0, "PackJobIdSet", "HET_JOB_ID_SET", true, func(_ *Context, j *Job) string { return or(j.HetJobIDSet, "N/A") }},
	{0, "PackJobOffset", "HET_JOB_OFFSET", true, func(_ *Context, j *Job) string { return j.het(j.HetJobOffset) }},
	{'P', "Partition", "PARTITION", false, func(_ *Context, j *Job) string { return j.Partition }},
	{0, "PendingTime", "PENDING_TIME", false, func(c *Context, j *Job) string { return itoa(j.pending(c)) }},
	{0, "PreemptTime", "PREEMPT_TIME", false, func(c *Context, j *Job) string { return c.Time(j.PreemptTime.Number, "N/A") }},
	{0, "Prefer", "PREFER", false, func(_ *Context, j *Job) string { return j.Prefer }},
	{'p', "Priority", "PRIORITY", false, func(_ *Context, j *Job) string { return fmt.Sprintf("%.14f", float64(j.Priority.Or(0))/4294967295) }},
	{'Q', "PriorityLong", "PRIORITY", false, func(_ *Context, j *Job) string { return itoa(j.Priority.Or(0)) }},
	{0, "Profile", "PROFILE", false, func(_ *Context, j *Job) string { return profile(j.Profile) }},
	{'q', "QOS", "QOS", false, func(_ *Context, j *Job) string { return null(j.QOS) }},
	{'r', "Reason", "REASON", false, func(_ *Context, j *Job) string { return j.Reason() }},
	{'R', "ReasonList", "NODELIST(REASON)", false, func(_ *Context, j *Job) string { return j.reasonList() }},
	{0, "Reboot", "REBOOT", false, func(_ *Context, j *Job) string { return bit(j.Reboot) }},
	{'n', "ReqNodes", "REQ_NODES", false, func(_ *Context, j *Job) string { return j.RequiredNodes }},
	{0, "ReqSwitch", "REQ_SWITCH", false, func(_ *Context, j *Job) string { return itoa(j.RequiredSwitches) }},
	{0, "Requeue", "REQUEUE", false, func(_ *Context, j *Job) string { return bit(j.Requeue) }},
	{'v', "Reservation", "RESERVATION", false, func(_ *Context, j *Job) string { return null(j.ResvName) }},
	{0, "ResizeTime", "RESIZE_TIME", false, func(c *Context, j *Job) string { return c.Time(j.ResizeTime.Number, "N/A") }},
	{0, "RestartCnt", "RESTART_COUNT", false, func(_ *Context, j *Job) string { return itoa(j.RestartCnt) }},
	{'Y', "SchedNodes", "SCHEDNODES", false, func(_ *Context, j *Job) string { return null(j.ScheduledNodes) }},
	{'z', "SCT", "S:C:T", false, func(_ *Context, j *Job) string {
		return orStar(j.SocketsPerNode) + ":" + orStar(j.CoresPerSocket) + ":" + orStar(j.ThreadsPerCore)
	}},
	{0, "SegmentSize", "SEGMENT_SIZE", false, func(_ *Context, j *Job) string { return itoa(j.SegmentSize) }},
	{0, "SiblingsActive", "ACTIVE_SIBLINGS", false, func(_ *Context, _ *Job) string { return "NA" }},
	{0, "SiblingsActiveRaw", "ACTIVE_SIBLINGS_RAW", false, func(_ *Context, _ *Job) string { return "0" }},
	{0, "SiblingsViable", "VIABLE_SIBLINGS", false, func(_ *Context, _ *Job) string { return "NA" }},
	{0, "SiblingsViableRaw", "VIALBLE_SIBLINGS_RAW", false, func(_ *Context, _ *Job) string { return "0" }},
	{0, "Shared", "OVER_SUBSCRIBE", true, func(_ *Context, j *Job) string { return Oversubscribe(j.Shared) }},
	{'s', "SLUID", "SLUID", false, func(_ *Context, j *Job) string { return j.StepID.SLUID }},
	{'H', "Sockets", "SOCKETS_PER_NODE", false, func(_ *Context, j *Job) string { return orStar(j.SocketsPerNode) }},
	{0, "SPerBoard", "SOCKETS_PER_BOARD", false, star},
	{'S', "StartTime", "START_TIME", false, func(c *Context, j *Job) string { return c.Time(j.StartTime.Number, "N/A") }},
	{'T', "State", "STATE", false, func(_ *Context, j *Job) string { return ShownState(j.JobState).Name }},
	{'t', "StateCompact", "ST", false, func(_ *Context, j *Job) string { return ShownState(j.JobState).Compact }},
	{0, "StdErr", "STDERR", false, func(_ *Context, j *Job) string { return or(j.StderrExpanded, j.StandardError) }},
	{0, "StdIn", "STDIN", false, func(_ *Context, j *Job) string { return or(j.StdinExpanded, j.StandardInput) }},
	{0, "StdOut", "STDOUT", false, func(_ *Context, j *Job) string { return or(j.StdoutExpanded, j.StandardOutput) }},
	{'V', "SubmitTime", "SUBMIT_TIME", false, func(c *Context, j *Job) string { return c.Time(j.SubmitTime.Number, "N/A") }},
	{0, "system_comment", "SYSTEM_COMMENT", false, func(_ *Context, j *Job) string { return null(j.SystemComment) }},
	{'J', "Threads", "THREADS_PER_CORE", false, func(_ *Context, j *Job) string { return orStar(j.ThreadsPerCore) }},
	{'L', "TimeLeft", "TIME_LEFT", false, func(c *Context, j *Job) string { return j.left(c) }},
	{'l', "TimeLimit", "TIME_LIMIT", false, func(_ *Context, j *Job) string { return Limit(j.TimeLimit).Short() }},
	{'M', "TimeUsed", "TIME", false, func(c *Context, j *Job) string { return tres.FormatElapsed(j.Used(c)) }},
	{0, "Tres", "TRES_ALLOC", true, func(_ *Context, j *Job) string { return or(or(j.TRESAllocStr, j.TRESReqStr), "N/A") }},
	{0, "tres-alloc", "TRES_ALLOC", false, func(_ *Context, j *Job) string { return or(or(j.TRESAllocStr, j.TRESReqStr), "N/A") }},
	{0, "tres-bind", "TRES_BIND", false, func(_ *Context, j *Job) string { return or(j.TRESBind, "N/A") }},
	{0, "tres-freq", "TRES_FREQ", false, func(_ *Context, j *Job) string { return or(j.TRESFreq, "N/A") }},
	{0, "tres-per-job", "TRES_PER_JOB", false, func(_ *Context, j *Job) string { return or(j.TRESPerJob, "N/A") }},
	{0, "tres-per-node", "TRES_PER_NODE", true, func(_ *Context, j *Job) string { return or(j.TRESPerNode, "N/A") }},
	{0, "tres-per-socket", "TRES_PER_SOCKET", false, func(_ *Context, j *Job) string { return or(j.TRESPerSocket, "N/A") }},
	{0, "tres-per-task", "TRES_PER_TASK", false, func(_ *Context, j *Job) string { return or(j.TRESPerTask, "N/A") }},
	{'U', "UserId", "UID", false, func(_ *Context, j *Job) string { return itoa(j.UserID) }},
	{'u', "UserName", "USER", false, func(_ *Context, j *Job) string { return or(j.UserName, itoa(j.UserID)) }},
	{0, "Wait4Switch", "WAIT4SWITCH", false, func(_ *Context, j *Job) string { return seconds(j.MaximumSwitchWaitTime) }},
	{'w', "WCKey", "WCKEY", false, func(_ *Context, j *Job) string { return null(j.Wckey) }},
	{'Z', "WorkDir", "WORK_DIR", false, func(_ *Context, j *Job) string { return null(j.CurrentWorkingDirectory) }},
}

func star(_ *Context, _ *Job) string { return "*" }

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func yesNo(on bool) string {
	if on {
		return "Yes"
	}
	return "No"
}

func orStar(n wire.Num) string {
	if !n.Set {
		return "*"
	}
	return itoa(n.Number)
}

func orNA(n wire.Num) string {
	if !n.Set {
		return "N/A"
	}
	return itoa(n.Number)
}

func seconds(n int64) string { return tres.FormatDuration(time.Duration(n) * time.Second) }

func minimum(n wire.Num) string {
	if n.Or(0) == 0 {
		return "N/A"
	}
	return Limit(n).Short()
}

func profile(list []string) string {
	if len(list) == 0 || list[0] == "NOT_SET" {
		return "(null)"
	}
	return strings.Join(list, ",")
}

// Limit is a time limit in minutes as the API has it.
func Limit(n wire.Num) tres.Minutes {
	switch {
	case n.Infinite:
		return tres.Infinite
	case !n.Set:
		return tres.NoVal
	}
	return tres.Minutes(n.Number)
}

// ExitCode prints status:signal.
func ExitCode(e wire.ProcessExitCodeVerbose) string {
	return itoa(e.ReturnCode.Or(0)) + ":" + itoa(e.Signal.ID.Or(0))
}

// Oversubscribe prints a job's wish to share nodes.
func Oversubscribe(shared []string) string {
	if slices.Contains(shared, "oversubscribe") {
		return "YES"
	}
	return "NO"
}

// Exclusive prints for whom a job's nodes are set aside.
func Exclusive(shared []string) string {
	switch {
	case slices.Contains(shared, "none"):
		return "NODE"
	case slices.Contains(shared, "user"):
		return "USER"
	case slices.Contains(shared, "mcs"):
		return "MCS"
	case slices.Contains(shared, "topo"):
		return "TOPO"
	}
	return "NO"
}

func (j *Job) arrayJob() int64 {
	if n := j.ArrayJobID.Or(0); n != 0 {
		return n
	}
	return j.JobID
}

// task is the job's index in its array, or the indexes that still wait.
func (j *Job) task(c *Context) string {
	switch {
	case j.ArrayTaskID.Set:
		return itoa(j.ArrayTaskID.Number)
	case j.ArrayTaskString != "":
		return c.bitmap(j.ArrayTaskString)
	}
	return ""
}

func (c *Context) bitmap(list string) string {
	if n := c.BitmapLen; n > 3 && len(list) > n {
		return list[:n-3] + "..."
	}
	return list
}

// ID is the job's id as squeue shows it: 7, 7_1, 7_[2-5%2], 7+1.
func (j *Job) ID(c *Context) string {
	switch task := j.task(c); {
	case j.ArrayTaskID.Set:
		return itoa(j.arrayJob()) + "_" + task
	case task != "":
		return itoa(j.arrayJob()) + "_[" + task + "]"
	case j.HetJobID.Or(0) != 0:
		return itoa(j.HetJobID.Number) + "+" + itoa(j.HetJobOffset.Or(0))
	}
	return itoa(j.JobID)
}

func (j *Job) het(n wire.Num) string {
	if j.HetJobID.Or(0) == 0 {
		return "N/A"
	}
	return itoa(n.Number)
}

func (j *Job) coreSpec() string {
	if j.CoreSpec <= 0 || j.CoreSpec >= 32766 {
		return "N/A"
	}
	return itoa(j.CoreSpec)
}

func (j *Job) memory() int64 {
	if j.MemoryPerCPU.Set {
		return j.MemoryPerCPU.Number
	}
	return j.MemoryPerNode.Or(0)
}

func (j *Job) pending(c *Context) int64 {
	start := j.StartTime.Number
	if start == 0 || start > c.Now.Unix() {
		start = c.Now.Unix()
	}
	return max(start-j.SubmitTime.Number, 0)
}

// Used is the time the job has run, less the time it was suspended.
func (j *Job) Used(c *Context) time.Duration {
	base := BaseState(j.JobState).Name
	start, end := j.StartTime.Number, c.Now.Unix()
	switch {
	case base == "PENDING" || start == 0:
		return 0
	case base == "SUSPENDED":
		return time.Duration(j.PreSusTime.Number) * time.Second
	case base == "RUNNING":
	case j.EndTime.Number == 0:
		return 0
	default:
		end = j.EndTime.Number
	}
	if s := j.SuspendTime.Number; s != 0 {
		return time.Duration(max(end-s+j.PreSusTime.Number, 0)) * time.Second
	}
	return time.Duration(max(end-start, 0)) * time.Second
}

func (j *Job) left(c *Context) string {
	limit := Limit(j.TimeLimit)
	switch {
	case limit == tres.Infinite:
		return "UNLIMITED"
	case limit == tres.NoVal:
		return "NOT_SET"
	}
	return tres.FormatElapsed(max(limit.Duration()-j.Used(c), 0))
}

// Reason is why a job waits or how it failed; a description says more than the
// reason's name where there is one.
func (j *Job) Reason() string {
	return or(or(j.StateDescription, j.StateReason), "None")
}

func (j *Job) reasonList() string {
	if slices.Contains(j.JobState, "COMPLETING") {
		return j.JobInfo.Nodes
	}
	switch BaseState(j.JobState).Name {
	case "PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED":
		return "(" + j.Reason() + ")"
	}
	return j.JobInfo.Nodes
}
