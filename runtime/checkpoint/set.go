package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// Errors a caller branches on.
var (
	// ErrNone: the job has no complete checkpoint that is sound.
	ErrNone = errors.New("no complete checkpoint")
	// ErrOld: a later run of the job has begun; this one may not write.
	ErrOld = errors.New("a later run of the job has begun")
	// ErrDamaged: a checkpoint's objects don't match its manifest.
	ErrDamaged = errors.New("checkpoint is damaged")
)

// Set is all checkpoints of one job in a store. It holds no state of its own,
// so any number of them may look at one job.
type Set struct {
	store  Store
	prefix string // <cluster>/<job>/
	job    uint32
	log    *slog.Logger
}

// New looks at a job's checkpoints; it makes no request.
func New(store Store, cluster string, job uint32, log *slog.Logger) *Set {
	return &Set{store: store, prefix: Prefix(cluster, job), job: job, log: log.With("job", job)}
}

// Prefix is what every key of a job begins with.
func Prefix(cluster string, job uint32) string { return fmt.Sprintf("%s/%d/", cluster, job) }

// Status is one numbered checkpoint as it lies in the store.
type Status struct {
	Number   uint32    `json:"number"`
	Complete bool      `json:"complete"`
	Manifest *Manifest `json:"manifest,omitempty"` // when it could be read
	Bytes    int64     `json:"bytes"`              // held under this number
	Why      string    `json:"why,omitempty"`      // what is missing
}

// view is the store's list for one job, by key below the prefix.
type view struct {
	size    map[string]int64
	numbers []uint32 // ascending, with or without manifest
	run     uint32   // highest run that has begun
	begun   bool     // some run has
}

