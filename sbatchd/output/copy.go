package output

import (
	"context"
	"errors"
	"time"
)

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
