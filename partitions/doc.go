// Package partitions loads and checks the configuration: what may run where.
//
// A configuration is a slurm.conf and the files it includes, in Slurm's syntax.
// Load reads them, fills in defaults, checks every rule and returns one
// immutable Config, or all faults at once with file and line. The controller
// loads it at start and at each reload; "sbatchd check" prints Summary or the
// faults; scheduler, pools and REST read it. It contacts nothing, starts
// nothing and knows no job: what it can't see in the files it does not decide.
//
// Decisions.
//
//   - Slurm's keys keep Slurm's meaning, default and spelling, so a site's own
//     slurm.conf loads as it is. A Slurm key we don't act on is one warning, a
//     key nobody knows is a fault.
//   - JobFileAppend defaults to 1, not to Slurm's 0: after a reclaim the first
//     run's output must survive.
//   - SuspendTime and ResumeTimeout default to 300 s and 900 s when the file has
//     pools: Slurm's "never" and 60 s would cost money and lose slow machines.
//   - A node is named after its pool, "<pool>-<n>", so pool names and static
//     node names share one name space.
package partitions
