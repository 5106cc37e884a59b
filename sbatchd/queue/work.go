package queue

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// Instance is a ledger row as others see it.
type Instance = node.Instance

// work is one batch being built: the candidate state and what to commit.
type work struct {
	*state.State // the candidate
	Now          time.Time

	q      *Queue
	actor  string
	events []store.Event
	jobs   ordered[uint32]
	nodes  ordered[string]
	insts  ordered[string]
	forget []uint32
	drop   []string
	runs   map[job.Attempt]int // place in runRow
	runRow []*job.Run
	blobs  []store.Blob
	idem   []store.IdempotencyKey
	acct   []assoc.Row
	txns   []assoc.Txn

	undo    []undoRun       // of the present command
	denials []state.Audited // kept although their command failed
	save    savepoint
}

// savepoint is what a failed command is rolled back to.
type savepoint struct {
	state                             *state.State
	events, forget, drop, blobs, idem int
	undo, acct, txns                  int
}

// undoRun is a row of runRow as it was before the present command replaced it;
// nil was none.
type undoRun struct {
	at  int
	was *job.Run
}

// ordered is a list without duplicates, in order of first mention.
type ordered[K comparable] struct {
	list []K
	seen map[K]bool
}

func (o *ordered[K]) add(keys []K) {
	for _, k := range keys {
		if o.seen[k] {
			continue
		}
		if o.seen == nil {
			o.seen = map[K]bool{}
		}
		o.seen[k] = true
		o.list = append(o.list, k)
	}
}

func (w *work) begin() {
	w.undo = w.undo[:0]
	w.save = w.point()
}

func (w *work) point() savepoint {
	return savepoint{w.State, len(w.events), len(w.forget), len(w.drop), len(w.blobs), len(w.idem), len(w.undo), len(w.acct), len(w.txns)}
}

// back returns to a savepoint of the present command. Rows that were marked
// since are written again with their old values, which is harmless.
func (w *work) back(s savepoint) {
	w.State = s.state
	w.events, w.forget, w.drop = w.events[:s.events], w.forget[:s.forget], w.drop[:s.drop]
	w.blobs, w.idem = w.blobs[:s.blobs], w.idem[:s.idem]
	w.acct, w.txns = w.acct[:s.acct], w.txns[:s.txns]
	for i := len(w.undo) - 1; i >= s.undo; i-- {
		u := w.undo[i]
		if u.was != nil {
			w.runRow[u.at] = u.was
			continue
		}
		delete(w.runs, w.runRow[u.at].Attempt)
		w.runRow = w.runRow[:u.at]
	}
	w.undo = w.undo[:s.undo]
}

// rollback forgets what the command did since begin, save that it was denied.
func (w *work) rollback() {
	w.back(w.save)
	w.keepDenials()
}

// keepDenials writes down what was denied although its command did nothing.
func (w *work) keepDenials() {
	denials := w.denials
	w.denials = nil
	for _, d := range denials {
		if err := w.emit(d); err != nil {
			w.q.log.Error("audit record refused", "err", err)
		}
	}
}

// emit applies an event to the candidate and remembers what it changed. An
// error means that the command decided something impossible.
func (w *work) emit(e state.Event) error {
	next, ch, err := state.Apply(w.State, e)
	if err != nil {
		return err
	}
	w.State = next
	if _, ok := e.(state.Volatile); ok {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	id, name, tag := e.Subject()
	w.events = append(w.events, store.Event{
		Time: w.Now, Actor: w.actor, Kind: e.Kind(), Job: id, Node: name, Tag: tag, Data: data,
	})
	w.jobs.add(ch.Jobs)
	w.nodes.add(ch.Nodes)
	w.insts.add(ch.Instances)
	w.forget = append(w.forget, ch.Forget...)
	w.drop = append(w.drop, ch.DropNodes...)
	w.acct, w.txns = append(w.acct, ch.Records...), append(w.txns, ch.Txns...)
	for _, r := range ch.Runs {
		if at, ok := w.runs[r.Attempt]; ok {
			w.undo = append(w.undo, undoRun{at, w.runRow[at]})
			w.runRow[at] = r
			continue
		}
		w.undo = append(w.undo, undoRun{len(w.runRow), nil})
		w.runs[r.Attempt] = len(w.runRow)
		w.runRow = append(w.runRow, r)
	}
	return nil
}

// batch is what must be committed, nil for nothing.
func (w *work) batch(before *state.State) *store.Batch {
	if len(w.events) == 0 && len(w.blobs) == 0 && len(w.idem) == 0 {
		return nil
	}
	b := &store.Batch{
		Events: w.events, Runs: w.runRow, Blobs: w.blobs, Idempotency: w.idem,
		Forget: w.forget, DropNodes: w.drop, Records: w.acct, Txns: w.txns,
	}
	for _, id := range w.jobs.list {
		if j, ok := w.Job(id); ok {
			b.Jobs = append(b.Jobs, j)
		}
	}
	for _, name := range w.nodes.list {
		if n, ok := w.Node(name); ok {
			b.Nodes = append(b.Nodes, n)
		}
	}
	for _, tag := range w.insts.list {
		if i, ok := w.Instance(tag); ok {
			b.Instances = append(b.Instances, i)
		}
	}
	if w.NextJobID != before.NextJobID {
		b.NextJobID = w.NextJobID
	}
	return b
}
