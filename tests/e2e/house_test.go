//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// services are what all tests share: started once, stopped by TestMain.
type services struct {
	rig   *rig.Rig
	image string // the job image, pinned by digest
	s3    rig.S3
	s3Err error
}

var shared = sync.OnceValues(func() (*services, error) {
	r, err := rig.New("e2e")
	if err != nil {
		return nil, err
	}
	s := &services{rig: r}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	registry, err := r.Registry(ctx)
	if err != nil {
		return s, err
	}
	if s.image, err = r.Image(ctx, registry, "e2e/jobs"); err != nil {
		return s, err
	}
	s.s3, s.s3Err = r.S3(ctx)
	return s, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if s, _ := shared(); s != nil { //nolint:errcheck // the tests said it
		if err := s.rig.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the services:", err)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

// site is what a test wants its controller to be.
type site struct {
	runtime string // process or containerd; "" is containerd as root
	workdir string // "" is sync
	market  string // "" is one offer that is free and always there
	slurm   string // more lines of slurm.conf
	pools   string // in place of the usual pool "p"
	pool    string // more keys of the usual pool
	nodes   int    // of the usual pool; 0 is 2
	s3      bool   // checkpoints go to S3 rather than to a folder
	driver  string // what the nodes' sbatchd-gpu says of a GPU that is not there; "" is the real one
}

// house is a running controller with its users.
type house struct {
	*rig.Rig
	t          *testing.T
	ctl        *rig.Controller
	alice, bob *rig.User
	image      string
}

// needRoot skips a test that wants users and namespaces.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: users and namespaces")
	}
}

// open starts a controller for a test and closes it with it, looking for what
// was left.
func open(t *testing.T, s site) *house {
	t.Helper()
	needRoot(t)
	services, err := shared()
	if err != nil {
		t.Fatalf("the shared services: %v", err)
	}
	r, err := rig.New("e2e")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Rig: r, t: t, image: services.image}
	t.Cleanup(h.close)
	h.alice, h.bob = h.user("alice"), h.user("bob")
	if s.driver != "" {
		h.pretendDriver(s.driver)
	}
	cfg := h.config(s)
	if s.s3 {
		if services.s3Err != nil {
			t.Skip(services.s3Err)
		}
		cfg.Slurm += "CheckpointStore=" + services.s3.StoreURL() + "\n"
		cfg.Env = append(cfg.Env, services.s3.Env()...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if h.ctl, err = r.Controller(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	return h
}

// pretendDriver runs the test with copies of the programs, of which sbatchd-gpu
// is a script that tells of one GPU under a driver of the given version.
func (h *house) pretendDriver(version string) {
	h.t.Helper()
	bin := h.Path("bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.CopyFS(bin, os.DirFS(h.Bin)); err != nil {
		h.t.Fatal(err)
	}
	inventory := `{"source":"nvml","driver":"` + version + `","gpus":[{"index":0,"uuid":"GPU-0","name":"A100","type":"a100","memoryMiB":81920}]}`
	program := filepath.Join(bin, "sbatchd-gpu")
	if err := errors.Join(os.Remove(program), os.WriteFile(program, []byte("#!/bin/sh\necho '"+inventory+"'\n"), 0o755)); err != nil {
		h.t.Fatal(err)
	}
	h.Bin = bin
}

// config writes a site out.
func (h *house) config(s site) rig.Config {
	if s.runtime == "" {
		s.runtime = "containerd"
	}
	if s.workdir == "" {
		s.workdir = "sync"
	}
	if s.nodes == 0 {
		s.nodes = 2
	}
	images := "ImageName=jobs Ref=" + h.image + "\n"
	market := ""
	if s.market != "" {
		market = " Market=" + h.MarketPath()
	}
	pools := images + "ProviderName=here Type=local Trust=own" + market + "\n"
	if s.pools != "" {
		pools += s.pools
	} else {
		pools += fmt.Sprintf("PoolName=p Provider=here CPUs=4 RealMemory=4000 MaxNodes=%d Runtime=%s Workdir=%s %s\n", s.nodes, s.runtime, s.workdir, s.pool)
	}
	partitions := ""
	if !strings.Contains(s.slurm, "PartitionName=") {
		partitions = "PartitionName=main Pools=p Default=YES MaxTime=1:00:00 DefaultTime=10:00 Image=jobs\n"
	}
	return rig.Config{
		Slurm:  "SuspendTime=20\nResumeTimeout=60\n" + partitions + s.slurm,
		Pools:  pools,
		Market: s.market,
	}
}

// close ends everything and fails the test over what is left.
func (h *house) close() {
	if h.t.Failed() && h.ctl != nil {
		h.t.Logf("the controller's log ends:\n%s", h.ctl.LogTail(40))
	}
	ctx := context.WithoutCancel(h.t.Context())
	if h.ctl != nil {
		if err := h.ctl.GiveBack(ctx, 90*time.Second); err != nil {
			h.t.Error(err)
		}
		if err := h.ctl.Stop(); err != nil {
			h.t.Error(err)
		}
	}
	if left := h.Leaks(ctx, 15*time.Second); len(left) > 0 {
		h.t.Errorf("left on the machine:\n%s", strings.Join(left, "\n"))
		h.Reap()
	}
	if err := h.Close(); err != nil {
		h.t.Error(err)
	}
}

// root is the administrator.
func (h *house) root() *rig.User { return h.Admin() }

func (h *house) user(name string) *rig.User {
	h.t.Helper()
	u, err := h.User(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

// run runs a command as a user, whatever its exit status.
func (h *house) run(u *rig.User, argv ...string) rig.Result {
	h.t.Helper()
	result, err := h.ctl.As(h.t.Context(), rig.Cmd{User: u}, argv...)
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

// must runs a command that has to succeed and returns what it printed.
func (h *house) must(u *rig.User, argv ...string) string {
	h.t.Helper()
	result := h.run(u, argv...)
	if result.Code != 0 {
		h.t.Fatalf("%s: %v", strings.Join(argv, " "), result)
	}
	return result.Stdout
}

// script writes a script into the user's folder and returns its name.
func (h *house) script(u *rig.User, name, text string) string {
	h.t.Helper()
	if err := h.WriteTo(u, filepath.Join(u.Home, name), text); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// sbatch submits and returns the job's id.
func (h *house) sbatch(u *rig.User, args ...string) string {
	h.t.Helper()
	return strings.TrimSpace(h.must(u, append([]string{"sbatch", "--parsable"}, args...)...))
}

// job is a job as scontrol shows it: field by field.
func (h *house) job(id string) map[string]string {
	h.t.Helper()
	fields := map[string]string{}
	for word := range strings.FieldsSeq(h.must(h.root(), "scontrol", "--oneliner", "show", "job", id)) {
		if name, value, ok := strings.Cut(word, "="); ok {
			fields[name] = value
		}
	}
	return fields
}

// finals are the states a job ends in.
var finals = []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}

// ended waits until a job has ended and checks how.
func (h *house) ended(id, state string, within time.Duration) map[string]string {
	h.t.Helper()
	var job map[string]string
	h.eventually(within, "job "+id+" to be "+state, func() (bool, string, error) {
		job = h.job(id)
		now := job["JobState"]
		if now != state && slices.Contains(finals, now) {
			return false, "", fmt.Errorf("it is %s, reason %s, exit code %s", now, job["Reason"], job["ExitCode"])
		}
		return now == state, now + " " + job["Reason"], nil
	})
	return job
}

// started waits until a job runs.
func (h *house) started(id string, within time.Duration) map[string]string {
	h.t.Helper()
	return h.ended(id, "RUNNING", within)
}

// eventually is rig.Eventually that fails the test.
func (h *house) eventually(within time.Duration, what string, f func() (bool, string, error)) {
	h.t.Helper()
	ctx, cancel := context.WithTimeoutCause(h.t.Context(), within, fmt.Errorf("%s is over", within))
	defer cancel()
	if err := rig.Eventually(ctx, what, f); err != nil {
		h.t.Fatal(err)
	}
}

// read returns a file of the user's folder, "" while it is not there.
func (h *house) read(u *rig.User, name string) string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(u.Home, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return string(data)
}

// ownedBy says whether a file is a user's.
func ownedBy(info os.FileInfo, u *rig.User) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == u.UID && stat.Gid == u.GID
}

// shows waits until a file of the user's holds a text.
func (h *house) shows(u *rig.User, name, text string, within time.Duration) {
	h.t.Helper()
	h.eventually(within, name+" to show "+text, func() (bool, string, error) {
		got := h.read(u, name)
		return strings.Contains(got, text), got, nil
	})
}
