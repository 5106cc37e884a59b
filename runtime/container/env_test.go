package container_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/runtime/container"
)

func TestMergeEnv(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                       string
		image, job, override, want []string
	}{
		{"nothing", nil, nil, nil, []string{}},
		{"both are set", []string{"A=image"}, []string{"B=job"}, nil, []string{"A=image", "B=job"}},
		{"the image wins", []string{"PATH=/opt/bin"}, []string{"PATH=/home/alice/bin"}, nil, []string{"PATH=/opt/bin"}},
		{"unless named", []string{"A=image", "B=image"}, []string{"A=job", "B=job"}, []string{"B"}, []string{"A=image", "B=job"}},
		{"or Slurm's", []string{"SLURM_JOB_ID=1", "SBATCHD_X=1"}, []string{"SLURM_JOB_ID=2", "SBATCHD_X=2"}, nil, []string{"SBATCHD_X=2", "SLURM_JOB_ID=2"}},
		{
			"or the GPUs",
			[]string{"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES="},
			[]string{"NVIDIA_VISIBLE_DEVICES=void", "CUDA_VISIBLE_DEVICES=0,1"},
			nil,
			[]string{"CUDA_VISIBLE_DEVICES=0,1", "NVIDIA_VISIBLE_DEVICES=void"},
		},
		{"the job's last word", nil, []string{"A=1", "A=2", "broken"}, nil, []string{"A=2"}},
		{"empty in the image is a value", []string{"A="}, []string{"A=job"}, nil, []string{"A="}},
		{"values with =", []string{"A=x=y"}, []string{"B=="}, nil, []string{"A=x=y", "B=="}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, container.MergeEnv(tt.image, tt.job, tt.override)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk full")
	err := fmt.Errorf("start job-1.0: %w", container.Failf(container.ErrInfra, "make folder: %w", cause))
	if !errors.Is(err, container.ErrInfra) || !errors.Is(err, cause) || errors.Is(err, container.ErrUser) {
		t.Errorf("classes of %v", err)
	}
	if got, want := err.Error(), "start job-1.0: make folder: disk full"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if container.Fail(container.ErrUser, nil) != nil {
		t.Error("no error has a class")
	}
	if !errors.Is(&container.StartError{}, container.ErrUser) {
		t.Error("a StartError is not the job's fault")
	}
}
