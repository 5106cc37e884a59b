package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// Blob implements store.Journal.
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	var data []byte
	err := s.r.QueryRowContext(ctx, "SELECT data FROM content WHERE hash=?", hash).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("content %s: %w", hash, err)
	}
	return nonNil(data), nil
}

// Events implements store.Journal.
func (s *Store) Events(ctx context.Context, from uint64, limit int) ([]store.Event, error) {
	rows, err := s.r.QueryContext(ctx, "SELECT seq, at, actor, kind, job, node, tag, data FROM event WHERE seq>=? ORDER BY seq LIMIT ?",
		int64(from), limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	var list []store.Event
	for rows.Next() {
		var e store.Event
		var at int64
		var data []byte
		if err := rows.Scan(&e.Seq, &at, &e.Actor, &e.Kind, &e.Job, &e.Node, &e.Tag, &data); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		e.Time, e.Data = moment(at), data
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return list, nil
}

// Instances implements store.Journal.
func (s *Store) Instances(ctx context.Context, tags []string) ([]*node.Instance, error) {
	var list []*node.Instance
	for len(tags) > 0 {
		n := min(len(tags), 500)
		part, err := docs[node.Instance](ctx, s.r, "SELECT doc FROM instance WHERE tag IN ("+questions(n)+") ORDER BY tag", anys(tags[:n])...)
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		list, tags = append(list, part...), tags[n:]
	}
	return list, nil
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// where collects conditions that must all hold.
type where struct {
	conds []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

// in adds "col IN (...)" unless list is empty.
func in[T any](w *where, col string, list []T) {
	if len(list) > 0 {
		w.and(col+" IN ("+questions(len(list))+")", anys(list)...)
	}
}

func (w *where) text() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// Jobs implements store.Journal.
func (s *Store) Jobs(ctx context.Context, q store.JobQuery) ([]store.JobRecord, error) {
	list, err := s.jobs(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	return list, nil
}

func (s *Store) jobs(ctx context.Context, q store.JobQuery) ([]store.JobRecord, error) {
	w := selection(q)
	query := "SELECT j.doc FROM job j" + w.text() + " ORDER BY j.id"
	if q.Limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	jobs, err := docs[job.Job](ctx, s.r, query, w.args...)
	if err != nil {
		return nil, err
	}
	list := make([]store.JobRecord, len(jobs))
	at := make(map[uint32]int, len(jobs))
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		list[i].Job, at[j.ID.Raw], ids[i] = j, i, int64(j.ID.Raw)
	}
	for len(ids) > 0 {
		n := min(len(ids), 500)
		runs, err := docs[job.Run](ctx, s.r, "SELECT doc FROM run WHERE job IN ("+questions(n)+") ORDER BY job, restart", anys(ids[:n])...)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			list[at[r.Job]].Runs = append(list[at[r.Job]].Runs, r)
		}
		ids = ids[n:]
	}
	return list, nil
}

// selection turns a query into conditions on job j.
func selection(q store.JobQuery) *where {
	w := new(where)
	if len(q.IDs)+len(q.Arrays) > 0 {
		var either where
		in(&either, "j.id", q.IDs)
		in(&either, "j.array_id", q.Arrays)
		w.and("("+strings.Join(either.conds, " OR ")+")", either.args...)
	}
	in(w, "j.uid", q.UIDs)
	in(w, "j.user_name", q.Users)
	in(w, "j.part", q.Partitions)
	in(w, "j.account", q.Accounts)
	in(w, "j.job_name", q.Names)
	if len(q.Nodes) > 0 {
		w.and("EXISTS (SELECT 1 FROM run_node n WHERE n.job=j.id AND n.node IN ("+questions(len(q.Nodes))+"))", anys(q.Nodes)...)
	}
	since, until := nanos(q.Since), nanos(q.Until)
	if q.Until.IsZero() {
		until = math.MaxInt64
	}
	if len(q.States) == 0 {
		if !q.Since.IsZero() {
			w.and("(j.ended=0 OR j.ended>=?)", since)
		}
		if !q.Until.IsZero() {
			w.and("j.submitted<=?", until)
		}
		return w
	}
	var any where
	for _, st := range q.States {
		inState(&any, st, since, until)
	}
	w.and("("+strings.Join(any.conds, " OR ")+")", any.args...)
	return w
}

// inState adds the condition that a job was in a state at some time between
// since and until.
func inState(w *where, st job.State, since, until int64) {
	const run = "EXISTS (SELECT 1 FROM run r WHERE r.job=j.id AND "
	switch {
	case st == job.Pending:
		// Until it started first, and now if it was requeued.
		w.and("(j.submitted<=? AND (j.state=? OR CASE WHEN j.started>0 THEN j.started ELSE j.ended END>=?))", until, int64(st), since)
	case st == job.Running:
		w.and(run+"r.allocated<=? AND (r.ended=0 OR r.ended>=?))", until, since)
	case !st.Final():
		w.and("(j.state=? AND j.submitted<=?)", int64(st), until)
	default:
		w.and("(j.state=? AND j.ended BETWEEN ? AND ? OR "+run+"r.state=? AND r.ended BETWEEN ? AND ?))",
			int64(st), since, until, int64(st), since, until)
	}
}
