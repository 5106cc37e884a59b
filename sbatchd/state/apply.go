package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// Event is one change, decided by the queue. The concrete types are in
// jobevents.go and nodeevents.go.
type Event interface {
	// Kind is the event's name in the story.
	Kind() string
	// Subject says which record the event is about; unused parts are zero.
	Subject() (job uint32, node, tag string)
	apply(*tx) error
}

// Volatile marks events that change memory only: what they say is found out
// again after a restart, so neither rows nor the story hold it.
type Volatile interface{ volatile() }

// ErrUnknown tells that the event is about a record that does not exist (any more).
var ErrUnknown = errors.New("unknown record")

// Changes are the rows an event changed, to be committed with it.
type Changes struct {
	Jobs      []uint32
	Runs      []*job.Run
	Nodes     []string
	Instances []string
	Forget    []uint32
	DropNodes []string
	Records   []assoc.Row
	Txns      []assoc.Txn
}

// tx is a state being changed.
type tx struct {
	*State
	ch Changes
}

// Apply moves a state on by one event and says which rows changed. On an error
// nothing changed. The state passed in stays as it is.
func Apply(s *State, e Event) (*State, Changes, error) {
	t := &tx{State: s.fork()}
	if err := e.apply(t); err != nil {
		return s, Changes{}, fmt.Errorf("apply %s: %w", e.Kind(), err)
	}
	if _, ok := e.(Volatile); ok {
		return t.State, Changes{}, nil
	}
	return t.State, t.ch, nil
}

// putJob replaces a job, keeps the indexes and the use of its nodes right, and
// refuses an illegal move.
func (t *tx) putJob(j *job.Job) error {
	old, had := t.jobs.Get(j.ID.Raw)
	if had && old.State != j.State && !job.Legal(old.State, j.State) {
		return &job.TransitionError{Job: j.ID.Raw, From: old.State, To: j.State}
	}
	t.jobs.Set(j.ID.Raw, j)
	if j.State == job.Pending {
		t.pending.Insert(j.ID.Raw)
	} else {
		t.pending.Delete(j.ID.Raw)
	}
	if j.Active() {
		t.active.Insert(j.ID.Raw)
	} else {
		t.active.Delete(j.ID.Raw)
	}
	if !slices.Contains(t.ch.Jobs, j.ID.Raw) {
		t.ch.Jobs = append(t.ch.Jobs, j.ID.Raw)
	}
	var was *job.Job
	if had {
		was = old
	}
	t.index(was, j)
	t.recount(was, j)
	return t.lead(j)
}

// putRun replaces a job's current run and marks its row.
func (t *tx) putRun(j *job.Job, r *job.Run) {
	j.Run = r
	t.ch.Runs = append(t.ch.Runs, r)
}

func (t *tx) putNode(n *node.Node) {
	t.nodes.Set(n.Name, n)
	if !slices.Contains(t.ch.Nodes, n.Name) {
		t.ch.Nodes = append(t.ch.Nodes, n.Name)
	}
}

func (t *tx) putInstance(i *node.Instance) {
	t.instances.Set(i.Tag, i)
	if !slices.Contains(t.ch.Instances, i.Tag) {
		t.ch.Instances = append(t.ch.Instances, i.Tag)
	}
}

// editRun clones a job and its run for change; the attempt must be the present one.
func (t *tx) editRun(a job.Attempt) (*job.Job, *job.Run, error) {
	j, ok := t.jobs.Get(a.Job)
	if !ok {
		return nil, nil, fmt.Errorf("job %d: %w", a.Job, ErrUnknown)
	}
	if j.Run == nil || j.Run.Attempt != a || !j.Active() {
		return nil, nil, fmt.Errorf("attempt %s is not the present one", a)
	}
	return j.Clone(), j.Run.Clone(), nil
}

func (t *tx) editJob(raw uint32) (*job.Job, error) {
	j, ok := t.jobs.Get(raw)
	if !ok {
		return nil, fmt.Errorf("job %d: %w", raw, ErrUnknown)
	}
	return j.Clone(), nil
}

func (t *tx) editNode(name string) (*node.Node, error) {
	n, ok := t.nodes.Get(name)
	if !ok {
		return nil, fmt.Errorf("node %s: %w", name, ErrUnknown)
	}
	return n.Clone(), nil
}
