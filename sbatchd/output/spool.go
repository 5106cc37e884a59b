package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// ErrOld says that the data is of an attempt that a later one has replaced.
var ErrOld = errors.New("output of an older attempt")

// Key names one stream of one attempt: "out", or "err" where --error is set.
type Key struct {
	job.Attempt
	Stream string
}

// String is the spool's file name.
func (k Key) String() string { return k.Attempt.String() + "." + k.Stream }

var spoolName = regexp.MustCompile(`^(\d+)\.(\d+)\.([a-z0-9_-]{1,32})$`)

func parseKey(name string) (Key, bool) {
	m := spoolName.FindStringSubmatch(name)
	if m == nil {
		return Key{}, false
	}
	id, err1 := strconv.ParseUint(m[1], 10, 32)
	restart, err2 := strconv.ParseUint(m[2], 10, 32)
	return Key{job.Attempt{Job: uint32(id), Restart: uint32(restart)}, m[3]}, err1 == nil && err2 == nil
}

// Ack answers an Append.
type Ack struct {
	// Size is the next offset wanted: all before it is on the disk.
	Size int64
	// Capped says that JobLogLimit was reached: nothing more is kept, Size
	// goes on counting.
	Capped bool
}

// Spool keeps the output of all jobs. Append works while Run does.
type Spool struct {
	dir   string
	limit int64 // bytes a stream, 0: none
	log   *slog.Logger
	in    chan *piece

	mu      sync.Mutex
	newest  map[uint32]uint32 // by job: the restart that may write
	streams map[Key]*stream
	grown   func(Key) // tells the copier
	clock   uint64    // for closing files that nobody writes
}

// stream is one spool file.
type stream struct {
	key  Key
	used uint64

	// Guarded by Spool.mu. Run alone changes them, so it reads them freely.
	file   *os.File      // nil: not open
	size   int64         // bytes of the file that are on the disk
	ack    Ack           // what the agent is told
	cutAt  int64         // with a limit mark: how much of the file is the job's
	change chan struct{} // closed when size grows
}

type piece struct {
	key    Key
	offset int64
	data   []byte
	done   chan result
}

type result struct {
	ack Ack
	err error
}

// NewSpool opens a spool folder, for its owner alone. limit is JobLogLimit in
// bytes, 0 for none.
func NewSpool(dir string, limit int64, log *slog.Logger) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{
		dir: dir, limit: limit, log: log, in: make(chan *piece, maxBatch),
		newest: map[uint32]uint32{}, streams: map[Key]*stream{}, grown: func(Key) {},
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for _, e := range list {
		if k, ok := parseKey(e.Name()); ok {
			s.newest[k.Job] = max(s.newest[k.Job], k.Restart)
		}
	}
	return s, nil
}

// Limits of Run: pieces that one round of fsync serves, files synced at once,
// files kept open.
const (
	maxBatch = 256
	maxSyncs = 16
	maxOpen  = 512

	maxStreams = 4096 // in memory, before those at rest are dropped
)

// Begin says that an attempt is the present one: output of older ones is
// refused from now on.
func (s *Spool) Begin(a job.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[a.Job] = max(s.newest[a.Job], a.Restart)
}

// Append adds data that belongs at offset of a stream, and returns when it is
// on the disk. A gap adds nothing, what is there already is skipped: the answer
// always says where to go on.
func (s *Spool) Append(ctx context.Context, key Key, offset int64, data []byte) (Ack, error) {
	if _, ok := parseKey(key.String()); !ok || offset < 0 {
		return Ack{}, fmt.Errorf("append to %q at %d: bad stream or offset", key, offset)
	}
	p := &piece{key: key, offset: offset, data: data, done: make(chan result, 1)}
	select {
	case s.in <- p:
	case <-ctx.Done():
		return Ack{}, ctx.Err()
	}
	select {
	case r := <-p.done:
		return r.ack, r.err
	case <-ctx.Done():
		return Ack{}, ctx.Err()
	}
}

