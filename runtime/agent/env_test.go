package agent

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/gpu"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	a := New(Config{Config: agentapi.Config{Node: "g1", Tag: "tag"}, RunDir: "/r"}, slog.New(slog.DiscardHandler))
	o := &agentapi.Order{What: &agentapi.Order_Launch{Launch: &agentapi.Launch{
		Env:  []string{"PATH=/bin", "MINE=1", "MINE=2", "SLURM_JWT=secret", "SLURM_JOB_ID=3", "SLURM_RESTART_COUNT=9", "broken", "TMPDIR=/does/not/exist"},
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
	for _, kv := range a.newRun(key{12, 2}, o, "/d").environment() {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name] = value
	}
	want := map[string]string{
		"PATH": "/bin", "MINE": "3", "TMPDIR": "/tmp", "HOME": "/home/alice", "USER": "alice", "LOGNAME": "alice", "SHELL": "/bin/bash",
		"SLURM_JOB_ID": "12", "SLURM_JOBID": "12", "SLURM_JOB_NAME": "j", "SLURM_JOB_PARTITION": "gpu",
		"SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "1000", "SLURM_JOB_GROUP": "users", "SLURM_JOB_GID": "100",
		"SLURM_CLUSTER_NAME": "c", "SLURM_JOB_NODELIST": "g1", "SLURM_NODELIST": "g1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1",
		"SLURM_JOB_CPUS_PER_NODE": "4", "SLURM_TASKS_PER_NODE": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2",
		"SLURM_MEM_PER_NODE": "512", "SLURM_JOB_START_TIME": "10", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_GTIDS": "0",
		"SLURMD_NODENAME": "g1", "SLURM_TOPOLOGY_ADDR": "g1", "SLURM_TOPOLOGY_ADDR_PATTERN": "node", "SLURM_PRIO_PROCESS": "0", "SLURM_UMASK": "0027",
		"SLURM_RESTART_COUNT": "2", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "5",
		"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "1",
		"SLURM_JOB_GPUS": "2,5", "SLURM_GPUS_ON_NODE": "2", "ENVIRONMENT": "BATCH", "HOSTNAME": "g1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	real := gpu.Inventory{Source: "nvml", GPUs: []gpu.GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}}}
	one := []*agentapi.Gpu{{Index: 1}}
	for _, tc := range []struct {
		name    string
		d       Devices
		gpus    []*agentapi.Gpu
		runtime string
		want    GPUSetup
	}{
		{"container", Devices{real, "/cdi"}, one, "containerd", GPUSetup{CDI: []string{"nvidia.com/gpu=GPU-b"}, Env: []string{"CUDA_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0"}}},
		{"process", Devices{real, ""}, one, "process", GPUSetup{Env: []string{"CUDA_VISIBLE_DEVICES=1", "GPU_DEVICE_ORDINAL=1"}}},
		{"none asked for", Devices{real, ""}, nil, "process", GPUSetup{Env: []string{"CUDA_VISIBLE_DEVICES="}}},
		{"declared only", Devices{}, one, "process", GPUSetup{Env: []string{"CUDA_VISIBLE_DEVICES=1", "GPU_DEVICE_ORDINAL=1"}}},
		{"a node without", Devices{}, nil, "process", GPUSetup{}},
	} {
		got, err := tc.d.Setup(t.Context(), tc.gpus, tc.runtime)
		if d := cmp.Diff(tc.want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", tc.name, err, d)
		}
	}
}

func TestHardwareAsDeclared(t *testing.T) {
	t.Parallel()
	h, err := Hardware(agentapi.Config{CPUs: 8, MemoryMiB: 4096, Gres: "gpu:a100:2"},
		gpu.Inventory{Driver: "550.1", GPUs: []gpu.GPU{{UUID: "GPU-a", Type: "t4", MemoryMiB: 15000}, {Index: 1, UUID: "GPU-b", Fault: "dead"}}}, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	if h.GetCpus() != 8 || h.GetMemoryMib() != 4096 || len(h.GetGpus()) != 2 || h.GetDriverVersion() != "550.1" {
		t.Errorf("got %v", h)
	}
	if first, second := h.GetGpus()[0], h.GetGpus()[1]; first.GetType() != "a100" || first.GetUuid() != "GPU-a" || second.GetUuid() != "" {
		t.Errorf("GPUs: %v", h.GetGpus())
	}
}
