package wire

import (
	"reflect"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// The records of accounting as sacctmgr edits them: /sbatchd/v1/accounting. It
// needs more than slurmdb's REST API can say (where, +=, renames) and asks what
// a change would do before it asks its user.

// AcctEdits are changes to make together; with Dry they are only tried.
type AcctEdits struct {
	Edits []AcctEdit
	Dry   bool
}

// AcctEdit is one change: Op is add, modify or delete; Of is account, user,
// coordinator, assoc, qos, cluster or wckey.
type AcctEdit struct {
	Op, Of string
	Where  AcctWhere
	Set    AcctSettings
}

// AcctWhere names what is added, or selects what is changed; empty selects all.
type AcctWhere struct {
	Clusters, Accounts, Users, Partitions []string `json:",omitempty"`
	Parents                               []string `json:",omitempty"`
	Names                                 []string `json:",omitempty"`
	QOS, DefaultQOS                       []string `json:",omitempty"`
	IDs                                   []uint32 `json:",omitempty"`
	Descriptions, Organizations           []string `json:",omitempty"`
	Levels                                []int    `json:",omitempty"` // 0 none, 1 operator, 2 administrator
	DefaultAccounts, DefaultWCKeys        []string `json:",omitempty"`
	WCKeys                                []string `json:",omitempty"`
}

// AcctList changes a list: Op is "=", "+" or "-".
type AcctList struct {
	Op    string
	Names []string
}

// AcctLimits are limits by name; a null number clears one, tres.Unlimited one
// resource of a set.
type AcctLimits struct {
	Numbers map[string]*uint32   `json:",omitempty"`
	Sets    map[string]tres.TRES `json:",omitempty"`
}

// AcctSettings are what is set; nil stays. An empty text clears, and so does a
// negative number where there may be none.
type AcctSettings struct {
	NewName, Description, Organization, Parent *string `json:",omitempty"`
	Level                                      *int    `json:",omitempty"`
	DefaultAccount, DefaultWCKey               *string `json:",omitempty"`
	UsersCoords                                *bool   `json:",omitempty"`

	Shares     *uint32   `json:",omitempty"`
	Comment    *string   `json:",omitempty"`
	QOS        *AcctList `json:",omitempty"`
	DefaultQOS *string   `json:",omitempty"`
	Limits     AcctLimits

	Flags          *AcctList `json:",omitempty"`
	Priority       *uint32   `json:",omitempty"`
	GraceTime      *uint32   `json:",omitempty"` // seconds
	Preempt        *AcctList `json:",omitempty"`
	PreemptMode    *string   `json:",omitempty"`
	PreemptExempt  *int64    `json:",omitempty"` // seconds
	UsageFactor    *float64  `json:",omitempty"`
	UsageThreshold *float64  `json:",omitempty"`
	LimitFactor    *float64  `json:",omitempty"`
}

// Empty says that nothing is set.
func (s AcctSettings) Empty() bool {
	limits := len(s.Limits.Numbers) + len(s.Limits.Sets)
	s.Limits = AcctLimits{}
	return limits == 0 && reflect.ValueOf(s).IsZero()
}

// AcctResult is what one edit did.
type AcctResult struct {
	Text         string      // of an add: what sacctmgr prints
	Accounts     []string    `json:",omitempty"`
	Users        []string    `json:",omitempty"`
	QOS          []string    `json:",omitempty"`
	Clusters     []string    `json:",omitempty"`
	Assocs       []string    `json:",omitempty"` // a line for each
	Coordinators [][2]string `json:",omitempty"` // user and account
	Notes        []string    `json:",omitempty"` // what was passed over, and why
}

// AcctAnswer is the answer to AcctEdits. Error is why nothing was done.
type AcctAnswer struct {
	Results []AcctResult
	Number  int64    `json:",omitempty"` // Slurm's error number
	Error   string   `json:",omitempty"`
	Jobs    []string `json:",omitempty"` // that keep records from being removed
}

// AcctTxn is a line of sacctmgr show transaction.
type AcctTxn struct {
	Time          time.Time
	Action, Actor string
	Where, Info   string
}

// AcctTxns is the answer of /sbatchd/v1/transactions.
type AcctTxns struct{ Transactions []AcctTxn }