// Size is the acknowledgement a stream has now.
func (s *Spool) Size(key Key) (Ack, error) {
	st, err := s.stream(key)
	if err != nil {
		return Ack{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.ack, nil
}

// Run writes what Append brings, until ctx ends. Many pieces share one round of
// fsync, and the files of a round are synced side by side, which the file
// system joins into one commit of its journal.
func (s *Spool) Run(ctx context.Context) error {
	defer s.closeAll()
	for {
		var batch []*piece
		select {
		case <-ctx.Done():
			return nil
		case p := <-s.in:
			batch = append(batch, p)
		}
		for len(batch) < maxBatch && len(s.in) > 0 {
			batch = append(batch, <-s.in)
		}
		s.round(batch)
	}
}

// round is one batch: write all, sync all, tell all.
func (s *Spool) round(batch []*piece) {
	s.clock++
	type work struct {
		st     *stream
		end    int64 // of the file, once synced
		ack    Ack
		pieces []*piece
		err    error
	}
	var order []*work
	byKey := map[Key]*work{}
	created := false
	for _, p := range batch {
		w := byKey[p.key]
		if w == nil {
			st, isNew, err := s.open(p.key)
			if err != nil {
				p.done <- result{err: err}
				continue
			}
			created = created || isNew
			w = &work{st: st, end: st.size, ack: st.ack}
			byKey[p.key], order = w, append(order, w)
		}
		w.pieces = append(w.pieces, p)
		if w.err == nil {
			w.err = s.place(w.st, p, &w.end, &w.ack)
		}
	}
	var dirErr error
	if created {
		dirErr = atomicfile.Sync(s.dir)
	}
	var g errgroup.Group
	g.SetLimit(maxSyncs)
	for _, w := range order {
		if w.err == nil {
			w.err = dirErr
		}
		if w.err == nil && w.end == w.st.size && w.st.file != nil && w.ack == w.st.ack {
			continue // nothing new
		}
		g.Go(func() error {
			if w.err == nil && w.st.file != nil {
				w.err = unix.Fdatasync(int(w.st.file.Fd()))
			}
			return nil
		})
	}
	_ = g.Wait() // each keeps its own error
	for _, w := range order {
		s.settle(w.st, w.end, w.ack, w.err)
		for _, p := range w.pieces {
			if w.err != nil {
				p.done <- result{err: fmt.Errorf("append to %s: %w", p.key, w.err)}
			} else {
				p.done <- result{ack: w.ack}
			}
		}
	}
	s.closeIdle()
}

// settle publishes what a round did to a stream, or takes it back.
func (s *Spool) settle(st *stream, end int64, ack Ack, err error) {
	if err != nil {
		s.log.Error("spool cannot be written", "job", st.key.Job, "restart", st.key.Restart, "stream", st.key.Stream, "err", err)
		if st.file != nil {
			// What isn't known to be on the disk is as if never sent.
			if terr := st.file.Truncate(st.size); terr != nil {
				s.log.Error("spool cannot be cut back", "job", st.key.Job, "err", terr)
			}
			_ = st.file.Close() // it is opened again by the next piece
			s.mu.Lock()
			st.file = nil
			s.mu.Unlock()
		}
		return
	}
	s.mu.Lock()
	grown := end > st.size
	st.size, st.ack = end, ack
	if grown {
		close(st.change)
		st.change = make(chan struct{})
	}
	tell := s.grown
	s.mu.Unlock()
	if grown {
		tell(st.key)
	}
}

// place writes one piece at the end of the file, as far as it is new.
func (s *Spool) place(st *stream, p *piece, end *int64, ack *Ack) error {
	upto := p.offset + int64(len(p.data))
	if ack.Capped {
		ack.Size = max(ack.Size, upto)
		return nil
	}
	if p.offset > ack.Size || upto <= ack.Size {
		return nil
	}
	data := p.data[ack.Size-p.offset:]
	over := s.limit > 0 && upto > s.limit
	if over {
		data = data[:max(0, s.limit-ack.Size)]
		if err := s.mark(st, ack.Size+int64(len(data))); err != nil {
			return err
		}
	}
	n, err := st.file.WriteAt(data, *end)
	*end += int64(n)
	if err != nil {
		return err
	}
	ack.Size = upto
	if over {
		ack.Capped = true
		s.log.Warn("output is longer than the limit", "job", st.key.Job, "restart", st.key.Restart, "stream", st.key.Stream)
		return s.sayLimit(st, end)
	}
	return nil
}

// limitMark is the content of a .limit file.
type limitMark struct {
	Size  int64 `json:"size"` // bytes of the job; what follows is the notice
	Limit int64 `json:"limit"`
}

// mark stores where a stream is cut, before the notice follows its data.
func (s *Spool) mark(st *stream, size int64) error {
	data, err := json.Marshal(limitMark{Size: size, Limit: s.limit})
	if err != nil {
		return err
	}
	if err := writeSynced(s.path(st.key)+".limit", data); err != nil {
		return err
	}
	st.cutAt = size
	return nil
}

func (s *Spool) sayLimit(st *stream, end *int64) error {
	notice := fmt.Appendf(nil, "\nsbatchd: this output reached JobLogLimit (%d bytes); what follows is not kept\n", s.limit)
	n, err := st.file.WriteAt(notice, *end)
	*end += int64(n)
	return err
}
