// Package sim runs the whole controller on fake time: the real queue,
// scheduler, agent hub and pools, against a scripted cloud and machines that
// are modelled in the tests. Each seed is one history of submissions, faults,
// reclaims, cut links and controllers killed between any two commits; what must
// always hold is checked against the machines' own truth.
//
// make sim runs it; -sim.seeds and -sim.seed choose how many histories, and
// which one.
package sim
