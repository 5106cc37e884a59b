package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// EditRecords makes changes of accounting's records, all of them or none. With
// dry it only says what they would do, which is what sacctmgr shows before it asks.
func (q *Queue) EditRecords(ctx context.Context, who auth.Identity, edits []assoc.Edit, dry bool) ([]assoc.Result, error) {
	if dry {
		_, out, err := editRecords(q.Snapshot(), who, edits, q.now())
		return out, err
	}
	var out []assoc.Result
	err := q.send(ctx, who.User, func(w *work) error {
		d, done, err := editRecords(w.State, who, edits, w.Now)
		out = done
		if errors.Is(err, errno.AccessDenied) {
			w.denials = append(w.denials, state.Audited{What: "edit accounting records", By: who.User})
		}
		if err != nil {
			return err
		}
		return w.records(d)
	})
	return out, err
}

func editRecords(s *state.State, who auth.Identity, edits []assoc.Edit, now time.Time) (*assoc.Draft, []assoc.Result, error) {
	d := s.Acct.Draft(personOf(s, who), s.Config.ClusterName, now)
	d.Jobs = func(p assoc.Place) []string { return jobsUnder(s, p) }
	out := make([]assoc.Result, 0, len(edits))
	for _, e := range edits {
		r, err := d.Do(e)
		if err != nil {
			return nil, out, err
		}
		out = append(out, r)
	}
	return d, out, nil
}

// records emits what a Draft changed, nothing where it changed nothing.
func (w *work) records(d *assoc.Draft) error {
	rows, err := d.Rows()
	if err != nil || len(rows) == 0 {
		return err
	}
	return w.emit(state.RecordsChanged{Rows: rows, Txns: d.Txns()})
}

// personOf is who somebody is to accounting. A process in a job is nobody, be
// it an administrator's.
func personOf(s *state.State, who auth.Identity) assoc.Person {
	if who.Role == auth.Guest {
		return assoc.Person{User: who.User}
	}
	return s.Acct.Person(who.User, who.Role == auth.Admin)
}

// jobsUnder lists the jobs that wait or run under an association, as sacctmgr
// names them.
func jobsUnder(s *state.State, p assoc.Place) []string {
	var out []string
	if p.User == "" || p.Cluster != s.Config.ClusterName {
		return nil
	}
	for j := range s.Jobs() {
		if !j.State.Final() && j.User == p.User && j.Account == p.Account && (p.Partition == "" || p.Partition == j.Partition) {
			out = append(out, fmt.Sprintf("JobID = %-10d C = %-10s A = %-10s U = %-9s", j.ID.Raw, p.Cluster, p.Account, p.User))
		}
	}
	return out
}

// Transactions reads the story of accounting's records from the store.
func (q *Queue) Transactions(ctx context.Context, query store.TxnQuery) ([]assoc.Txn, error) {
	return q.journal.Transactions(ctx, query)
}

// openRecords gives a new cluster the records of a fresh Slurm and numbers the
// TRES that the configuration tracks. It runs before the owner's loop.
func openRecords(ctx context.Context, s *state.State, rows []assoc.Row, j store.Journal, now time.Time) (*state.State, error) {
	s, err := state.RestoreRecords(s, rows)
	if err != nil {
		return nil, err
	}
	w := &work{State: s, Now: now, actor: "<sbatchd>", runs: map[job.Attempt]int{}}
	if err := w.seedRecords(); err != nil {
		return nil, err
	}
	if b := w.batch(s); b != nil {
		if err := j.Commit(ctx, b); err != nil {
			return nil, err
		}
	}
	return w.State, nil
}

// seedRecords adds what the configuration names and the records lack.
func (w *work) seedRecords() error {
	d := w.Acct.Draft(assoc.Person{User: assoc.Root, Level: assoc.LevelAdmin}, w.Config.ClusterName, w.Now)
	if err := d.Seed(w.Config.ClusterName, tracked(w.Config)); err != nil {
		return err
	}
	return w.records(d)
}

// tracked are the TRES of AccountingStorageTRES, and GPUs where there can be any.
func tracked(cfg *partitions.Config) []string {
	var out []string
	for _, g := range cfg.GresTypes {
		if g == "gpu" {
			out = append(out, tres.GPU)
		}
	}
	for _, name := range cfg.AccountingStorage.TRES {
		if name = strings.ToLower(name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// enforces reports whether AccountingStorageEnforce has one of the words;
// limits, qos, safe and wckeys need associations.
func enforces(cfg *partitions.Config, words ...string) bool {
	return slices.ContainsFunc(cfg.AccountingStorage.Enforce, func(e string) bool {
		e = strings.ToLower(e)
		return e == "all" || slices.Contains(words, e)
	})
}

// charge finds whose account and which QOS a job gets: what was asked for, else
// the user's default association's. Without enforcement any account runs.
func (w *work) charge(user, partition string, in *Submission) error {
	account := strings.ToLower(in.Account)
	cluster := w.Config.ClusterName
	if account == "" {
		account = w.Acct.DefaultAccount(cluster, user)
	}
	in.Account = account
	a, known := w.Acct.Find(cluster, account, user, partition)
	if !known {
		if enforces(w.Config, "associations", "limits", "qos", "safe", "wckeys") {
			return errno.InvalidAccount
		}
		if in.QOS == "" {
			in.QOS = "normal"
		}
		return nil
	}
	e := w.Acct.Effective(a)
	if in.QOS == "" {
		if in.QOS = "normal"; e.DefaultQOS != 0 {
			in.QOS = w.Acct.QOSNames([]assoc.ID{e.DefaultQOS})[0]
		}
	}
	if enforces(w.Config, "qos") && !slices.Contains(w.Acct.QOSNames(e.QOS), in.QOS) {
		return errno.InvalidQOS
	}
	return nil
}

// oversees reports whether accounting lets somebody act on others' jobs:
// operators on all, coordinators on those of their accounts.
func (w *work) oversees(who auth.Identity, j *job.Job) bool {
	if who.Role == auth.Guest {
		return false
	}
	p := w.Acct.Person(who.User, false)
	_, coordinates := p.Coordinates[j.Account]
	return p.Level >= assoc.LevelOperator || j.Account != "" && coordinates
}
