package output

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	a, err := w.do(ctx, request{Op: "open", File: file, Path: p.target.Path, Perm: 0o666 &^ p.target.Umask, Dirs: true}) // folders too, as Slurm since 24.11
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
