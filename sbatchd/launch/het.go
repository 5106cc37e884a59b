package launch

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// hetEnv is what a heterogeneous job's script finds in its environment about all
// components; nothing for other jobs.
func hetEnv(s *state.State, j *job.Job) []string {
	if !j.Leads() {
		return nil
	}
	out := []string{fmt.Sprintf("SLURM_HET_SIZE=%d", j.Het.Count), fmt.Sprintf("SLURM_PACK_SIZE=%d", j.Het.Count)}
	for i, c := range slices.Insert(slices.Collect(s.Parts(j)), 0, j) {
		set := func(name, value string) {
			if value != "" {
				out = append(out, fmt.Sprintf("SLURM_%s_HET_GROUP_%d=%s", name, i, value))
			}
		}
		number := func(name string, n int64) {
			if n > 0 {
				set(name, strconv.FormatInt(n, 10))
			}
		}
		var cpus, tasks []int
		if c.Run != nil {
			for _, a := range c.Run.Nodes {
				cpus, tasks = append(cpus, a.CPUs), append(tasks, a.Tasks)
			}
			set("JOB_NODELIST", hostlist.Compress(c.Run.NodeNames()))
			set("JOB_PARTITION", c.Run.Partition)
		}
		number("JOB_ID", int64(c.ID.Raw))
		set("JOB_NAME", c.Spec.Name)
		set("JOB_ACCOUNT", c.Account)
		set("JOB_QOS", c.QOS)
		set("JOB_RESERVATION", c.Spec.Reservation)
		set("JOB_CPUS_PER_NODE", hostlist.Counts(cpus))
		set("TASKS_PER_NODE", hostlist.Counts(tasks))
		number("JOB_NUM_NODES", int64(len(cpus)))
		number("MEM_PER_CPU", c.Spec.MemPerCPU)
		number("MEM_PER_NODE", c.Spec.MemPerNode)
	}
	return out
}
