package agent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	a := New(Config{Config: agentapi.Config{Node: "g1", Tag: "tag"}, RunDir: "/r"}, slog.New(slog.DiscardHandler))
	o := &agentapi.Order{What: &agentapi.Order_Launch{Launch: &agentapi.Launch{
		Env:  []string{"PATH=/bin", "MINE=1", "MINE=2", "SLURM_JWT=secret", "SLURM_JOB_ID=3", "SLURM_RESTART_COUNT=9", "SLURM_RLIMIT_CPU=5", "SLURM_UMASK=0077", "I_MPI_HYDRA_BOOTSTRAP=mine", "broken", "TMPDIR=/does/not/exist"},
		Cpus: 4, Runtime: "containerd", Umask: 0o27,
		User: &agentapi.User{Uid: 1000, Gid: 100, Name: "alice", Group: "users", Home: "/home/alice", Shell: "/bin/bash"},
		Gpus: []*agentapi.Gpu{{Index: 2}, {Index: 5}},
		Info: &agentapi.JobInfo{
			Name: "j", Partition: "gpu", NodeList: "g1", CpusPerNode: "4", TasksPerNode: "2", Ntasks: 2, MemPerNode: 512,
			StartTime: 10, Cluster: "c", Array: &agentapi.ArrayInfo{JobId: 12, TaskId: 3, Count: 5, Min: 1, Max: 9},
			Extra: []string{"MINE=3"},
		},
	}}}
	got := map[string]string{}
	for _, kv := range a.newRun(journal.Attempt{Job: 12, Restart: 2}, o, "/d").environment() {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = value
	}
	want := map[string]string{
		"PATH": "/bin", "MINE": "3", "TMPDIR": "/tmp", "HOME": "/home/alice", "USER": "alice", "LOGNAME": "alice", "SHELL": "/bin/bash",
		"SLURM_JOB_ID": "12", "SLURM_JOBID": "12", "SLURM_JOB_NAME": "j", "SLURM_JOB_PARTITION": "gpu",
		"SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "100",
		"SLURM_CLUSTER_NAME": "c", "SLURM_JOB_NODELIST": "g1", "SLURM_NODELIST": "g1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1",
		"SLURM_JOB_CPUS_PER_NODE": "4", "SLURM_TASKS_PER_NODE": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2",
		"SLURM_MEM_PER_NODE": "512", "SLURM_JOB_START_TIME": "10", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_GTIDS": "0",
		"SLURMD_NODENAME": "g1", "SLURM_TOPOLOGY_ADDR": "g1", "SLURM_TOPOLOGY_ADDR_PATTERN": "node", "SLURM_PRIO_PROCESS": "0", "SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5", "SLURM_OOM_KILL_STEP": "0",
		"HYDRA_BOOTSTRAP": "slurm", "HYDRA_LAUNCHER_EXTRA_ARGS": "--external-launcher", "I_MPI_HYDRA_BOOTSTRAP": "mine",
		"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "--external-launcher", "OMPI_MCA_plm_slurm_args": "--external-launcher", "PRTE_MCA_plm_slurm_args": "--external-launcher",
		"SLURM_RESTART_COUNT": "2", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "5",
		"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "1",
		"SLURM_JOB_GPUS": "2,5", "SLURM_GPUS_ON_NODE": "2", "ENVIRONMENT": "BATCH", "HOSTNAME": "g1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
