// Package session is the list of sessions that must look the same on the real
// Slurm and on sbatchd: the text they are written in, how one is run, and the
// few rules that make two runs comparable.
//
// A session is a name and steps, one a line:
//
//	== held-job                     a session; "quiet" or "alone" may follow
//	# why it is here                a comment
//	file job.sh                     a file in the work directory, its text below
//	| #!/bin/sh
//	| sleep 60
//	alice$ sbatch -H -J $S job.sh   a command line for sh, as alice, bob or root#
//	< text                          a line of its standard input
//	pick jobs[].job_id              of JSON, only these values
//	wait $J1 RUNNING,COMPLETED      until the job is in one of these states
//	show slurm-$J1.out              a file, once it is there
//	alice> POST /slurm/v0.0.44/job/submit
//	| {"job": {}}                   a REST request and its body
//
// Every session has a work directory of its own, where commands start, and the
// variable S, a short name unlike any other session's, for its jobs. $J1, $J2
// are the ids of the jobs it made, in the order in which they were printed.
//
// A table is one session a row; {1}, {2} in its steps are the row's cells:
//
//	== table sbatch-time
//	alice$ sbatch -H -J $S --time={1} --wrap true
//	rows
//	| 10
//	| 1:00
//
// Cells are cut at " || ". A session is named after its file, its own name and its
// cells: sbatch/time/1:00.
//
// Sessions run side by side on one cluster, so each looks only at its own jobs.
// The quiet ones run first, while no job has run yet, and change nothing; those
// that are alone run one after the other at the end.
package session
