package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// table is how rows of one table are written.
type table struct {
	name string
	key  []string
	cols []string // key columns included
	// keep lists columns that an existing row keeps.
	keep []string
	// ignore leaves an existing row as it is.
	ignore bool
}

var (
	eventTable    = table{name: "event", cols: []string{"seq", "at", "actor", "kind", "job", "node", "tag", "data"}}
	jobTable      = table{name: "job", key: []string{"id"}, keep: []string{"live"}, cols: []string{"id", "live", "array_id", "uid", "user_name", "account", "job_name", "part", "state", "submitted", "started", "ended", "doc"}}
	runTable      = table{name: "run", key: []string{"job", "restart"}, cols: []string{"job", "restart", "state", "allocated", "ended", "doc"}}
	runNodeTable  = table{name: "run_node", cols: []string{"node", "job", "restart"}, ignore: true}
	nodeTable     = table{name: "node", key: []string{"name"}, cols: []string{"name", "doc"}}
	instanceTable = table{name: "instance", key: []string{"tag"}, cols: []string{"tag", "state", "gone", "doc"}}
	contentTable  = table{name: "content", cols: []string{"hash", "data"}, ignore: true}
	idemTable     = table{name: "idempotency", cols: []string{"uid", "token", "digest", "job", "warning", "at"}, ignore: true}
	metaTable     = table{name: "meta", key: []string{"name"}, cols: []string{"name", "value"}}
)

func (t *table) insert(d *dialect, rows int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + t.name + " (" + strings.Join(t.cols, ",") + ") VALUES ")
	row := "(" + questions(len(t.cols)) + "),"
	b.WriteString(strings.TrimSuffix(strings.Repeat(row, rows), ","))
	if t.ignore {
		b.WriteString(d.ignore(t.cols[0]))
	}
	if t.key != nil {
		var set []string
		for _, c := range t.cols {
			if !slices.Contains(t.key, c) && !slices.Contains(t.keep, c) {
				set = append(set, c)
			}
		}
		b.WriteString(d.replace(t.key, set))
	}
	return b.String()
}

type insertKey struct {
	table string
	rows  int
}

// chunks are the numbers of rows that one statement writes: few enough shapes
// to keep them all prepared.
var chunks = []int{32, 8, 1}

// write sends rows, each as many values as t has columns, in order.
func (s *Store) write(ctx context.Context, t *table, values []any) error {
	for _, n := range chunks {
		step := n * len(t.cols)
		for len(values) >= step {
			st, err := s.prepared(ctx, t, n) //nolint:sqlclosecheck // kept for the next commit, closed with the store
			if err != nil {
				return err
			}
			if _, err := st.ExecContext(ctx, values[:step]...); err != nil {
				return fmt.Errorf("write %s: %w", t.name, err)
			}
			values = values[step:]
		}
	}
	return nil
}

func (s *Store) prepared(ctx context.Context, t *table, rows int) (*sql.Stmt, error) {
	key := insertKey{t.name, rows}
	if st, ok := s.inserts[key]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(ctx, t.insert(s.d, rows))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", t.name, err)
	}
	s.inserts[key] = st
	return st, nil
}

