package assoc

import (
	"errors"
	"fmt"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// Op is what an Edit does.
type Op string

// The operations.
const (
	Add    Op = "add"
	Modify Op = "modify"
	Delete Op = "delete"
)

// Edit is one command of sacctmgr or one record of a slurmdb request. Where
// names what is added, or selects what is changed or removed.
type Edit struct {
	Op    Op
	Of    Kind // KindCluster, KindAccount, KindUser, KindAssoc, KindQOS, KindWCKey, KindCoordinator
	Where Filter
	Set   Settings
}

// Kinds of an Edit that are no rows of their own.
const (
	KindCoordinator Kind = "coordinator" // stored with accounts
	KindUserAlone   Kind = "useralone"   // a user without an association
)

// Filter selects records; empty fields select all.
type Filter struct {
	Clusters, Accounts, Users, Partitions []string
	Parents                               []string
	Names                                 []string // QOS, wckeys, clusters
	QOS, DefaultQOS                       []string
	IDs                                   []ID
	Descriptions, Organizations           []string
	Levels                                []Level
	DefaultAccounts, DefaultWCKeys        []string
	WCKeys                                []string
	OnlyDefaults                          bool
	SubAccounts                           bool // with the accounts below
	// AccountsOnly and UsersOnly leave out one kind of association.
	AccountsOnly, UsersOnly bool
}

// ListChange changes a list of names: Op is "=", "+" or "-".
type ListChange struct {
	Op    string
	Names []string
}

// Settings are what an Edit sets; nil stays. A pointer to the empty string
// clears what may be empty, a negative number an optional one.
type Settings struct {
	NewName, Description, Organization, Parent *string
	Level                                      *Level
	DefaultAccount, DefaultWCKey               *string
	UsersCoords                                *bool
	Coordinators                               *ListChange

	Shares     *uint32
	Comment    *string
	QOS        *ListChange
	DefaultQOS *string
	Limits     LimitChange

	Flags          *ListChange
	Priority       *uint32
	GraceTime      *uint32
	Preempt        *ListChange
	PreemptMode    *string
	PreemptExempt  *int64
	UsageFactor    *float64
	UsageThreshold *float64
	LimitFactor    *float64
}

// assoc says that an association would change.
func (s *Settings) assoc() bool {
	return s.Shares != nil || s.Comment != nil || s.QOS != nil || s.DefaultQOS != nil || s.Parent != nil || !s.Limits.Empty()
}

// Result is what an Edit did, by the names that sacctmgr prints.
type Result struct {
	Accounts, Users, QOS, Clusters []string
	Assocs                         []Place
	// Parents are the parent accounts of Assocs, "" where there is none to name.
	Parents []string
	WCKeys  []WCKey
	// Coordinators are pairs of user and account.
	Coordinators [][2]string
	Notes        []string // what was passed over, and why
}

// note keeps one sentence about what was passed over.
func (r *Result) note(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }

// assoc keeps one association.
func (r *Result) assoc(b *Book, a *Assoc) {
	parent := ""
	if p, ok := b.assocs[a.Parent]; ok && a.User == "" {
		parent = p.Account
	}
	r.Assocs, r.Parents = append(r.Assocs, a.place()), append(r.Parents, parent)
}

// Problem is a refusal in Slurm's words; Errno is its number.
type Problem struct {
	Errno errno.Errno
	Text  string
}

// Error is the sentence.
func (p *Problem) Error() string { return p.Text }

// Unwrap is the number.
func (p *Problem) Unwrap() error { return p.Errno }

func problem(e errno.Errno, format string, a ...any) error {
	return &Problem{Errno: e, Text: fmt.Sprintf(format, a...)}
}

// ErrBusy lists the jobs that keep records from being removed.
type ErrBusy struct{ Jobs []string }

// Error is Slurm's sentence.
func (e *ErrBusy) Error() string { return errno.JobsRunningOnAssoc.Error() }

// Unwrap is Slurm's number.
func (e *ErrBusy) Unwrap() error { return errno.JobsRunningOnAssoc }

// errKind is what an Edit of something unknown answers.
var errKind = errors.New("no such kind of record")

// Do makes one edit. After an error the Draft must be thrown away.
func (d *Draft) Do(e Edit) (Result, error) {
	do, ok := map[Op]map[Kind]func(Edit) (Result, error){
		Add: {
			KindCluster: d.addClusters, KindAccount: d.addAccounts, KindUser: d.addUsers, KindUserAlone: d.addUsersAlone,
			KindQOS: d.addQOS, KindWCKey: d.addWCKeys, KindCoordinator: d.addCoordinators,
		},
		Modify: {
			KindCluster: d.modifyClusters, KindAccount: d.modifyAccounts, KindUser: d.modifyUsers, KindAssoc: d.modifyAssocs, KindQOS: d.modifyQOS,
		},
		Delete: {
			KindCluster: d.removeClusters, KindAccount: d.removeAccounts, KindUser: d.removeUsers, KindAssoc: d.removeAssocs,
			KindQOS: d.removeQOS, KindWCKey: d.removeWCKeys, KindCoordinator: d.removeCoordinators,
		},
	}[e.Op][e.Of]
	if !ok {
		return Result{}, errKind
	}
	return do(e)
}
