package sqlstore

import (
	"context"
	"fmt"
	"math"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

var (
	recordTable = table{name: "acct_record", key: []string{"kind", "name"}, cols: []string{"kind", "name", "doc"}}
	txnTable    = table{name: "acct_txn", cols: []string{"at", "action", "actor", "place", "info"}}
)

func (s *Store) putRecords(ctx context.Context, b *store.Batch) error {
	var rows []any
	for _, r := range last(b.Records, func(r assoc.Row) [2]string { return [2]string{string(r.Kind), r.Key} }) {
		if r.Doc != nil {
			rows = append(rows, string(r.Kind), r.Key, []byte(r.Doc))
			continue
		}
		if _, err := s.conn.ExecContext(ctx, "DELETE FROM acct_record WHERE kind=? AND name=?", string(r.Kind), r.Key); err != nil {
			return fmt.Errorf("remove record %s %s: %w", r.Kind, r.Key, err)
		}
	}
	if err := s.write(ctx, &recordTable, rows); err != nil {
		return err
	}
	rows = rows[:0]
	for _, t := range b.Txns {
		rows = append(rows, nanos(t.Time), t.Action, t.Actor, t.Where, t.Info)
	}
	return s.write(ctx, &txnTable, rows)
}

func (s *Store) loadRecords(ctx context.Context, l *store.Loaded) error {
	rows, err := s.conn.QueryContext(ctx, "SELECT kind, name, doc FROM acct_record ORDER BY kind, name")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r assoc.Row
		var doc []byte
		if err := rows.Scan(&r.Kind, &r.Key, &doc); err != nil {
			return err
		}
		r.Doc = doc
		l.Records = append(l.Records, r)
	}
	return rows.Err()
}

// Transactions implements store.Journal.
func (s *Store) Transactions(ctx context.Context, q store.TxnQuery) ([]assoc.Txn, error) {
	w := new(where)
	in(w, "action", q.Actions)
	in(w, "actor", q.Actors)
	until := int64(math.MaxInt64)
	if !q.Until.IsZero() {
		until = nanos(q.Until)
	}
	w.and("at BETWEEN ? AND ?", nanos(q.Since), until)
	rows, err := s.r.QueryContext(ctx, "SELECT at, action, actor, place, info FROM acct_txn"+w.text()+" ORDER BY seq", w.args...)
	if err != nil {
		return nil, fmt.Errorf("read transactions: %w", err)
	}
	defer rows.Close()
	var list []assoc.Txn
	for rows.Next() {
		var t assoc.Txn
		var at int64
		if err := rows.Scan(&at, &t.Action, &t.Actor, &t.Where, &t.Info); err != nil {
			return nil, fmt.Errorf("read transactions: %w", err)
		}
		t.Time = moment(at)
		list = append(list, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read transactions: %w", err)
	}
	return list, nil
}
