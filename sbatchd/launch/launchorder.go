package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

// blobTimeout bounds reading a script from the store.
const blobTimeout = 10 * time.Second

// launchOrder says all a node must know to run an attempt.
func (h *Hub) launchOrder(s *state.State, j *job.Job) (*agentapi.Order, error) {
	ctx, cancel := context.WithTimeout(context.Background(), blobTimeout)
	defer cancel()
	script, err := h.Jobs.Blob(ctx, j.Spec.ScriptHash)
	if err != nil {
		return nil, fmt.Errorf("script of job %d: %w", j.ID.Raw, err)
	}
	env, err := h.Jobs.Blob(ctx, j.Spec.EnvHash)
	if err != nil {
		return nil, fmt.Errorf("environment of job %d: %w", j.ID.Raw, err)
	}
	user, err := h.user(ctx, j)
	if err != nil {
		return nil, err
	}
	alloc := j.Run.Nodes[0]
	n, ok := s.Node(alloc.Node)
	if !ok {
		return nil, fmt.Errorf("node %s: %w", alloc.Node, state.ErrUnknown)
	}
	pool, image := s.Config.Pool(n.Pool), imageOf(s.Config, j, n.Pool)
	l := &agentapi.Launch{
		Script: script, Args: args(j.Spec), Env: splitEnv(env, pool),
		WorkDir: j.Spec.WorkDir, WorkDirMode: workDirMode(pool),
		User:    user,
		Streams: h.streams(s.Config, j),
		Image:   image, Runtime: runtimeOf(image),
		Cpus: uint32(alloc.CPUs), MemoryMib: uint64(alloc.MemoryMiB), Gpus: gpus(n, alloc),
		TimeLimitS: limitSeconds(j.Run.Limit),
		Signal: &agentapi.JobSignal{
			Signal: int32(j.Spec.Signal.Num), Seconds: uint32(j.Spec.Signal.Seconds), BatchOnly: j.Spec.Signal.Batch,
		},
		Checkpoint: checkpointPlan(s, j),
		Umask:      j.Spec.Umask,
		Rlimits:    rlimits(env, s.Config),
		Mounts:     mounts(pool),
		Relay:      true,
		Info:       h.info(s, j, n),
		NoRequeue:  !j.Spec.Requeue,
	}
	if pool != nil {
		l.PoolDriver = pool.Driver
	}
	if b := j.Spec.Burst; b != nil {
		l.StageIn, l.StageOut = b.StageIn, b.StageOut
	}
	return &agentapi.Order{What: &agentapi.Order_Launch{Launch: l}}, nil
}

func (h *Hub) user(ctx context.Context, j *job.Job) (*agentapi.User, error) {
	u := &agentapi.User{Uid: j.UID, Gid: j.GID, Groups: j.Groups, Name: j.User, Group: strconv.Itoa(int(j.GID)), Home: "/", Shell: "/bin/sh"}
	account, err := h.Users.ByUID(ctx, j.UID)
	if errors.Is(err, auth.ErrUnknownUser) {
		return u, nil // a number is enough to run as
	}
	if err != nil {
		return nil, fmt.Errorf("user of job %d: %w", j.ID.Raw, err)
	}
	u.Home, u.Shell = account.Home, account.Shell
	return u, nil
}

func args(s *job.Spec) []string {
	if len(s.Argv) == 0 {
		return nil
	}
	return s.Argv[1:]
}

// splitEnv reads NUL-separated variables and adds the pool's own.
func splitEnv(data []byte, pool *partitions.Pool) []string {
	var out []string
	for v := range bytes.SplitSeq(data, []byte{0}) {
		if len(v) > 0 {
			out = append(out, string(v))
		}
	}
	if pool != nil {
		for name, value := range pool.Env {
			if !slices.ContainsFunc(out, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
				out = append(out, name+"="+value)
			}
		}
	}
	return out
}