func (s *Set) look(ctx context.Context) (*view, error) {
	var list []Object
	err := retry(ctx, func() (err error) {
		list, err = s.store.List(ctx, s.prefix)
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &view{size: make(map[string]int64, len(list))}
	for _, o := range list {
		key := strings.TrimPrefix(o.Key, s.prefix)
		v.size[key] = o.Size
		if r, ok := runOf(key); ok {
			v.run, v.begun = max(v.run, r), true
			continue
		}
		if n, ok := numberOf(key); ok && (len(v.numbers) == 0 || v.numbers[len(v.numbers)-1] != n) {
			v.numbers = append(v.numbers, n)
		}
	}
	return v, nil
}

// Begin marks that run restart of the job has begun: from now on the Saves of
// older runs fail with ErrOld. It fails with ErrOld itself when it is the older.
func (s *Set) Begin(ctx context.Context, restart uint32) error {
	v, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("begin run %d: %w", restart, err)
	}
	if v.begun && v.run > restart {
		return fmt.Errorf("begin run %d: run %d: %w", restart, v.run, ErrOld)
	}
	if _, ok := v.size[runKey(restart)]; ok {
		return nil
	}
	err = retry(ctx, func() error { return s.store.Put(ctx, s.prefix+runKey(restart), bytes.NewReader(nil), 0) })
	if err != nil {
		return fmt.Errorf("begin run %d: %w", restart, err)
	}
	return nil
}

// manifest reads and checks one manifest. Damage is ErrDamaged; a store out of
// reach is not.
func (s *Set) manifest(ctx context.Context, number uint32) (*Manifest, error) {
	var data []byte
	err := retry(ctx, func() (err error) {
		data, err = readAll(ctx, s.store, s.prefix+manifestKey(number), maxManifest)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("number %d: no manifest: %w", number, ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("number %d: %w", number, err)
	}
	m, err := parseManifest(data, s.job, number)
	if err != nil {
		return nil, fmt.Errorf("number %d: %w: %w", number, err, ErrDamaged)
	}
	sum := sha256.Sum256(data)
	m.SHA256 = hex.EncodeToString(sum[:])
	return m, nil
}

// complete reads a manifest and checks that every object is there.
func (s *Set) complete(ctx context.Context, v *view, number uint32) (*Manifest, error) {
	if _, ok := v.size[manifestKey(number)]; !ok {
		return nil, fmt.Errorf("number %d: no manifest: %w", number, ErrDamaged)
	}
	m, err := s.manifest(ctx, number)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if f.Kind != KindFile {
			continue
		}
		size, ok := v.size[f.Object]
		if !ok || size != f.Size {
			return nil, fmt.Errorf("number %d: object %s is missing or has %d bytes of %d: %w", number, f.Object, size, f.Size, ErrDamaged)
		}
	}
	return m, nil
}

// walk visits the complete checkpoints from the newest on, until visit says
// that it has enough.
func (s *Set) walk(ctx context.Context, v *view, visit func(*Manifest) (enough bool, err error)) error {
	for i := len(v.numbers) - 1; i >= 0; i-- {
		m, err := s.complete(ctx, v, v.numbers[i])
		if errors.Is(err, ErrDamaged) {
			s.log.Debug("checkpoint is not complete", "number", v.numbers[i], "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if enough, err := visit(m); enough || err != nil {
			return err
		}
	}
	return nil
}

// Newest is the newest complete checkpoint, or ErrNone.
func (s *Set) Newest(ctx context.Context) (*Manifest, error) {
	v, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("newest checkpoint: %w", err)
	}
	return s.newest(ctx, v)
}

func (s *Set) newest(ctx context.Context, v *view) (*Manifest, error) {
	var found *Manifest
	err := s.walk(ctx, v, func(m *Manifest) (bool, error) { found = m; return true, nil })
	if err != nil {
		return nil, fmt.Errorf("newest checkpoint: %w", err)
	}
	if found == nil {
		return nil, ErrNone
	}
	return found, nil
}

// List tells of every numbered checkpoint, oldest first, complete or not.
func (s *Set) List(ctx context.Context) ([]Status, error) {
	v, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	held := map[uint32]int64{}
	for key, size := range v.size {
		if n, ok := numberOf(key); ok {
			held[n] += size
		}
	}
	var out []Status
	for _, n := range v.numbers {
		st := Status{Number: n, Bytes: held[n]}
		m, err := s.complete(ctx, v, n)
		switch {
		case err == nil:
			st.Complete, st.Manifest = true, m
		case errors.Is(err, ErrDamaged):
			st.Why = err.Error()
		default:
			return nil, fmt.Errorf("list checkpoints: %w", err)
		}
		out = append(out, st)
	}
	return out, nil
}

// Prune deletes all but the newest keep complete checkpoints, and what cut
// attempts older than the newest complete one left. Objects that a kept
// manifest names stay. The claims stay too, so that no number comes again.
func (s *Set) Prune(ctx context.Context, keep int) error {
	v, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("prune checkpoints: %w", err)
	}
	keepNumber, used := map[uint32]bool{}, map[string]bool{}
	var newest uint32
	err = s.walk(ctx, v, func(m *Manifest) (bool, error) {
		newest = max(newest, m.Number)
		keepNumber[m.Number] = true
		for _, f := range m.Files {
			used[f.Object] = true
		}
		return len(keepNumber) >= max(1, keep), nil
	})
	if err != nil {
		return fmt.Errorf("prune checkpoints: %w", err)
	}
	// Manifests go first: a cut prune leaves no manifest without its objects.
	for _, manifests := range []bool{true, false} {
		for key := range v.size {
			n, ok := numberOf(key)
			if !ok || n >= newest || keepNumber[n] || used[key] || isManifest(key) != manifests || key == claimKey(n) {
				continue
			}
			if err := retry(ctx, func() error { return s.store.Delete(ctx, s.prefix+key) }); err != nil {
				return fmt.Errorf("prune checkpoints: %w", err)
			}
		}
	}
	return nil
}

// claim takes the next free number for one attempt.
func (s *Set) claim(ctx context.Context, v *view, restart uint32, nonce string) (uint32, error) {
	next := uint32(1)
	if len(v.numbers) > 0 {
		next = v.numbers[len(v.numbers)-1] + 1
	}
	note, err := json.Marshal(map[string]any{"restart": restart, "attempt": nonce})
	if err != nil {
		return 0, err
	}
	for tries := 0; ; tries++ {
		first := true
		err := retry(ctx, func() error {
			err := s.store.Create(ctx, s.prefix+claimKey(next), note)
			if errors.Is(err, ErrExists) && !first {
				// An earlier try of ours may have come through unheard.
				if have, e := readAll(ctx, s.store, s.prefix+claimKey(next), 1<<12); e == nil && bytes.Equal(have, note) {
					return nil
				}
			}
			first = false
			return err
		})
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, ErrExists) && tries < 1000:
			next++
		default:
			return 0, fmt.Errorf("claim number %d: %w", next, err)
		}
	}
}

// stallTime ends a transfer in which nothing moved for so long.
const stallTime = 2 * time.Minute

var errStalled = errors.New("nothing moved for " + stallTime.String())

// watched is a context that ends when touch isn't called for stallTime.
func watched(ctx context.Context) (_ context.Context, touch, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(stallTime, func() { cancel(errStalled) })
	return ctx, func() { t.Reset(stallTime) }, func() { t.Stop(); cancel(nil) }
}

// touching tells of each read.
type touching struct {
	r     io.Reader
	touch func()
}

func (t touching) Read(p []byte) (int, error) {
	t.touch()
	return t.r.Read(p)
}

// Waits between the tries of one request: it is asked four times in all.
var waits = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}

// retry repeats what may go better the next time, with jitter.
func retry(ctx context.Context, try func() error) error {
	for i := 0; ; i++ {
		err := try()
		if err == nil || i == len(waits) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) ||
			errors.Is(err, errLocal) || ctx.Err() != nil {
			return err
		}
		t := time.NewTimer(waits[i]/2 + rand.N(waits[i]))
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
	}
}
