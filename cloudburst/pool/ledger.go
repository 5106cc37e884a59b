package pool

import (
	"context"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
)

// RowState is where a ledger row is in its life: intent, created, deleting,
// gone.
type RowState string

// The states of a row, in order. A row may go from any of them to Gone, and
// back to Deleting when a machine that was given up appears after all.
const (
	Intent   RowState = "intent"
	Created  RowState = "created"
	Deleting RowState = "deleting"
	Gone     RowState = "gone"
)

// Row is one machine in the ledger.
type Row struct {
	Tag          cloudburst.Tag
	Node         string
	Pool         string
	Provider     string
	Incarnation  uint32
	Epoch        uint64
	State        RowState
	ID           cloudburst.InstanceID // "" until the provider named it
	Address      string
	InstanceType string
	Region       string
	Spot         bool
	GPUs         string // gres of the machine, as in gpu:a100:2
	CPUs         int
	MemoryMiB    int64
	Price        cloudburst.Money // per hour
	IntentAt     time.Time
	CreatedAt    time.Time
	DeleteAt     time.Time // deletion first asked
	Why          string    // why it was deleted
	Err          string    // the provider's last answer, if bad
}

// Live reports whether the row may stand for a machine that costs money.
func (r Row) Live() bool { return r.State != Gone }

// Node is a node of a pool, as far as the pool must know it.
type Node struct {
	Name         string
	Pool         string
	Incarnation  uint32
	PoweringUp   bool
	PoweringDown bool
	Why          string         // why it powers down, if that is known
	ResumeBy     time.Time      // boot deadline; zero once its agent has called
	Instance     cloudburst.Tag // of its row; "" when it has none
	ReclaimAt    time.Time      // as already announced
	GPUs         int            // what the jobs that wait for it were given; 0 is the least the pool makes
	// Also is a further want every offer must meet: limits of the jobs that wait
	// for the node (--regions, --max-price, --interconnect). May be nil.
	Also *cloudburst.Want
}

// Snapshot is the state the pool acts on. It is never changed.
type Snapshot struct {
	Config      *partitions.Config
	ClusterUUID string
	Epoch       uint64
	Nodes       []Node // of pools
	Rows        []Row  // all that are Live, and what is remembered of the others
}

// Ledger is the record of machines. Each change is committed when the call
// returns.
type Ledger interface {
	// Snapshot is the newest committed state.
	Snapshot() Snapshot
	// Watch gives a channel that receives after every change, and a function
	// that ends it.
	Watch() (<-chan struct{}, func())
	// Intend records a machine that is about to be asked for; false means that
	// its node does not want one (any more).
	Intend(ctx context.Context, r Row) (bool, error)
	// Learn changes the row of a tag. Unknown tags are ignored.
	Learn(ctx context.Context, tag cloudburst.Tag, edit func(*Row)) error
	// Adopt records a machine that carries our tag but has no row.
	Adopt(ctx context.Context, r Row) error
	// Gone records that a machine does not exist; its node lost it.
	Gone(ctx context.Context, tag cloudburst.Tag, why string) error
}

// NodeSink is told what happens to nodes and pools.
type NodeSink interface {
	// NotRented gives a node back for which no machine could be had.
	NotRented(ctx context.Context, node string, incarnation uint32, why string) error
	// Notice says that a node's machine will be taken away.
	Notice(ctx context.Context, node string, at time.Time) error
	// MarkPool sets a pool aside until a time, for a reason in a sentence; the
	// zero time and "" make it usable again.
	MarkPool(ctx context.Context, pool string, until time.Time, why string) error
}
