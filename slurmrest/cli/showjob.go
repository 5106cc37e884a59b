package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// showJobs prints scontrol show job.
func showJobs(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_load_jobs error: %s", text(err))
	}
	if len(args) == 0 {
		resp, err := c.Jobs(ctx, client.JobsQuery{Flags: []string{"ALL", "DETAIL"}})
		if err != nil {
			return fail("slurm_load_jobs error: %s", text(err))
		}
		if s.structured() {
			return printStructured(s.e, s.in, resp)
		}
		if len(resp.Jobs) == 0 {
			s.e.printf("No jobs in the system\n")
			return nil
		}
		return s.printJobs(resp.Jobs)
	}
	for _, id := range args {
		ref, ok := parseJobRef(id)
		if !ok {
			return fail("scontrol_print_job error: Invalid job id specified")
		}
		resp, err := c.Job(ctx, ref.base())
		if err != nil {
			return fail("slurm_load_jobs error: %s", text(err))
		}
		resp.Jobs = slices.DeleteFunc(resp.Jobs, func(j wire.JobInfo) bool { return !ref.matches(&j) })
		for i := range resp.Jobs {
			ref.one(&resp.Jobs[i])
		}
		if s.structured() {
			return printStructured(s.e, s.in, resp)
		}
		if len(resp.Jobs) == 0 {
			if ref.tasks != "" {
				return fail("Job %s not found", id)
			}
			return fail("slurm_load_jobs error: Invalid job id specified")
		}
		if err := s.printJobs(resp.Jobs); err != nil {
			return err
		}
	}
	return nil
}

func (s *scontrolRun) printJobs(jobs []wire.JobInfo) error {
	fc := s.e.format()
	for i := range jobs {
		if _, err := s.e.Stdout.Write([]byte(s.jobRecord(fc, &jobs[i]))); err != nil {
			return nil //nolint:nilerr // nobody reads on
		}
	}
	return nil
}

