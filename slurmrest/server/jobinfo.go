package server

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// viewer turns jobs of one snapshot into records, reusing one record.
type viewer struct {
	s     *state.State
	group func(gid uint32) string
	info  wire.JobInfo
	least map[*partitions.Partition]int64 // MiB of the smallest node, found once
	sizes map[request]size                // of what was seen before
}

// at is a time as Slurm writes it: 0 for none, but always set.
func at(t time.Time) wire.Num {
	if t.IsZero() {
		return wire.N(0)
	}
	return wire.N(t.Unix())
}

var zero = wire.N(0)

// noLimit is a count that is not limited.
var noLimit = wire.Infinite

// job fills in the record; it is valid until the next call.
func (v *viewer) job(j *job.Job) *wire.JobInfo {
	s := j.Spec
	size := v.size(j)
	v.info = wire.JobInfo{
		Account: j.Account, AccrueTime: accrue(j), AllocatingNode: s.SubmitHost,
		ArrayJobID: wire.N(j.ID.Array), ArrayMaxTasks: wire.N(v.s.TaskLimit(j)), BatchFlag: true, Cluster: v.s.Config.ClusterName,
		Command: command(s), Comment: j.Comment, SystemComment: j.SystemNote, Contiguous: s.Contiguous,
		CPUs: wire.N(size.cpus), CPUsPerTask: wire.N(max(1, s.CPUsPerTask)), CPUsPerTRES: s.CPUsPerTRES,
		CurrentWorkingDirectory: s.WorkDir, Deadline: at(s.Deadline), DelayBoot: zero, Dependency: j.Depends.String(),
		DerivedExitCode: derived(j.Run), EligibleTime: eligible(j), EndTime: at(j.End), ExcludedNodes: s.ExcNodes,
		ExitCode: exitCode(j.ExitCode.Status, j.ExitCode.Signal), Features: s.Constraint,
		GroupID: int64(j.GID), GroupName: v.group(j.GID), HetJobID: zero, HetJobOffset: zero,
		Hold: j.Priority == 0, JobID: int64(j.ID.Raw), JobState: stateNames(j), LastSchedEvaluation: at(j.Submit),
		Licenses: s.Licenses, MailType: s.MailType, MailUser: cmp.Or(s.MailUser, j.User), MaxCPUs: zero,
		MaxNodes: wire.N(maxNodes(j, size)), MemoryPerTRES: s.Stored["memory_per_tres"],
		MinimumCPUsPerNode: wire.N(cpusOfNode(s)), MinimumTmpDiskPerNode: wire.N(s.TmpDisk),
		Name: s.Name, Nice: int64(s.Nice), NodeCount: wire.N(size.shown), Partition: partitionOf(j), PreSusTime: zero,
		PreemptTime: zero, PreemptableTime: zero, Priority: wire.N(j.Priority), QOS: j.QOS, Requeue: s.Requeue,
		RequiredNodes: s.ReqNodes, ResizeTime: zero, RestartCnt: int64(j.Restarts), ResvName: s.Reservation,
		StandardError: s.Error, StandardInput: cmp.Or(s.Input, "/dev/null"), StandardOutput: s.Output,
		StderrExpanded: expand(s.Error, j), StdinExpanded: cmp.Or(expand(s.Input, j), "/dev/null"), StdoutExpanded: expand(s.Output, j),
		StartTime: at(j.Start), StateDescription: j.Detail, StateReason: j.Reason.String(), SubmitLine: s.SubmitLine,
		SubmitTime: at(j.Submit), SuspendTime: zero, Tasks: wire.N(size.tasks), TasksPerBoard: zero, TasksPerCore: noLimit,
		TasksPerNode: wire.N(tasksOfNode(s)), TasksPerSocket: noLimit, TasksPerTRES: zero, ThreadSpec: 32766,
		TimeLimit: minutes(s.TimeLimit), TimeMinimum: wire.N(s.TimeMin), TRESPerJob: s.TRESPerJob, TRESPerNode: s.TRESPerNode,
		TRESPerSocket: s.TRESPerSocket, TRESPerTask: s.TRESPerTask, TRESReqStr: size.requestedText,
		UserID: int64(j.UID), UserName: j.User, Wckey: s.WCKey, Flags: flags(j), Profile: []string{"NOT_SET"},
		StepID: wire.SlurmStepID{JobID: wire.N(j.ID.Raw)},
	}
	if j.ID.Task != job.NoTask {
		v.info.ArrayTaskID = wire.N(j.ID.Task)
	}
	if h := j.Het; h != nil {
		v.info.HetJobID, v.info.HetJobOffset = wire.N(h.Leader), wire.N(h.Offset)
		v.info.HetJobIDSet = fmt.Sprintf("%d-%d", h.Leader, int(h.Leader)+h.Count-1)
	}
	if j.Waiting() {
		v.info.ArrayTaskString = tasksText(v.s, j)
	}
	if j.State.Final() && j.Run == nil {
		v.info.Tasks = wire.Num{} // forgotten, as in Slurm
	}
	v.memory(s)
	v.stored(s)
	v.allocation(j, size)
	return &v.info
}

