package image

import (
	"errors"
	"syscall"
	"testing"

	"github.com/sbatchd/sbatchd/runtime/container"
)

func TestFits(t *testing.T) {
	t.Parallel()
	if err := fits("cuda", "/var/lib/containerd", 100<<20, 351<<20); err != nil {
		t.Error(err)
	}
	err := fits("cuda", "/var/lib/containerd", 4<<30, 10<<30)
	want := "pull cuda: it needs about 14337 MiB in /var/lib/containerd and there are 10240 MiB: no space left on device"
	if !errors.Is(err, container.ErrInfra) || !errors.Is(err, syscall.ENOSPC) || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
