package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// poll is how often a follower asks whether its job still runs when nothing is
// printed.
const poll = time.Second

// readAt reads from a spool what is there, at most len(buf) bytes.
func (s *Spool) readAt(key Key, buf []byte, off int64) (int, error) {
	size, _, err := s.extent(key)
	if err != nil || off >= size {
		return 0, err
	}
	f, err := os.Open(s.path(key))
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
	_ = f.Close() // read side
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// extent is how much of a spool may be read, and a channel that is closed when
// there is more.
func (s *Spool) extent(key Key) (int64, <-chan struct{}, error) {
	st, err := s.stream(key)
	if err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.size, st.change, nil
}

// Copy writes a stream from an offset to its present end and returns the offset
// reached. A stream that never printed is empty.
func (s *Spool) Copy(w io.Writer, key Key, from int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.readAt(key, buf, from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && n == 0 {
			return from, nil
		}
		if err == nil {
			_, err = w.Write(buf[:n])
		}
		if err != nil {
			return from, fmt.Errorf("read output of %s: %w", key, err)
		}
		from += int64(n)
	}
}

// Follow writes a stream of all attempts of a job, oldest first, and goes on
// while the job may print. live says which attempt is the present one and
// whether more may come; with a nil live Follow ends with what is there.
func (s *Spool) Follow(ctx context.Context, w io.Writer, id uint32, streamName string, live func() (restart uint32, more bool)) error {
	var at Key
	at.Job, at.Stream = id, streamName
	var off int64
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		// Asked before reading: what is printed before the end is then seen.
		last, more := at.Restart, false
		if live != nil {
			last, more = live()
		}
		s.mu.Lock()
		last = max(last, s.newest[id])
		s.mu.Unlock()
		_, changed, err := s.extent(at)
		if err != nil {
			return err
		}
		if off, err = s.Copy(w, at, off); err != nil {
			return err
		}
		switch {
		case at.Restart < last:
			at.Restart, off = at.Restart+1, 0
			continue
		case !more:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-tick.C:
		}
	}
}
