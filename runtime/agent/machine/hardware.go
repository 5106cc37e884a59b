// Package machine is what the agent has around it: the hardware it reports, the GPUs
// it gives out, its own containerd, the way to the outside, and the start of shims. The
// program sbatchd-node puts these together with the agent, which knows them as
// functions of its Config.
package machine

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/gpu"
)

// Hardware is what the node reports: what its configuration declares, as with
// Slurm's config_overrides, and what the machine has where nothing is declared.
func Hardware(cfg agentapi.Config, inv gpu.Inventory, now int64) (*agentapi.Hardware, error) {
	arch, release, name := system()
	h := &agentapi.Hardware{
		Cpus: uint32(cpuCount()), MemoryMib: memoryMiB("MemTotal"), TmpDiskMib: diskMiB("/tmp"),
		DriverVersion: inv.Driver, CudaVersion: inv.CUDA,
		Arch: arch, Os: name, Kernel: release,
		Sockets: 1, ThreadsPerCore: 1, BootTimeUnix: now - int64(attempt.BootTime().Seconds()),
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("hardware: %w", err)
	}
	h.Host = host
	if cfg.CPUs > 0 {
		h.Cpus = uint32(cfg.CPUs)
	}
	if cfg.MemoryMiB > 0 {
		h.MemoryMib = uint64(cfg.MemoryMiB)
	}
	h.CoresPerSocket = h.Cpus
	if h.Gpus, err = gpus(cfg.Gres, inv); err != nil {
		return nil, fmt.Errorf("hardware: %w", err)
	}
	return h, nil
}

// gpus are the declared ones, with what is known of the real ones in their place, or
// the real ones that are sound.
func gpus(declared string, inv gpu.Inventory) ([]*agentapi.Gpu, error) {
	var real []*agentapi.Gpu
	for _, g := range inv.GPUs {
		if g.Fault == "" {
			real = append(real, &agentapi.Gpu{
				Index: uint32(g.Index), Uuid: g.UUID, Type: g.Type, MemoryMib: g.MemoryMiB, Name: g.Name,
			})
		}
	}
	if declared == "" {
		return real, nil
	}
	list, err := tres.ParseGres(declared)
	if err != nil {
		return nil, err
	}
	var out []*agentapi.Gpu
	for _, g := range list {
		if g.Name != "gpu" {
			continue
		}
		for range g.Count {
			d := &agentapi.Gpu{Index: uint32(len(out))}
			if len(out) < len(real) {
				d = real[len(out)]
			}
			if g.Type != "" {
				d.Type = g.Type
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// cpuCount is the number of CPUs this process may use.
func cpuCount() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return runtime.NumCPU()
	}
	return set.Count()
}

// memoryMiB reads a line of /proc/meminfo; 0 when it is not there.
func memoryMiB(name string) uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name+":")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			return 0
		}
		return kib >> 10
	}
	return 0
}

func diskMiB(path string) uint64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return st.Blocks * uint64(st.Bsize) >> 20
}

// Load is the node's load now: the one-minute average times 100, and free memory.
func Load() (cpuLoad uint32, freeMemoryMiB uint64) {
	data, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		if fields := strings.Fields(string(data)); len(fields) > 0 {
			if load, err := strconv.ParseFloat(fields[0], 64); err == nil {
				cpuLoad = uint32(load * 100)
			}
		}
	}
	return cpuLoad, memoryMiB("MemAvailable")
}

// system is what uname says, as Slurm shows it: the machine's name for its
// architecture (x86_64), the kernel's release, and the system with both.
func system() (arch, release, name string) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOARCH, "", ""
	}
	release = unix.ByteSliceToString(u.Release[:])
	name = unix.ByteSliceToString(u.Sysname[:]) + " " + release + " " + unix.ByteSliceToString(u.Version[:])
	return unix.ByteSliceToString(u.Machine[:]), release, name
}
