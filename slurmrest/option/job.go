package option

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Submission is what a job description needs beside options.
type Submission struct {
	Name    string   // job name where none was given
	Dir     string   // current directory; --chdir is joined to it
	Argv    []string // the script's path and its arguments; empty with --wrap
	Environ []string // as made by Environ
}

// Job fills in the description that a REST submission carries. What Slurm's
// document has no field for is in Burst.
func (v *Values) Job(s Submission) wire.JobDescMsg {
	j := wire.JobDescMsg{
		Account:                v.Str("account"),
		AccountGatherFrequency: v.Str("acctg-freq"),
		Argv:                   s.Argv,
		Array:                  v.Str("array"),
		BatchFeatures:          v.Str("batch"),
		BurstBuffer:            v.Str("bb"),
		ClusterConstraint:      v.Str("cluster-constraint"),
		Clusters:               v.Str("clusters"),
		Comment:                v.Str("comment"),
		Constraints:            v.Str("constraint"),
		CPUFrequency:           v.Str("cpu-freq"),
		Dependency:             v.Str("dependency"),
		Distribution:           v.Str("distribution"),
		Environment:            s.Environ,
		Extra:                  v.Str("extra"),
		Licenses:               v.Str("licenses"),
		MailType:               v.MailEvents(),
		MailUser:               v.Str("mail-user"),
		MCSLabel:               v.Str("mcs-label"),
		Name:                   s.Name,
		Network:                v.Str("network"),
		Partition:              v.Str("partition"),
		Prefer:                 v.Str("prefer"),
		QOS:                    v.Str("qos"),
		Reservation:            v.Str("reservation"),
		SelinuxContext:         v.Str("context"),
		StandardError:          v.Str("error"),
		StandardInput:          v.Str("input"),
		StandardOutput:         v.Str("output"),
		TRESBind:               v.Str("tres-bind"),
		Wckey:                  v.Str("wckey"),

		Contiguous:           v.flag("contiguous"),
		CoreSpecification:    v.count("core-spec"),
		CoresPerSocket:       v.count("cores-per-socket"),
		CPUsPerTask:          v.count("cpus-per-task"),
		Deadline:             v.count("deadline"),
		Hold:                 v.flag("hold"),
		Immediate:            v.flag("immediate"),
		MinimumCPUsPerNode:   v.count("mincpus"),
		Nice:                 v.count("nice"),
		NtasksPerTRES:        v.count("ntasks-per-gpu"),
		OOMKillStep:          v.count("oom-kill-step"),
		Overcommit:           v.flag("overcommit"),
		Reboot:               v.flag("reboot"),
		ReservePorts:         v.count("resv-ports"),
		SocketsPerNode:       v.count("sockets-per-node"),
		TasksPerCore:         v.count("ntasks-per-core"),
		TasksPerNode:         v.count("ntasks-per-node"),
		TasksPerSocket:       v.count("ntasks-per-socket"),
		TemporaryDiskPerNode: v.count("tmp"),
		ThreadSpecification:  v.count("thread-spec"),
		ThreadsPerCore:       v.count("threads-per-core"),

		BeginTime:             v.wireNum("begin"),
		DistributionPlaneSize: v.wireNum("distribution"),
		MemoryPerCPU:          v.wireNum("mem-per-cpu"),
		MemoryPerNode:         v.wireNum("mem"),
		Priority:              v.wireNum("priority"),
		RequiredSwitches:      v.wireNum("switches"),
		SegmentSize:           v.wireNum("segment"),
		TimeLimit:             v.wireMinutes("time"),
		TimeMinimum:           v.wireMinutes("time-min"),
	}
	if v.Given("job-name") {
		j.Name = v.Str("job-name")
		j.Give("name")
	}
	if v.Num("distribution") == 0 {
		j.DistributionPlaneSize = wire.Num{}
	}
	j.CurrentWorkingDirectory = Join(s.Dir, v.Str("chdir"))
	for name, into := range map[string]*[]string{"nodelist": &j.RequiredNodes, "exclude": &j.ExcludedNodes} {
		if hosts := v.Str(name); hosts != "" {
			*into = []string{hosts}
		}
	}
	v.size(&j)
	v.resources(&j)
	v.flags(&j)
	return j
}

