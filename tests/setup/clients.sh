#!/bin/sh
# clients.sh: installs the software that tests/clients runs on sbatchd. What cannot be installed is left out: its
# test is then skipped by name.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/setup/lib.sh"

for name in snakemake toil cwltool r-cran-batchtools r-cran-future.batchtools r-cran-rslurm clustershell openmpi-bin mpich; do
	(packages_install "$name") || say "$name could not be installed: its test will be skipped"
done