// jobRecord prints one job, key for key as scontrol does.
func (s *scontrolRun) jobRecord(fc *format.Context, j *wire.JobInfo) string {
	r := &record{one: s.oneline}
	job := format.Job{JobInfo: j}
	when := func(n wire.Num, none string) string { return fc.Time(n.Number, none) }
	pending := format.BaseState(j.JobState).Name == "PENDING"

	r.last("JobId", itoa(j.JobID))
	switch {
	case j.ArrayJobID.Or(0) != 0:
		task := j.ArrayTaskString
		if j.ArrayTaskID.Set {
			task = itoa(j.ArrayTaskID.Number)
		}
		r.last("ArrayJobId", itoa(j.ArrayJobID.Number), "ArrayTaskId", or(task, "4294967294"))
		if n := j.ArrayMaxTasks.Or(0); n != 0 {
			r.last("ArrayTaskThrottle", itoa(n))
		}
	case j.HetJobID.Or(0) != 0:
		r.last("HetJobId", itoa(j.HetJobID.Number), "HetJobOffset", itoa(j.HetJobOffset.Or(0)))
	}
	r.line("JobName", j.Name)
	if s.details {
		r.line("SLUID", j.StepID.SLUID)
	}
	r.optional("HetJobIdSet", j.HetJobIDSet)
	r.line("UserId", named(j.UserName, j.UserID), "GroupId", named(j.GroupName, j.GroupID), "MCS_label", or(j.MCSLabel, "N/A"))
	r.last("Priority", itoa(j.Priority.Or(0)), "Nice", itoa(j.Nice), "Account", null(j.Account), "QOS", null(j.QOS))
	if j.Wckey != "" {
		r.last("WCKey", j.Wckey)
	}
	r.end()
	r.last("JobState", format.ShownState(j.JobState).Name, "Reason", strings.ReplaceAll(job.Reason(), " ", "_"))
	if j.FailedNode != "" {
		r.last("FailedNode", j.FailedNode)
	}
	r.line("Dependency", null(j.Dependency))
	r.line("Requeue", bit(j.Requeue), "Restarts", itoa(j.RestartCnt), "BatchFlag", bit(j.BatchFlag), "Reboot", bit(j.Reboot),
		"ExitCode", format.ExitCode(j.ExitCode))
	if s.details {
		r.line("DerivedExitCode", format.ExitCode(j.DerivedExitCode))
	}
	r.line("RunTime", tres.FormatDuration(job.Used(fc)), "TimeLimit", limit(j.TimeLimit), "TimeMin", minimum(j.TimeMinimum))
	r.line("SubmitTime", when(j.SubmitTime, "Unknown"), "EligibleTime", when(j.EligibleTime, "Unknown"))
	r.line("AccrueTime", when(j.AccrueTime, "Unknown"))
	r.optional("ResizeTime", when(j.ResizeTime, ""))
	r.line("StartTime", when(j.StartTime, "Unknown"), "EndTime", when(j.EndTime, "Unknown"), "Deadline", when(j.Deadline, "N/A"))
	if j.Cron != "" {
		r.line("CronJob", "Yes", "CrontabSpec", j.Cron)
	}
	if j.PreemptableTime.Number != 0 || j.PreemptTime.Number != 0 {
		r.line("PreemptEligibleTime", when(j.PreemptableTime, "Unknown"), "PreemptTime", when(j.PreemptTime, "None"))
	}
	scheduler := "Main"
	if slices.Contains(j.Flags, "BACKFILL_ATTEMPTED") {
		scheduler = "Backfill"
	}
	r.line("SuspendTime", when(j.SuspendTime, "None"), "SecsPreSuspend", itoa(j.PreSusTime.Or(0)),
		"LastSchedEval", when(j.LastSchedEvaluation, "Unknown"), "Scheduler", scheduler)
	r.line("Partition", j.Partition, "AllocNode:Sid", or(j.AllocatingNode, "(null)")+":0")
	r.line("ReqNodeList", null(j.RequiredNodes), "ExcNodeList", null(j.ExcludedNodes))
	r.last("NodeList", j.Nodes)
	if j.ScheduledNodes != "" {
		r.last("SchedNodeList", j.ScheduledNodes)
	}
	r.end()
	r.optional("BatchFeatures", j.BatchFeatures)
	r.optional("BatchHost", j.BatchHost)
	if slices.Contains(j.Flags, "STEPMGR_ENABLED") {
		r.line("StepMgrEnabled", "Yes")
	}
	nodes := itoa(j.NodeCount.Or(0))
	if most := j.MaxNodes.Or(0); pending && most > 0 {
		nodes += "-" + itoa(max(most, j.NodeCount.Or(0)))
	}
	r.line("NumNodes", nodes, "NumCPUs", itoa(j.CPUs.Or(0)), "NumTasks", tasks(j), "CPUs/Task", itoa(max(j.CPUsPerTask.Or(1), 1)),
		"ReqB:S:C:T", "0:0:"+orStar(j.CoresPerSocket)+":"+orStar(j.ThreadsPerCore))
	r.line("ReqTRES", null(j.TRESReqStr))
	r.line("AllocTRES", null(j.TRESAllocStr))
	r.line("Socks/Node", orStar(j.SocketsPerNode),
		"NtasksPerN:B:S:C", itoa(j.TasksPerNode.Or(0))+":0:"+orStar(j.TasksPerSocket)+":"+orStar(j.TasksPerCore),
		"CoreSpec", coreSpec(j))
	if s.details && !pending {
		r.line("JOB_GRES", null(strings.Join(j.GRESDetail, ",")))
		var given []wire.JobResNode
		if j.JobResources != nil {
			given = j.JobResources.Nodes.Allocation
		}
		for _, n := range given {
			r.b.WriteString("  ")
			r.line("Nodes", n.Name, "CPU_IDs", "0-"+itoa(max(n.CPUs.Count-1, 0)), "Mem", itoa(n.Memory.Allocated), "GRES", strings.Join(j.GRESDetail, ","))
		}
	}
	memory := "MinMemoryNode"
	size := j.MemoryPerNode.Or(0)
	switch {
	case j.MemoryPerCPU.Set:
		memory, size = "MinMemoryCPU", j.MemoryPerCPU.Number
	case j.MemoryPerTRES != "":
		memory = "MinMemoryTRES"
		_, count, _ := strings.Cut(j.MemoryPerTRES, ":")
		size, _ = strconv.ParseInt(count, 10, 64) //nolint:errcheck // the server made it
	}
	r.line("MinCPUsNode", itoa(max(j.MinimumCPUsPerNode.Or(1), 1)), memory, tres.Memory(max(size, 0)).String(),
		"MinTmpDiskNode", tres.Memory(max(j.MinimumTmpDiskPerNode.Or(0), 0)).String())
	r.line("Features", null(j.Features), "DelayBoot", tres.FormatDuration(time.Duration(j.DelayBoot.Or(0))*time.Second))
	r.optional("ClusterFeatures", j.ClusterFeatures)
	r.optional("Prefer", j.Prefer)
	r.optional("Reservation", j.ResvName)
	r.line("OverSubscribe", format.Oversubscribe(j.Shared), "Exclusive", format.Exclusive(j.Shared), "Contiguous", bit(j.Contiguous),
		"Licenses", null(j.Licenses), "LicensesAlloc", null(j.LicensesAllocated), "Network", null(j.Network))
	r.line("Command", null(j.Command))
	r.line("SubmitLine", null(j.SubmitLine))
	r.line("WorkDir", null(j.CurrentWorkingDirectory))
	r.optional("AdminComment", j.AdminComment)
	r.optional("SystemComment", j.SystemComment)
	if j.Comment != "" {
		r.line("Comment", j.Comment+" ")
	}
	r.optional("Extra", j.Extra)
	if j.BatchFlag {
		r.line("StdErr", or(j.StderrExpanded, j.StandardError))
		r.line("StdIn", or(or(j.StdinExpanded, j.StandardInput), "/dev/null"))
		r.line("StdOut", or(j.StdoutExpanded, j.StandardOutput))
	}
	jobExtras(r, j)
	return r.String()
}

