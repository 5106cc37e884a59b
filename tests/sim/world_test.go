package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/pool"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/launch"
	"github.com/sbatchd/sbatchd/sbatchd/ledger"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

const conf = `ClusterName=sim
SlurmctldHost=localhost
AgentListen=tcp:127.0.0.1:6817
RestListen=unix:/run/sim.sock
StateSaveLocation=/var/lib/sim
GresTypes=gpu
DefMemPerCPU=100
ResumeTimeout=90
SuspendTime=45
SlurmdTimeout=60
FenceTimeout=150
OrphanTimeout=600
MinJobAge=120
MaxBatchRequeue=3
ProviderName=acme Type=fake Trust=cloud
PoolName=spot Provider=acme CPUs=4 RealMemory=4000 Gres=gpu:a100:1-2 Capacity=spot MaxNodes=3 Runtime=process Workdir=none
%sNodeName=ws[1-2] CPUs=2 RealMemory=4000
PartitionName=main Pools=%s Nodes=ws[1-2] Default=YES MaxTime=60 DefaultTime=30
PartitionName=own Nodes=ws[1-2] MaxTime=60 DefaultTime=30
`

const bigPool = "PoolName=big Provider=acme Capacity=ondemand MaxNodes=2 Runtime=process Workdir=none\n"

// configs are the configuration with and without the pool big.
type configs struct{ with, without *partitions.Config }

