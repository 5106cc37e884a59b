// Package gpu tells which GPUs a node has. sbatchd-gpu answers where NVIDIA's
// library is; where it is not, the vendors' own tools are asked: nvidia-smi,
// rocm-smi, npu-smi. The agent calls it once at its start.
//
// This package holds the JSON that sbatchd-gpu prints and must stay free of cgo.
package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Inventory is what a node has, as sbatchd-gpu inventory prints it.
type Inventory struct {
	Source string `json:"source"`         // nvml, nvidia-smi, rocm-smi, npu-smi
	Driver string `json:"driver"`         // version of the kernel driver
	CUDA   string `json:"cuda,omitempty"` // highest CUDA the driver takes
	GPUs   []GPU  `json:"gpus"`
}

// GPU is one device.
type GPU struct {
	Index     int    `json:"index"`
	UUID      string `json:"uuid"`
	Name      string `json:"name"` // the vendor's product name
	Type      string `json:"type"` // as a gres type: a100, rtx4090
	MemoryMiB uint64 `json:"memoryMiB"`
	Minor     int    `json:"minor"` // of /dev/nvidia<minor>
	PCI       string `json:"pci,omitempty"`
	// Fault is why the device should not be used; empty for a sound one.
	Fault string `json:"fault,omitempty"`
}

// ExitNoDriver is sbatchd-gpu's exit status on a machine without the driver.
const ExitNoDriver = 3

// ErrNone says that no tool found a GPU.
var ErrNone = errors.New("no GPU found")

// timeout bounds one tool; a broken driver may hang.
const timeout = 20 * time.Second

// tool asks one program.
type tool struct {
	name string
	args []string
	read func(out []byte) (Inventory, error)
}

// Query asks the programs in order and takes the first answer. program is the path
// of sbatchd-gpu, "" for none. ErrNone when there is no GPU; a tool that is there
// and fails is that error's detail.
func Query(ctx context.Context, program string) (Inventory, error) {
	tools := []tool{
		{"nvidia-smi", []string{"--query-gpu=index,uuid,name,memory.total,driver_version,pci.bus_id", "--format=csv,noheader,nounits"}, readNvidiaSMI},
		{"rocm-smi", []string{"--showuniqueid", "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json"}, readRocmSMI},
		{"npu-smi", []string{"info"}, readNpuSMI},
	}
	if program != "" {
		tools = append([]tool{{program, []string{"inventory"}, readJSON}}, tools...)
	}
	found := ErrNone
	for _, t := range tools {
		path, err := exec.LookPath(t.name)
		if err != nil {
			continue
		}
		inv, err := t.ask(ctx, path)
		if err == nil && len(inv.GPUs) > 0 {
			return inv, nil
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == ExitNoDriver {
			continue
		}
		if err != nil {
			found = fmt.Errorf("%w: %s: %w", ErrNone, t.name, err)
		}
	}
	return Inventory{}, found
}

func (t tool) ask(ctx context.Context, path string) (Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, t.args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			return Inventory{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return Inventory{}, err
	}
	return t.read(out)
}

func readJSON(out []byte) (Inventory, error) {
	var inv Inventory
	err := json.Unmarshal(out, &inv)
	return inv, err
}

// makers are words of product names that say nothing about the type.
var makers = map[string]bool{
	"nvidia": true, "tesla": true, "quadro": true, "geforce": true, "graphics": true, "amd": true,
	"instinct": true, "radeon": true, "huawei": true, "ascend": true, "generation": true,
}

// notType are words that end the type: form factors and sizes.
var notType = regexp.MustCompile(`^(sxm\d*|pcie|nvl|hbm\w*|\d+gb|\d+g|oam|laptop|gpu|ada|mig.*)$`)

// Type makes a gres type of a product name: "NVIDIA A100-SXM4-80GB" is a100,
// "NVIDIA GeForce RTX 4090" is rtx4090.
func Type(name string) string {
	var out string
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '/' }) {
		switch {
		case makers[word]:
			continue
		case out != "" && notType.MatchString(word):
			return out
		case out == "" || out == "rtx" || out == "gtx" || out == "titan" || word == "ti" || word == "super":
			out += word
		default:
			return out
		}
	}
	return out
}
