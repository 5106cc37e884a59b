package queue

import (
	"context"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// PartitionChange changes, creates or deletes a partition until the config is read
// again.
type PartitionChange struct {
	Name   string
	Create bool // it must not be there yet
	Delete bool
	Values map[string]string // keys of slurm.conf
}

// UpdatePartition is scontrol's update, create and delete of a partition.
func (q *Queue) UpdatePartition(ctx context.Context, who auth.Identity, c PartitionChange) error {
	return q.send(ctx, who.User, func(w *work) error {
		if err := w.may(who, actConfigure, "partition "+c.Name); err != nil {
			return err
		}
		have := w.Config.Partition(c.Name) != nil
		if have == c.Create {
			return errno.InvalidPartition
		}
		next, err := w.reshape(c)
		if err != nil {
			return err
		}
		if err := w.emit(state.Reconfigured{Config: next}); err != nil {
			return err
		}
		return w.emit(state.Audited{What: "partition " + c.Name, By: who.User, Allowed: true})
	})
}

func (w *work) reshape(c PartitionChange) (*partitions.Config, error) {
	if c.Delete {
		for j := range w.Jobs() {
			if !j.State.Final() && slices.Contains(strings.Split(j.Spec.Partitions, ","), c.Name) {
				return nil, errno.PartitionInUse
			}
		}
		return w.Config.WithoutPartition(c.Name), nil
	}
	next, err := w.Config.ChangePartition(c.Name, c.Values)
	if err != nil {
		w.q.log.Info("partition not changed", "partition", c.Name, "err", err)
		for key := range c.Values {
			if strings.EqualFold(key, "nodes") {
				return nil, errno.InvalidNodeName
			}
		}
		return nil, errno.InvalidPartition
	}
	return next, nil
}
