package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// fault is a part of a request that can't be used: Slurm's number, its
// sentence, and the field.
type fault struct {
	errno.Errno
	description, source string
}

func (f *fault) Unwrap() error { return f.Errno }

// describe translates a job description to what the queue takes.
func describe(d *wire.JobDescMsg, script string, b *option.Burst, requeue bool) (queue.Submission, error) {
	if script == "" {
		script = d.Script
	}
	in := queue.Submission{
		Script: []byte(script), Env: []byte(strings.Join(d.Environment, "\x00")),
		Account: d.Account, QOS: d.QOS, Comment: d.Comment, Hold: given(d.Hold, false),
	}
	if d.Priority.Set {
		in.Priority = new(uint32(clamp(d.Priority.Number)))
	}
	s := &job.Spec{
		Name: d.Name, Partitions: d.Partition, WorkDir: d.CurrentWorkingDirectory, Argv: d.Argv,
		CPUsPerTask: int(given(d.CPUsPerTask, 1)), CPUsSet: d.CPUsPerTask != nil,
		TasksPerNode: int(given(d.TasksPerNode, 0)), MinCPUs: int(given(d.MinimumCPUsPerNode, 0)),
		TmpDisk:     given(d.TemporaryDiskPerNode, 0),
		TRESPerNode: none(d.TRESPerNode), TRESPerJob: d.TRESPerJob, TRESPerTask: d.TRESPerTask,
		TRESPerSocket: d.TRESPerSocket, CPUsPerTRES: d.CPUsPerTRES, MemPerGPU: perTRES(d.MemoryPerTRES),
		TimeMin: uint32(clamp(d.TimeMinimum.Or(0))), Begin: unix(d.BeginTime.Or(0)), Deadline: unix(given(d.Deadline, 0)),
		Constraint: strings.ReplaceAll(d.Constraints, ",", "&"), ReqNodes: sortedHosts(d.RequiredNodes), ExcNodes: sortedHosts(d.ExcludedNodes),
		Dependency: d.Dependency, Licenses: d.Licenses, Reservation: d.Reservation, WCKey: d.Wckey, Array: d.Array,
		Overcommit: given(d.Overcommit, false), Contiguous: given(d.Contiguous, false), Nice: int32(given(d.Nice, 0)), Requeue: given(d.Requeue, requeue),
		MailType: d.MailType, MailUser: d.MailUser, Stored: stored(d),
	}
	if d.Container != "" || d.ContainerID != "" {
		return in, errno.ContainerNotConfigured
	}
	if len(d.Environment) == 0 {
		return in, errno.EnvironmentMissing
	}
	var err error
	if s.NodesMin, s.NodesMax, err = nodeCount(d); err != nil {
		return in, err
	}
	if d.Tasks != nil {
		s.Tasks, s.TasksSet = int(clamp(*d.Tasks)), true
	}
	for flag, kill := range map[string]bool{"KILL_INVALID_DEPENDENCY": true, "NO_KILL_INVALID_DEPENDENCY": false} {
		if slices.Contains(d.Flags, flag) {
			s.KillOnInvalidDep = &kill
		}
	}
	memory(s, d)
	limits(s, d)
	paths(s, d)
	for _, w := range d.Shared {
		switch w {
		case "oversubscribe":
			s.Oversubscribe = true
		default:
			s.Exclusive = true
		}
	}
	if s.Signal, err = signalOption(d); err != nil {
		return in, err
	}
	if b != nil {
		if err := contained(b.Container); err != nil {
			return in, err
		}
		extend(s, b)
		in.TestOnly = b.TestOnly
	}
	in.Spec = s
	return in, nil
}

// sortedHosts is a list of nodes as records show it; one that can't be read is
// left for the queue to refuse.
func sortedHosts(lists []string) string {
	text := strings.Join(lists, ",")
	names, err := hostlist.Parse(text)
	if err != nil {
		return text
	}
	return hostlist.CompressSet(names)
}

// given is a field's value, or what stands for it.
func given[T any](v *T, other T) T {
	if v == nil {
		return other
	}
	return *v
}

// clamp keeps a number within Slurm's 32 bits.
func clamp(n int64) int64 { return max(0, min(n, 0xfffffffd)) }

func unix(sec int64) time.Time {
	if sec <= 0 {
		return time.Time{}
	}
	return time.Unix(sec, 0)
}

