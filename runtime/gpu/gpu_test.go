package gpu_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/gpu"
)

func TestType(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB":         "a100",
		"NVIDIA A100 80GB PCIe":         "a100",
		"NVIDIA H100 NVL":               "h100",
		"NVIDIA H200":                   "h200",
		"NVIDIA GeForce RTX 4090":       "rtx4090",
		"NVIDIA GeForce RTX 2080 Ti":    "rtx2080ti",
		"NVIDIA RTX A6000":              "rtxa6000",
		"Tesla V100-SXM2-32GB":          "v100",
		"Tesla T4":                      "t4",
		"NVIDIA L40S":                   "l40s",
		"AMD Instinct MI300X OAM":       "mi300x",
		"NVIDIA GeForce GTX 1080":       "gtx1080",
		"NVIDIA GeForce RTX 4070 SUPER": "rtx4070super",
	} {
		if got := gpu.Type(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestQuery runs each tool as a script that prints what the real one does. It sets
// PATH, so it is not parallel.
func TestQuery(t *testing.T) {
	const smi = `0, GPU-aaaa, NVIDIA A100-SXM4-80GB, 81920, 550.90.07, 00000000:07:00.0
1, GPU-bbbb, NVIDIA A100-SXM4-80GB, 81920, 550.90.07, 00000000:0B:00.0`
	const rocm = `{"card0":{"Unique ID":"0xabc","VRAM Total Memory (B)":"206141652992","Card Series":"AMD Instinct MI300X OAM"},"system":{"Driver version":"6.7.0"}}`
	const npu = `+----------------------------------------------------------------------------+
| npu-smi 23.0.rc2    Version: 23.0.rc2                                      |
+---------------------------+---------------+--------------------------------+
| NPU   Name                | Health        | Power(W)   Temp(C)             |
| Chip                      | Bus-Id        | AICore(%)  Memory-Usage(MB)    |
+===========================+===============+================================+
| 0     910B3               | OK            | 94.4       40       0    / 0   |
| 0                         | 0000:C1:00.0  | 0          0    / 0 3161 / 65536 |
+===========================+===============+================================+`
	for _, tc := range []struct {
		name, tool, out string
		exit            string
		want            gpu.Inventory
	}{
		{"nvidia", "nvidia-smi", smi, "0", gpu.Inventory{Source: "nvidia-smi", Driver: "550.90.07", GPUs: []gpu.GPU{
			{Index: 0, UUID: "GPU-aaaa", Name: "NVIDIA A100-SXM4-80GB", Type: "a100", MemoryMiB: 81920, PCI: "00000000:07:00.0"},
			{Index: 1, Minor: 1, UUID: "GPU-bbbb", Name: "NVIDIA A100-SXM4-80GB", Type: "a100", MemoryMiB: 81920, PCI: "00000000:0B:00.0"},
		}}},
		{"rocm", "rocm-smi", rocm, "0", gpu.Inventory{Source: "rocm-smi", Driver: "6.7.0", GPUs: []gpu.GPU{
			{UUID: "0xabc", Name: "AMD Instinct MI300X OAM", Type: "mi300x", MemoryMiB: 196592},
		}}},
		{"npu", "npu-smi", npu, "0", gpu.Inventory{Source: "npu-smi", Driver: "23.0.rc2", GPUs: []gpu.GPU{
			{UUID: "npu-0", Name: "Ascend 910B3", Type: "ascend910b3", MemoryMiB: 65536, PCI: "0000:C1:00.0"},
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake(t, tc.tool, tc.out, tc.exit)
			got, err := gpu.Query(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := gpu.Query(t.Context(), ""); !errors.Is(err, gpu.ErrNone) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("broken driver", func(t *testing.T) {
		fake(t, "nvidia-smi", "NVIDIA-SMI has failed", "9")
		_, err := gpu.Query(t.Context(), "")
		if !errors.Is(err, gpu.ErrNone) || !strings.Contains(err.Error(), "exit status 9") {
			t.Errorf("got %v", err)
		}
	})
}

func fake(t *testing.T, tool, out, exit string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n/bin/cat <<'END'\n" + out + "\nEND\nexit " + exit + "\n"
	if err := os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}
