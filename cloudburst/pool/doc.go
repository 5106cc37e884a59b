// Package pool turns nodes that are to boot into rented machines and back. It
// reconciles: what providers list beats what the ledger remembers, and every
// step can be repeated safely.
//
//	node powers up ─► offers, ranked ─► intent in the ledger ─► Create ─► result in the ledger
//	                      │ refused                               │ unclear
//	                      ▼                                       ▼
//	      pool set aside, node given back            List by tag, then Create again
//
//	node powers down ─► Deleting in the ledger ─► Delete ─► List until it is gone ─► node given back
//
// Decisions, and what was refused:
//
//   - Which nodes power up or down is the queue's to decide; the pool only does
//     it. It changes no node, it tells the [NodeSink].
//   - The intent is committed before the provider is called, the result after.
//     A controller killed in between finds the intent at its next start, looks
//     for its tag and takes the machine or asks again with the same tag.
//   - A machine counts as gone only when List, having succeeded, no longer shows
//     it; a machine never seen in a list is given the provider's settle time
//     first. An answer that refuses (no capacity, quota, ...) to the first call
//     of a tag is believed at once, so that the job tries the next pool in the
//     same breath; the reaper would find a machine that came anyway.
//   - A pool whose provider refuses is set aside as a whole, with exponential
//     backoff, not its nodes: capacity is no property of a node.
//   - The reaper touches machines of its own cluster's UUID alone, and none of a
//     later epoch: then another controller leads.
//
// It imports nothing of the controller: serve.go implements [Ledger] and
// [NodeSink] on the queue.
package pool
