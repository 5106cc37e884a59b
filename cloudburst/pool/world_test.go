package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/pool"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
	"github.com/sbatchd/sbatchd/partitions"
)

const uuid = "11111111-2222-4333-8444-555555555555"

const config = `ClusterName=test
SlurmctldHost=localhost
GresTypes=gpu
StateSaveLocation=/nonexistent
Include pools.conf
PartitionName=gpu Pools=spot,big Default=YES
`

const pools = `ProviderName=acme Type=fake
PoolName=spot Provider=acme Gres=gpu:a100:1-2 Capacity=spot MaxNodes=4 MaxPrice=3.00
PoolName=big Provider=acme Gres=gpu:h100:8 Capacity=ondemand MaxNodes=2
`

// load reads a configuration the way the controller does.
func load(t *testing.T, pools string) *partitions.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"slurm.conf": config, "pools.conf": pools} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := partitions.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// books is the queue as far as the pool sees it: committed state that outlives
// a killed controller.
type books struct {
	mu      sync.Mutex
	config  *partitions.Config
	nodes   map[string]*pool.Node
	rows    map[cloudburst.Tag]*pool.Row
	marks   map[string]string // pool -> why it is set aside
	story   []string
	watch   map[chan struct{}]bool
	bounced map[string]int // NotRented and lost, by node
}

func newBooks(c *partitions.Config) *books {
	b := &books{
		config: c, nodes: map[string]*pool.Node{}, rows: map[cloudburst.Tag]*pool.Row{},
		marks: map[string]string{}, watch: map[chan struct{}]bool{}, bounced: map[string]int{},
	}
	for _, p := range c.Pools {
		for _, name := range p.NodeNames() {
			b.nodes[name] = &pool.Node{Name: name, Pool: p.Name}
		}
	}
	return b
}

func (b *books) changed(format string, args ...any) {
	b.story = append(b.story, fmt.Sprintf(format, args...))
	for c := range b.watch {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// asked counts the calls that ask for machines.
func (w *world) asked() (n int) {
	for _, c := range w.cloud.Calls() {
		if c.Op == "offers" || c.Op == "create" {
			n++
		}
	}
	return n
}

// up and down are the queue's decisions; a node without a machine is down at
// once.
func (b *books) up(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		n := b.nodes[name]
		n.PoweringUp, n.Instance = true, ""
		n.Incarnation++
		b.changed("up %s", name)
	}
}

func (b *books) down(name, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[name]
	n.PoweringUp, n.PoweringDown, n.Why = false, n.Instance != "", why
	b.changed("down %s", name)
}

func (b *books) node(name string) pool.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.nodes[name]
}

func (b *books) live() (rows []pool.Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tag := range slices.Sorted(maps.Keys(b.rows)) {
		if r := b.rows[tag]; r.Live() {
			rows = append(rows, *r)
		}
	}
	return rows
}

// lost counts how often a node was given back or lost its machine.
func (b *books) lost(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bounced[name]
}

func (b *books) mark(pool string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.marks[pool]
}

func (b *books) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.story, "; ")
}

func (b *books) Snapshot() pool.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := pool.Snapshot{Config: b.config, ClusterUUID: uuid, Epoch: 1}
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		s.Nodes = append(s.Nodes, *b.nodes[name])
	}
	for _, tag := range slices.Sorted(maps.Keys(b.rows)) {
		s.Rows = append(s.Rows, *b.rows[tag])
	}
	return s
}

func (b *books) Watch() (<-chan struct{}, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan struct{}, 1)
	b.watch[c] = true
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watch, c)
	}
}

func (b *books) Intend(_ context.Context, r pool.Row) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[r.Node]
	if n == nil || !n.PoweringUp || n.Incarnation != r.Incarnation || n.Instance != "" {
		return false, nil
	}
	if b.rows[r.Tag] != nil {
		return false, errors.New("the tag is known")
	}
	b.rows[r.Tag], n.Instance = &r, r.Tag
	b.changed("intent %s", r.Node)
	return true, nil
}

