// Package node holds what a node is: what it has, what is in use, its base
// state and power flags, and the lease of the machine behind it. Pure data.
package node

import (
	"strings"
	"time"
)

// State is a node's base state.
type State uint8

// Base states in Slurm's meaning. Whether a node is idle, mixed or allocated
// follows from what is in use; see Node.Shown.
const (
	Unknown State = iota
	Down
	Idle
	Allocated
	Mixed
)

var stateNames = [...]string{"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "MIXED"}

// String is the long name, for instance IDLE.
func (s State) String() string { return stateNames[s] }

// Flags refine the base state.
type Flags uint32

// State flags, named as Slurm names them.
const (
	Cloud Flags = 1 << iota
	Drain
	Completing
	NotResponding
	PoweredDown
	PoweringUp
	PoweringDown
	PowerDown // power-down asked, waits for its jobs to end
	Fail
	// Reclaimed: the provider announced that it takes the machine (ours; shown as DRAIN).
	Reclaimed
)

// Has says whether all flags of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

var flagNames = []struct {
	f    Flags
	name string
}{
	{Cloud, "CLOUD"},
	{Drain, "DRAIN"},
	{Completing, "COMPLETING"},
	{NotResponding, "NOT_RESPONDING"},
	{PoweredDown, "POWERED_DOWN"},
	{Fail, "FAIL"},
	{PoweringUp, "POWERING_UP"},
	{PoweringDown, "POWERING_DOWN"},
	{PowerDown, "POWER_DOWN"},
}

// Names lists the flags Slurm shows, in Slurm's bit order.
func (f Flags) Names() []string {
	if f.Has(Reclaimed) {
		f |= Drain
	}
	var out []string
	for _, n := range flagNames {
		if f.Has(n.f) {
			out = append(out, n.name)
		}
	}
	return out
}

// Node is one node. Values are immutable once published in a state.
type Node struct {
	Name string `json:"name"`
	Pool string `json:"pool,omitempty"` // empty for a static node
	// Index is the node's place in its partition's order.
	Index int `json:"index"`

	// Down says that the base state is DOWN; otherwise it follows from use.
	Down       bool      `json:"down,omitempty"`
	Flags      Flags     `json:"flags,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	ReasonUser string    `json:"reason_user,omitempty"`
	ReasonTime time.Time `json:"reason_time,omitzero"`

	// What the node has: as its pool or NodeName declares, or as its agent reported.
	CPUs       int      `json:"cpus"`
	MemoryMiB  int64    `json:"memory_mib"`
	TmpDiskMiB int64    `json:"tmp_disk_mib,omitempty"`
	Gres       []Gres   `json:"gres,omitempty"`
	Features   []string `json:"features,omitempty"`
	Weight     int      `json:"weight"`
	Image      string   `json:"image,omitempty"` // on container-only providers: the image it runs

	// What is in use, kept by Apply.
	Jobs     []uint32          `json:"-"` // raw ids, ascending
	UsedCPUs int               `json:"-"`
	UsedMiB  int64             `json:"-"`
	UsedGres map[string]uint64 `json:"-"` // gres name -> bit mask of devices
	// CompletingJobs counts jobs that hold the node only to finish.
	CompletingJobs int `json:"-"`

	// The machine behind it.
	Incarnation uint32    `json:"incarnation,omitempty"` // grows at every resume
	Instance    string    `json:"instance,omitempty"`    // tag of the ledger's row
	ResumeBy    time.Time `json:"resume_by,omitzero"`    // boot deadline
	Boot        time.Time `json:"boot,omitzero"`
	AgentStart  time.Time `json:"agent_start,omitzero"`
	LastBusy    time.Time `json:"last_busy,omitzero"`
	PowerSince  time.Time `json:"power_since,omitzero"` // of the present power state
	// PowerWhy is why the machine is being given back.
	PowerWhy  string    `json:"power_why,omitempty"`
	ReclaimAt time.Time `json:"reclaim_at,omitzero"`
	// JoinTag and JoinKey are of the last join of a static node: the token that was
	// used, and the hash of the key it was bound to.
	JoinTag string `json:"join_tag,omitempty"`
	JoinKey string `json:"join_key,omitempty"`
	// LastSeen is when the agent last spoke; it is refreshed in memory only.
	LastSeen time.Time `json:"last_seen,omitzero"`
	Version  string    `json:"version,omitempty"`
	Driver   string    `json:"driver,omitempty"`
	Arch     string    `json:"arch,omitempty"`
	OS       string    `json:"os,omitempty"`
	BootID   string    `json:"boot_id,omitempty"`
	SkewMs   int64     `json:"skew_ms,omitempty"` // agent's clock minus ours
	Load     float64   `json:"-"`
	FreeMiB  int64     `json:"-"`
}

// Gres is a countable device kind of a node.
type Gres struct {
	Name  string `json:"name"` // gpu
	Type  string `json:"type,omitempty"`
	Count int    `json:"count"`
}

// Clone is a shallow copy for editing.
func (n *Node) Clone() *Node { c := *n; return &c }

// Base is the base state: DOWN, or what use says.
func (n *Node) Base() State {
	switch {
	case n.Down:
		return Down
	case len(n.Jobs) == 0 || len(n.Jobs) == n.CompletingJobs && n.UsedCPUs == 0:
		return Idle
	case n.UsedCPUs >= n.CPUs:
		return Allocated
	default:
		return Mixed
	}
}

// AllFlags is Flags with those that follow from use.
func (n *Node) AllFlags() Flags {
	f := n.Flags
	if n.CompletingJobs > 0 {
		f |= Completing
	}
	return f
}

// Up says whether the node's agent is there and may be given work.
func (n *Node) Up() bool {
	return !n.Down && n.Flags&(PoweredDown|PoweringUp|PoweringDown|NotResponding) == 0
}

// Schedulable says whether new jobs may be placed on the node, also if it must
// first be resumed.
func (n *Node) Schedulable() bool {
	return !n.Down && n.Flags&(Drain|Fail|PoweringDown|PowerDown|NotResponding|Reclaimed) == 0
}

// RemovedReason marks a node that left the config while something lives on it.
const RemovedReason = "removed from the config"

// Removed says whether the node left the config: it goes when it is empty.
func (n *Node) Removed() bool { return n.Flags.Has(Drain) && n.Reason == RemovedReason }

// GresCount is how many devices of name (and type, if not empty) the node has.
func (n *Node) GresCount(name, typ string) int {
	c := 0
	for _, g := range n.Gres {
		if g.Name == name && (typ == "" || strings.EqualFold(g.Type, typ)) {
			c += g.Count
		}
	}
	return c
}

// InstanceState is where a rented machine is in its life.
type InstanceState string

// The life of a ledger row:
//
//	intent -> created -> deleting -> gone
//	   |         |                    ^
//	   +---------+--------------------+  (never made, or vanished by itself)
const (
	Intent   InstanceState = "intent"
	Created  InstanceState = "created"
	Deleting InstanceState = "deleting"
	Gone     InstanceState = "gone"
)

// Instance is one row of the ledger: a machine asked of a provider, recorded
// before, during and after it lives.
type Instance struct {
	Tag          string        `json:"tag"` // <cluster uuid>-<node>-<incarnation>
	Node         string        `json:"node"`
	Pool         string        `json:"pool"`
	Provider     string        `json:"provider"`
	Incarnation  uint32        `json:"incarnation"`
	Epoch        uint64        `json:"epoch"`
	State        InstanceState `json:"state"`
	ProviderID   string        `json:"provider_id,omitempty"`
	Address      string        `json:"address,omitempty"`
	InstanceType string        `json:"instance_type,omitempty"`
	Region       string        `json:"region,omitempty"`
	Spot         bool          `json:"spot,omitempty"`
	GPUs         string        `json:"gpus,omitempty"` // gres of the offer, e.g. gpu:a100:2
	CPUs         int           `json:"cpus,omitempty"`
	MemoryMiB    int64         `json:"memory_mib,omitempty"`
	PriceMicros  int64         `json:"price_micros,omitempty"` // per hour
	Currency     string        `json:"currency,omitempty"`
	JoinKey      string        `json:"join_key,omitempty"` // hash of the first key that used the join token
	IntentAt     time.Time     `json:"intent_at"`
	CreatedAt    time.Time     `json:"created_at,omitzero"`
	DeleteAt     time.Time     `json:"delete_at,omitzero"` // deletion first asked
	GoneAt       time.Time     `json:"gone_at,omitzero"`   // confirmed by the provider
	Why          string        `json:"why,omitempty"`      // why it was deleted
	Err          string        `json:"err,omitempty"`      // last answer of the provider, if bad
}

// Live says whether the row may stand for a machine that costs money.
func (i *Instance) Live() bool { return i.State != Gone }

// Clone is a copy for editing.
func (i *Instance) Clone() *Instance { c := *i; return &c }

// Registration is what an agent says of itself and its machine.
type Registration struct {
	Node, Tag  string
	BootID     string
	Boot       time.Time
	Agent      time.Time // its start
	Version    string
	Driver     string
	Arch, OS   string
	SkewMs     int64
	CPUs       int
	MemoryMiB  int64
	TmpDiskMiB int64
	Gres       []Gres
}