func workDirMode(pool *partitions.Pool) agentapi.WorkDir {
	if pool == nil {
		return agentapi.WorkDir_WORKDIR_SHARED // own machines share the site's file system
	}
	switch pool.Workdir {
	case partitions.WorkdirShared:
		return agentapi.WorkDir_WORKDIR_SHARED
	case partitions.WorkdirNone:
		return agentapi.WorkDir_WORKDIR_NONE
	case partitions.WorkdirSync:
	}
	return agentapi.WorkDir_WORKDIR_SYNC
}

func (h *Hub) streams(c *partitions.Config, j *job.Job) *agentapi.Streams {
	out, errFile := h.Output.Files(j)
	st := &agentapi.Streams{Merged: errFile == "", Append: appends(c, j), Input: j.Spec.Input}
	if len(j.Run.Hosts) > 0 && j.Run.Hosts[0].Direct {
		st.StdoutPath, st.StderrPath = out, errFile
	}
	return st
}

// imageOf is the image a job runs in: the job's own, the partition's, the pool's.
func imageOf(c *partitions.Config, j *job.Job, poolName string) *agentapi.Image {
	pool := c.Pool(poolName)
	if pool != nil && pool.Runtime == partitions.Process {
		return nil
	}
	var img *partitions.Image
	switch {
	case j.Spec.Image != "":
		if img = c.Image(j.Spec.Image); img == nil {
			_, digest, _ := strings.Cut(j.Spec.Image, "@")
			img = &partitions.Image{Name: j.Spec.Image, Ref: j.Spec.Image, Digest: digest}
		}
	default:
		if p := c.Partition(j.Partition); p != nil {
			img = p.Image
		}
		if img == nil && pool != nil {
			img = pool.Image
		}
	}
	if img == nil {
		return nil
	}
	return &agentapi.Image{
		Name: img.Name, Ref: img.Ref, Digest: img.Digest, Cuda: img.Cuda, MinDriver: img.MinDriver,
		PlainHttp: loopback(img.Ref),
	}
}

// loopback says whether a reference's registry is on this machine, where plain
// HTTP is customary.
func loopback(ref string) bool {
	host, _, _ := strings.Cut(ref, "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func runtimeOf(image *agentapi.Image) string {
	if image == nil {
		return string(partitions.Process)
	}
	return string(partitions.Containerd)
}

func gpus(n *node.Node, a job.NodeAlloc) []*agentapi.Gpu {
	var out []*agentapi.Gpu
	for _, d := range a.Gres["gpu"] {
		out = append(out, &agentapi.Gpu{Index: uint32(d), Type: deviceType(n, "gpu", d)})
	}
	return out
}

// checkpointPlan is the job's #BURST rules on checkpoints. Without a directory
// there is nothing to save.
func checkpointPlan(s *state.State, j *job.Job) *agentapi.CheckpointPlan {
	b := j.Spec.Burst
	if b == nil || b.CheckpointDir == "" || s.Config.CheckpointStore == "" {
		return nil
	}
	p := &agentapi.CheckpointPlan{
		Dir: b.CheckpointDir, Hook: b.CheckpointHook, RestoreHook: b.RestoreHook,
		Prefix: path.Join(s.UUID, strconv.FormatUint(uint64(j.ID.Raw), 10)), RestoreNumber: -1,
	}
	if minutes, err := strconv.ParseFloat(b.CheckpointInterval, 64); err == nil {
		p.IntervalS = uint32(minutes * 60)
	}
	if j.Restarts > 0 {
		p.RestoreNumber = 0 // the newest complete one, which may be newer than we heard of
	}
	return p
}

func mounts(pool *partitions.Pool) []*agentapi.Mount {
	if pool == nil {
		return nil
	}
	var out []*agentapi.Mount
	for _, m := range pool.Mounts {
		parts := strings.SplitN(m, ":", 3)
		mount := &agentapi.Mount{Source: parts[0], Target: parts[0]}
		if len(parts) > 1 {
			mount.Target = parts[1]
		}
		mount.ReadOnly = len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")
		out = append(out, mount)
	}
	return out
}

// rlimits are the submitter's limits that travel with the job, as sbatch put
// them into its environment (SLURM_RLIMIT_*, PropagateResourceLimits).
func rlimits(env []byte, c *partitions.Config) []*agentapi.Rlimit {
	var out []*agentapi.Rlimit
	for v := range bytes.SplitSeq(env, []byte{0}) {
		rest, ok := bytes.CutPrefix(v, []byte("SLURM_RLIMIT_"))
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(string(rest), "=")
		if !propagated(c, name) {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue
		}
		out = append(out, &agentapi.Rlimit{Name: name, Soft: n, Hard: n})
	}
	return out
}

// propagated says whether a limit of the submitter goes along
// (PropagateResourceLimits, PropagateResourceLimitsExcept; the default is all).
func propagated(c *partitions.Config, name string) bool {
	has := func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
			return strings.EqualFold(s, name) || strings.EqualFold(s, "ALL")
		})
	}
	if except := c.Values["PropagateResourceLimitsExcept"]; except != "" {
		return !has(except)
	}
	only := c.Values["PropagateResourceLimits"]
	return only == "" || has(only)
}

