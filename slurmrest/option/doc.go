// Package option knows every option of sbatch, srun and salloc, once.
//
// The table (table.go) says for each option its long and short name, whether
// it takes an argument, which commands have it, the environment variables
// that set it, what sbatchd does with it, and how its value is checked. The
// command line, #SBATCH and #BURST lines, SBATCH_* variables, --help and the
// printed table all come from there.
//
// Parsing has two passes, as in Slurm. Early looks at the command line alone
// and finds the script; Parse then lays defaults, directives, environment and
// command line over each other, later ones winning. Options are read by
// getopt_long's rules (getopt.go), directives by sbatch's (script.go).
//
// The result is a Values for each component of the job. Job turns one into
// the body of a REST submission; Environ makes the environment that travels
// with it. The commands call this package; the server imports it for the
// types Burst and Error alone. It reads no clock, file or variable by itself:
// all of that comes in with Input.
package option
