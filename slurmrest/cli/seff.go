package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "seff", Args: "JobID", About: "how well a job used what it had", Flags: []Flag{
		{Long: "debug", Short: 'd', Help: "no effect"},
		{Long: "clusters", Short: 'M', Help: "no effect"},
	}, Run: seff})
}

// seff prints a job's efficiency from accounting, in the lines of the script of
// that name that comes with Slurm.
func seff(ctx context.Context, e *Env, in *Input) error {
	if len(in.Args) != 1 {
		e.printf("Usage: seff [Options] <Jobid>\n")
		return exit(2)
	}
	c, err := e.Client(ctx)
	if err != nil {
		return fail("seff: %s", text(err))
	}
	id, _, _ := strings.Cut(in.Args[0], ".")
	resp, err := c.DBJobs(ctx, url.Values{"step": {id}})
	if err != nil {
		return fail("seff: %s", text(err))
	}
	if len(resp.Jobs) == 0 {
		e.rawf("Job not found.")
		return exit(2)
	}
	printEfficiency(e, &resp.Jobs[len(resp.Jobs)-1])
	return nil
}

func printEfficiency(e *Env, j *wire.DBJob) {
	held := func(kind string) (n int64) {
		for _, t := range j.TRES.Allocated {
			if t.Type == kind {
				n = t.Count
			}
		}
		return n
	}
	cpus, nodes, memory := held("cpu"), max(held("node"), 1), held("mem") // memory in MiB
	e.printf("Job ID: %d\n", j.JobID)
	if j.Array.JobID != 0 && j.Array.TaskID.Set {
		e.printf("Array Job ID: %d_%d\n", j.Array.JobID, j.Array.TaskID.Number)
	}
	e.printf("Cluster: %s\nUser/Group: %s/%s\n", j.Cluster, j.User, j.Group)
	state := format.BaseState(j.State.Current).Name
	e.printf("State: %s (exit code %d)\n", state, j.ExitCode.ReturnCode.Or(0))
	if cpus <= 1 {
		e.printf("Cores: %d\n", cpus)
	} else {
		e.printf("Nodes: %d\nCores per node: %d\n", nodes, cpus/nodes)
	}
	used := j.Time.Total.Seconds
	core := j.Time.Elapsed * cpus
	e.printf("CPU Utilized: %s\n", tres.FormatDuration(time.Duration(used)*time.Second))
	e.printf("CPU Efficiency: %.2f%% of %s core-walltime\n", percent(used, core), tres.FormatDuration(time.Duration(core)*time.Second))
	e.printf("Job Wall-clock time: %s\n", tres.FormatDuration(time.Duration(j.Time.Elapsed)*time.Second))
	var peak int64 // bytes
	for _, s := range j.Steps {
		for _, t := range s.TRES.Requested.Max {
			if t.Type == "mem" {
				peak = max(peak, t.Count)
			}
		}
	}
	e.printf("Memory Utilized: %s\n", kbytes(float64(peak)/1024))
	whose := "node"
	size := memory / nodes
	if j.Required.MemoryPerCPU.Set {
		whose, size = "core", memory/max(cpus, 1)
	}
	e.printf("Memory Efficiency: %.2f%% of %s (%s/%s)\n", percent(peak/1024, memory*1024), kbytes(float64(memory)*1024), kbytes(float64(size)*1024), whose)
	if state == "RUNNING" {
		e.printf("WARNING: Efficiency statistics may be misleading for RUNNING jobs.\n")
	}
}

func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// kbytes prints KiB with the unit that leaves less than 1024.
func kbytes(n float64) string {
	units := []string{"KB", "MB", "GB", "TB", "PB"}
	for len(units) > 1 && n >= 1024 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.2f %s", n, units[0])
}
