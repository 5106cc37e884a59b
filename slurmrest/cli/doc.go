// Package cli holds Slurm's commands and sburst, one file each, over the REST
// API.
//
// A command is a Command in the registry: its options as data, and a function
// from Env and parsed options to an error that knows its exit status. Env holds
// all of the world a command may touch, so tests run the real commands in
// process. Options are read by getopt_long's rules (package option) and handed
// to urfave/cli as exact words; urfave prints help and completions.
//
// Commands decide nothing: what a job may do is the controller's business. They
// import client, option, format, step and wire, never the controller, and stay
// small: bin/slurm starts in a few milliseconds.
package cli
