package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agent/machine"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Config is what an agent is and what it works with.
type Config struct {
	agentapi.Config
	StateDir string // its own folder, 0711; secrets in it are 0600
	RunDir   string // what jobs may enter: scripts, sockets, work directories, commands
	Version  string

	Dial agentapi.Dialer // the controller
	Now  func() time.Time
	// Open gives the driver of a runtime, to take away what a dead shim left.
	Open func(ctx context.Context, runtime string) (container.Runtime, error)
	// StartShim starts the shim of a folder, in a session of its own. The channel is
	// closed once the job's script runs, or the shim has ended.
	StartShim func(dir string) (<-chan struct{}, error)
	Images    Images
	Hardware  *agentapi.Hardware
	Load      func() (cpuLoad uint32, freeMemoryMiB uint64)
	// GPUDevices gives the CDI devices, device nodes and environment of GPUs.
	GPUDevices func(ctx context.Context, gpus []*agentapi.Gpu, runtime string) (machine.GPUSetup, error)
	// HTTP reaches stores and registries, through the node's egress proxy if it has
	// one; nil is the default.
	HTTP http.RoundTripper
	// Poweroff ends the machine.
	Poweroff func(ctx context.Context) error
	// RedialMax bounds the wait between two tries to reach the controller.
	RedialMax time.Duration
	// SlurmCommands is the program behind srun, scontrol, ... in jobs; "" for none.
	SlurmCommands string
}

// Images makes container images available on the node.
type Images interface {
	// Ensure has the image on the node and gives the reference to start it by and
	// its digest. The error is one of container's classes.
	Ensure(ctx context.Context, image *agentapi.Image) (ref, digest string, err error)
}

// Agent is the node's daemon.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	dial     agentapi.Dialer
	hardware *agentapi.Hardware
	journal  *journal.Journal
	jobs     *errgroup.Group // the attempts' goroutines, all under Run
	jobsCtx  context.Context
	noticed  chan struct{} // closed at the first reclaim notice
	ended    chan struct{} // closed by a Shutdown order

	mu          sync.Mutex // protects the fields below
	session     *session
	linkUp      chan struct{} // closed when a session comes up
	store       *agentapi.CheckpointStore
	fence       time.Duration
	killWait    time.Duration
	beats       map[uint64]time.Duration
	lastContact time.Duration // CLOCK_BOOTTIME
	runs        map[journal.Attempt]*run
	notice      *notice
	gone        bool // jobs are being ended because the controller is lost
}

// New makes an agent; Run does everything.
func New(cfg Config, log *slog.Logger) *Agent {
	if cfg.RedialMax <= 0 {
		cfg.RedialMax = 15 * time.Second
	}
	return &Agent{
		cfg: cfg, log: log, dial: cfg.Dial, hardware: cfg.Hardware,
		noticed: make(chan struct{}), ended: make(chan struct{}), linkUp: make(chan struct{}),
		killWait: 30 * time.Second,
		beats:    map[uint64]time.Duration{}, runs: map[journal.Attempt]*run{},
	}
}

// ErrShutdown is Run's end after the controller's Shutdown order.
var ErrShutdown = errors.New("the controller ended this agent")

// Run serves the node until ctx ends, which leaves the jobs running, or the
// controller orders a shutdown.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.open(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer a.journal.Close() // every append was checked
	g, ctx := errgroup.WithContext(ctx)
	a.jobs, a.jobsCtx = g, ctx
	a.lastContact = attempt.BootTime()
	if err := a.recover(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := a.serveRelay(ctx, g); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	g.Go(func() error { return a.runLink(ctx) })
	g.Go(func() error { return a.watchNotice(ctx) })
	g.Go(func() error { return a.watchOrphan(ctx) })
	g.Go(func() error {
		select {
		case <-a.ended:
			return ErrShutdown
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *Agent) open() error {
	for _, dir := range []string{a.cfg.StateDir, a.jobsDir(), a.cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	j, err := journal.Open(a.cfg.StateDir)
	if err != nil {
		return err
	}
	a.journal = j
	return a.installCommands()
}

func (a *Agent) jobsDir() string { return filepath.Join(a.cfg.StateDir, "jobs") }

// bootFile has the boot that the folder's jobs belong to.
const bootFile = "boot.json"

// recover finds the attempts of an earlier agent and goes on with each. After a
// restart of the machine nothing of them runs, and nothing must be started again.
func (a *Agent) recover() error {
	var boot string
	known, err := attempt.Read(a.cfg.StateDir, bootFile, &boot)
	if err != nil {
		a.log.Error("boot of the last agent is not known", "err", err)
	}
	reboot := known && boot != bootID()
	entries, err := os.ReadDir(a.jobsDir())
	if err != nil {
		return err
	}
	var found []*run
	for _, e := range entries {
		k, ok := parseKey(e.Name())
		if !ok {
			continue
		}
		dir := filepath.Join(a.jobsDir(), e.Name())
		order, err := readOrder(dir)
		if err != nil || a.journal.IsReleased(k) {
			// Without its order nothing was started; a released one is only being removed.
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		a.log.Info("found a job of an earlier agent", "job", k.Job, "restart", k.Restart, "reboot", reboot)
		r := a.newRun(k, order, dir)
		r.reboot = reboot
		found = append(found, r)
	}
	for _, r := range found {
		a.start(r)
	}
	if err := attempt.Write(a.cfg.StateDir, bootFile, bootID(), true); err != nil {
		return err
	}
	return a.removeStrays()
}

// removeStrays takes away run folders that belong to no attempt.
func (a *Agent) removeStrays() error {
	entries, err := os.ReadDir(a.cfg.RunDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if k, ok := parseKey(e.Name()); ok && a.find(k) == nil {
			if err := os.RemoveAll(filepath.Join(a.cfg.RunDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return a.removeShared()
}

func (a *Agent) start(r *run) {
	a.mu.Lock()
	a.runs[r.key] = r
	a.mu.Unlock()
	a.jobs.Go(func() error { return r.run(a.jobsCtx) })
}

func (a *Agent) find(k journal.Attempt) *run {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[k]
}

func (a *Agent) forget(k journal.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.runs, k)
}

// attempts are the runs of this moment, by job and restart.
func (a *Agent) attempts() []*run {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]*run, 0, len(a.runs))
	for _, r := range a.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y *run) int {
		if x.key.Job != y.key.Job {
			return int(int64(x.key.Job) - int64(y.key.Job))
		}
		return int(int64(x.key.Restart) - int64(y.key.Restart))
	})
	return out
}

func (a *Agent) runtimes() []string {
	if a.cfg.Runtime == "containerd" {
		return []string{"containerd", "process"}
	}
	return []string{"process"}
}

func parseKey(name string) (journal.Attempt, bool) {
	var k journal.Attempt
	n, err := fmt.Sscanf(name, "%d.%d", &k.Job, &k.Restart)
	return k, err == nil && n == 2 && name == k.String()
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // a kernel without it: the controller compares what it gets
	}
	return strings.TrimSpace(string(data))
}
