package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// statuses is the one table from Slurm's errors to HTTP, as Slurm 26.05 has it.
// Ranges come after the numbers that are listed by themselves.
var statuses = map[errno.Errno]int{
	errno.Success:                     http.StatusOK,
	errno.RESTFailParsing:             http.StatusBadRequest,
	errno.RESTInvalidJobsDesc:         http.StatusBadRequest,
	errno.RESTBadRequest:              http.StatusBadRequest,
	errno.RESTAuthFail:                http.StatusUnauthorized,
	errno.NotPermitted:                http.StatusForbidden,
	errno.InvalidJobID:                http.StatusNotFound,
	errno.RESTUnknownURL:              http.StatusNotFound,
	errno.URLInvalidPath:              http.StatusNotFound,
	errno.RESTUnknownURLMethod:        http.StatusMethodNotAllowed,
	errno.DataTooLarge:                http.StatusRequestEntityTooLarge,
	errno.DataUnknownMimeType:         http.StatusUnsupportedMediaType,
	errno.HTTPUnknownAcceptMimeType:   http.StatusUnsupportedMediaType,
	errno.RESTInvalidQuery:            http.StatusUnprocessableEntity,
	errno.DataPathNotFound:            http.StatusUnprocessableEntity,
	errno.DataParseBadInput:           http.StatusUnprocessableEntity,
	errno.ControllerConnect:           http.StatusBadGateway,
	errno.ControllerReceive:           http.StatusBadGateway,
	errno.DBConnection:                http.StatusBadGateway,
	errno.ProtocolSocketImplTimeout:   http.StatusGatewayTimeout,
	errno.ProtocolAuthenticationError: http.StatusNetworkAuthenticationRequired,
	errno.Busy:                        http.StatusTooManyRequests,
	errno.Backoff:                     http.StatusTooManyRequests,
}

// status is the HTTP status of an answer whose last error is e.
func status(e errno.Errno) int {
	if s, ok := statuses[e]; ok {
		return s
	}
	switch {
	case e >= errno.InvalidPartition && e <= errno.InvalidSLUID, e >= errno.DBConnection && e < errno.FedClusterMaxCnt:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// numberOf is the Slurm error that a client is told. An error that isn't one
// of Slurm's is the controller's own trouble: whether the command took effect
// is then unknown to it.
func numberOf(err error) errno.Errno {
	if e, ok := errno.Of(err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errno.ProtocolSocketImplTimeout
	}
	return errno.ControllerReceive
}