// none is "" for the word that asks for no GRES at all.
func none(tres string) string {
	if strings.EqualFold(tres, "NONE") {
		return ""
	}
	return tres
}

// perTRES is the number behind "gres/gpu:4096" or "gres/gpu=4096".
func perTRES(s string) int64 {
	i := strings.LastIndexAny(s, ":=")
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	if i < 0 || err != nil {
		return 0
	}
	return n
}

// nodeCount reads "nodes" ("2", "1-4", "1-8:2", "2,4") or the two numbers.
func nodeCount(d *wire.JobDescMsg) (least, most int, err error) {
	if d.Nodes == "" {
		least = int(clamp(given(d.MinimumNodes, 0)))
		most = int(clamp(given(d.MaximumNodes, 0)))
		return max(1, least), most, nil
	}
	bad := &fault{errno.DataConvFailed, fmt.Sprintf("Unknown format: %q", d.Nodes), "#/job/nodes/"}
	for one := range strings.SplitSeq(d.Nodes, ",") {
		one, _, _ = strings.Cut(one, ":")
		lo, hi, ranged := strings.Cut(one, "-")
		a, okA := kilo(lo)
		b := a
		if okB := true; ranged {
			if b, okB = kilo(hi); !okB {
				return 0, 0, bad
			}
		}
		if !okA || b < a {
			return 0, 0, bad
		}
		if least == 0 || a < least {
			least = a
		}
		most = max(most, b)
	}
	return least, most, nil
}

// kilo reads a count that may end with k or m (powers of 1024).
func kilo(s string) (int, bool) {
	unit := 1
	switch {
	case strings.HasSuffix(s, "k"), strings.HasSuffix(s, "K"):
		unit, s = 1024, s[:len(s)-1]
	case strings.HasSuffix(s, "m"), strings.HasSuffix(s, "M"):
		unit, s = 1024*1024, s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n) * unit, err == nil && int(n)*unit <= 0x7fffffff
}

func memory(s *job.Spec, d *wire.JobDescMsg) {
	switch {
	case d.MemoryPerCPU.Set:
		s.MemPerCPU, s.MemSet = d.MemoryPerCPU.Number, true
	case d.MemoryPerNode.Set:
		s.MemPerNode, s.MemSet = d.MemoryPerNode.Number, true
	case s.MemPerGPU > 0:
		s.MemSet = true
	}
}

func limits(s *job.Spec, d *wire.JobDescMsg) {
	switch t := d.TimeLimit; {
	case t.Infinite, t.Set && t.Number == 0:
		s.TimeLimit, s.TimeSet = job.NoLimit, true
	case t.Set:
		s.TimeLimit, s.TimeSet = uint32(clamp(t.Number)), true
	}
}

// paths makes the output paths absolute; a job without one writes slurm-%j.out
// into its work directory.
func paths(s *job.Spec, d *wire.JobDescMsg) {
	s.Output, s.Error, s.Input = d.StandardOutput, d.StandardError, d.StandardInput
	if s.Output == "" {
		s.Output = "slurm-%j.out"
		if s.Array != "" {
			s.Output = "slurm-%A_%a.out"
		}
		if s.WorkDir != "" {
			s.Output = strings.TrimRight(s.WorkDir, "/") + "/" + s.Output
		}
	}
	for _, p := range []*string{&s.Output, &s.Error, &s.Input} {
		if *p != "" && !strings.HasPrefix(*p, "/") && s.WorkDir != "" {
			*p = option.Join(s.WorkDir, *p)
		}
	}
	for _, m := range d.OpenMode {
		s.Append = new(m == "APPEND")
	}
}

// signalOption reads --signal, which comes in three fields.
func signalOption(d *wire.JobDescMsg) (job.Signal, error) {
	var s job.Signal
	if d.KillWarningSignal != "" {
		n, ok := parseSignal(d.KillWarningSignal)
		if !ok {
			return s, &fault{errno.DataConvFailed, fmt.Sprintf("Unknown signal %q", d.KillWarningSignal), "#/job/kill_warning_signal/"}
		}
		s.Num, s.Seconds = n, 60
	}
	if d.KillWarningDelay.Set {
		s.Seconds = uint16(min(clamp(d.KillWarningDelay.Number), 0xfffd))
	}
	for _, f := range d.KillWarningFlags {
		switch f {
		case "BATCH_JOB":
			s.Batch = true
		case "RESERVATION_JOB":
			s.Reserve = true
		}
	}
	return s, nil
}

