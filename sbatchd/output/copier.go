package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// ErrTarget says that the user's file can't be opened, whatever we do. Slurm fails such
// a job when it starts (exit code 0:53).
var ErrTarget = errors.New("output file")

// Copier brings spools to the users' files: one worker, with one helper
// process, for each identity. Prepare works while Run does.
type Copier struct {
	spool   *Spool
	command Command
	warn    func(Key, string)
	log     *slog.Logger
	start   chan struct{} // there are fresh workers

	mu      sync.Mutex
	fresh   []*worker // for Run to run
	workers map[string]*worker
	copies  map[Key]*copying
}

// NewCopier takes up the copies that an earlier controller left unfinished.
// warn is told what stands in a copy's way, and with an empty text that it goes
// on; it must not block.
func NewCopier(spool *Spool, command Command, warn func(Key, string), log *slog.Logger) (*Copier, error) {
	c := &Copier{
		spool: spool, command: command, warn: warn, log: log, start: make(chan struct{}, 1),
		workers: map[string]*worker{}, copies: map[Key]*copying{},
	}
	list, err := os.ReadDir(spool.dir)
	if err != nil {
		return nil, fmt.Errorf("output copies: %w", err)
	}
	for _, e := range list {
		name, ok := strings.CutSuffix(e.Name(), ".copy")
		key, isKey := parseKey(name)
		if !ok || !isKey {
			continue
		}
		t, err := openTrail(c.trailName(key))
		if err != nil {
			log.Error("output copy is unreadable, its file is left as it is", "job", key.Job, "restart", key.Restart, "err", err)
			continue
		}
		cp := &copying{key: key, trail: t, pos: t.now.Done, synced: t.now.Done, ended: make(chan struct{})}
		c.copies[key] = cp
		w := c.worker(t.now.Target)
		w.copies[key] = cp
		if t.now.Extent != nil {
			w.owners[t.now.Extent.File] = cp
		}
	}
	spool.mu.Lock()
	spool.grown = c.grown
	spool.mu.Unlock()
	return c, nil
}

func (c *Copier) trailName(k Key) string { return c.spool.path(k) + ".copy" }

// worker finds the worker for a target's owner. Callers other than NewCopier
// hold mu.
func (c *Copier) worker(t *Target) *worker {
	id := t.Owner.Key()
	if w := c.workers[id]; w != nil {
		return w
	}
	w := &worker{
		c: c, cred: t.Owner, copies: map[Key]*copying{}, owners: map[fileID]*copying{},
		wake: make(chan struct{}, 1), ask: make(chan *preparation),
	}
	c.workers[id] = w
	c.fresh = append(c.fresh, w)
	select {
	case c.start <- struct{}{}:
	default:
	}
	return w
}

// grown is called by the spool, and must not block.
func (c *Copier) grown(key Key) {
	c.mu.Lock()
	cp := c.copies[key]
	var w *worker
	if cp != nil {
		w = c.workers[cp.trail.now.Target.Owner.Key()]
	}
	c.mu.Unlock()
	if w != nil {
		w.poke()
	}
}

// Run copies until ctx ends. What isn't copied then is taken up by the next
// controller.
func (c *Copier) Run(ctx context.Context) error {
	var g errgroup.Group
	for {
		c.mu.Lock()
		fresh := c.fresh
		c.fresh = nil
		c.mu.Unlock()
		for _, w := range fresh {
			g.Go(func() error { w.run(ctx); return nil })
		}
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-c.start:
		}
	}
}

type preparation struct {
	key    Key
	target Target
	done   chan error
}

// Prepare makes a stream's file ready before its attempt starts: made as the
// user, and emptied unless Append is set. It may be repeated: only the first
// call for an attempt empties. An error that wraps ErrTarget is the user's
// fault, any other passes.
func (c *Copier) Prepare(ctx context.Context, key Key, t Target) error {
	if _, ok := parseKey(key.String()); !ok || !strings.HasPrefix(t.Path, "/") || strings.Contains(t.Path, "\x00") {
		return fmt.Errorf("prepare %s for %q: bad name", t.Path, key)
	}
	if _, err := os.Lstat(c.spool.path(key) + ".copied"); err == nil {
		return nil
	}
	c.mu.Lock()
	if c.copies[key] != nil {
		c.mu.Unlock()
		return nil
	}
	w := c.worker(&t)
	c.mu.Unlock()
	p := &preparation{key: key, target: t, done: make(chan error, 1)}
	select {
	case w.ask <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Warm starts a user's helper, if it doesn't run, so that a Prepare that comes
// soon need not wait for that. It does not block.
func (c *Copier) Warm(owner asuser.Cred) {
	c.mu.Lock()
	w := c.worker(&Target{Owner: owner})
	c.mu.Unlock()
	w.warm.Store(true)
	w.poke()
}

// Finish says that an attempt prints no more, and waits until all that it
// printed is in the user's files, or ctx ends. It may be repeated.
func (c *Copier) Finish(ctx context.Context, a job.Attempt) error {
	var wait []*copying
	c.mu.Lock()
	for k, cp := range c.copies {
		if k.Attempt == a {
			cp.finished = true
			wait = append(wait, cp)
			c.workers[cp.trail.now.Target.Owner.Key()].poke()
		}
	}
	c.mu.Unlock()
	for _, cp := range wait {
		select {
		case <-cp.ended:
		case <-ctx.Done():
			return fmt.Errorf("output of %s is not copied yet: %w", a, ctx.Err())
		}
	}
	return nil
}

// Drop gives up the copies of a job: what is not copied stays in the spool.
func (c *Copier) Drop(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, cp := range c.copies {
		if k.Job == id {
			cp.dropped = true
			c.workers[cp.trail.now.Target.Owner.Key()].poke()
		}
	}
}

// hopeless says whether an error in opening a user's file is the user's fault.
func hopeless(err error) bool {
	for _, e := range []error{
		syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.EACCES, syscall.EPERM, syscall.ENAMETOOLONG,
		syscall.ELOOP, syscall.EROFS, syscall.ENXIO, syscall.ETXTBSY, fs.ErrPermission,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
