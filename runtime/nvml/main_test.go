package main

import (
	"bytes"
	"errors"
	"testing"
)

// TestWithoutDriver runs where there is no GPU, which is where it must be clear.
func TestWithoutDriver(t *testing.T) {
	for _, command := range []string{"inventory", "cdi"} {
		var out bytes.Buffer
		err := app(&out).Run([]string{"sbatchd-gpu", command})
		if err == nil {
			t.Skip("this machine has a GPU")
		}
		if !errors.Is(err, errNoDriver) || out.Len() != 0 {
			t.Errorf("%s: got %v and output %q", command, err, out.String())
		}
	}
}