func (b *books) Learn(_ context.Context, tag cloudburst.Tag, edit func(*pool.Row)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rows[tag]; r != nil {
		before := *r
		edit(r)
		if *r != before {
			b.changed("%s %s", r.State, r.Node)
		}
	}
	return nil
}

func (b *books) Adopt(_ context.Context, r pool.Row) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows[r.Tag] == nil {
		b.rows[r.Tag] = &r
		b.changed("adopt %s", r.Node)
	}
	return nil
}

func (b *books) Gone(_ context.Context, tag cloudburst.Tag, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rows[tag]
	if r == nil || r.State == pool.Gone {
		return nil
	}
	r.State = pool.Gone
	if n := b.nodes[r.Node]; n != nil && n.Instance == tag {
		if !n.PoweringDown {
			b.bounced[n.Name]++
		}
		n.PoweringUp, n.PoweringDown, n.Instance, n.ReclaimAt = false, false, "", time.Time{}
	}
	b.changed("gone %s (%s)", r.Node, why)
	return nil
}

func (b *books) NotRented(_ context.Context, name string, incarnation uint32, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[name]
	if n == nil || n.Incarnation != incarnation || !n.PoweringUp || n.Instance != "" {
		return nil
	}
	n.PoweringUp = false
	b.bounced[name]++
	b.changed("not rented %s (%s)", name, why)
	return nil
}

func (b *books) Notice(_ context.Context, name string, at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[name].ReclaimAt = at
	b.changed("notice %s", name)
	return nil
}

func (b *books) MarkPool(_ context.Context, name string, until time.Time, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks[name] = why
	b.changed("mark %s", name)
	return nil
}

// world is a cloud, the books and a controller that can be killed and started
// again.
type world struct {
	*testing.T
	cloud *fake.Cloud
	books *books
	pool  *pool.Pool
	stop  func()
	seed  int64
	log   *slog.Logger
}

func newWorld(t *testing.T, cfg fake.Config) *world {
	t.Helper()
	return worldOf(t, fake.New(cfg), newBooks(load(t, pools)))
}

func worldOf(t *testing.T, cloud *fake.Cloud, b *books) *world {
	t.Helper()
	w := &world{T: t, cloud: cloud, books: b, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	w.start(b, b, nil)
	return w
}

// start runs a controller on the ledger. wrap, if given, stands between it and
// the cloud.
func (w *world) start(l pool.Ledger, n pool.NodeSink, wrap func(cloudburst.Provider) cloudburst.Provider) {
	w.Helper()
	w.seed++
	p, err := pool.New(pool.Config{
		Ledger: l, Nodes: n, Now: time.Now, Rand: rand.New(rand.NewSource(w.seed)), Log: w.log,
		Timeout: 20 * time.Second,
		Open: func(c *partitions.Provider) (cloudburst.Provider, error) {
			p := w.cloud.Open(c.Name)
			if wrap != nil {
				p = wrap(p)
			}
			return p, nil
		},
		Agent: func(r pool.Row, _ *partitions.Pool) (cloudburst.AgentConfig, error) {
			return cloudburst.AgentConfig{JoinToken: "s3cret-" + r.Node}, nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }() // ends with ctx
	w.pool = p
	w.stop = func() { cancel(); <-done }
	w.Cleanup(cancel)
}

// eventually waits, on the bubble's clock, until ok holds.
func (w *world) eventually(what string, within time.Duration, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: not within %s; cloud %v; story: %s", what, within, w.cloud.Live(), w.books.told())
		}
	}
}

// rented says that a node has exactly the machine the ledger knows.
func (w *world) rented(name string) bool {
	n := w.books.node(name)
	for _, r := range w.books.live() {
		if r.Tag == n.Instance && r.State == pool.Created {
			return true
		}
	}
	return false
}

// agree checks that the cloud has exactly the machines of live rows, and that
// no tag has two.
func (w *world) agree() bool {
	have := map[cloudburst.Tag]int{}
	for _, i := range w.cloud.Live() {
		have[i.Tag]++
	}
	rows := w.books.live()
	for _, r := range rows {
		if have[r.Tag] != 1 {
			return false
		}
	}
	return len(have) == len(rows)
}
