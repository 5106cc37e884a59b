// Package clients runs software that others wrote for Slurm on sbatchd.
//
// Two kinds. What Debian packages (Snakemake 7, Toil with CWL, batchtools,
// future.batchtools, rslurm, ClusterShell, Open MPI, MPICH) is installed by
// tests/setup/clients.sh and runs a small workflow to its end; what is not
// there is skipped by name. What cannot be had here (Nextflow, Snakemake 8's
// plugin, submitit, dask-jobqueue, Open OnDemand, batchspawner, AiiDA, Parsl,
// TorchX, Lightning) is replayed: the calls it makes, and what it reads from the
// answers.
//
// One controller with one node of processes serves them all; each test has a
// folder of its own.
package clients
