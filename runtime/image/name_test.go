package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/image"
)

var (
	pin   = "sha256:" + strings.Repeat("ab", 32)
	other = "sha256:" + strings.Repeat("cd", 32)
)

func TestName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ref, want string
		class     error
		message   string
	}{
		{"registry.example.org/ml/cuda@" + pin, "registry.example.org/ml/cuda@" + pin, nil, ""},
		{"registry.example.org:5000/ml/cuda:12.4@" + pin, "registry.example.org:5000/ml/cuda@" + pin, nil, ""},
		{"ubuntu@" + pin, "docker.io/library/ubuntu@" + pin, nil, ""},
		{"docker://nvcr.io/nvidia/pytorch@" + pin, "nvcr.io/nvidia/pytorch@" + pin, nil, ""},
		{"nvcr.io#nvidia/pytorch:24.01-py3@" + pin, "nvcr.io/nvidia/pytorch@" + pin, nil, ""},
		{"registry.example.org/ml/cuda:12.4", "", container.ErrPin, "image registry.example.org/ml/cuda:12.4 is not pinned: write it as registry.example.org/ml/cuda@sha256:..."},
		{"ubuntu", "", container.ErrPin, "image ubuntu is not pinned: write it as docker.io/library/ubuntu@sha256:..."},
		{"ubuntu@sha256:short", "", container.ErrImage, `image "ubuntu@sha256:short": invalid reference format`},
		{"", "", container.ErrImage, `image "": invalid reference format`},
	}
	for _, tt := range tests {
		t.Run(tt.ref, func(t *testing.T) {
			t.Parallel()
			got, d, err := image.Name(tt.ref)
			if tt.class != nil {
				if !errors.Is(err, tt.class) || err.Error() != tt.message {
					t.Errorf("error %v, want %q", err, tt.message)
				}
				return
			}
			if got != tt.want || d.String() != pin || err != nil {
				t.Errorf("got %s, %s, %v; want %s", got, d, err, tt.want)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, message string
		err           error
	}{
		{"digest", "", image.CheckPin("cuda", digest.Digest(pin), digest.Digest(pin))},
		{"other digest", "image cuda is pinned to " + pin + " but the node has " + other, image.CheckPin("cuda", digest.Digest(pin), digest.Digest(other))},
		{"driver", "", image.CheckDriver("cuda12.4", "550.54.14", "550.54.14")},
		{"newer driver", "", image.CheckDriver("cuda12.4", "550.100", "550.54.14")},
		{"no minimum", "", image.CheckDriver("cpu", "", "")},
		{"older driver", "image cuda12.4 needs GPU driver 550.54.14 or newer but the node has 535.183.01", image.CheckDriver("cuda12.4", "535.183.01", "550.54.14")},
		{"no driver", "image cuda12.4 needs GPU driver 550.54.14 or newer but the node has none", image.CheckDriver("cuda12.4", "", "550.54.14")},
		{"odd driver", `image cuda12.4 needs GPU driver 550.54.14 or newer: version "N/A" is not dotted numbers`, image.CheckDriver("cuda12.4", "N/A", "550.54.14")},
		{"pool's driver", "", image.CheckDriverPin("550.90.07", "550.90.7")},
		{"no promise", "", image.CheckDriverPin("", "550.90.07")},
		{"pool's other driver", "the pool is pinned to GPU driver 550.90.07 but the node has 535.1", image.CheckDriverPin("550.90.07", "535.1")},
		{"pool without driver", "the pool is pinned to GPU driver 550.90.07 but the node has none", image.CheckDriverPin("550.90.07", "")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			switch {
			case tt.message == "" && tt.err != nil:
				t.Errorf("error %v", tt.err)
			case tt.message != "" && (!errors.Is(tt.err, container.ErrPin) || tt.err.Error() != tt.message):
				t.Errorf("error %v, want %q", tt.err, tt.message)
			}
		})
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"550", "550.0", 0}, {"550.9", "550.10", -1}, {"1.2.3", "1.2", 1}} {
		if got, err := image.CompareVersions(tt.a, tt.b); got != tt.want || err != nil {
			t.Errorf("%s to %s: %d, %v; want %d", tt.a, tt.b, got, err, tt.want)
		}
	}
}