func (h *Hub) info(s *state.State, j *job.Job, n *node.Node) *agentapi.JobInfo {
	r := j.Run
	names := r.NodeNames()
	cpus, tasks := make([]int, len(r.Nodes)), make([]int, len(r.Nodes))
	for i, a := range r.Nodes {
		cpus[i], tasks[i] = a.CPUs, a.Tasks
	}
	info := &agentapi.JobInfo{
		Name: j.Spec.Name, Partition: r.Partition, Account: j.Account, Qos: j.QOS,
		Reservation: j.Spec.Reservation, Cluster: s.Config.ClusterName,
		NodeList: hostlist.Compress(names), NumNodes: uint32(len(names)),
		CpusPerNode: hostlist.Counts(cpus), TasksPerNode: hostlist.Counts(tasks),
		MemPerNode: uint64(max(0, j.Spec.MemPerNode)), MemPerCpu: uint64(max(0, j.Spec.MemPerCPU)),
		StartTime: h.Now().Unix(), SubmitDir: j.Spec.WorkDir, SubmitHost: j.Spec.SubmitHost,
		Licenses: j.Spec.Licenses, Dependency: j.Spec.Dependency,
		Oversubscribe: "NO", Exclusive: "NO", Conf: s.Config.Path,
	}
	if a := j.Array; a != nil && j.ID.Task != job.NoTask {
		info.Array = &agentapi.ArrayInfo{
			JobId: j.ID.Array, TaskId: j.ID.Task, Count: a.Count, Min: a.Min, Max: a.Max, Step: a.Step,
		}
	}
	if j.Run.Limit != job.NoLimit {
		info.EndTime = info.StartTime + int64(j.Run.Limit)*60
	}
	if j.Spec.TasksSet {
		info.Ntasks = uint32(j.Spec.Tasks)
	}
	if j.Spec.CPUsSet {
		info.CpusPerTask = uint32(j.Spec.CPUsPerTask)
	}
	if j.Spec.Exclusive {
		info.Exclusive = "NODE"
	}
	if j.Spec.Oversubscribe {
		info.Oversubscribe = "YES"
	}
	if j.Spec.Append != nil {
		info.OpenMode = "t"
		if *j.Spec.Append {
			info.OpenMode = "a"
		}
	}
	if p := s.Config.Partition(r.Partition); p != nil && info.MemPerNode == 0 && info.MemPerCpu == 0 && !j.Spec.MemSet {
		switch {
		case p.DefMemPerCPU > 0:
			info.MemPerCpu = uint64(p.DefMemPerCPU)
		case p.DefMemPerNode > 0:
			info.MemPerNode = uint64(p.DefMemPerNode)
		case s.Config.DefMemPerCPU > 0:
			info.MemPerCpu = uint64(s.Config.DefMemPerCPU)
		case s.Config.DefMemPerNode > 0:
			info.MemPerNode = uint64(s.Config.DefMemPerNode)
		}
	}
	info.Extra = hetEnv(s, j)
	for _, g := range n.Gres {
		if g.Name == "gpu" {
			info.GresGpuType = g.Type
			break
		}
	}
	return info
}