// Commit implements store.Journal. It gives the events their sequence numbers.
// Once begun it ends, whatever becomes of ctx.
func (s *Store) Commit(ctx context.Context, b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == 0 {
		return errors.New("commit: state is not loaded")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	err := s.inTx(ctx, func() error { return s.commit(ctx, b) })
	if err != nil && s.d.lost(err) {
		err = s.again(ctx, b, err)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.turn++
	s.nextSeq += uint64(len(b.Events))
	for _, blob := range b.Blobs {
		if len(s.known) > 10_000 {
			clear(s.known)
		}
		s.known[blob.Hash] = struct{}{}
	}
	return nil
}

// inTx runs do in one transaction on the writer's connection.
func (s *Store) inTx(ctx context.Context, do func() error) error {
	if _, err := s.conn.ExecContext(ctx, s.d.begin); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = s.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		if _, rerr := s.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil {
			s.cfg.Log.Debug("rollback", "err", rerr)
		}
	}
	return err
}

func (s *Store) commit(ctx context.Context, b *store.Batch) error {
	res, err := s.lead.ExecContext(ctx, s.cfg.Holder, int64(s.epoch), s.turn)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return store.ErrNotLeader
	}
	for _, step := range []func(context.Context, *store.Batch) error{
		s.putContent, s.putEvents, s.putJobs, s.putRuns, s.putNodes, s.putInstances, s.putRecords, s.putRest,
	} {
		if err := step(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putContent(ctx context.Context, b *store.Batch) error {
	var rows []any
	for _, blob := range b.Blobs {
		if _, ok := s.known[blob.Hash]; !ok {
			rows = append(rows, blob.Hash, nonNil(blob.Data))
		}
	}
	return s.write(ctx, &contentTable, rows)
}

// nonNil keeps an empty file from being stored as NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (s *Store) putEvents(ctx context.Context, b *store.Batch) error {
	rows := make([]any, 0, len(b.Events)*len(eventTable.cols))
	for i := range b.Events {
		e := &b.Events[i]
		e.Seq = s.nextSeq + uint64(i)
		var data any
		if len(e.Data) > 0 {
			data = []byte(e.Data)
		}
		rows = append(rows, int64(e.Seq), nanos(e.Time), e.Actor, e.Kind, int64(e.Job), e.Node, e.Tag, data)
	}
	return s.write(ctx, &eventTable, rows)
}

// last keeps, of several rows with one key, only the newest: one statement
// can't write the same row twice in every database.
func last[T any, K comparable](list []T, key func(T) K) []T {
	seen := make(map[K]int, len(list))
	for i, v := range list {
		seen[key(v)] = i
	}
	if len(seen) == len(list) {
		return list
	}
	var out []T
	for i, v := range list {
		if seen[key(v)] == i {
			out = append(out, v)
		}
	}
	return out
}

func (s *Store) putJobs(ctx context.Context, b *store.Batch) error {
	jobs := last(b.Jobs, func(j *job.Job) uint32 { return j.ID.Raw })
	rows := make([]any, 0, len(jobs)*len(jobTable.cols))
	for _, j := range jobs {
		doc, err := json.Marshal(j)
		if err != nil {
			return fmt.Errorf("job %d: %w", j.ID.Raw, err)
		}
		var name string
		if j.Spec != nil {
			name = j.Spec.Name
		}
		var ended time.Time // j.End of a job that runs is only expected
		if j.State.Final() {
			ended = j.End
		}
		rows = append(rows, int64(j.ID.Raw), 1, int64(j.ID.Array), int64(j.UID), clip(j.User, 255), clip(j.Account, 255), clip(name, 1024), clip(j.Partition, 255),
			int64(j.State), nanos(j.Submit), nanos(j.Start), nanos(ended), doc)
	}
	return s.write(ctx, &jobTable, rows)
}

func (s *Store) putRuns(ctx context.Context, b *store.Batch) error {
	runs := last(b.Runs, func(r *job.Run) job.Attempt { return r.Attempt })
	rows := make([]any, 0, len(runs)*len(runTable.cols))
	var on []any
	for _, r := range runs {
		doc, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("run %s: %w", r.Attempt, err)
		}
		rows = append(rows, int64(r.Job), int64(r.Restart), int64(r.State), nanos(r.Alloc), nanos(r.Ended), doc)
		for _, a := range r.Nodes {
			on = append(on, a.Node, int64(r.Job), int64(r.Restart))
		}
	}
	if err := s.write(ctx, &runTable, rows); err != nil {
		return err
	}
	return s.write(ctx, &runNodeTable, on)
}

func (s *Store) putNodes(ctx context.Context, b *store.Batch) error {
	var rows []any
	for _, n := range last(b.Nodes, func(n *node.Node) string { return n.Name }) {
		doc, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		rows = append(rows, n.Name, doc)
	}
	return s.write(ctx, &nodeTable, rows)
}

func (s *Store) putInstances(ctx context.Context, b *store.Batch) error {
	var rows []any
	for _, i := range last(b.Instances, func(i *node.Instance) string { return i.Tag }) {
		doc, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("instance %s: %w", i.Tag, err)
		}
		var gone int64
		if !i.Live() {
			gone = max(1, nanos(i.GoneAt))
		}
		rows = append(rows, i.Tag, string(i.State), gone, doc)
	}
	return s.write(ctx, &instanceTable, rows)
}

func (s *Store) putRest(ctx context.Context, b *store.Batch) error {
	if b.NextJobID != 0 {
		if err := s.write(ctx, &metaTable, []any{nextJobID, fmt.Sprint(b.NextJobID)}); err != nil {
			return err
		}
	}
	var rows []any
	for _, k := range b.Idempotency {
		rows = append(rows, int64(k.UID), k.Key, k.Digest, int64(k.Job), int64(k.Warning), nanos(k.Time))
	}
	if err := s.write(ctx, &idemTable, rows); err != nil {
		return err
	}
	for _, id := range b.Forget {
		if _, err := s.conn.ExecContext(ctx, "UPDATE job SET live=0 WHERE id=?", int64(id)); err != nil {
			return fmt.Errorf("forget job %d: %w", id, err)
		}
	}
	for _, name := range b.DropNodes {
		if _, err := s.conn.ExecContext(ctx, "DELETE FROM node WHERE name=?", name); err != nil {
			return fmt.Errorf("drop node %s: %w", name, err)
		}
	}
	return nil
}

// clip makes any bytes a text that fits a column of n characters. Such a column is
// searched; the record itself has all of the text.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// nanos is a time as stored.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// moment is a stored time.
func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
