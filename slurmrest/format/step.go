package format

import (
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Step is the record of squeue -s: a step of a running job.
type Step struct {
	*wire.Step
}

// noTask is the task of a job that is no array's.
const noTask = 0xfffffffe

// StepID is what users call the step: an array task's begins with the array.
func (s *Step) StepID() string {
	_, name, _ := strings.Cut(s.ID, ".")
	if s.Array.JobID == 0 || s.Array.TaskID >= noTask {
		return s.ID
	}
	return itoa(s.Array.JobID) + "_" + itoa(s.Array.TaskID) + "." + name
}

func (s *Step) task() string {
	if s.Array.TaskID >= noTask {
		return "N/A"
	}
	return itoa(s.Array.TaskID)
}

func (s *Step) arrayJob() string {
	if s.Array.JobID == 0 {
		return "N/A"
	}
	return itoa(s.Array.JobID)
}

// frequency is the range of the CPUs' clock that was asked for: nobody can here.
func (s *Step) frequency() string {
	if strings.HasSuffix(s.ID, ".batch") {
		return "0-0:0"
	}
	return "Unknown-Unknown:Unknown"
}

// Number orders the steps of a job: sruns as they came, then the batch script.
func (s *Step) Number() uint32 {
	_, name, _ := strings.Cut(s.ID, ".")
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0xfffffffb
	}
	return uint32(n)
}

// StepFields are squeue's columns for steps.
var StepFields = []Field[Step]{
	{0, "ArrayJobId", "ARRAY_JOB_ID", false, func(_ *Context, s *Step) string { return s.arrayJob() }},
	{0, "ArrayTaskId", "ARRAY_TASK_ID", false, func(_ *Context, s *Step) string { return s.task() }},
	{0, "Cluster", "CLUSTER", false, func(_ *Context, s *Step) string { return or(s.Cluster, "N/A") }},
	{0, "Container", "CONTAINER", false, func(_ *Context, s *Step) string { return null(s.Container) }},
	{0, "ContainerId", "CONTAINERID", false, func(_ *Context, s *Step) string { return null(s.ContainerID) }},
	{0, "ContainerType", "CONTAINERTYPE", false, func(_ *Context, s *Step) string { return null(s.ContainerType) }},
	{0, "CPUFreq", "CPU_FREQ", false, func(_ *Context, s *Step) string { return s.frequency() }},
	{0, "cpus-per-tres", "CPUS_PER_TRES", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.CPU) }},
	{0, "JobId", "JOB_ID", false, func(_ *Context, s *Step) string { return itoa(s.JobID) }},
	{0, "mem-per-tres", "MEM_PER_TRES", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.Memory) }},
	{0, "Network", "NETWORK", false, func(_ *Context, s *Step) string { return null(s.Network) }},
	{'b', "tres-per-node", "TRES_PER_JOB", true, func(_ *Context, s *Step) string { return null(s.TRES.Per.Node) }},
	{'i', "StepId", "STEPID", false, func(_ *Context, s *Step) string { return s.StepID() }},
	{'j', "StepName", "NAME", false, func(_ *Context, s *Step) string { return s.Name }},
	{'l', "TimeLimit", "TIME_LIMIT", false, func(_ *Context, s *Step) string { return Limit(s.Time.Limit).String() }},
	{'u', "UserName", "USER", false, func(_ *Context, s *Step) string { return or(s.User, itoa(s.UserID)) }},
	{'A', "NumTasks", "TASKS", false, func(_ *Context, s *Step) string { return itoa(int64(s.NumberTasks)) }},
	{'M', "TimeUsed", "TIME", false, func(_ *Context, s *Step) string {
		return tres.FormatElapsed(time.Duration(s.Time.Running.Number) * time.Second)
	}},
	{'N', "Nodes", "NODELIST", false, func(_ *Context, s *Step) string { return s.Nodes }},
	{0, "NumCPUs", "NUM_CPUS", false, func(_ *Context, s *Step) string { return itoa(int64(s.NumberCPUs)) }},
	{'P', "Partition", "PARTITION", false, func(_ *Context, s *Step) string { return s.Partition }},
	{0, "ResvPorts", "RESERVED_PORTS", false, func(_ *Context, s *Step) string { return null(s.ReservedPorts) }},
	{'S', "StartTime", "START_TIME", false, func(c *Context, s *Step) string { return c.Time(s.Time.Start.Number, "N/A") }},
	{0, "StdErr", "STDERR", false, func(_ *Context, s *Step) string { return s.Stderr }},
	{0, "StdIn", "STDIN", false, func(_ *Context, s *Step) string { return s.Stdin }},
	{0, "StdOut", "STDOUT", false, func(_ *Context, s *Step) string { return s.Stdout }},
	{0, "StepState", "STATE", false, func(_ *Context, s *Step) string { return ShownState(s.State).Name }},
	{0, "tres-bind", "TRES_BIND", false, func(_ *Context, s *Step) string { return null(s.TRES.Binding) }},
	{0, "tres-freq", "TRES_FREQ", false, func(_ *Context, s *Step) string { return null(s.TRES.Frequency) }},
	{0, "tres-per-job", "TRES_PER_STEP", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.Step) }},
	{0, "tres-per-step", "TRES_PER_STEP", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.Step) }},
	{0, "tres-per-socket", "TRES_PER_SOCKET", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.Socket) }},
	{0, "tres-per-task", "TRES_PER_TASK", false, func(_ *Context, s *Step) string { return null(s.TRES.Per.Task) }},
	{'U', "UserId", "UID", false, func(_ *Context, s *Step) string { return itoa(s.UserID) }},
}