// Join returns path seen from dir: path itself if it is absolute, dir if it is
// empty. It cleans nothing, since users see the result.
func Join(dir, path string) string {
	switch {
	case path == "":
		return dir
	case strings.HasPrefix(path, "/"):
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

func (v *Values) flag(name string) *bool {
	if !v.Given(name) {
		return nil
	}
	yes := true
	return &yes
}

func (v *Values) count(name string) *int64 {
	if !v.Given(name) {
		return nil
	}
	n := v.Num(name)
	return &n
}

func (v *Values) wireNum(name string) wire.Num {
	if !v.Given(name) {
		return wire.Num{}
	}
	return wire.N(v.Num(name))
}

func (v *Values) wireMinutes(name string) wire.Num {
	if v.Given(name) && v.Num(name) == Unlimited {
		return wire.Infinite
	}
	return v.wireNum(name)
}

// Tasks returns the number of tasks that the options ask for, 0 if they leave
// it open: --ntasks, or a fixed number of nodes times the tasks on each.
func (v *Values) Tasks() int64 {
	switch {
	case v.Given("ntasks"):
		return v.Num("ntasks")
	case v.NodesMin > 0 && (v.NodesMax == 0 || v.NodesMax == v.NodesMin):
		return int64(v.NodesMin) * max(1, v.Num("ntasks-per-node"))
	}
	return 0
}

func (v *Values) size(j *wire.JobDescMsg) {
	tasks := v.Tasks()
	if tasks > 0 {
		j.Tasks = &tasks
	}
	if n := max(tasks, 1) * max(v.Num("cpus-per-task"), 1); n > 1 {
		j.MinimumCPUs = &n
	}
	if n := max(v.Num("ntasks-per-node"), 1) * max(v.Num("cpus-per-task"), 1); n > max(v.Num("mincpus"), 1) {
		j.MinimumCPUsPerNode = &n
	}
	if v.NodesMin > 0 {
		least, most := int64(v.NodesMin), int64(v.NodesMax)
		if most == 0 {
			most = least
		}
		j.MinimumNodes, j.MaximumNodes = &least, &most
		j.Nodes = v.NodesList
		if j.Nodes == "" {
			j.Nodes = strconv.Itoa(v.NodesMin)
			if most != least {
				j.Nodes += "-" + strconv.FormatInt(most, 10)
			}
		}
	}
	if info := v.Str("extra-node-info"); info != "" {
		fields := []**int64{&j.SocketsPerNode, &j.CoresPerSocket, &j.ThreadsPerCore}
		for i, part := range strings.Split(info, ":") {
			if n, err := strconv.ParseInt(part, 10, 32); err == nil { // "*" is no number
				*fields[i] = &n
			}
		}
	}
}

// resources translates GPUs and GRES into TRES strings: "gres/gpu:a100:2".
func (v *Values) resources(j *wire.JobDescMsg) {
	gpus := func(list string) string {
		var out []string
		for _, g := range splitList(list) {
			out = append(out, "gres/gpu:"+g)
		}
		return strings.Join(out, ",")
	}
	j.TRESPerJob = gpus(v.Str("gpus"))
	j.TRESPerSocket = gpus(v.Str("gpus-per-socket"))
	j.TRESPerNode = gpus(v.Str("gpus-per-node"))
	if gres := v.Str("gres"); gres != "" {
		var out []string
		for _, g := range splitList(gres) {
			out = append(out, "gres/"+strings.TrimPrefix(g, "gres/"))
		}
		if strings.EqualFold(gres, "none") {
			out = []string{"NONE"}
		}
		if j.TRESPerNode != "" {
			out = append(out, j.TRESPerNode)
		}
		j.TRESPerNode = strings.Join(out, ",")
	}
	var perTask []string
	if v.Given("cpus-per-task") {
		perTask = append(perTask, fmt.Sprintf("cpu=%d", v.Num("cpus-per-task")))
	}
	for _, g := range splitList(v.Str("gpus-per-task")) {
		if kind, n, typed := strings.Cut(g, ":"); typed {
			perTask = append(perTask, "gres/gpu:"+kind+"="+n)
		} else {
			perTask = append(perTask, "gres/gpu="+g)
		}
	}
	if t := v.Str("tres-per-task"); t != "" {
		perTask = append(perTask, t)
	}
	j.TRESPerTask = strings.Join(perTask, ",")
	if v.Given("cpus-per-gpu") {
		j.CPUsPerTRES = fmt.Sprintf("gres/gpu:%d", v.Num("cpus-per-gpu"))
	}
	if v.Given("mem-per-gpu") {
		j.MemoryPerTRES = fmt.Sprintf("gres/gpu:%d", v.Num("mem-per-gpu"))
	}
	if f := v.Str("gpu-freq"); f != "" {
		j.TRESFreq = "gpu:" + f
	}
	if b := v.Str("gpu-bind"); b != "" && j.TRESBind == "" {
		j.TRESBind = "gres/gpu:" + b
	}
	j.MemoryBinding = v.Str("mem-bind")
}

func (v *Values) flags(j *wire.JobDescMsg) {
	no, yes := false, true
	switch {
	case v.Given("no-requeue"):
		j.Requeue = &no
	case v.Given("requeue"):
		j.Requeue = &yes
	}
	if v.Given("no-kill") && v.Num("no-kill") == 1 {
		j.KillOnNodeFail = &no
	}
	if v.Given("wait-all-nodes") {
		all := v.Num("wait-all-nodes") == 1
		j.WaitAllNodes = &all
	}
	switch v.Str("exclusive") {
	case "":
		if v.Given("oversubscribe") {
			j.Shared = []string{"oversubscribe"}
		}
	case "node":
		j.Shared = []string{"none"}
	default:
		j.Shared = []string{v.Str("exclusive")}
	}
	if m := v.Str("open-mode"); m != "" {
		j.OpenMode = []string{strings.ToUpper(m)}
	}
	if n := v.SwitchWait(); n > 0 {
		j.WaitForSwitch = &n
	}
	if n := v.Num("delay-boot") * 60; n > 0 {
		j.DelayBoot = &n
	}
	if v.Signal.Number > 0 {
		j.KillWarningSignal = v.Signal.Name
		j.KillWarningDelay = wire.N(v.Signal.Seconds)
		if v.Signal.Batch {
			j.KillWarningFlags = append(j.KillWarningFlags, "BATCH_JOB")
		}
		if v.Signal.Reservation {
			j.KillWarningFlags = append(j.KillWarningFlags, "RESERVATION_JOB")
		}
	}
	for _, w := range splitList(strings.ToUpper(v.Str("profile"))) {
		if w == "ALL" {
			j.Profile = []string{"ENERGY", "LUSTRE", "NETWORK", "TASK"}
			break
		}
		j.Profile = append(j.Profile, strings.Replace(w, "FILESYSTEM", "LUSTRE", 1))
	}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{v.Given("kill-on-invalid-dep") && v.Num("kill-on-invalid-dep") == 1, "KILL_INVALID_DEPENDENCY"},
		{v.Given("kill-on-invalid-dep") && v.Num("kill-on-invalid-dep") == 0, "NO_KILL_INVALID_DEPENDENCY"},
		{v.Given("spread-job"), "SPREAD_JOB"},
		{v.Given("use-min-nodes"), "PREFER_MINIMUM_NODE_COUNT"},
		{v.Given("stepmgr"), "STEPMGR_ENABLED"},
		{v.Given("ntasks"), "EXACT_TASK_COUNT_REQUESTED"},
		{v.Given("cpus-per-task"), "EXACT_CPU_COUNT_REQUESTED"},
		{v.Given("spread-segments"), "SPREAD_SEGMENTS"},
		{v.Given("consolidate-segments"), "CONSOLIDATE_SEGMENTS"},
		{strings.Contains(v.Str("gres-flags"), "enforce-binding"), "GRES_BINDING_ENFORCED"},
		{strings.Contains(v.Str("gres-flags"), "disable-binding"), "GRES_BINDING_DISABLED"},
		{v.Num("priority") == Top, "TOP_PRIORITY_JOB"},
		{strings.EqualFold(v.Str("requeue"), "expedite"), "EXPEDITED_REQUEUE"},
	} {
		if f.on {
			j.Flags = append(j.Flags, f.name)
		}
	}
}
