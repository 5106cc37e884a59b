// Package queue owns every job, node and ledger row. It is the only writer:
// everyone else sends it a command or reads a snapshot.
//
// Run is a loop: it takes one command, drains what else waits without waiting
// itself, applies each to a candidate state (so that it sees those before it),
// commits all events and changed rows in one transaction, publishes the
// candidate and answers everyone. The previous commit's fsync is the batching
// window. Memory is never ahead of disk: after a failed commit it is unknown
// whether the batch is in, so Run returns and the process starts again.
//
// A command decides with the state of its moment and a time read once per
// batch; the change itself is state.Apply. The inbox is bounded; full means
// Slurm's retryable error.
package queue
