package queue_test

import (
	"errors"
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

func TestUpdatePartition(t *testing.T) {
	h := newHouse(t, newMemory())
	h.submit(submission())
	name := h.Snapshot().Config.DefaultPartition().Name
	for _, tt := range []struct {
		what string
		by   queue.PartitionChange
		want error
	}{
		{"state", queue.PartitionChange{Name: name, Values: map[string]string{"state": "DOWN"}}, nil},
		{"create", queue.PartitionChange{Name: "extra", Create: true, Values: map[string]string{"MaxTime": "10"}}, nil},
		{"create again", queue.PartitionChange{Name: "extra", Create: true}, errno.InvalidPartition},
		{"unknown", queue.PartitionChange{Name: "nowhere"}, errno.InvalidPartition},
		{"unknown node", queue.PartitionChange{Name: name, Values: map[string]string{"Nodes": "nowhere"}}, errno.InvalidNodeName},
		{"delete in use", queue.PartitionChange{Name: name, Delete: true}, errno.PartitionInUse},
		{"delete", queue.PartitionChange{Name: "extra", Delete: true}, nil},
	} {
		if err := h.UpdatePartition(t.Context(), root, tt.by); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
	}
	if err := h.UpdatePartition(t.Context(), alice, queue.PartitionChange{Name: name}); !errors.Is(err, errno.AccessDenied) {
		t.Errorf("by alice: %v", err)
	}
	cfg := h.Snapshot().Config
	if cfg.Partition(name).State != "DOWN" || cfg.Partition("extra") != nil {
		t.Errorf("%+v", cfg.Partitions)
	}
}
