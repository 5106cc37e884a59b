// Package client is the small Go client that the commands use to talk to the
// controller's REST API.
//
// Find looks for the controller where design says; a Client then has one method
// for each request. Errors that the controller answered come back as *Error,
// which unwraps to the errno.Errno whose text the commands print. A submission
// carries an idempotency key, so that it is retried safely when the connection
// is cut before the answer came.
//
// The package must stay light: bin/slurm starts in a few milliseconds. It
// imports wire, errno and the configuration's syntax, and decides nothing.
package client
