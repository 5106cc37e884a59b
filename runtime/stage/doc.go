// Package stage moves a job's work directory: to its node before it starts, and
// what the job changed back afterwards (Workdir=sync).
//
// The agent calls In and Out; the controller serves the submit directory with a
// Host. Both reach files with the rights of the job's user alone, and never
// through a link that leaves the directory. It moves no checkpoints and no
// output.
//
// Decisions. The node remembers what it was given (size, time, hash): only what
// differs from that comes back, under the hash of what it replaces. If the user
// changed the same file meanwhile, theirs stays and the job's comes beside it as
// <name>.job-<id>. Nothing is deleted on the submit side. Files appear whole, by
// a rename. Everything may be repeated after a cut. Refused: rsync's rolling
// hashes (results are mostly new files) and one archive (a cut starts it over).
package stage
