package container

import (
	"maps"
	"slices"
	"strings"
)

// jobWins are the variables, beside SLURM_* and SBATCHD_*, whose value from
// the job beats the image's: they name the GPUs that the job was given.
var jobWins = map[string]bool{
	"ASCEND_RT_VISIBLE_DEVICES": true,
	"ASCEND_VISIBLE_DEVICES":    true,
	"CUDA_VISIBLE_DEVICES":      true,
	"GPU_DEVICE_ORDINAL":        true,
	"HIP_VISIBLE_DEVICES":       true,
	"NVIDIA_VISIBLE_DEVICES":    true,
	"ROCR_VISIBLE_DEVICES":      true,
	"ZE_AFFINITY_MASK":          true,
}

// MergeEnv joins an image's environment and a job's by the rule users know
// from Pyxis: everything of the job is set, but a value already in the image
// wins, except for SLURM_*, SBATCHD_*, the lists of GPUs, and the names in
// override. The result is sorted by name; entries without '=' are dropped.
func MergeEnv(image, job, override []string) []string {
	merged := map[string]string{}
	for _, kv := range image {
		if name, value, ok := strings.Cut(kv, "="); ok {
			merged[name] = value
		}
	}
	inImage := maps.Clone(merged)
	for _, kv := range job {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		if _, has := inImage[name]; has && !beatsImage(name) && !slices.Contains(override, name) {
			continue
		}
		merged[name] = value
	}
	env := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		env = append(env, name+"="+merged[name])
	}
	return env
}

func beatsImage(name string) bool {
	return strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SBATCHD_") || jobWins[name]
}
