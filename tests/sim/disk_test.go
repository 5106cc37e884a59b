package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
)

// uuid is the cluster's.
const uuid = "11111111-2222-4333-8444-555555555555"

// disk is durable state that outlives controllers. Rows are kept as JSON, so
// that nothing in memory leaks through a crash. With sql set, controllers load
// from and commit to a database, and the rows here are a copy for the checks.
type disk struct {
	t   *testing.T
	sql string // path of an sqlstore; empty is none

	mu      sync.Mutex
	epoch   uint64
	next    uint32
	jobs    map[uint32][]byte
	gone    map[uint32]bool // forgotten: not loaded
	runs    map[job.Attempt][]byte
	nodes   map[string][]byte
	insts   map[string][]byte
	blobs   map[string][]byte
	keys    []store.IdempotencyKey
	acct    []assoc.Row
	kinds   map[string]int // events, by kind
	commits int
	crashAt int  // commit that does not return well; 0 is none
	applied bool // whether that commit takes effect all the same
	slow    time.Duration
}

func newDisk(t *testing.T) *disk {
	return &disk{
		t: t, jobs: map[uint32][]byte{}, gone: map[uint32]bool{}, runs: map[job.Attempt][]byte{},
		nodes: map[string][]byte{}, insts: map[string][]byte{}, blobs: map[string][]byte{}, kinds: map[string]int{},
	}
}

// open is a controller's connection: Load takes leadership from the one before.
func (d *disk) open() *connection { return &connection{disk: d} }

type connection struct {
	*disk
	mine uint64
	dead bool
	db   *sqlstore.Store
}

var errCrash = errors.New("the power went out")

func (c *connection) Load(ctx context.Context) (*store.Loaded, error) {
	d := c.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch++
	c.mine = d.epoch
	if d.sql != "" {
		var err error
		if c.db, err = sqlstore.Open(ctx, sqlstore.Config{Path: d.sql, ClusterUUID: uuid, Log: slog.New(slog.DiscardHandler)}); err != nil {
			return nil, err
		}
		return c.db.Load(ctx)
	}
	l := &store.Loaded{ClusterUUID: uuid, Epoch: d.epoch, NextJobID: d.next, Idempotency: slices.Clone(d.keys), Records: slices.Clone(d.acct)}
	for id, row := range d.jobs {
		if !d.gone[id] {
			l.Jobs = append(l.Jobs, decode[job.Job](d.t, row))
		}
	}
	for _, row := range d.nodes {
		l.Nodes = append(l.Nodes, decode[node.Node](d.t, row))
	}
	for _, row := range d.insts {
		l.Instances = append(l.Instances, decode[node.Instance](d.t, row))
	}
	return l, nil
}

// kill makes the connection's coming commits fail.
func (c *connection) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *connection) Commit(ctx context.Context, b *store.Batch) error {
	d := c.disk
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	time.Sleep(slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.dead {
		return errCrash
	}
	if c.mine != d.epoch {
		return store.ErrNotLeader
	}
	d.commits++
	if d.crashAt > 0 && d.commits >= d.crashAt {
		d.crashAt, c.dead = 0, true
		if !d.applied {
			return errCrash
		}
		return errors.Join(errCrash, c.write(ctx, b))
	}
	return c.write(ctx, b)
}

func (c *connection) write(ctx context.Context, b *store.Batch) error {
	if c.db != nil {
		if err := c.db.Commit(ctx, b); err != nil {
			return err
		}
	}
	c.disk.write(b)
	return nil
}

func (d *disk) write(b *store.Batch) {
	for _, j := range b.Jobs {
		d.jobs[j.ID.Raw] = encode(d.t, j)
	}
	for _, r := range b.Runs {
		d.runs[r.Attempt] = encode(d.t, r)
	}
	for _, n := range b.Nodes {
		d.nodes[n.Name] = encode(d.t, n)
	}
	for _, i := range b.Instances {
		d.insts[i.Tag] = encode(d.t, i)
	}
	for _, blob := range b.Blobs {
		d.blobs[blob.Hash] = slices.Clone(blob.Data)
	}
	for _, id := range b.Forget {
		d.gone[id] = true
	}
	for _, name := range b.DropNodes {
		delete(d.nodes, name)
	}
	if b.NextJobID != 0 {
		d.next = b.NextJobID
	}
	d.keys, d.acct = append(d.keys, b.Idempotency...), append(d.acct, b.Records...)
	for _, e := range b.Events {
		d.kinds[e.Kind]++
	}
}

// slowness is how long each commit takes from now on.
func (d *disk) slowness(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = t
}

// crash lets the controller die at one of the coming commits.
func (d *disk) crash(in int, applied bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashAt, d.applied = d.commits+in, applied
}

// job reads a job's row.
func (d *disk) job(id uint32) *job.Job {
	d.mu.Lock()
	defer d.mu.Unlock()
	row, ok := d.jobs[id]
	if !ok {
		return nil
	}
	return decode[job.Job](d.t, row)
}

// has says whether a job has a row, and how many there are.
func (d *disk) has(id uint32) (is bool, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, is = d.jobs[id]
	return is, len(d.jobs)
}

// run reads an attempt's row.
func (d *disk) run(a job.Attempt) *job.Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	row, ok := d.runs[a]
	if !ok {
		return nil
	}
	return decode[job.Run](d.t, row)
}

// instances reads the ledger.
func (d *disk) instances() map[string]*node.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*node.Instance{}
	for tag, row := range d.insts {
		out[tag] = decode[node.Instance](d.t, row)
	}
	return out
}

func (c *connection) Blob(ctx context.Context, hash string) ([]byte, error) {
	if c.db != nil {
		return c.db.Blob(ctx, hash)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	data, ok := c.blobs[hash]
	if !ok {
		return nil, store.ErrNotFound
	}
	return data, nil
}

func (c *connection) Jobs(context.Context, store.JobQuery) ([]store.JobRecord, error) {
	return nil, nil
}

func (c *connection) Instances(context.Context, []string) ([]*node.Instance, error) { return nil, nil }

func (c *connection) Events(context.Context, uint64, int) ([]store.Event, error) { return nil, nil }

func (c *connection) Transactions(context.Context, store.TxnQuery) ([]assoc.Txn, error) {
	return nil, nil
}

func (c *connection) Close() error {
	if c.db == nil {
		return nil
	}
	return c.db.Close()
}

func encode(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		t.Errorf("encode %T: %v", v, err)
	}
	return data
}

func decode[T any](t *testing.T, row []byte) *T {
	v := new(T)
	if err := json.Unmarshal(row, v); err != nil {
		t.Errorf("decode %T: %v", v, err)
	}
	return v
}
