package queue

import (
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// housekeep is what time alone makes happen. It runs once a second; a step that
// fails keeps the others from nothing.
func (q *Queue) housekeep(w *work) error {
	for _, step := range []func(*work) error{silentNodes, powerDown, keepMinimum, limits, queueTimeouts, forget} {
		before := w.point()
		if err := step(w); err != nil {
			q.log.Error("housekeeping", "err", err)
			w.back(before)
		}
	}
	return nil
}

// silentNodes marks nodes whose agent is quiet: DOWN* at SlurmdTimeout; at
// FenceTimeout plus a tenth, when the shim has frozen its job for sure, a
// rented machine is deleted and a static node's jobs are taken back.
func silentNodes(w *work) error {
	fence := w.Config.FenceTimeout + w.Config.FenceTimeout/10
	const why = "no word from the agent for FenceTimeout"
	for n := range w.Nodes() {
		if n.Flags&(node.PoweredDown|node.PoweringUp|node.PoweringDown) != 0 || n.LastSeen.IsZero() {
			continue
		}
		quiet := w.Now.Sub(n.LastSeen)
		if quiet > w.Config.SlurmdTimeout && !n.Flags.Has(node.NotResponding) {
			if err := w.notResponding(n); err != nil {
				return err
			}
		}
		if quiet <= fence {
			continue
		}
		var err error
		switch {
		case n.Pool != "":
			err = w.giveBack(n, why)
		case len(n.Jobs) > 0:
			err = w.nodeGone(n.Name, why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notResponding shows a node DOWN*. Its jobs run on: they end at the fence, or
// not at all if the agent comes back in time.
func (w *work) notResponding(n *node.Node) error {
	down := true
	m := state.NodeMarked{Name: n.Name, Set: node.NotResponding, Down: &down, At: w.Now}
	if n.Reason == "" {
		m.Reason = "Not responding"
	}
	return w.emit(m)
}

// powerDown gives machines back: late ones, announced ones, unwanted ones and
// idle ones.
func powerDown(w *work) error {
	for n := range w.Nodes() {
		if n.Pool == "" || n.Flags&(node.PoweredDown|node.PoweringDown) != 0 {
			continue
		}
		why := ""
		switch {
		case n.Flags.Has(node.PoweringUp):
			if w.Now.After(n.ResumeBy) {
				why = "ResumeTimeout reached"
			}
		case len(n.Jobs) > 0:
			if n.Flags.Has(node.Reclaimed) && w.Now.After(n.ReclaimAt.Add(reclaimSlack)) {
				why = "reclaimed"
			}
		case n.Flags.Has(node.Reclaimed):
			why = "reclaimed"
		case n.Flags.Has(node.PowerDown):
			why = "power down"
		case n.Removed():
			why = n.Reason
		case idleTooLong(w, n):
			why = "idle for SuspendTime"
		}
		if why == "" {
			continue
		}
		if n.Flags.Has(node.PoweringUp) && n.Instance == "" {
			// Nothing was rented yet: the pool will not either.
			if err := w.nodeGone(n.Name, why); err != nil {
				return err
			}
			if err := w.emit(state.NodePoweredDown{Name: n.Name, At: w.Now}); err != nil {
				return err
			}
			continue
		}
		if err := w.giveBack(n, why); err != nil {
			return err
		}
	}
	return dropRemoved(w)
}

// giveBack starts the deletion of a node's machine. Jobs it was given to but
// that were never sent go back to the queue at once; for the others only the
// provider's word that the machine is gone is proof that they do not run.
func (w *work) giveBack(n *node.Node, why string) error {
	if err := w.takeBack(n, why); err != nil {
		return err
	}
	return w.emit(state.NodePoweringDown{Name: n.Name, Why: why, At: w.Now})
}

// dropRemoved lets nodes go that left the config and are empty.
func dropRemoved(w *work) error {
	for n := range w.Nodes() {
		if !n.Removed() || len(n.Jobs) > 0 || n.Instance != "" {
			continue
		}
		if err := w.emit(state.NodeRemoved{Name: n.Name}); err != nil {
			return err
		}
	}
	return nil
}

// reclaimSlack is how long after an announced reclaim a machine may still
// answer before it is deleted from our side.
const reclaimSlack = 5 * time.Second

func idleTooLong(w *work, n *node.Node) bool {
	after := w.Config.SuspendTime
	pool := w.Config.Pool(n.Pool)
	if pool == nil {
		return true
	}
	if pool.SuspendTime != 0 {
		after = pool.SuspendTime
	}
	if after == partitions.Never || w.Now.Sub(n.LastBusy) < after {
		return false
	}
	return poolSize(w, pool) > pool.MinNodes
}

func poolSize(w *work, pool *partitions.Pool) int {
	live := 0
	for _, name := range pool.NodeNames() {
		if n, ok := w.Node(name); ok && n.Flags&(node.PoweredDown|node.PoweringDown) == 0 {
			live++
		}
	}
	return live
}

// keepMinimum resumes nodes of pools that have fewer than MinNodes.
func keepMinimum(w *work) error {
	for _, pool := range w.Config.Pools {
		if pool.MinNodes == 0 || pool.Down() || w.Pools[pool.Name].Until.After(w.Now) {
			continue
		}
		missing := pool.MinNodes - poolSize(w, pool)
		for _, name := range pool.NodeNames() {
			if missing <= 0 {
				break
			}
			n, ok := w.Node(name)
			if !ok || !n.Flags.Has(node.PoweredDown) || !n.Schedulable() {
				continue
			}
			if err := w.resume(n); err != nil {
				return err
			}
			missing--
		}
	}
	return nil
}

// limitSlack is how long after a job's end time the controller waits for the
// node to enforce the limit before it asks itself.
const limitSlack = 30 * time.Second

// limits backs up the nodes' own enforcement of time limits, and ends pending
// jobs that missed their deadline.
func limits(w *work) error {
	for j := range w.Active() {
		if j.State != job.Running || j.Follows() || j.Flags&(job.Completing|job.Configuring) != 0 || j.Spec.TimeLimit == job.NoLimit {
			continue
		}
		if w.Now.After(j.End.Add(limitSlack + w.Config.KillWait)) {
			stop := job.Stop{Why: job.StopTimeLimit, Final: job.Timeout, At: w.Now}
			if err := w.stop(j, stop, job.ReasonTimeLimit); err != nil {
				return err
			}
		}
	}
	return nil
}

// queueTimeouts ends pending jobs whose --deadline or --queue-timeout is over.
func queueTimeouts(w *work) error {
	for j := range w.Pending() {
		if j.Flags.Has(job.Completing) || j.Follows() {
			continue
		}
		if d := j.Spec.Deadline; !d.IsZero() && w.Now.After(d) {
			e := state.JobEndedPending{ID: j.ID.Raw, At: w.Now, State: job.Deadline, Reason: job.ReasonDeadline}
			if err := w.emit(e); err != nil {
				return err
			}
			continue
		}
		b := j.Spec.Burst
		if b == nil || b.QueueTimeout == 0 || j.Held() || j.Eligible.IsZero() {
			continue
		}
		if w.Now.Sub(j.Eligible) <= time.Duration(b.QueueTimeout)*time.Minute {
			continue
		}
		if err := w.overflow(j); err != nil {
			return err
		}
	}
	return nil
}

// overflow moves a job that waited too long to its partition's Overflow, or
// fails it.
func (w *work) overflow(j *job.Job) error {
	p := w.Config.Partition(j.Partition)
	if p != nil && p.Overflow != "" && p.Overflow != j.Spec.Partitions {
		spec := *j.Spec
		spec.Partitions = p.Overflow
		return w.emit(state.JobUpdated{ID: j.ID.Raw, Spec: &spec, Eligible: w.Now})
	}
	return w.emit(state.JobEndedPending{
		ID: j.ID.Raw, At: w.Now, State: job.Failed, Reason: job.ReasonDeadline,
		Detail: "--queue-timeout is over", ExitCode: job.ExitCode{Status: 1},
	})
}

// keepRows is how long a submission's key and the row of a machine that is gone
// are remembered.
const keepRows = 24 * time.Hour

// forget takes jobs out of memory MinJobAge after their end, save those that a
// pending job depends on: how they ended must stay known. Ledger rows and
// submission keys go after a day.
func forget(w *work) error {
	wanted, arrays := map[uint32]bool{}, map[uint32]bool{}
	for j := range w.Pending() {
		if j.Depends != nil {
			for _, d := range j.Depends.List {
				wanted[d.Job] = d.Job != 0
			}
		}
		arrays[j.ID.Array] = true // its limit is on the record with the array's id
	}
	for j := range w.Active() {
		arrays[j.ID.Array] = true
	}
	var old []uint32
	for j := range w.Jobs() {
		keep := wanted[j.ID.Raw] || wanted[j.ID.Array] || j.ID.Raw == j.ID.Array && arrays[j.ID.Array]
		if j.State.Final() && !j.Active() && !keep && w.Now.Sub(j.End) > w.Config.MinJobAge {
			old = append(old, j.ID.Raw)
		}
	}
	for key, k := range w.q.idem {
		if w.Now.Sub(k.Time) > keepRows {
			delete(w.q.idem, key)
		}
	}
	for _, id := range old {
		if err := w.emit(state.JobForgotten{ID: id}); err != nil {
			return err
		}
	}
	var tags []string
	for i := range w.Instances() {
		if i.State == node.Gone && w.Now.Sub(i.GoneAt) > keepRows {
			tags = append(tags, i.Tag)
		}
	}
	slices.Sort(tags)
	for _, tag := range tags {
		if err := w.emit(state.InstanceForgotten{Tag: tag}); err != nil {
			return err
		}
	}
	return nil
}
