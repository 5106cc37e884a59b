package output

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Times of a worker.
const (
	syncEvery = time.Second     // at most this often is a user's file synced while its job prints
	idleTime  = 5 * time.Minute // without work, the helper ends
	firstWait = time.Second     // before a failed copy is tried again, doubled up to
	lastWait  = 2 * time.Minute
	graceTime = 2 * time.Second
	maxDirty  = 16 << 20 // bytes that a file may be behind the disk
)

// worker copies the output of the jobs of one identity. Its own goroutine alone
// uses it, but for wake and ask.
type worker struct {
	c      *Copier
	cred   asuser.Cred
	wake   chan struct{}
	warm   atomic.Bool // a helper will be needed soon
	ask    chan *preparation
	copies map[Key]*copying
	owners map[fileID]*copying // whose extent ends a file
	helper *process
	last   int // number of the newest open file
	busy   time.Time
	buf    []byte
}

// copying is one stream on its way. The worker's alone, but for the fields
// guarded by Copier.mu.
type copying struct {
	key   Key
	trail *trail
	ended chan struct{} // closed when all is copied

	finished bool // guarded by Copier.mu
	dropped  bool // guarded by Copier.mu

	file   int    // its number with the present helper, 0: not open
	kind   string // of the open file
	id     fileID
	tail   int64 // where the file ends, as far as we know
	pos    int64 // bytes of the spool that were written
	synced int64 // bytes that are on the disk
	syncAt time.Time

	laterAt time.Time // a later attempt was seen first

	wait    time.Duration // before the next try
	retryAt time.Time
	warned  bool
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) run(ctx context.Context) {
	defer w.stopHelper(false)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			w.leave(ctx)
			return
		case p := <-w.ask:
			p.done <- w.prepare(ctx, p)
		case <-w.wake:
		case <-timer.C:
		}
		timer.Reset(w.pass(ctx))
	}
}

// leave notes how far all is, so that the next controller need not compare.
func (w *worker) leave(ctx context.Context) {
	for _, cp := range w.copies {
		if w.helper != nil && cp.file != 0 && cp.synced < cp.pos {
			w.outcome(cp, w.sync(ctx, cp))
		}
		cp.trail.close()
	}
}

// pass copies what there is, one piece of each stream in turn, and says when to
// look again.
func (w *worker) pass(ctx context.Context) time.Duration {
	if w.warm.Swap(false) && w.helper == nil {
		w.busy = time.Now()
		if _, err := w.do(ctx, request{Op: "hello"}); err != nil {
			w.stopHelper(true) // whoever needs it is told
		}
	}
	for more := true; more && ctx.Err() == nil; {
		more = false
		w.serve(ctx)
		for _, cp := range w.order() {
			if time.Now().Before(cp.retryAt) {
				continue
			}
			progress, err := w.step(ctx, cp)
			if ctx.Err() != nil {
				return 0
			}
			w.outcome(cp, err)
			more = more || err == nil && progress
		}
	}
	next := time.Hour
	for _, cp := range w.copies {
		switch {
		case !cp.retryAt.IsZero():
			next = min(next, time.Until(cp.retryAt))
		case cp.synced < cp.pos:
			next = min(next, time.Until(cp.syncAt.Add(syncEvery)))
		case !cp.laterAt.IsZero():
			next = min(next, time.Until(cp.laterAt.Add(graceTime)))
		}
	}
	if w.helper != nil {
		if left := time.Until(w.busy.Add(idleTime)); left > 0 {
			next = min(next, left)
		} else {
			w.stopHelper(false)
		}
	}
	return max(next, time.Millisecond)
}

// serve answers a Prepare that waits.
func (w *worker) serve(ctx context.Context) {
	select {
	case p := <-w.ask:
		p.done <- w.prepare(ctx, p)
	default:
	}
}

// order lists the streams, older attempts first: a later one waits until the
// older ones of its job are copied as far as they go.
func (w *worker) order() []*copying {
	var list []*copying
	for _, cp := range w.copies {
		list = append(list, cp)
	}
	slices.SortFunc(list, func(a, b *copying) int {
		if a.key.Job != b.key.Job {
			return int(int64(a.key.Job) - int64(b.key.Job))
		}
		if a.key.Restart != b.key.Restart {
			return int(int64(a.key.Restart) - int64(b.key.Restart))
		}
		return -strings.Compare(a.key.Stream, b.key.Stream)
	})
	out := list[:0]
	for i, cp := range list {
		behind := slices.ContainsFunc(list[:i], func(o *copying) bool {
			if o.key.Job != cp.key.Job || o.key.Restart == cp.key.Restart {
				return false
			}
			size, _, err := w.c.spool.extent(o.key)
			return err == nil && o.pos < size
		})
		if !behind {
			out = append(out, cp)
		}
	}
	return out
}

