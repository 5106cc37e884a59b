package format

import (
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Step is the record of squeue -s: a step of a running job.
type Step struct {
	Job  *wire.JobInfo
	Name string // batch, extern, or the step's number
}

// Steps lists the steps that are known from jobs alone: the batch script of each
// job that runs.
func Steps(jobs []Job) []Step {
	var out []Step
	for i := range jobs {
		if j := jobs[i].JobInfo; j.BatchFlag && BaseState(j.JobState).Name == "RUNNING" {
			out = append(out, Step{j, "batch"})
		}
	}
	return out
}

func (s *Step) id(c *Context) string {
	j := Job{s.Job}
	return j.ID(c) + "." + s.Name
}

func (s *Step) used(c *Context) time.Duration {
	j := Job{s.Job}
	return j.Used(c)
}

// StepFields are squeue's columns for steps.
var StepFields = []Field[Step]{
	{0, "ArrayJobId", "ARRAY_JOB_ID", false, func(_ *Context, s *Step) string { j := Job{s.Job}; return itoa(j.arrayJob()) }},
	{0, "ArrayTaskId", "ARRAY_TASK_ID", false, func(c *Context, s *Step) string { j := Job{s.Job}; return or(j.task(c), "N/A") }},
	{0, "Cluster", "CLUSTER", false, func(_ *Context, s *Step) string { return or(s.Job.Cluster, "N/A") }},
	{0, "Container", "CONTAINER", false, func(_ *Context, s *Step) string { return s.Job.Container }},
	{0, "ContainerId", "CONTAINERID", false, func(_ *Context, s *Step) string { return s.Job.ContainerID }},
	{0, "CPUFreq", "CPU_FREQ", false, func(*Context, *Step) string { return "N/A" }},
	{0, "JobId", "JOB_ID", false, func(_ *Context, s *Step) string { return itoa(s.Job.JobID) }},
	{0, "Network", "NETWORK", false, func(_ *Context, s *Step) string { return null(s.Job.Network) }},
	{'N', "Nodes", "NODELIST", false, func(_ *Context, s *Step) string { return or(s.Job.BatchHost, s.Job.Nodes) }},
	{0, "NumCPUs", "NUM_CPUS", false, func(_ *Context, s *Step) string { return itoa(s.Job.CPUs.Or(0)) }},
	{'A', "NumTasks", "TASKS", false, func(*Context, *Step) string { return "1" }},
	{'P', "Partition", "PARTITION", false, func(_ *Context, s *Step) string { return s.Job.Partition }},
	{0, "ResvPorts", "RESERVED_PORTS", false, func(*Context, *Step) string { return "(null)" }},
	{'S', "StartTime", "START_TIME", false, func(c *Context, s *Step) string { return c.Time(s.Job.StartTime.Number, "N/A") }},
	{'i', "StepId", "STEPID", false, func(c *Context, s *Step) string { return s.id(c) }},
	{'j', "StepName", "NAME", false, func(_ *Context, s *Step) string { return s.Name }},
	{0, "StepState", "STATE", false, func(_ *Context, s *Step) string { return ShownState(s.Job.JobState).Name }},
	{'l', "TimeLimit", "TIME_LIMIT", false, func(*Context, *Step) string { return "UNLIMITED" }},
	{'M', "TimeUsed", "TIME", false, func(c *Context, s *Step) string { return tres.FormatElapsed(s.used(c)) }},
	{'b', "tres-per-node", "TRES_PER_JOB", true, func(_ *Context, s *Step) string { return or(s.Job.TRESPerNode, "N/A") }},
	{'U', "UserId", "UID", false, func(_ *Context, s *Step) string { return itoa(s.Job.UserID) }},
	{'u', "UserName", "USER", false, func(_ *Context, s *Step) string { return or(s.Job.UserName, itoa(s.Job.UserID)) }},
}
