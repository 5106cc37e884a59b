// Package scheduler decides which job starts where: a pure function of one
// snapshot and a time. It plans beside the queue, which checks each decision
// again against the state of that moment. No I/O, no clock, no lock.
//
// Order is priority, then submission. When the first job of a partition has to
// wait, the nodes it will get are reserved from the moment they come free, and
// jobs behind it start only where they don't delay it (EASY backfill: Lifka,
// "The ANL/IBM SP scheduling system", 1995).
package scheduler