// stored keeps what is shown again but has no effect.
func stored(d *wire.JobDescMsg) map[string]string {
	m := map[string]string{}
	keep := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	number := func(name string, v *int64) {
		if v != nil {
			m[name] = strconv.FormatInt(*v, 10)
		}
	}
	keep("admin_comment", d.AdminComment)
	keep("batch_features", d.BatchFeatures)
	keep("burst_buffer", d.BurstBuffer)
	keep("cluster_features", d.ClusterConstraint)
	keep("cpu_frequency", d.CPUFrequency)
	keep("distribution", d.Distribution)
	keep("extra", d.Extra)
	keep("flags", strings.Join(d.Flags, ","))
	keep("mcs_label", d.MCSLabel)
	keep("memory_per_tres", d.MemoryPerTRES)
	keep("network", d.Network)
	keep("prefer", d.Prefer)
	keep("profile", strings.Join(d.Profile, ","))
	keep("selinux_context", d.SelinuxContext)
	keep("shared", strings.Join(d.Shared, ","))
	keep("tres_bind", d.TRESBind)
	keep("tres_freq", d.TRESFreq)
	number("core_spec", d.CoreSpecification)
	number("ntasks_per_tres", d.NtasksPerTRES)
	number("cores_per_socket", d.CoresPerSocket)
	number("delay_boot", d.DelayBoot)
	number("maximum_switch_wait_time", d.WaitForSwitch)
	number("sockets_per_node", d.SocketsPerNode)
	number("tasks_per_core", d.TasksPerCore)
	number("tasks_per_socket", d.TasksPerSocket)
	number("thread_spec", d.ThreadSpecification)
	number("threads_per_core", d.ThreadsPerCore)
	if d.RequiredSwitches.Set {
		number("required_switches", &d.RequiredSwitches.Number)
	}
	if d.SegmentSize.Set {
		number("segment_size", &d.SegmentSize.Number)
	}
	if given(d.Reboot, false) {
		m["reboot"] = "1"
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// contained refuses what Pyxis could do and we can't, since the job would come
// out wrong.
func contained(c option.Container) error {
	for _, o := range []struct {
		asked bool
		name  string
	}{
		{len(c.Mounts) > 0, "mounts"}, {c.Workdir != "", "workdir"}, {c.Name != "", "name"}, {len(c.Env) > 0, "env"},
		{c.MountHome, "mount-home"}, {c.Entrypoint, "entrypoint"},
	} {
		if o.asked {
			return &fault{errno.NotSupported, "--container-" + o.name + " is not supported", "#/sbatchd/container/"}
		}
	}
	return nil
}

// extend adds what only sbatchd knows.
func extend(s *job.Spec, b *option.Burst) {
	s.SubmitHost, s.SubmitLine, s.Image = b.SubmitHost, b.SubmitLine, b.Container.Image
	if n, err := strconv.ParseUint(b.Umask, 8, 16); err == nil {
		s.Umask = uint32(n)
	}
	x := job.Burst{
		CheckpointDir: b.CheckpointDir, CheckpointInterval: b.CheckpointInterval, CheckpointHook: b.CheckpointHook,
		RestoreHook: b.RestoreHook, MaxRestarts: b.MaxRestarts, QueueTimeout: b.QueueTimeout, MaxPrice: b.MaxPrice,
		Budget: b.Budget, Regions: b.Regions, Trust: b.Trust, Providers: b.Providers, Interconnect: b.Interconnect,
		Env: b.Env, Secrets: b.Secrets, StageIn: b.StageIn, StageOut: b.StageOut,
	}
	if !reflect.ValueOf(x).IsZero() {
		s.Burst = &x
	}
}

// parseBurst reads the field "sbatchd" of a submission: one for each of n
// components, or one for all; nil where nothing was asked for.
func parseBurst(raw json.RawMessage, n int) ([]*option.Burst, error) {
	list := make([]*option.Burst, n)
	if len(raw) == 0 || string(raw) == "null" {
		return list, nil
	}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != n {
			return nil, &fault{errno.DataConvFailed, "Unable to read the sbatchd field", "#/sbatchd/"}
		}
		return list, nil
	}
	b := new(option.Burst)
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, &fault{errno.DataConvFailed, "Unable to read the sbatchd field: " + err.Error(), "#/sbatchd/"}
	}
	for i := range list {
		list[i] = b
	}
	return list, nil
}
