package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/gpu"
)

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
