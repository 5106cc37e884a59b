package gpu

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// readNvidiaSMI reads nvidia-smi's CSV: index, uuid, name, memory.total (MiB),
// driver_version, pci.bus_id.
func readNvidiaSMI(out []byte) (Inventory, error) {
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = 6
	rows, err := r.ReadAll()
	if err != nil {
		return Inventory{}, err
	}
	inv := Inventory{Source: "nvidia-smi"}
	for _, row := range rows {
		index, err := strconv.Atoi(row[0])
		if err != nil {
			return Inventory{}, fmt.Errorf("index %q: %w", row[0], err)
		}
		g := GPU{Index: index, Minor: index, UUID: row[1], Name: row[2], Type: Type(row[2]), PCI: row[5]}
		// "[N/A]" for memory shared with the host (GH200, GB10): then it is not known.
		if g.MemoryMiB, err = strconv.ParseUint(row[3], 10, 64); err != nil && !strings.HasPrefix(row[3], "[") {
			return Inventory{}, fmt.Errorf("memory %q: %w", row[3], err)
		}
		inv.Driver = row[4]
		inv.GPUs = append(inv.GPUs, g)
	}
	return inv, nil
}

// readRocmSMI reads rocm-smi --json: an object per card, values as text.
func readRocmSMI(out []byte) (Inventory, error) {
	var cards map[string]map[string]string
	if err := json.Unmarshal(out, &cards); err != nil {
		return Inventory{}, err
	}
	inv := Inventory{Source: "rocm-smi", Driver: cards["system"]["Driver version"]}
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		number, ok := strings.CutPrefix(name, "card")
		index, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		card := cards[name]
		product := first(card, "Card Series", "Card series", "Card Model", "Card model")
		bytes, err := strconv.ParseUint(card["VRAM Total Memory (B)"], 10, 64)
		if err != nil {
			return Inventory{}, fmt.Errorf("%s: memory: %w", name, err)
		}
		inv.GPUs = append(inv.GPUs, GPU{
			Index: index, Minor: index, UUID: card["Unique ID"], Name: product, Type: Type(product), MemoryMiB: bytes >> 20,
		})
	}
	slices.SortFunc(inv.GPUs, func(a, b GPU) int { return a.Index - b.Index })
	return inv, nil
}

func first(m map[string]string, names ...string) string {
	for _, n := range names {
		if m[n] != "" {
			return m[n]
		}
	}
	return ""
}

// Lines of npu-smi's table: a device's first line has its number, name and health,
// its second the bus and, last, used and total memory.
var (
	npuVersion = regexp.MustCompile(`npu-smi\s+\S+\s+Version:\s*(\S+)`)
	npuFirst   = regexp.MustCompile(`^\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|`)
	npuSecond  = regexp.MustCompile(`^\|\s*\d+(?:\s+\d+)?\s*\|\s*([0-9A-Fa-f:.]+)\s*\|.*?(\d+)\s*/\s*(\d+)\s*\|\s*$`)
)

// readNpuSMI reads npu-smi info, a table for people.
func readNpuSMI(out []byte) (Inventory, error) {
	inv := Inventory{Source: "npu-smi"}
	if m := npuVersion.FindSubmatch(out); m != nil {
		inv.Driver = string(m[1])
	}
	var now *GPU
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := npuSecond.FindStringSubmatch(line); m != nil && now != nil {
			total, err := strconv.ParseUint(m[3], 10, 64)
			if err != nil {
				return Inventory{}, err
			}
			now.PCI, now.MemoryMiB = m[1], total
			inv.GPUs = append(inv.GPUs, *now)
			now = nil
			continue
		}
		if m := npuFirst.FindStringSubmatch(line); m != nil {
			index, err := strconv.Atoi(m[1])
			if err != nil {
				return Inventory{}, err
			}
			now = &GPU{Index: index, Minor: index, UUID: "npu-" + m[1], Name: "Ascend " + m[2], Type: "ascend" + strings.ToLower(m[2])}
			if m[3] != "OK" {
				now.Fault = "npu-smi: " + m[3]
			}
		}
	}
	return inv, nil
}
