package server

import (
	"fmt"
	"iter"
	"slices"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getSteps answers GET /sbatchd/v1/steps: the steps of the jobs that run, as squeue
// and scontrol list them. Slurm has no such path.
func getSteps(c *call) {
	s := c.s.cfg.Controller.Snapshot()
	private := slices.Contains(s.Config.PrivateData, "jobs")
	out := wire.Steps{Steps: []wire.Step{}}
	for j := range s.Active() {
		if j.State != job.Running && j.State != job.Suspended || !c.sees(private, j) {
			continue
		}
		for st := range c.steps(s.Config.ClusterName, j) {
			out.Steps = append(out.Steps, st)
		}
	}
	c.answer(out)
}

// steps are a running job's batch script and the sruns that have not ended.
func (c *call) steps(cluster string, j *job.Job) iter.Seq[wire.Step] {
	return func(yield func(wire.Step) bool) {
		r := j.Run
		if r == nil || len(r.Nodes) == 0 || r.Start.IsZero() {
			return
		}
		base := wire.Step{
			Cluster: cluster, Nodes: r.Nodes[0].Node, Partition: r.Partition, State: []string{j.State.String()}, User: j.User,
			JobID: int64(j.ID.Raw), UserID: int64(j.UID), Array: wire.StepArray{JobID: int64(j.ID.Array), TaskID: int64(j.ID.Task)},
		}
		base.Time.Limit = wire.Infinite
		now := c.s.cfg.Now()
		fill := func(id, name string, tasks, cpus int, began int64) wire.Step {
			st := base
			st.ID, st.Name, st.NumberTasks, st.NumberCPUs = fmt.Sprintf("%d.%s", j.ID.Raw, id), name, tasks, cpus
			st.Time.Start, st.Time.Running = wire.N(began), wire.N(max(0, now.Unix()-began))
			return st
		}
		batch := fill("batch", "batch", 1, 0, r.Start.Unix())
		batch.Task.Distribution = "Unknown"
		if !yield(batch) {
			return
		}
		for _, s := range r.Steps {
			if !s.End.IsZero() {
				continue
			}
			st := fill(fmt.Sprint(s.ID), s.Name, s.Tasks, s.CPUs, s.Start.Unix())
			st.Task.Distribution = "Cyclic"
			st.TRES.Allocation = tres.TRES{
				tres.CPU: uint64(s.CPUs), tres.Mem: uint64(max(0, r.Nodes[0].MemoryMiB)), tres.Node: 1,
			}.String()
			if !yield(st) {
				return
			}
		}
	}
}
