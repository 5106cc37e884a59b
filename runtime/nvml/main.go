// Command sbatchd-gpu tells about NVIDIA GPUs: `inventory` prints the devices as
// JSON (gpu.Inventory), `cdi` their CDI specification. It is the only program of
// ours that needs cgo and so a glibc; the agent starts it and does without it where
// it cannot run. Exit status 3 means that there is no driver.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/runtime/gpu"
)

// version is set by the build.
var version = "dev"

func main() {
	err := app(os.Stdout).Run(os.Args)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "sbatchd-gpu:", err)
	if errors.Is(err, errNoDriver) {
		os.Exit(gpu.ExitNoDriver)
	}
	os.Exit(1)
}

func app(out io.Writer) *cli.App {
	return &cli.App{
		Name: "sbatchd-gpu", Usage: "GPUs of this machine, as JSON", Version: version,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		Commands: []*cli.Command{
			{Name: "inventory", Usage: "devices, driver and CUDA version", Action: func(*cli.Context) error { return inventory(out) }},
			{Name: "cdi", Usage: "CDI specification of the devices", Action: func(*cli.Context) error { return cdi(out) }},
			{Name: "version", Usage: "version of this program", Action: func(*cli.Context) error {
				_, err := fmt.Fprintln(out, version)
				return err
			}},
		},
	}
}

var errNoDriver = errors.New("no NVIDIA driver on this machine")

// call turns NVML's results into errors.
func call(what string, r nvml.Return) error {
	switch r { //nolint:exhaustive // the others are told by their text
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("%w: %s", errNoDriver, nvml.ErrorString(r))
	}
	return fmt.Errorf("%s: %s", what, nvml.ErrorString(r))
}

// withNVML runs do with the library loaded.
func withNVML(do func() error) (err error) {
	if err := call("load NVML", nvml.Init()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, call("unload NVML", nvml.Shutdown())) }()
	return do()
}

func inventory(out io.Writer) error {
	return withNVML(func() error {
		inv, err := look()
		if err != nil {
			return err
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(inv)
	})
}

func look() (*gpu.Inventory, error) {
	inv := &gpu.Inventory{Source: "nvml"}
	driver, r := nvml.SystemGetDriverVersion()
	if err := call("driver version", r); err != nil {
		return nil, err
	}
	inv.Driver = driver
	cuda, r := nvml.SystemGetCudaDriverVersion_v2()
	if err := call("CUDA version", r); err != nil {
		return nil, err
	}
	inv.CUDA = fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)
	n, r := nvml.DeviceGetCount()
	if err := call("count devices", r); err != nil {
		return nil, err
	}
	for i := range n {
		g := gpu.GPU{Index: i, Minor: i}
		if err := describe(&g); err != nil {
			// One dead GPU ("fallen off the bus") must not hide the others.
			g.Fault = err.Error()
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	return inv, nil
}

func describe(g *gpu.GPU) error {
	d, r := nvml.DeviceGetHandleByIndex(g.Index)
	if err := call("open device", r); err != nil {
		return err
	}
	if g.Name, r = d.GetName(); r != nvml.SUCCESS {
		return call("name", r)
	}
	g.Type = gpu.Type(g.Name)
	if g.UUID, r = d.GetUUID(); r != nvml.SUCCESS {
		return call("UUID", r)
	}
	if g.Minor, r = d.GetMinorNumber(); r != nvml.SUCCESS {
		return call("minor number", r)
	}
	// Memory shared with the host (GB10) is not NVML's to tell: then it is 0.
	if m, r := d.GetMemoryInfo(); r == nvml.SUCCESS {
		g.MemoryMiB = m.Total >> 20
	}
	if p, r := d.GetPciInfo(); r == nvml.SUCCESS {
		g.PCI = text(p.BusId[:])
	}
	g.Fault = fault(d)
	return nil
}

// fault is what makes a device unfit, where the driver can tell.
func fault(d nvml.Device) string {
	if pending, r := d.GetRetiredPagesPendingStatus(); r == nvml.SUCCESS && pending == nvml.FEATURE_ENABLED {
		return "memory pages are to be retired: the machine needs a restart"
	}
	if _, _, pending, failed, r := d.GetRemappedRows(); r == nvml.SUCCESS {
		if failed {
			return "memory row remapping failed"
		}
		if pending {
			return "memory rows are to be remapped: the GPU needs a reset"
		}
	}
	if n, r := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); r == nvml.SUCCESS && n > 0 {
		return fmt.Sprintf("%d uncorrected memory errors since the driver was loaded", n)
	}
	return ""
}

// text is a C string of fixed length.
func text[T int8 | uint8](c []T) string {
	var out []byte
	for _, b := range c {
		if b == 0 {
			break
		}
		out = append(out, byte(b))
	}
	return string(out)
}

// hookProgram makes the driver's libraries known inside a container; NVIDIA's
// container toolkit brings it.
const hookProgram = "nvidia-cdi-hook"

// cdi prints the specification, with each device under its UUID and its index.
func cdi(out io.Writer) error {
	return withNVML(func() error {
		opts := []nvcdi.Option{
			nvcdi.WithVendor("nvidia.com"), nvcdi.WithClass("gpu"),
		}
		var namers []nvcdi.DeviceNamer
		for _, strategy := range []string{nvcdi.DeviceNameStrategyUUID, nvcdi.DeviceNameStrategyIndex} {
			namer, err := nvcdi.NewDeviceNamer(strategy)
			if err != nil {
				return fmt.Errorf("CDI: %w", err)
			}
			namers = append(namers, namer)
		}
		opts = append(opts, nvcdi.WithDeviceNamers(namers...))
		if path, err := exec.LookPath(hookProgram); err == nil {
			opts = append(opts, nvcdi.WithNVIDIACDIHookPath(path))
		} else {
			fmt.Fprintf(os.Stderr, "sbatchd-gpu: no %s: containers must find the driver's libraries by themselves\n", hookProgram)
			opts = append(opts, nvcdi.WithDisabledHooks(nvcdi.AllHooks))
		}
		lib, err := nvcdi.New(opts...)
		if err != nil {
			return fmt.Errorf("CDI: %w", err)
		}
		spec, err := lib.GetSpec()
		if err != nil {
			return fmt.Errorf("CDI: %w", err)
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(spec.Raw())
	})
}
