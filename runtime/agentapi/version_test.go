package agentapi_test

import (
	"testing"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		ownMajor, ownMinor   uint32
		peerMajor, peerMinor uint32
		want                 uint32
		fails                bool
	}{
		{"same", 1, 3, 1, 3, 3, false},
		{"peer one behind", 1, 3, 1, 2, 2, false},
		{"peer one ahead", 1, 3, 1, 4, 3, false},
		{"peer two behind", 1, 3, 1, 1, 0, true},
		{"other major", 2, 0, 1, 0, 0, true},
	} {
		got, err := agentapi.Negotiate(tc.ownMajor, tc.ownMinor, tc.peerMajor, tc.peerMinor)
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: got %d, %v", tc.name, got, err)
		}
	}
}
