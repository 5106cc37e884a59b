package errno_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

func TestText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		e          errno.Errno
		name, text string
	}{
		{errno.Success, "SLURM_SUCCESS", "No error"},
		{errno.InvalidPartition, "ESLURM_INVALID_PARTITION_NAME", "Invalid partition name specified"},
		{errno.AccessDenied, "ESLURM_ACCESS_DENIED", "Access/permission denied"},
		{errno.ControllerConnect, "SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR",
			"Unable to contact slurm controller (connect failure)"},
		{errno.InvalidJobID, "ESLURM_INVALID_JOB_ID", "Invalid job id specified"},
		{errno.InvalidQOS, "ESLURM_INVALID_QOS", "Invalid qos specification"},
		{errno.SlurmdPrologFailed, "ESLURMD_PROLOG_FAILED", "Job prolog failed"},
		{errno.InvalidHetJobAndArray, "ESLURM_INVALID_HET_JOB_AND_ARRAY", "Unknown error 2145"},
		{errno.RESTAuthFail, "ESLURM_REST_AUTH_FAIL", "Authentication failure"},
		{errno.NotPermitted, "", "Operation not permitted"},
		{errno.Errno(2), "", "No such file or directory"},
		{errno.Errno(99999), "", "Unknown error 99999"},
	}
	for _, tt := range tests {
		if got := tt.e.Error(); got != tt.text {
			t.Errorf("%d: text %q, want %q", int(tt.e), got, tt.text)
		}
		if got := tt.e.Name(); got != tt.name {
			t.Errorf("%d: name %q, want %q", int(tt.e), got, tt.name)
		}
	}
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("submit: %w", errno.InvalidAccount)
	if !errors.Is(err, errno.InvalidAccount) || errors.Is(err, errno.InvalidQOS) {
		t.Fatal("errors.Is does not see through a wrap")
	}
	if e, ok := errno.Of(err); !ok || e != errno.InvalidAccount {
		t.Fatalf("Of: %v %v", e, ok)
	}
	if _, ok := errno.Of(errors.New("other")); ok {
		t.Fatal("Of found an errno in a plain error")
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	all := errno.All()
	if len(all) < 300 {
		t.Fatalf("only %d numbers", len(all))
	}
	for _, e := range all {
		if got, ok := errno.ParseName(e.Name()); !ok || got != e {
			t.Errorf("ParseName(%s) = %d, %v", e.Name(), int(got), ok)
		}
		if got, err := errno.ParseNumber(fmt.Sprint(int(e))); err != nil || got != e {
			t.Errorf("ParseNumber(%d) = %d, %v", int(e), int(got), err)
		}
	}
	for _, bad := range []string{"", "x", "1999", "-2", "99999"} {
		if _, err := errno.ParseNumber(bad); err == nil {
			t.Errorf("ParseNumber(%q) took it", bad)
		}
	}
}
