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
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// Times of a worker.
const (
	syncEvery = time.Second      // at most this often is a user's file synced while its job prints
	idleTime  = 30 * time.Second // without work, the helper ends
	firstWait = time.Second      // before a failed copy is tried again, doubled up to
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

// copyPiece writes the next bytes of a stream into the user's file.
func (w *worker) copyPiece(ctx context.Context, cp *copying) error {
	if err := w.open(ctx, cp); err != nil {
		return err
	}
	if cp.kind == kindFile && cp.trail.now.Extent == nil {
		if err := w.allocate(ctx, cp); err != nil {
			return err
		}
	}
	if w.buf == nil {
		w.buf = make([]byte, maxChunk)
	}
	n, err := w.c.spool.readAt(cp.key, w.buf, cp.pos)
	if err != nil || n == 0 {
		return err
	}
	if cp.kind != kindFile {
		a, err := w.do(ctx, request{Op: "write", File: cp.file, data: w.buf[:n]})
		cp.pos += int64(a.N)
		cp.synced = cp.pos
		return errors.Join(err, cp.trail.log(line{Done: cp.pos}, false))
	}
	ext := cp.trail.now.Extent
	off := ext.To + cp.pos - ext.At
	a, err := w.do(ctx, request{Op: "write", File: cp.file, Off: off, Tail: cp.tail, Compare: off < cp.tail, data: w.buf[:n]})
	cp.pos += int64(a.N)
	if err != nil {
		cp.tail = max(cp.tail, off+int64(a.N))
		return err
	}
	if a.Moved {
		// Somebody else cut or lengthened the file: go on at its end.
		cp.tail = a.Size
		return w.closeExtent(ctx, cp)
	}
	cp.tail = max(cp.tail, off+int64(a.N))
	if cp.pos-cp.synced > maxDirty {
		return w.sync(ctx, cp)
	}
	return nil
}

// allocate begins an extent at the end of the file. Whoever's extent is there
// ends first.
func (w *worker) allocate(ctx context.Context, cp *copying) error {
	if o := w.owners[cp.id]; o != nil && o != cp {
		if err := w.settle(ctx, o, cp.id); err != nil {
			return err
		}
		cp.tail = max(cp.tail, o.tail)
	}
	w.owners[cp.id] = cp
	return cp.trail.log(line{Extent: &extent{At: cp.pos, To: cp.tail, File: cp.id}}, true)
}

// settle ends another stream's extent in a file. What it may have written
// before a crash without our knowing is found first.
func (w *worker) settle(ctx context.Context, o *copying, id fileID) error {
	for {
		if ext := o.trail.now.Extent; ext == nil || ext.File != id {
			return nil
		}
		if err := w.open(ctx, o); err != nil {
			return err
		}
		size, _, err := w.c.spool.extent(o.key)
		if err != nil {
			return err
		}
		ext := o.trail.now.Extent
		if ext == nil {
			return nil
		}
		if o.pos >= size || ext.To+o.pos-ext.At >= o.tail {
			return w.closeExtent(ctx, o)
		}
		if err := w.copyPiece(ctx, o); err != nil {
			return err
		}
	}
}

// closeExtent ends a stream's extent once its bytes are on the disk.
func (w *worker) closeExtent(ctx context.Context, cp *copying) error {
	if err := w.sync(ctx, cp); err != nil {
		return err
	}
	return cp.trail.log(line{Closed: true, Done: cp.pos}, true)
}

// sync brings a user's file to the disk and notes how far it is.
func (w *worker) sync(ctx context.Context, cp *copying) error {
	cp.syncAt = time.Now()
	if err := w.open(ctx, cp); err != nil {
		return err
	}
	if _, err := w.do(ctx, request{Op: "sync", File: cp.file}); err != nil {
		return err
	}
	cp.synced = cp.pos
	return cp.trail.log(line{Done: cp.pos}, false)
}

// open opens a stream's file with the present helper, and finds out whether its
// extent still is where it was.
func (w *worker) open(ctx context.Context, cp *copying) error {
	if cp.file != 0 && w.helper != nil {
		return nil
	}
	t := cp.trail.now.Target
	w.last++
	a, err := w.do(ctx, request{Op: "open", File: w.last, Path: t.Path, Perm: 0o666 &^ t.Umask})
	if err != nil {
		return err
	}
	cp.file, cp.kind, cp.id, cp.tail = w.last, a.Kind, fileID{a.Dev, a.Ino}, a.Size
	ext := cp.trail.now.Extent
	if ext == nil {
		return nil
	}
	if ext.File != cp.id || a.Size < ext.To+cp.synced-ext.At {
		// Another file by this name, or it was cut: what was written there is
		// the user's business now.
		return cp.trail.log(line{Closed: true, Done: cp.pos}, true)
	}
	// What was not synced is written again, where it is not there already.
	cp.pos = cp.synced
	w.owners[cp.id] = cp
	return nil
}

func (w *worker) closeFile(cp *copying) {
	if cp.file != 0 && w.helper != nil {
		if _, err := w.helper.do(request{Op: "close", File: cp.file}); errors.Is(err, errHelper) {
			w.stopHelper(true)
		}
	}
	cp.file = 0
	if w.owners[cp.id] == cp && cp.trail.now.Extent == nil {
		delete(w.owners, cp.id)
	}
}

// prepare serves Prepare.
func (w *worker) prepare(ctx context.Context, p *preparation) error {
	if w.copies[p.key] != nil {
		return nil
	}
	err := w.prepareOnce(ctx, p)
	if errors.Is(err, errHelper) {
		w.stopHelper(true)
		err = w.prepareOnce(ctx, p) // a helper that was just killed
	}
	if errors.Is(err, errHelper) {
		w.stopHelper(true)
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", p.target.Path, err)
	}
	return nil
}

func (w *worker) prepareOnce(ctx context.Context, p *preparation) error {
	w.busy = time.Now()
	w.last++
	file := w.last
	a, err := w.do(ctx, request{Op: "open", File: file, Path: p.target.Path, Perm: 0o666 &^ p.target.Umask})
	if err != nil {
		if !errors.Is(err, errHelper) && hopeless(err) {
			err = fmt.Errorf("%w: %w", ErrTarget, err)
		}
		return err
	}
	id := fileID{a.Dev, a.Ino}
	if !p.target.Append && !w.shared(p.key, id) {
		if _, err := w.do(ctx, request{Op: "truncate", File: file}); err != nil {
			return err
		}
		a.Size = 0
	}
	t, err := createTrail(w.c.trailName(p.key), line{Target: &p.target, Opened: &id})
	if err != nil {
		return err
	}
	cp := &copying{key: p.key, trail: t, ended: make(chan struct{}), file: file, kind: a.Kind, id: id, tail: a.Size}
	w.copies[p.key] = cp
	w.c.mu.Lock()
	w.c.copies[p.key] = cp
	w.c.mu.Unlock()
	return nil
}

// shared says whether another stream of the same attempt has the same file: it
// was emptied by that one.
func (w *worker) shared(key Key, id fileID) bool {
	for k, cp := range w.copies {
		if k.Attempt == key.Attempt && k != key && cp.trail.now.Opened != nil && *cp.trail.now.Opened == id {
			return true
		}
	}
	return false
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
