// Package launch speaks to the nodes: it serves the agent link, orders jobs
// onto nodes and passes what agents report to the queue.
//
// Orders are derived from the newest snapshot, never remembered: whatever the
// state says a node should be doing and has not acknowledged in this session is
// sent. Each order has an id that follows from what it is about, so that an
// order repeated after a restart of either side is done once.
package launch
