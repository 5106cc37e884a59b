package queue

import (
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// action is a kind of command, for the table of roles.
type action uint8

const (
	actSubmit    action = iota // submit a job for oneself
	actOwnJob                  // cancel, hold, release, update, requeue one's own job
	actAnyJob                  // the same on somebody else's
	actRaiseJob                // raise a priority, lift a limit, release an admin's hold
	actNode                    // change a node, reclaim one
	actConfigure               // reconfigure
	numActions
)

// allowed is the one table of role x command. An identity is a guest (a process
// in a job, its own user's jobs only), a user or an admin (root, SlurmUser);
// operators and coordinators are users whom accounting lets act on others' jobs.
var allowed = [numActions]map[auth.Role]bool{
	actSubmit:    {auth.Guest: true, auth.User: true, auth.Admin: true},
	actOwnJob:    {auth.Guest: true, auth.User: true, auth.Admin: true},
	actAnyJob:    {auth.Admin: true},
	actRaiseJob:  {auth.Admin: true},
	actNode:      {auth.Admin: true},
	actConfigure: {auth.Admin: true},
}

// may checks the table; a denial is written to the story and answered with
// Slurm's words.
func (w *work) may(who auth.Identity, a action, what string) error {
	if allowed[a][who.Role] {
		return nil
	}
	return w.deny(who, what)
}

// mayJob checks an action on a job, one's own or another's.
func (w *work) mayJob(who auth.Identity, j *job.Job, what string) error {
	if j.UID == who.UID && allowed[actOwnJob][who.Role] {
		return nil
	}
	if allowed[actAnyJob][who.Role] || w.oversees(who, j) {
		return w.emit(state.Audited{Job: j.ID.Raw, What: what, By: who.User, Allowed: true})
	}
	return w.deny(who, what)
}

// deny is remembered even though the command fails: the record is committed
// on its own by the caller's loop.
func (w *work) deny(who auth.Identity, what string) error {
	w.denials = append(w.denials, state.Audited{What: what, By: who.User})
	return errno.AccessDenied
}

// MaySee says whether an identity may read a job's script, output and files.
func MaySee(who auth.Identity, j *job.Job) bool {
	return who.Role == auth.Admin || j.UID == who.UID
}
