package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// again brings a batch whose transaction was lost to its end: the server died, was
// restarted or cut off, or undid the transaction. The leader row's seq tells whether
// the batch is in, for every commit moves it on by one from the value it knows.
func (s *Store) again(ctx context.Context, b *store.Batch, err error) error {
	deadline := time.Now().Add(s.cfg.Patience)
	s.cfg.Log.Warn("the database is away in the middle of a commit", "err", err)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if s.d.lost(err) {
			err = s.reconnect(ctx)
		}
		in := false
		if err == nil {
			in, err = s.isIn(ctx)
		}
		if err == nil && !in {
			err = s.inTx(ctx, func() error { return s.commit(ctx, b) })
		}
		switch {
		case err == nil:
			s.cfg.Log.Info("the database is back", "was_committed", in)
			return nil
		case errors.Is(err, store.ErrNotLeader):
			// Or the transaction that was cut off came in after we asked.
			if in, askErr := s.isIn(ctx); askErr == nil && in {
				return nil
			}
			return err
		case !s.d.lost(err):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the database is away for %s: %w", s.cfg.Patience, err)
		}
		time.Sleep(pause)
	}
}

// reconnect replaces the writer's connection.
func (s *Store) reconnect(ctx context.Context) error {
	if s.conn != nil {
		// Not to be used by anybody any more.
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // it is that error
	}
	_ = s.disconnect() // of a connection that is dead already
	return s.connect(ctx)
}

// isIn says whether the batch that was being committed is in the database.
func (s *Store) isIn(ctx context.Context) (bool, error) {
	var holder string
	var epoch, turn int64
	if err := s.conn.QueryRowContext(ctx, "SELECT holder, epoch, seq FROM leader WHERE id=1").Scan(&holder, &epoch, &turn); err != nil {
		return false, err
	}
	if holder != s.cfg.Holder || epoch != int64(s.epoch) {
		return false, store.ErrNotLeader
	}
	return turn == s.turn+1, nil
}
