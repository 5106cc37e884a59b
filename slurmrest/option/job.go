package option

import (
	"fmt"
	"math"
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
		StandardError:          v.stream("error"),
		StandardInput:          v.stream("input"),
		StandardOutput:         v.stream("output"),
		TRESBind:               v.Str("tres-bind"),
		Wckey:                  v.Str("wckey"),

		Contiguous:           v.flag("contiguous"),
		CoreSpecification:    v.count("core-spec"),
		CoresPerSocket:       v.count("cores-per-socket"),
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
	if n := v.CPUsPerTask(); n > 0 {
		j.CPUsPerTask = &n
	}
	v.size(&j)
	v.hints(&j)
	v.resources(&j)
	v.flags(&j)
	return j
}

// stream is the file of a standard stream; none is no file at all.
func (v *Values) stream(name string) string {
	if file := v.Str(name); file != "none" {
		return file
	}
	return "/dev/null"
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
	return dir + "/" + path
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

// CPUsPerTask is --cpus-per-task, or what --tres-per-task says of CPUs; 0 if
// neither was given.
func (v *Values) CPUsPerTask() int64 {
	if v.Given("cpus-per-task") {
		return v.Num("cpus-per-task")
	}
	return v.cpusOfTask
}

// Tasks returns the number of tasks that the options ask for, 0 if they leave
// it open: --ntasks, or as many as the GPUs take, or a fixed number of nodes
// times the tasks, sockets, cores and threads asked of each, as sbatch does.
func (v *Values) Tasks() int64 {
	switch {
	case v.Given("ntasks"):
		return v.Num("ntasks")
	case v.Given("gpus") && v.Given("ntasks-per-gpu"):
		return gpuCount(v.Str("gpus")) * v.Num("ntasks-per-gpu")
	case v.Given("gpus") && v.Given("gpus-per-task"):
		return gpuCount(v.Str("gpus")) / max(1, gpuCount(v.Str("gpus-per-task")))
	case (v.NodesMin > 0 || v.Given("extra-node-info")) && (v.NodesMax == 0 || v.NodesMax == v.NodesMin):
		n := max(1, int64(v.NodesMin)) * max(1, v.Num("ntasks-per-node"))
		for _, level := range nodeInfo {
			n *= max(1, v.Num(level))
		}
		return min(n, math.MaxInt32)
	}
	return 0
}

// gpuCount is the number of GPUs in a list such as a100:2,h100:1.
func gpuCount(list string) int64 {
	var sum int64
	for _, g := range splitList(list) {
		n, err := strconv.ParseInt(g[strings.LastIndexByte(g, ':')+1:], 10, 32)
		if err != nil {
			n = 1
		}
		sum += max(0, n)
	}
	return sum
}

func (v *Values) size(j *wire.JobDescMsg) {
	tasks := v.Tasks()
	if tasks > 0 {
		j.Tasks = &tasks
	}
	overcommit, perTask := v.Given("overcommit"), max(v.CPUsPerTask(), 1)
	switch n := max(tasks, 1) * perTask; {
	case overcommit:
		n = int64(max(v.NodesMin, 1))
		j.MinimumCPUs = &n
	case n > 1:
		j.MinimumCPUs = &n
	}
	if n := max(v.Num("ntasks-per-node"), 1) * perTask; n > max(v.Num("mincpus"), 1) && !overcommit {
		j.MinimumCPUsPerNode = &n
	}
	if v.NodesMin > 0 {
		least, most := int64(v.NodesMin), int64(v.NodesMax)
		if !v.Given("nodes") && least == 1 { // one node by name leaves the number open
			return
		}
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
}

// hints are the filters of nodes that --hint stands for.
func (v *Values) hints(j *wire.JobDescMsg) {
	for _, h := range splitList(strings.ToLower(v.Str("hint"))) {
		one := int64(1)
		switch h {
		case "nomultithread", "compute_bound":
			j.ThreadsPerCore = &one
		case "memory_bound":
			j.CoresPerSocket, j.ThreadsPerCore = &one, &one
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
			out = append([]string{j.TRESPerNode}, out...)
		}
		j.TRESPerNode = strings.Join(out, ",")
	}
	var perTask []string
	if v.Given("cpus-per-task") {
		perTask = append(perTask, fmt.Sprintf("cpu=%d", v.Num("cpus-per-task")))
	}
	for _, g := range splitList(v.Str("gpus-per-task")) {
		if g == "0" {
			continue
		}
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
	if j.TRESBind == "" {
		j.TRESBind = v.impliedBind()
	}
	j.MemoryBinding = v.Str("mem-bind")
}

// impliedBind is the binding that GPUs asked for by the task bring along.
func (v *Values) impliedBind() string {
	n := gpuCount(v.Str("gpus-per-task"))
	for _, item := range splitList(v.Str("tres-per-task")) {
		if g, ok := strings.CutPrefix(item, "gres/gpu"); ok {
			g = strings.ReplaceAll(strings.TrimLeft(g, ":="), "=", ":")
			n += gpuCount(g)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("gres/gpu:per_task:%d", n)
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
