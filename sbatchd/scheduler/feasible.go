package scheduler

import (
	"strings"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Feasible says whether the job could ever run on the partition's nodes, were
// they all empty and up. Errors are Slurm's.
func Feasible(s *state.State, spec *job.Spec, part *partitions.Partition) error {
	need, err := NeedOf(spec, part, s.Config)
	if err != nil {
		return err
	}
	only, exclude := nodeSets(spec)
	names := part.NodeNames()
	inPart := map[string]bool{}
	features := map[string]bool{}
	var rooms []room
	for _, name := range names {
		inPart[name] = true
		n, ok := s.Node(name)
		if !ok {
			continue
		}
		for _, f := range n.Features {
			features[f] = true
		}
		if exclude[name] || len(only) > 0 && !only[name] || !need.Features.holds(n.Features) {
			continue
		}
		if pool := s.Config.Pool(n.Pool); pool != nil && Forbidden(spec.Burst, pool) != "" {
			continue
		}
		rooms = append(rooms, empty(n))
	}
	for name := range only {
		if _, ok := s.Node(name); !ok {
			return errno.InvalidNodeName
		}
		if !inPart[name] {
			return errno.RequestedNodesNotInPartition
		}
	}
	if !need.Features.knownAmong(allFeatures(s)) {
		return errno.InvalidFeature
	}
	if _, ok := need.place(rooms); !ok {
		return errno.RequestedNodeConfigUnavailable
	}
	return nil
}

func allFeatures(s *state.State) map[string]bool {
	out := map[string]bool{}
	for n := range s.Nodes() {
		for _, f := range n.Features {
			out[f] = true
		}
	}
	return out
}

// SplitPartitions lists the partitions a spec names.
func SplitPartitions(spec *job.Spec) []string { return strings.Split(spec.Partitions, ",") }
