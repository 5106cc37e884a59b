package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "salloc", Bare: true, About: "get nodes and run a program", Run: salloc})
}

// holding is the script of an allocation: it holds the nodes until salloc lets go.
const holding = "#!/bin/sh\ntrap 'exit 0' USR1\nsleep 2147483647 &\nwait\n"

// salloc gets an allocation, runs a command here, and gives it back.
func salloc(ctx context.Context, e *Env, in *Input) error {
	v, argv, err := stepOptions(e, option.Salloc, in.Args, "[command [ARGUMENT...]]")
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		if argv = []string{e.Getenv("SHELL"), "-i"}; argv[0] == "" {
			argv[0] = "/bin/sh"
		}
	}
	name := "interactive"
	if len(argv) > 0 {
		name = argv[0][strings.LastIndexByte(argv[0], '/')+1:]
	}
	a, err := allocate(ctx, e, v, script{body: []byte(holding), name: name}, func(j *wire.JobDescMsg) {
		j.StandardOutput, j.StandardError, j.StandardInput = "/dev/null", "/dev/null", "/dev/null"
		no := false
		j.Requeue = &no
	})
	if err != nil {
		return err
	}
	quiet := v.Given("quiet")
	waitCtx, done := context.WithCancel(ctx)
	j, err := a.begun(waitCtx, e.Signals(waitCtx), "Pending job allocation %d")
	done()
	if err != nil {
		return err
	}
	if j == nil || format.Finished(j.JobState) {
		return withExitError(e, failed("Job allocation %d has been revoked.", a.id))
	}
	if !quiet {
		e.infof("Granted job allocation %d", a.id)
		e.infof("Nodes %s are ready for job", j.Nodes)
	}
	status, err := e.Exec(ctx, argv, append(slicesWithout(e.Environ, "SLURM_"), allocationEnv(e, v, j)...))
	if err != nil {
		e.errorf("Unable to exec command %q", argv[0])
		status = 1
	}
	if !quiet {
		e.infof("Relinquishing job allocation %d", a.id)
	}
	a.signal(ctx, "USR1", "BATCH_JOB")
	if status == 0 {
		return nil
	}
	return exit(status)
}

// slicesWithout leaves out the variables that begin with a prefix, but those that
// say how commands find their controller.
func slicesWithout(environ []string, prefix string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, prefix) || strings.HasPrefix(kv, "SLURM_CONF=") || strings.HasPrefix(kv, "SLURM_JWT=") {
			out = append(out, kv)
		}
	}
	return out
}

// allocationEnv is what Slurm tells the command of an allocation.
func allocationEnv(e *Env, v *option.Values, j *wire.JobInfo) []string {
	cpus, nodes := j.CPUs.Or(0), max(j.NodeCount.Or(1), 1)
	var env []string
	set := func(name string, value any) { env = append(env, fmt.Sprintf("%s=%v", name, value)) }
	set("SLURM_JOB_ID", j.JobID)
	set("SLURM_JOBID", j.JobID)
	set("SLURM_JOB_NAME", j.Name)
	set("SLURM_JOB_NUM_NODES", nodes)
	set("SLURM_NNODES", nodes)
	set("SLURM_JOB_NODELIST", j.Nodes)
	set("SLURM_NODELIST", j.Nodes)
	set("SLURM_JOB_CPUS_PER_NODE", spread(cpus, nodes))
	set("SLURM_TASKS_PER_NODE", spread(max(j.Tasks.Or(1), nodes), nodes))
	set("SLURM_JOB_PARTITION", j.Partition)
	set("SLURM_CLUSTER_NAME", j.Cluster)
	set("SLURM_SUBMIT_DIR", e.Dir)
	set("SLURM_SUBMIT_HOST", e.Host)
	if j.Account != "" {
		set("SLURM_JOB_ACCOUNT", j.Account)
	}
	if j.QOS != "" {
		set("SLURM_JOB_QOS", j.QOS)
	}
	if v.Given("ntasks") {
		set("SLURM_NTASKS", v.Num("ntasks"))
		set("SLURM_NPROCS", v.Num("ntasks"))
	}
	if v.Given("cpus-per-task") {
		set("SLURM_CPUS_PER_TASK", v.Num("cpus-per-task"))
	}
	return env
}

// spread prints a count on each node: 2(x3) for six on three.
func spread(total, nodes int64) string {
	if nodes <= 1 {
		return itoa(total)
	}
	return fmt.Sprintf("%d(x%d)", max(total/nodes, 1), nodes)
}