// jobExtras adds the lines that most jobs lack.
func jobExtras(r *record, j *wire.JobInfo) {
	if j.SegmentSize > 0 {
		r.line("SegmentSize", itoa(j.SegmentSize))
	}
	if j.RequiredSwitches > 0 {
		r.line("Switches", itoa(j.RequiredSwitches)+"@"+tres.FormatDuration(time.Duration(j.MaximumSwitchWaitTime)*time.Second))
	}
	r.optional("BurstBuffer", j.BurstBuffer)
	var flags []string
	for _, f := range []struct{ flag, word string }{
		{"GRES_BINDING_ENFORCED", "GresEnforceBind=Yes"},
		{"GRES_BINDING_DISABLED", "GresEnforceBind=No"},
		{"KILL_INVALID_DEPENDENCY", "KillOnInvalidDependent=Yes"},
		{"NO_KILL_INVALID_DEPENDENCY", "KillOnInvalidDependent=No"},
		{"SPREAD_JOB", "SpreadJob=Yes"},
	} {
		if slices.Contains(j.Flags, f.flag) {
			flags = append(flags, f.word)
		}
	}
	if len(flags) > 0 {
		r.b.WriteString(strings.Join(flags, " "))
		r.end()
	}
	for _, x := range []struct{ key, value string }{
		{"CpusPerTres", j.CPUsPerTRES},
		{"MemPerTres", j.MemoryPerTRES},
		{"TresBind", j.TRESBind},
		{"TresFreq", j.TRESFreq},
		{"TresPerJob", j.TRESPerJob},
		{"TresPerNode", j.TRESPerNode},
		{"TresPerSocket", j.TRESPerSocket},
		{"TresPerTask", j.TRESPerTask},
	} {
		r.optional(x.key, x.value)
	}
	if len(j.MailType) > 0 {
		r.line("MailUser", null(or(j.MailUser, j.UserName)), "MailType", mailTypes(j.MailType))
	}
	if n := j.TasksPerTRES.Or(0); n > 0 {
		r.line("NtasksPerTRES", itoa(n))
	}
	if j.Container != "" {
		r.line("Container", j.Container, "ContainerID", j.ContainerID)
	}
}

// mailTypes have other names here than in the API.
// mailNames are the events of --mail-type by their names in the REST API and as
// they are shown, in the order in which Slurm shows them.
var mailNames = [][2]string{
	{"ARRAY_TASKS", "ARRAY_TASKS"},
	{"INVALID_DEPENDENCY", "INVALID_DEPEND"},
	{"BEGIN", "BEGIN"},
	{"END", "END"},
	{"FAIL", "FAIL"},
	{"REQUEUE", "REQUEUE"},
	{"STAGE_OUT", "STAGE_OUT"},
	{"TIME=50%", "TIME_LIMIT_50"},
	{"TIME=80%", "TIME_LIMIT_80"},
	{"TIME=90%", "TIME_LIMIT_90"},
	{"TIME=100%", "TIME_LIMIT"},
}

func mailTypes(list []string) string {
	var out []string
	for _, n := range mailNames {
		if slices.Contains(list, n[0]) {
			out = append(out, n[1])
		}
	}
	return strings.Join(out, ",")
}

func named(name string, id int64) string {
	return fmt.Sprintf("%s(%d)", or(name, itoa(id)), id)
}

func limit(n wire.Num) string {
	if l := format.Limit(n); l != tres.NoVal {
		return l.String()
	}
	return "Partition_Limit"
}

func minimum(n wire.Num) string {
	if n.Or(0) == 0 {
		return "N/A"
	}
	return format.Limit(n).String()
}

func orStar(n wire.Num) string {
	if !n.Set {
		return "*"
	}
	return itoa(n.Number)
}

func tasks(j *wire.JobInfo) string {
	if n := j.Tasks.Or(0); n > 0 {
		return itoa(n)
	}
	return "N/A"
}

func coreSpec(j *wire.JobInfo) string {
	if j.CoreSpec <= 0 || j.CoreSpec >= 32766 {
		return "*"
	}
	return itoa(j.CoreSpec)
}