// tasksText are the indexes a record of an array stands for, with the array's limit:
// 1-5,9%2.
func tasksText(s *state.State, j *job.Job) string {
	text := j.Tasks.String()
	if limit := s.TaskLimit(j); limit > 0 && text != "" {
		text += "%" + strconv.FormatUint(uint64(limit), 10)
	}
	return text
}

// eligible is when a job could have started; not while it is held.
func eligible(j *job.Job) wire.Num {
	if j.Priority == 0 || j.Depends != nil || j.Waiting() && j.Reason == job.ReasonArrayTaskLimit {
		return zero
	}
	return at(j.Eligible)
}

// accrue is when a job began to age: once the scheduler has looked at it.
func accrue(j *job.Job) wire.Num {
	if j.State == job.Pending && j.Reason == job.ReasonNone {
		return zero
	}
	return eligible(j)
}

// flags are what Slurm notes about a submission.
func flags(j *job.Job) []string {
	var list []string
	add := func(on bool, name string) {
		if on && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if f := j.Spec.Stored["flags"]; f != "" {
		list = strings.Split(f, ",")
	}
	add(j.Spec.MemSet && j.Spec.MemPerCPU == 0, "EXACT_MEMORY_REQUESTED")
	add(j.Spec.TasksSet, "EXACT_TASK_COUNT_REQUESTED")
	add(j.Account == "", "USING_DEFAULT_ACCOUNT")
	add(j.QOS == "" || j.QOS == "normal", "USING_DEFAULT_QOS")
	add(j.Spec.WCKey == "", "USING_DEFAULT_WCKEY")
	add(j.Priority == 0, "DEPENDENT")
	return list
}

// stored shows again what was given and has no effect.
func (v *viewer) stored(s *job.Spec) {
	i, m := &v.info, s.Stored
	switch {
	case s.Exclusive:
		i.Shared = []string{cmp.Or(m["shared"], "none")}
	case s.Oversubscribe:
		i.Shared = []string{"oversubscribe"}
	}
	if len(m) == 0 {
		return
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(m[name], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	count := func(name string, to *wire.Num) {
		if _, ok := m[name]; ok {
			*to = wire.N(number(name))
		}
	}
	i.AdminComment, i.BatchFeatures, i.BurstBuffer = m["admin_comment"], m["batch_features"], m["burst_buffer"]
	i.ClusterFeatures, i.Extra, i.MCSLabel, i.Network = m["cluster_features"], m["extra"], m["mcs_label"], m["network"]
	i.Prefer, i.SelinuxContext, i.TRESBind, i.TRESFreq = m["prefer"], m["selinux_context"], m["tres_bind"], m["tres_freq"]
	i.Reboot, i.CoreSpec, i.SegmentSize = m["reboot"] != "", number("core_spec"), number("segment_size")
	i.RequiredSwitches, i.MaximumSwitchWaitTime = number("required_switches"), number("maximum_switch_wait_time")
	if _, ok := m["thread_spec"]; ok {
		i.ThreadSpec = number("thread_spec")
	}
	if p := m["profile"]; p != "" {
		i.Profile = strings.Split(p, ",")
	}
	count("delay_boot", &i.DelayBoot)
	count("cores_per_socket", &i.CoresPerSocket)
	count("sockets_per_node", &i.SocketsPerNode)
	count("threads_per_core", &i.ThreadsPerCore)
	count("tasks_per_core", &i.TasksPerCore)
	count("tasks_per_socket", &i.TasksPerSocket)
	count("ntasks_per_tres", &i.TasksPerTRES)
}

func (v *viewer) memory(s *job.Spec) {
	i := &v.info
	switch {
	case s.MemPerCPU > 0:
		i.MemoryPerCPU = wire.N(s.MemPerCPU)
	case s.MemSet:
		i.MemoryPerNode = wire.N(s.MemPerNode)
	default:
		if n := v.defaultPerCPU(s); n > 0 {
			i.MemoryPerCPU = wire.N(n)
		} else {
			i.MemoryPerNode = wire.N(v.defaultPerNode(s))
		}
	}
}

// allocation adds what the job holds or held.
func (v *viewer) allocation(j *job.Job, size size) {
	i := &v.info
	r := j.Run
	if r == nil || j.State == job.Pending && !j.Flags.Has(job.Completing) {
		return
	}
	names := r.NodeNames()
	i.Nodes = hostlist.Compress(names)
	if len(names) > 0 {
		i.BatchHost = names[0]
	}
	i.TRESAllocStr = size.allocated.String()
	i.BillableTRES = wire.NumFloat{Set: true, Number: float64(size.cpus)}
	res := &wire.JobRes{
		SelectType: []string{"CR_CPU_MEMORY"}, CPUs: int64(size.cpus),
		Nodes: wire.JobResNodes{Count: int64(len(names)), List: i.Nodes, SelectType: []string{"ONE_ROW"}},
	}
	for n, a := range r.Nodes {
		res.Nodes.Allocation = append(res.Nodes.Allocation, wire.JobResNode{
			Index: int64(n), Name: a.Node, CPUs: wire.JobResNodeCPUs{Count: int64(a.CPUs)},
			Memory: wire.JobResNodeMemory{Allocated: a.MemoryMiB},
		})
		for name, devices := range a.Gres {
			if len(devices) > 0 {
				i.GRESDetail = append(i.GRESDetail, fmt.Sprintf("%s:%d(IDX:%s)", name, len(devices), indexes(devices)))
			}
		}
	}
	i.JobResources = res
}

// indexes prints device numbers as Slurm does: 0-1,3.
func indexes(devices []int) string {
	var b strings.Builder
	for i := 0; i < len(devices); {
		k := i
		for k+1 < len(devices) && devices[k+1] == devices[k]+1 {
			k++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(devices[i]))
		if k > i {
			b.WriteString("-" + strconv.Itoa(devices[k]))
		}
		i = k + 1
	}
	return b.String()
}

func (v *viewer) partition(s *job.Spec) *partitions.Partition {
	name, _, _ := strings.Cut(s.Partitions, ",")
	return v.s.Config.Partition(name)
}

func (v *viewer) defaultPerCPU(s *job.Spec) int64 {
	if p := v.partition(s); p != nil {
		switch {
		case p.DefMemPerCPU > 0:
			return int64(p.DefMemPerCPU)
		case p.DefMemPerNode > 0:
			return 0
		}
	}
	return int64(v.s.Config.DefMemPerCPU)
}

func (v *viewer) defaultPerNode(s *job.Spec) int64 {
	if p := v.partition(s); p != nil && p.DefMemPerNode > 0 {
		return int64(p.DefMemPerNode)
	}
	return int64(v.s.Config.DefMemPerNode)
}

// partitionOf is where the job runs, or all it may run in.
func partitionOf(j *job.Job) string {
	if j.State == job.Pending && !j.Flags.Has(job.Completing) {
		return j.Spec.Partitions
	}
	return j.Partition
}

func command(s *job.Spec) string {
	if len(s.Argv) == 0 {
		return ""
	}
	return s.Argv[0]
}

// stateNames is the base state and then the flags.
func stateNames(j *job.Job) []string {
	return append([]string{j.State.String()}, j.Flags.Names()...)
}

func minutes(n uint32) wire.Num {
	if n == job.NoLimit {
		return wire.Infinite
	}
	return wire.N(n)
}

// exitCode is the object Slurm makes of a wait status.
func exitCode(status, signal uint8) wire.ProcessExitCodeVerbose {
	switch {
	case signal != 0:
		return wire.ProcessExitCodeVerbose{
			Status: []string{"SIGNALED"}, Signal: wire.ProcessExitCodeVerboseSignal{ID: wire.N(int(signal)), Name: signalName(signal)},
		}
	case status != 0:
		return wire.ProcessExitCodeVerbose{Status: []string{"ERROR"}, ReturnCode: wire.N(int(status))}
	}
	return wire.ProcessExitCodeVerbose{Status: []string{"SUCCESS"}, ReturnCode: wire.N(0)}
}

// expand is the file that an output pattern stands for; it is known in full
// once the job has its first node.
func expand(pattern string, j *job.Job) string {
	if pattern == "" || !strings.ContainsAny(pattern, `%\`) {
		return pattern
	}
	n := output.Names{ID: j.ID, Restart: j.Restarts, User: j.User, JobName: j.Spec.Name}
	if j.Run != nil && len(j.Run.Nodes) > 0 {
		n.Node = j.Run.Nodes[0].Node
	} else {
		n.Node = "(null)" // as Slurm shows it until there is one
	}
	return output.Expand(pattern, n)
}
