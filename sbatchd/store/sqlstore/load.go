package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// Names of rows in meta.
const (
	clusterUUID = "cluster_uuid"
	nextJobID   = "next_job_id"
)

// recent is how long ledger rows of machines that are gone, and submit keys,
// are loaded. It is counted back from the newest event, so no clock is read.
const recent = 24 * time.Hour

// Load implements store.Journal.
func (s *Store) Load(ctx context.Context) (*store.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil, errors.New("load state: closed")
	}
	l := new(store.Loaded)
	if err := s.inTx(ctx, func() error { return s.load(ctx, l) }); err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	s.epoch = l.Epoch
	return l, nil
}

func (s *Store) load(ctx context.Context, l *store.Loaded) error {
	if _, err := s.conn.ExecContext(ctx, "UPDATE leader SET holder=?, epoch=epoch+1, seq=seq+1 WHERE id=1", s.cfg.Holder); err != nil {
		return fmt.Errorf("take leadership: %w", err)
	}
	if err := s.conn.QueryRowContext(ctx, "SELECT epoch, seq FROM leader WHERE id=1").Scan(&l.Epoch, &s.turn); err != nil {
		return fmt.Errorf("take leadership: %w", err)
	}
	var seq, newest int64
	if err := s.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq),0) FROM event").Scan(&seq); err != nil {
		return err
	}
	err := s.conn.QueryRowContext(ctx, "SELECT at FROM event WHERE seq=?", seq).Scan(&newest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	s.nextSeq = uint64(seq) + 1
	if err := s.loadMeta(ctx, l); err != nil {
		return err
	}
	if l.Jobs, err = docs[job.Job](ctx, s.conn, "SELECT doc FROM job WHERE live=1 ORDER BY id"); err != nil {
		return err
	}
	for _, j := range l.Jobs {
		l.NextJobID = max(l.NextJobID, j.ID.Raw+1)
	}
	if l.Nodes, err = docs[node.Node](ctx, s.conn, "SELECT doc FROM node ORDER BY name"); err != nil {
		return err
	}
	since := newest - int64(recent)
	l.Instances, err = docs[node.Instance](ctx, s.conn, "SELECT doc FROM instance WHERE gone=0 OR gone>=? ORDER BY tag", since)
	if err != nil {
		return err
	}
	if err := s.loadRecords(ctx, l); err != nil {
		return err
	}
	return s.loadKeys(ctx, l, since)
}

func (s *Store) loadMeta(ctx context.Context, l *store.Loaded) error {
	err := s.conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE name=?", clusterUUID).Scan(&l.ClusterUUID)
	if errors.Is(err, sql.ErrNoRows) {
		if l.ClusterUUID = s.cfg.ClusterUUID; l.ClusterUUID == "" {
			l.ClusterUUID = uuid.NewString()
		}
		err = s.write(ctx, &metaTable, []any{clusterUUID, l.ClusterUUID})
	}
	if err != nil {
		return err
	}
	var next string
	err = s.conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE name=?", nextJobID).Scan(&next)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(next, 10, 32)
	if err != nil {
		return fmt.Errorf("next job id: %w", err)
	}
	l.NextJobID = uint32(n)
	return nil
}

func (s *Store) loadKeys(ctx context.Context, l *store.Loaded, since int64) error {
	if _, err := s.conn.ExecContext(ctx, "DELETE FROM idempotency WHERE at<?", since); err != nil {
		return err
	}
	rows, err := s.conn.QueryContext(ctx, "SELECT uid, token, digest, job, warning, at FROM idempotency ORDER BY job")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k store.IdempotencyKey
		var at int64
		if err := rows.Scan(&k.UID, &k.Key, &k.Digest, &k.Job, &k.Warning, &at); err != nil {
			return err
		}
		k.Time = moment(at)
		l.Idempotency = append(l.Idempotency, k)
	}
	return rows.Err()
}

// querier is a connection or a pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// docs reads records from a query of their JSON.
func docs[T any](ctx context.Context, db querier, query string, args ...any) ([]*T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*T
	for rows.Next() {
		var doc sql.RawBytes
		if err := rows.Scan(&doc); err != nil {
			return nil, err
		}
		v := new(T)
		if err := json.Unmarshal(doc, v); err != nil {
			return nil, fmt.Errorf("stored record: %w", err)
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
