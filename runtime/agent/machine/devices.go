package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/gpu"
)

// GPUSetup is how a job gets its GPUs.
type GPUSetup struct {
	CDI     []string
	Devices []container.Device
	Env     []string
}

// Devices gives jobs their GPUs.
type Devices struct {
	Inventory gpu.Inventory
	// CDIDir is where the specification of the GPUs is put, "" for none: then a
	// container gets the device nodes alone.
	CDIDir string
}

const cdiFile = "sbatchd-nvidia.json"

// WriteCDI puts the specification that sbatchd-gpu made where containers look for it.
func (d *Devices) WriteCDI(spec []byte) error {
	if err := os.MkdirAll(d.CDIDir, 0o755); err != nil {
		return fmt.Errorf("CDI: %w", err)
	}
	if err := attempt.WriteBytes(d.CDIDir, cdiFile, spec, false); err != nil {
		return fmt.Errorf("CDI: %w", err)
	}
	return os.Chmod(filepath.Join(d.CDIDir, cdiFile), 0o644)
}

// Setup is what a job with those GPUs gets. A declared GPU that the machine does not
// have is a number only: so a pool can be tried out on a machine without any.
func (d *Devices) Setup(_ context.Context, gpus []*agentapi.Gpu, runtime string) (GPUSetup, error) {
	var s GPUSetup
	if len(gpus) == 0 {
		// Without a word CUDA programs would take all that a plain process sees.
		if runtime != "containerd" && len(d.Inventory.GPUs) > 0 {
			s.Env = []string{"CUDA_VISIBLE_DEVICES="}
		}
		return s, nil
	}
	var visible []string
	for n, g := range gpus {
		real := d.find(g)
		switch {
		case real != nil && runtime == "containerd" && d.CDIDir != "":
			s.CDI = append(s.CDI, "nvidia.com/gpu="+real.UUID)
			visible = append(visible, strconv.Itoa(n)) // it sees no others
		case real != nil:
			visible = append(visible, strconv.Itoa(real.Index))
		default:
			visible = append(visible, strconv.FormatUint(uint64(g.GetIndex()), 10))
		}
	}
	list := strings.Join(visible, ",")
	name := "CUDA_VISIBLE_DEVICES"
	switch d.Inventory.Source {
	case "rocm-smi":
		name = "ROCR_VISIBLE_DEVICES"
	case "npu-smi":
		name = "ASCEND_RT_VISIBLE_DEVICES"
	}
	s.Env = []string{name + "=" + list, "GPU_DEVICE_ORDINAL=" + list}
	return s, nil
}

func (d *Devices) find(g *agentapi.Gpu) *gpu.GPU {
	for i := range d.Inventory.GPUs {
		real := &d.Inventory.GPUs[i]
		if g.GetUuid() == real.UUID || g.GetUuid() == "" && int(g.GetIndex()) == real.Index {
			return real
		}
	}
	return nil
}