// outcome notes how a step went: when to try again, and what to tell the user.
func (w *worker) outcome(cp *copying, err error) {
	if err == nil {
		if cp.warned {
			w.c.warn(cp.key, "")
		}
		cp.wait, cp.retryAt, cp.warned = 0, time.Time{}, false
		return
	}
	if errors.Is(err, errHelper) {
		w.stopHelper(true)
	} else {
		w.closeFile(cp)
	}
	cp.wait = min(max(2*cp.wait, firstWait), lastWait)
	if errors.Is(err, errHelper) && cp.wait == firstWait {
		cp.wait = 50 * time.Millisecond // a killed helper is no reason to wait
	}
	cp.retryAt = time.Now().Add(cp.wait/2 + rand.N(cp.wait))
	if cp.wait < firstWait {
		return
	}
	w.c.log.Warn("output cannot be copied", "job", cp.key.Job, "restart", cp.key.Restart, "err", err)
	if !cp.warned {
		cp.warned = true
		w.c.warn(cp.key, fmt.Sprintf("output file %s cannot be written: %v; it is tried again, and sburst logs shows what is kept", cp.trail.now.Target.Path, err))
	}
}

// step brings one stream forward. progress says that there may be more at once.
func (w *worker) step(ctx context.Context, cp *copying) (progress bool, err error) {
	w.c.mu.Lock()
	finished, dropped := cp.finished, cp.dropped
	w.c.mu.Unlock()
	if dropped {
		return false, w.end(cp)
	}
	finished = finished || cp.trail.now.Finished || w.overtaken(cp)
	if finished && !cp.trail.now.Finished {
		if err := cp.trail.log(line{Finished: true}, true); err != nil {
			return false, err
		}
	}
	size, _, err := w.c.spool.extent(cp.key)
	if err != nil {
		return false, err
	}
	if cp.pos < size {
		w.busy = time.Now()
		return true, w.copyPiece(ctx, cp)
	}
	if cp.synced < cp.pos && (finished || time.Since(cp.syncAt) >= syncEvery) {
		if err := w.sync(ctx, cp); err != nil {
			return false, err
		}
	}
	if finished {
		return false, w.end(cp)
	}
	return false, nil
}

// overtaken says whether a later attempt has begun, so that the spool takes no
// more. What was on its way into it at that moment has arrived after graceTime.
func (w *worker) overtaken(cp *copying) bool {
	w.c.spool.mu.Lock()
	later := w.c.spool.newest[cp.key.Job] > cp.key.Restart
	w.c.spool.mu.Unlock()
	if later && cp.laterAt.IsZero() {
		cp.laterAt = time.Now()
	}
	return later && time.Since(cp.laterAt) >= graceTime
}

// end takes a stream out of the work.
func (w *worker) end(cp *copying) error {
	w.closeFile(cp)
	if err := cp.trail.retire(w.c.spool.path(cp.key) + ".copied"); err != nil {
		return err
	}
	delete(w.copies, cp.key)
	if w.owners[cp.id] == cp {
		delete(w.owners, cp.id)
	}
	w.c.mu.Lock()
	delete(w.c.copies, cp.key)
	w.c.mu.Unlock()
	close(cp.ended)
	return nil
}

func (w *worker) do(ctx context.Context, q request) (reply, error) {
	if w.helper == nil {
		lock, err := w.lock()
		if err != nil {
			return reply{}, fmt.Errorf("%w: %w", errHelper, err)
		}
		w.helper, err = startHelper(ctx, w.c.command, w.cred, lock)
		_ = lock.Close() // the helper has it now
		if err != nil {
			return reply{}, err
		}
	}
	return w.helper.do(q)
}

// lock makes sure that no other helper of this identity is alive, for instance
// one of a killed controller that is still writing.
func (w *worker) lock() (*os.File, error) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(w.cred.Key())) // never fails
	name := filepath.Join(w.c.spool.dir, fmt.Sprintf("helper-%d-%x.lock", w.cred.UID, sum.Sum64()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("another helper of uid %d still runs: %w", w.cred.UID, err)
	}
	return f, nil
}

// stopHelper ends the helper. Its files are opened again when they are needed.
func (w *worker) stopHelper(now bool) {
	if w.helper == nil {
		return
	}
	w.helper.stop(now)
	w.helper = nil
	for _, cp := range w.copies {
		cp.file = 0
	}
}
