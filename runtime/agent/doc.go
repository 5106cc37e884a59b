// Package agent is what slurmd is to Slurm: one process per node that registers,
// takes orders, prepares jobs, hands each to a shim, ships what they write, saves
// what they computed before a reclaim, and reports.
//
// The life of an attempt is one goroutine (job.go) that goes through the same steps
// whether it starts afresh or is found again after the agent was killed:
//
//	order.pb ──> prepare ──> launch ──> watch ──> finish ──> (Release) ──> gone
//	             image,      shim       signals,  results,
//	             staging,               saves,    output acked,
//	             restore                the end   container gone
//
// Its folder (package attempt) says how far it got: progress.json is written after
// each step, and each step may be done twice. What the controller must know goes
// through the journal and is repeated until acknowledged.
//
// Decisions:
//   - Two lifetimes: the context of Run is the agent's; cancelling it leaves every
//     job running. A job is ended through its shim only.
//   - The agent holds no lock across I/O and knows nothing that is not on disk or
//     in the controller, except credentials of the checkpoint store.
//   - After a reclaim notice whatever way a job ends is reported as reclaimed, and
//     only after its checkpoint is safe: the controller may start it elsewhere at
//     once.
//
// It must not import the controller; the shim it knows only as a program.
package agent
