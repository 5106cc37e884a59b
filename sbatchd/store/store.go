// Package store is the contract of the controller's durable state: rows are
// the truth, events the story, and both are committed together or not at all.
// The queue is its only writer; sqlstore implements it and storetest checks an
// implementation.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// Errors a caller branches on.
var (
	// ErrNotLeader: another controller leads; this one must stop.
	ErrNotLeader = errors.New("another controller has leadership")
	// ErrNewerSchema: the state was written by a newer sbatchd.
	ErrNewerSchema = errors.New("state has a newer schema")
	ErrNotFound    = errors.New("not found")
)

// Event is one line of the story: who did what to which record.
type Event struct {
	Seq   uint64          `json:"seq"` // given by the store
	Time  time.Time       `json:"time"`
	Actor string          `json:"actor"` // user name, or a part of the controller in angle brackets
	Kind  string          `json:"kind"`  // JobSubmitted, NodeUp, ...
	Job   uint32          `json:"job,omitempty"`
	Node  string          `json:"node,omitempty"`
	Tag   string          `json:"tag,omitempty"` // instance
	Data  json.RawMessage `json:"data,omitempty"`
}

// Blob is a script or an environment, kept once under its hash.
type Blob struct {
	Hash string // hex SHA-256 of Data
	Data []byte
}

// Batch is one transaction: all of it is durable when Commit returns nil.
type Batch struct {
	Events    []Event
	Jobs      []*job.Job       // rows to write, by raw id
	Runs      []*job.Run       // attempt rows to write, by (job, restart)
	Nodes     []*node.Node     // rows to write, by name
	Instances []*node.Instance // ledger rows to write, by tag
	Blobs     []Blob           // kept if not yet there
	// NextJobID is written when not 0.
	NextJobID uint32
	// Idempotency remembers which job answered a client's key.
	Idempotency []IdempotencyKey
	// Forget lists jobs that leave memory: their rows stay for accounting but
	// are not loaded at start (Slurm's MinJobAge).
	Forget []uint32
	// DropNodes lists nodes that left the config.
	DropNodes []string
	// Records are rows of accounting, in order; Txns their story.
	Records []assoc.Row
	Txns    []assoc.Txn
}

// IdempotencyKey ties a client's submit key to the job that answered it.
type IdempotencyKey struct {
	UID     uint32
	Key     string
	Digest  string // of the request
	Job     uint32
	Warning int // Slurm's number of the condition in the answer; 0: none
	Time    time.Time
}

// Loaded is everything needed at start.
type Loaded struct {
	ClusterUUID string
	Epoch       uint64 // of this leadership
	NextJobID   uint32 // 0 on the first start
	Jobs        []*job.Job
	Nodes       []*node.Node
	Instances   []*node.Instance // live ones and those gone less than a day ago
	Idempotency []IdempotencyKey // younger than a day
	Records     []assoc.Row
}

// JobQuery selects accounting records; empty fields select all.
type JobQuery struct {
	IDs        []uint32 // raw ids
	Arrays     []uint32 // array ids: all their tasks
	UIDs       []uint32
	Users      []string
	Partitions []string
	Accounts   []string
	Names      []string
	States     []job.State
	Nodes      []string
	// Jobs that were in one of the states (or existed) between Since and Until.
	Since, Until time.Time
	Limit        int
}

// TxnQuery selects transactions; empty fields select all.
type TxnQuery struct {
	Actions, Actors []string
	Since, Until    time.Time
}

// JobRecord is a job with all its attempts, oldest first.
type JobRecord struct {
	Job  *job.Job
	Runs []*job.Run
}

// Journal is the durable state.
type Journal interface {
	// Load takes leadership (a new epoch, so an older controller's commits
	// fail) and reads the live rows.
	Load(ctx context.Context) (*Loaded, error)
	// Commit writes a batch in one transaction with the fsync done. After an
	// error other than ErrNotLeader it is unknown whether the batch is in: the
	// caller must stop and load again.
	Commit(ctx context.Context, b *Batch) error
	// Blob reads a script or environment.
	Blob(ctx context.Context, hash string) ([]byte, error)
	// Jobs answers sacct, newest attempt state included, in id order.
	Jobs(ctx context.Context, q JobQuery) ([]JobRecord, error)
	// Instances lists the ledger rows of a job's attempts and of tags.
	Instances(ctx context.Context, tags []string) ([]*node.Instance, error)
	// Events reads the story from a sequence number on, at most limit.
	Events(ctx context.Context, from uint64, limit int) ([]Event, error)
	// Transactions reads the story of accounting's records, oldest first.
	Transactions(ctx context.Context, q TxnQuery) ([]assoc.Txn, error)
	Close() error
}
