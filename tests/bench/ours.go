package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// sbatchd is the system of this tree: a controller with one pool of processes.
type sbatchd struct {
	rig  *rig.Rig
	ctl  *rig.Controller
	user *rig.User
	// rented says whether a job ran, and so a node must be given back.
	rented bool
}

func newOurs(_ context.Context) (system, error) {
	s := &sbatchd{}
	return s, nil
}

func (s *sbatchd) Fresh(ctx context.Context) error {
	if err := s.Close(); err != nil {
		return err
	}
	var err error
	if s.rig, err = rig.New("bench"); err != nil {
		return err
	}
	if s.user, err = s.rig.User(ctx, "alice"); err != nil {
		return err
	}
	s.ctl, err = s.rig.Controller(ctx, rig.Config{
		Slurm: "MaxJobCount=500000\nSuspendTime=600\nPartitionName=gpu Pools=p Default=YES DefaultTime=60 MaxTime=2-0\n",
		Pools: "ProviderName=here Type=local Trust=own\nPoolName=p Provider=here CPUs=64 RealMemory=256000 MaxNodes=1 Runtime=process Workdir=shared\n",
	})
	return err
}

func (s *sbatchd) REST(ctx context.Context) (endpoint, error) {
	result, err := s.ctl.As(ctx, rig.Cmd{User: s.rig.Admin()}, "scontrol", "token", "username="+s.user.Name, "lifespan=7200")
	if err != nil {
		return endpoint{}, err
	}
	token, ok := strings.CutPrefix(strings.TrimSpace(result.Stdout), "SLURM_JWT=")
	if !ok {
		return endpoint{}, fmt.Errorf("scontrol token: %v", result)
	}
	return endpoint{url: s.ctl.URL, version: "v0.0.44", user: s.user.Name, token: token, dir: "/tmp"}, nil
}

func (s *sbatchd) Version(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, rig.Source("bin", "squeue"), "--version")
	begin := time.Now()
	err := cmd.Run()
	return time.Since(begin), err
}

func (s *sbatchd) FirstLine(ctx context.Context) (time.Duration, time.Duration, error) {
	s.rented = true
	const inside = `rm -f first; date +%s%N; sbatch -Q -o first --wrap 'date +%s%N' >/dev/null; date +%s%N
		until [ -s first ]; do sleep 0.005; done; cat first`
	result, err := s.ctl.As(ctx, rig.Cmd{User: s.user}, "sh", "-c", inside)
	if err != nil {
		return 0, 0, err
	}
	if result.Code != 0 {
		return 0, 0, fmt.Errorf("sbatch: %v", result)
	}
	return between(result.Stdout)
}

func (s *sbatchd) RSS(context.Context) (int64, error) { return residentBytes(s.ctl.Pid()) }

// Close gives the nodes back before the controller stops.
func (s *sbatchd) Close() error {
	if s.rig == nil {
		return nil
	}
	var errs []error
	if s.ctl != nil && s.rented {
		errs = append(errs, s.ctl.GiveBack(context.Background(), time.Minute))
	}
	errs = append(errs, s.rig.Close())
	s.rig, s.ctl, s.rented = nil, nil, false
	return errors.Join(errs...)
}