func loadConfigs(t *testing.T) configs {
	t.Helper()
	load := func(text string) *partitions.Config {
		file := filepath.Join(t.TempDir(), "slurm.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := partitions.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	return configs{
		with:    load(fmt.Sprintf(conf, bigPool, "spot,big")),
		without: load(fmt.Sprintf(conf, "", "spot")),
	}
}

// fixed is what all worlds share and none changes.
type fixed struct {
	configs
	authority *agentapi.Authority
}

// world is one history.
type world struct {
	*fixed
	t     *testing.T
	rng   *rand.Rand // of the driver alone
	ctx   context.Context
	wg    sync.WaitGroup
	cfg   *partitions.Config
	cloud *fake.Cloud
	disk  *disk
	spool *spool
	truth *truth
	log   *slog.Logger

	accepted map[uint32]bool    // ids that were answered
	unsure   []queue.Submission // without an answer
	keys     int

	mu       sync.Mutex
	machines map[string]*machine // that exist, by name
	deaf     int                 // deletes that are answered and not done
	ctl      *controller         // nil while none runs
	starts   int
}

// controller is one life of sbatchd.
type controller struct {
	ctx  context.Context
	kill context.CancelFunc
	done chan struct{}
	conn *connection
	q    *queue.Queue
	hub  *launch.Hub
	pool *pool.Pool
}

// sqlEvery: each such history is kept in a real database.
const sqlEvery = 25

func newWorld(t *testing.T, ctx context.Context, f *fixed, seed int64, log *slog.Logger) *world {
	w := &world{
		fixed: f, t: t, rng: rand.New(rand.NewSource(seed)), ctx: ctx, cfg: f.with, log: log,
		disk: newDisk(t), spool: &spool{size: map[string]int64{}}, truth: newTruth(),
		accepted: map[uint32]bool{}, machines: map[string]*machine{},
	}
	seconds := func(most int) time.Duration { return time.Duration(w.rng.Intn(most+1)) * time.Second }
	spot, big := fake.Simple("a100", 2, true), fake.Simple("none", 0, false)
	spot.CPUs, spot.MemoryMiB = 4, 4000
	big.GPUs = cloudburst.GPUs{}
	small := big
	small.InstanceType, small.CPUs, small.Price.Micros = "fake-small", 4, 4e5
	w.cloud = fake.New(fake.Config{
		Offers: []fake.Offer{spot, big, small}, BootDelay: 10*time.Second + seconds(40), DeleteDelay: seconds(20),
		ListLag: seconds(15), GoneLinger: seconds(30), Latency: time.Duration(w.rng.Intn(900)) * time.Millisecond,
	})
	if seed%sqlEvery == 0 {
		w.disk.sql = filepath.Join(w.t.TempDir(), "state.db")
	}
	w.cloud.Watch(w.booted, w.gone)
	w.spawn(func() { _ = w.cloud.Run(ctx) }) // it ends with ctx
	for i := range 2 {
		name := fmt.Sprintf("ws%d", i+1)
		m := newMachine(w, name, name, name, 2, 0, w.rng.Int63())
		w.machines[name] = m
		m.boot()
	}
	return w
}

func (w *world) spawn(do func()) { w.wg.Go(do) }

// booted starts a rented machine.
func (w *world) booted(i cloudburst.Instance, r cloudburst.Request) {
	cpus, gpus := r.Offer.CPUs, r.Offer.GPUs.Count
	m := newMachine(w, string(i.ID), i.NodeName, string(i.Tag), cpus, gpus, int64(len(i.ID))+time.Now().UnixNano())
	m.ended = func() { w.gone(i); _ = w.cloud.Open("self").Delete(w.ctx, i.ID) } // the fake forgets nothing
	w.mu.Lock()
	w.machines[m.name] = m
	w.mu.Unlock()
	m.boot()
}

// gone ends a machine for good.
func (w *world) gone(i cloudburst.Instance) {
	w.mu.Lock()
	m := w.machines[string(i.ID)]
	delete(w.machines, string(i.ID))
	w.mu.Unlock()
	if m != nil {
		m.crash()
	}
}

// hub is the present controller's, nil while there is none.
func (w *world) hub() (*launch.Hub, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctl == nil {
		return nil, nil
	}
	return w.ctl.hub, w.ctl.ctx
}

// now is the present controller, nil while there is none.
func (w *world) now() *controller {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ctl
}

// start brings a controller up on what the disk holds.
func (w *world) start() {
	w.starts++
	conn := w.disk.open()
	q, err := queue.Open(w.ctx, w.cfg, conn, time.Now, w.log)
	if err != nil {
		w.t.Errorf("open: %v", err)
		return
	}
	c := &controller{conn: conn, q: q, done: make(chan struct{})}
	c.hub = launch.New(launch.Config{
		Jobs: q, Output: w.spool, Authority: w.authority, Users: people{}, REST: http.NotFoundHandler(),
		Version: "sim", Now: time.Now, Log: w.log,
	})
	c.pool, err = pool.New(pool.Config{
		Ledger: ledger.Of(q), Nodes: ledger.Of(q), Now: time.Now, Rand: rand.New(rand.NewSource(w.rng.Int63())), Log: w.log,
		Open: func(p *partitions.Provider) (cloudburst.Provider, error) {
			return unreliable{w.cloud.Open(p.Name), w}, nil
		},
		Agent: func(pool.Row, *partitions.Pool) (cloudburst.AgentConfig, error) { return cloudburst.AgentConfig{}, nil },
	})
	if err != nil {
		w.t.Errorf("pool: %v", err)
		return
	}
	ctx, kill := context.WithCancel(w.ctx)
	g, ctx := errgroup.WithContext(ctx)
	c.ctx, c.kill = ctx, kill
	for _, run := range []func(context.Context) error{
		q.Run, q.Schedule, c.pool.Run, func(ctx context.Context) error { return c.hub.Run(ctx) },
	} {
		g.Go(func() error { return run(ctx) })
	}
	w.mu.Lock()
	w.ctl = c
	w.mu.Unlock()
	w.spawn(func() {
		if err := g.Wait(); err != nil && !errors.Is(err, errCrash) && !errors.Is(err, context.Canceled) {
			w.truth.wrong("the controller stopped: %v", err)
		}
		kill()
		w.mu.Lock()
		w.ctl = nil
		w.mu.Unlock()
		if err := conn.Close(); err != nil {
			w.truth.wrong("close: %v", err)
		}
		close(c.done)
	})
}

// stop kills the controller: nothing is committed from here on.
func (w *world) stop() {
	if c := w.now(); c != nil {
		c.conn.kill()
		c.kill()
		<-c.done
	}
}

// unreliable answers some deletes without doing them.
type unreliable struct {
	cloudburst.Provider
	w *world
}

func (u unreliable) Delete(ctx context.Context, id cloudburst.InstanceID) error {
	u.w.mu.Lock()
	deaf := u.w.deaf > 0
	if deaf {
		u.w.deaf--
	}
	u.w.mu.Unlock()
	if deaf {
		return nil
	}
	return u.Provider.Delete(ctx, id)
}

func (u unreliable) Interruptions(ctx context.Context) ([]cloudburst.Interruption, error) {
	return u.Provider.(cloudburst.Interrupter).Interruptions(ctx)
}

func (u unreliable) Extend(ctx context.Context, id cloudburst.InstanceID, until time.Time) error {
	return u.Provider.(cloudburst.AutoReleaser).Extend(ctx, id, until)
}

// people is a host where every uid has an account.
type people struct{}

func (people) ByName(context.Context, string) (auth.Account, error) {
	return auth.Account{}, auth.ErrUnknownUser
}

func (people) ByUID(_ context.Context, uid uint32) (auth.Account, error) {
	return auth.Account{Name: fmt.Sprint(uid), UID: uid, Home: "/"}, nil
}

// spool is the durable output of all attempts.
type spool struct {
	mu   sync.Mutex
	size map[string]int64
}

// Files lie outside of the work directory: output goes through the spool.
func (s *spool) Files(*job.Job) (out, err string) { return "/elsewhere/out", "" }

func (s *spool) Prepare(context.Context, *job.Job, bool) (bool, error) { return false, nil }

func (s *spool) Append(_ context.Context, j *job.Job, stream string, offset int64, data []byte) (int64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := j.Run.Attempt.String() + stream
	if end := offset + int64(len(data)); offset <= s.size[key] && end > s.size[key] {
		s.size[key] = end
	}
	return s.size[key], false, nil
}

func (s *spool) Size(a job.Attempt, stream string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size[a.String()+stream], nil
}

func (s *spool) Settle(context.Context, *job.Job) string { return "" }

// some picks a machine at random, nil for none.
func (w *world) some(rented bool) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name, m := range w.machines {
		if rented == (m.ended != nil) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return w.machines[names[w.rng.Intn(len(names))]]
}
