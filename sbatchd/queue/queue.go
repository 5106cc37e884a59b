package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

const (
	inboxSize = 4096
	batchSize = 256
)

// Queue is the owner. Its command methods may be called from any goroutine
// while Run runs.
type Queue struct {
	journal store.Journal
	log     *slog.Logger
	now     func() time.Time

	inbox    chan *command
	stopped  chan struct{} // closed when Run is over
	current  atomic.Pointer[state.State]
	watchers watchers
	idem     map[idemKey]store.IdempotencyKey // owned by Run
	stats    Stats

	// Groups finds the id of a Unix group (AllowGroups); nil knows none.
	Groups func(name string) (gid uint32, ok bool)
}

type idemKey struct {
	uid uint32
	key string
}

// command is one request to the owner.
type command struct {
	actor string
	do    func(*work) error
	done  chan error
}

// Open loads the state and takes leadership. now reads wall time.
func Open(ctx context.Context, cfg *partitions.Config, j store.Journal, now func() time.Time, log *slog.Logger) (*Queue, error) {
	loaded, err := j.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	s, err := state.Restore(state.New(cfg, loaded.ClusterUUID, loaded.Epoch), loaded.NextJobID, loaded.Jobs, loaded.Nodes, loaded.Instances)
	if err != nil {
		return nil, fmt.Errorf("restore the state: %w", err)
	}
	if s, err = openRecords(ctx, s, loaded.Records, j, now()); err != nil {
		return nil, fmt.Errorf("restore the records of accounting: %w", err)
	}
	q := &Queue{
		journal: j, log: log, now: now,
		inbox: make(chan *command, inboxSize), stopped: make(chan struct{}),
		idem: map[idemKey]store.IdempotencyKey{},
	}
	for _, k := range loaded.Idempotency {
		q.idem[idemKey{k.UID, k.Key}] = k
	}
	// Agents get the full time to speak again after a restart of ours.
	s = graceAfterRestart(s, now())
	q.current.Store(s)
	return q, nil
}

// Snapshot is the last published state. It never blocks.
func (q *Queue) Snapshot() *state.State { return q.current.Load() }

// Run is the owner's loop. It returns when ctx ends (nil) or a commit failed.
func (q *Queue) Run(ctx context.Context) error {
	defer close(q.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var batch []*command
		select {
		case <-ctx.Done():
			return nil
		case c := <-q.inbox:
			batch = append(batch, c)
		case <-tick.C:
			batch = append(batch, &command{actor: "<sbatchd>", do: q.housekeep, done: make(chan error, 1)})
		}
	drain:
		for len(batch) < batchSize {
			select {
			case c := <-q.inbox:
				batch = append(batch, c)
			default:
				break drain
			}
		}
		if err := q.runBatch(ctx, batch); err != nil {
			return err
		}
	}
}

// runBatch applies, commits, publishes and answers.
func (q *Queue) runBatch(ctx context.Context, batch []*command) error {
	w := &work{q: q, State: q.current.Load(), Now: q.now(), runs: map[job.Attempt]int{}}
	before := w.State
	answers := make([]error, len(batch))
	for i, c := range batch {
		w.actor = c.actor
		w.begin()
		if answers[i] = c.do(w); answers[i] != nil {
			w.rollback()
		}
	}
	if b := w.batch(before); b != nil {
		start := time.Now()
		// The commit must not be torn by a shutdown: what is in the batch was accepted.
		err := q.journal.Commit(context.WithoutCancel(ctx), b)
		q.stats.commit(len(batch), time.Since(start))
		if err != nil {
			err = fmt.Errorf("commit: %w", err)
			for _, c := range batch {
				c.done <- err
			}
			return err
		}
	}
	for _, k := range w.idem {
		q.idem[idemKey{k.UID, k.Key}] = k
	}
	if w.State != before {
		q.current.Store(w.State)
		q.watchers.notify()
	}
	for i, c := range batch {
		c.done <- answers[i]
	}
	return nil
}

// errBusy is what a full inbox answers: Slurm's retryable error.
var errBusy = errno.Errno(11) // EAGAIN: "Resource temporarily unavailable"

// errStopped is what commands get that were waiting when the owner stopped.
var errStopped = errors.New("the queue has stopped")

// send runs do in the owner's loop and returns its answer after the commit.
func (q *Queue) send(ctx context.Context, actor string, do func(*work) error) error {
	c := &command{actor: actor, do: do, done: make(chan error, 1)}
	select {
	case q.inbox <- c:
	default:
		return errBusy
	}
	return q.answer(ctx, c)
}

// internal runs do for a part of the controller itself, waiting for room.
func (q *Queue) internal(ctx context.Context, part string, do func(*work) error) error {
	c := &command{actor: "<" + part + ">", do: do, done: make(chan error, 1)}
	select {
	case q.inbox <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	return q.answer(ctx, c)
}

// answer waits for a command's answer. After Run is over there is none: whether
// the command was done, only the next start knows.
func (q *Queue) answer(ctx context.Context, c *command) error {
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stopped:
	}
	select {
	case err := <-c.done:
		return err
	default:
		return errStopped
	}
}

// Blob reads a script or environment by hash.
func (q *Queue) Blob(ctx context.Context, hash string) ([]byte, error) {
	if hash == "" {
		return nil, nil
	}
	return q.journal.Blob(ctx, hash)
}

// Records answers sacct from the store.
func (q *Queue) Records(ctx context.Context, query store.JobQuery) ([]store.JobRecord, error) {
	return q.journal.Jobs(ctx, query)
}

// Ledger reads ledger rows by tag from the store.
func (q *Queue) Ledger(ctx context.Context, tags []string) (map[string]Instance, error) {
	rows, err := q.journal.Instances(ctx, tags)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	out := make(map[string]Instance, len(rows))
	for _, r := range rows {
		out[r.Tag] = *r
	}
	return out, nil
}
