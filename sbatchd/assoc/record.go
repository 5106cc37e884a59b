package assoc

import (
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// ID is the number of an association, a QOS, a wckey or a TRES. 0 is none.
type ID uint32

// Root is the account at the top of every cluster's tree.
const Root = "root"

// ParentShares is the Shares of an association that shares as its parent does
// (Fairshare=parent); Slurm's own number for it.
const ParentShares uint32 = 0x7fffffff

// Cluster is one Slurm cluster; its limits are those of its root association.
type Cluster struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

// Account is a name that users charge; where it stands in a cluster's tree is
// its association's.
type Account struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Organization string   `json:"organization,omitempty"`
	Coordinators []string `json:"coordinators,omitempty"` // direct ones, sorted
	UsersCoords  bool     `json:"users_coords,omitempty"` // Flags=UsersAreCoords
}

// Level is how far a user reaches in accounting (AdminLevel).
type Level uint8

// Levels in rising order.
const (
	LevelNone Level = iota
	LevelOperator
	LevelAdmin
)

var levelNames = [...]string{"None", "Operator", "Administrator"}

// String is the level as sacctmgr prints it.
func (l Level) String() string { return levelNames[l] }

// User is a user known to accounting. Users that are not may run jobs unless
// AccountingStorageEnforce says otherwise.
type User struct {
	Name         string `json:"name"`
	Level        Level  `json:"level,omitempty"`
	DefaultWCKey string `json:"default_wckey,omitempty"`
}

// Assoc is a node of the tree: an account in a cluster (User is empty), or a
// user in an account, perhaps for one partition only.
type Assoc struct {
	ID        ID     `json:"id"`
	Cluster   string `json:"cluster"`
	Account   string `json:"account"`
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	Parent    ID     `json:"parent,omitempty"` // an account's parent, a user's account
	// Default marks the association whose account a user's jobs get without -A.
	Default bool   `json:"default,omitempty"`
	Shares  uint32 `json:"shares"`
	Comment string `json:"comment,omitempty"`
	// QOS lists what may be asked for; nil inherits the parent's.
	QOS        []ID `json:"qos,omitempty"`
	DefaultQOS ID   `json:"default_qos,omitempty"` // 0 inherits
	Limits
}

// Flag is one of a QOS's flags, as sacctmgr spells them.
type Flag string

// Flags lists the flags of a QOS with the API's name for each, in the order in
// which Slurm prints them.
var Flags = []struct {
	Flag Flag
	Wire string
}{
	{"DenyOnLimit", "DENY_LIMIT"},
	{"EnforceUsageThreshold", "ENFORCE_USAGE_THRESHOLD"},
	{"PartitionMinNodes", "PARTITION_MINIMUM_NODE"},
	{"PartitionMaxNodes", "PARTITION_MAXIMUM_NODE"},
	{"PartitionTimeLimit", "PARTITION_TIME_LIMIT"},
	{"RequiresReservation", "REQUIRED_RESERVATION"},
	{"OverPartQOS", "OVERRIDE_PARTITION_QOS"},
	{"NoReserve", "NO_RESERVE"},
	{"NoDecay", "NO_DECAY"},
	{"Relative", "RELATIVE"},
	{"UsageFactorSafe", "USAGE_FACTOR_SAFE"},
}

// QOS is a quality of service with its limits.
type QOS struct {
	ID          ID     `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Flags       []Flag `json:"flags,omitempty"`
	Priority    uint32 `json:"priority,omitempty"`
	GraceTime   uint32 `json:"grace_time,omitempty"` // seconds
	Preempt     []ID   `json:"preempt,omitempty"`
	PreemptMode string `json:"preempt_mode,omitempty"` // "" (cluster), suspend, requeue, cancel, gang
	// PreemptExempt is how long a job runs before it may be preempted, seconds.
	PreemptExempt *uint32 `json:"preempt_exempt,omitempty"`
	// UsageFactor multiplies usage, LimitFactor association limits.
	UsageFactor    float64  `json:"usage_factor"`
	UsageThreshold *float64 `json:"usage_threshold,omitempty"`
	LimitFactor    *float64 `json:"limit_factor,omitempty"`
	Limits
}

// WCKey is a workload characterization key of a user.
type WCKey struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	User    string `json:"user"`
}

// TRES is a trackable resource with its number.
type TRES struct {
	ID   ID     `json:"id"`
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// String is the name as in a TRES list: cpu, gres/gpu.
func (t *TRES) String() string {
	if t.Name == "" {
		return t.Type
	}
	return t.Type + "/" + t.Name
}

// staticTRES have Slurm's own numbers; others are numbered from firstTRES on.
var staticTRES = []string{tres.CPU, tres.Mem, tres.Energy, tres.Node, tres.Billing, "fs/disk", "vmem", "pages"}

const firstTRES ID = 1001

// Txn is one line of sacctmgr show transaction.
type Txn struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"` // Add Users, Modify QOS, ...
	Actor  string    `json:"actor"`
	Where  string    `json:"where,omitempty"`
	Info   string    `json:"info,omitempty"`
}
