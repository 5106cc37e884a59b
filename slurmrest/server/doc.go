// Package server answers the REST API: Slurm's /slurm and /slurmdb in every
// served version, /openapi/v3, sbatchd's own /sbatchd/v1, /metrics and /healthz.
//
// A handler authorises nobody and decides nothing. It has the Identity that
// package auth found, translates the request to a command of the Controller,
// and translates records of a snapshot back. Every handler is written once, for
// the newest version; package version makes older ones.
//
// Answers that the router gives (unknown URL, no identity, no JSON) are plain
// text, those of handlers carry Slurm's envelope of meta, errors and warnings;
// the number of the last error decides the status (errors.go).
//
// Decisions.
//
//   - A wrong method answers 404 like an unknown URL, not 405: that is what a
//     26.05.5 really does, its own table notwithstanding.
//   - A value of a type that can't be converted answers 200 with a warning and
//     does nothing, as Slurm does; a client that looks for job_id notices.
//   - A request relayed from inside a job sees its own user's jobs alone.
package server
