package queue

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/scheduler"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// NodeUp takes an agent's registration. An agent of an older incarnation of
// the node is refused with errno.InvalidNodeName.
func (q *Queue) NodeUp(ctx context.Context, r node.Registration) error {
	return q.internal(ctx, "launch", func(w *work) error {
		n, ok := w.Node(r.Node)
		if !ok || n.Instance != r.Tag && n.Pool != "" {
			return errno.InvalidNodeName
		}
		if n.Flags.Has(node.PoweringDown) {
			return errno.InvalidNodeState
		}
		e := state.NodeUp{
			Name: r.Node, At: w.Now, Boot: r.Boot, BootID: r.BootID, Version: r.Version, Driver: r.Driver,
			Arch: r.Arch, OS: r.OS, SkewMs: r.SkewMs, Agent: r.Agent,
		}
		if n.Pool != "" {
			// What the pool leaves open, the machine decides.
			pool := w.Config.Pool(n.Pool)
			if pool == nil || pool.CPUs == 0 {
				e.CPUs = r.CPUs
			}
			if pool == nil || pool.RealMemory == 0 {
				e.MemoryMiB = r.MemoryMiB
			}
			if pool == nil || pool.TmpDisk == 0 {
				e.TmpDiskMiB = r.TmpDiskMiB
			}
			if len(r.Gres) > 0 {
				e.Gres = r.Gres
			}
		}
		if err := w.emit(e); err != nil {
			return err
		}
		return w.refit(r.Node)
	})
}

// refit gives the jobs that wait for a node their parts of the machine that is
// behind it now; those that it cannot hold go back to the queue.
func (w *work) refit(name string) error {
	n, ok := w.Node(name)
	if !ok || n.Pool == "" {
		return nil
	}
	var beside []job.NodeAlloc
	var waiting []*job.Job
	for _, id := range n.Jobs {
		j, ok := w.Job(id)
		if !ok || !j.Active() {
			continue
		}
		if w.Leader(j).Run.Ordered.IsZero() && !j.Flags.Has(job.Completing) {
			waiting = append(waiting, j)
			continue
		}
		beside = append(beside, j.Run.Nodes[partOn(j.Run, name)])
	}
	for _, j := range waiting {
		at := partOn(j.Run, name)
		a, fits := scheduler.Fit(w.Config, j, j.Run.Nodes[at], n, beside)
		if !fits {
			if err := w.backToQueue(w.Leader(j), "node "+name+" turned out too small"); err != nil {
				return err
			}
			continue
		}
		beside = append(beside, a)
		if reflect.DeepEqual(a, j.Run.Nodes[at]) {
			continue
		}
		nodes := slices.Clone(j.Run.Nodes)
		nodes[at] = a
		if err := w.emit(state.JobFitted{Attempt: j.Run.Attempt, Nodes: nodes}); err != nil {
			return err
		}
	}
	return nil
}

// onNode is whose fate decides about a job on a node: its leader's, for a component.
func (w *work) onNode(id uint32) (*job.Job, bool) {
	j, ok := w.Job(id)
	if !ok {
		return nil, false
	}
	return w.Leader(j), true
}

// partOn is the place of a node in a run's list.
func partOn(r *job.Run, name string) int {
	return slices.IndexFunc(r.Nodes, func(a job.NodeAlloc) bool { return a.Node == name })
}

// NodeSeen says that the agent spoke.
func (q *Queue) NodeSeen(ctx context.Context, name string, load float64, freeMiB int64) error {
	return q.internal(ctx, "launch", func(w *work) error {
		n, ok := w.Node(name)
		if !ok {
			return nil
		}
		if n.Flags.Has(node.NotResponding) {
			if err := w.emit(state.NodeBack{Name: name, At: w.Now}); err != nil {
				return err
			}
		}
		return w.emit(state.NodeSeen{Name: name, At: w.Now, Load: load, FreeMiB: freeMiB})
	})
}

// NodeNotice says that the provider takes the node's machine at the deadline. Its jobs
// are told by their agent; from here on their end counts as preempted. Of several
// notices the earliest counts.
func (q *Queue) NodeNotice(ctx context.Context, name string, deadline time.Time) error {
	return q.internal(ctx, "launch", func(w *work) error { return w.notice(name, deadline, false) })
}

func (w *work) notice(name string, deadline time.Time, asked bool) error {
	n, ok := w.Node(name)
	if !ok || n.Flags.Has(node.Reclaimed) && !deadline.Before(n.ReclaimAt) {
		return nil
	}
	if err := w.emit(state.NodeReclaiming{Name: name, Deadline: deadline}); err != nil {
		return err
	}
	// What is not started yet need not wait for the end of this machine.
	if err := w.takeBack(n, "node "+name+" is being reclaimed"); err != nil {
		return err
	}
	for _, id := range n.Jobs {
		j, ok := w.onNode(id)
		if !ok || !j.Active() || j.Flags.Has(job.Completing) {
			continue
		}
		// The agent on a job's first node knows of its own machine's end alone.
		tell := asked || j.Run.Nodes[0].Node != name
		if err := w.emit(state.JobNoticed{Attempt: j.Attempt(), Deadline: deadline, Asked: tell}); err != nil {
			return err
		}
	}
	return nil
}

// Reclaim treats a node as if its provider had announced to take it: a
// rehearsal for admins (sburst reclaim).
func (q *Queue) Reclaim(ctx context.Context, who auth.Identity, name string, notice time.Duration) error {
	return q.send(ctx, who.User, func(w *work) error {
		if err := w.may(who, actNode, "reclaim "+name); err != nil {
			return err
		}
		n, ok := w.Node(name)
		if !ok || n.Pool == "" {
			return errno.InvalidNodeName
		}
		if !n.Up() {
			return errno.InvalidNodeState
		}
		return w.notice(name, w.Now.Add(notice), true)
	})
}

// nodeGone ends everything that ran on a node whose machine is confirmed gone.
func (w *work) nodeGone(name, why string) error {
	n, ok := w.Node(name)
	if !ok {
		return nil
	}
	for _, id := range slices.Clone(n.Jobs) {
		j, ok := w.onNode(id)
		if !ok || !j.Active() || j.Run == nil {
			continue
		}
		if j.Run.Ordered.IsZero() && !j.Flags.Has(job.Completing) {
			// Never started: not the job's loss, and not counted against it.
			if err := w.backToQueue(j, why); err != nil {
				return err
			}
			continue
		}
		if j.Run.Nodes[0].Node != name {
			// Its script runs on another node, which must end it first.
			if err := w.nodeFailed(j, 0); err != nil {
				return err
			}
			continue
		}
		if err := w.loseAttempt(j, job.NodeFail, why); err != nil {
			return err
		}
	}
	return nil
}

// nodeFailed asks the nodes of an attempt to end it because one of them failed.
func (w *work) nodeFailed(j *job.Job, by uint32) error {
	stop := job.Stop{Why: job.StopNodeFail, Final: job.NodeFail, Requeue: j.Spec.Requeue, At: w.Now, By: by}
	reason := job.ReasonNone
	if !stop.Requeue {
		reason = job.ReasonNodeDown
	}
	return w.stop(j, stop, reason)
}

// takeBack returns jobs to the queue that were given a node but never sent to
// it.
func (w *work) takeBack(n *node.Node, why string) error {
	for _, id := range n.Jobs {
		j, ok := w.onNode(id)
		if !ok || !j.Active() || !j.Run.Ordered.IsZero() || j.Flags.Has(job.Completing) {
			continue
		}
		if err := w.backToQueue(j, why); err != nil {
			return err
		}
	}
	return nil
}

// backToQueue takes an allocation back that never was started.
func (w *work) backToQueue(j *job.Job, why string) error {
	a := j.Attempt()
	e := state.JobEnded{Attempt: a, At: w.Now, State: job.BootFail, Requeue: true, Detail: why}
	if err := w.emit(e); err != nil {
		return err
	}
	return w.clear(a, w.Now)
}

// avoid keeps new jobs off a node that could not start one: a rented machine
// is given back, a static node drained.
func (w *work) avoid(name, why string) error {
	n, ok := w.Node(name)
	if !ok {
		return nil
	}
	if n.Pool == "" {
		return w.emit(state.NodeMarked{Name: name, Set: node.Drain, Reason: why, At: w.Now})
	}
	return w.emit(state.NodeMarked{Name: name, Set: node.PowerDown, Reason: why, At: w.Now})
}

// NodeChange is an admin's update of a node.
type NodeChange struct {
	State  string // DRAIN, RESUME, UNDRAIN, DOWN, POWER_UP, POWER_DOWN, ... or empty
	Reason string
}

// UpdateNode changes a node's state, as scontrol update NodeName= does.
func (q *Queue) UpdateNode(ctx context.Context, who auth.Identity, name string, c NodeChange) error {
	return q.send(ctx, who.User, func(w *work) error {
		if err := w.may(who, actNode, "update node "+name); err != nil {
			return err
		}
		n, ok := w.Node(name)
		if !ok {
			return errno.InvalidNodeName
		}
		m := state.NodeMarked{Name: name, Reason: c.Reason, User: who.User, At: w.Now}
		down, up := true, false
		switch strings.ToUpper(c.State) {
		case "":
		case "DRAIN", "DRAINING", "DRAINED":
			if c.Reason == "" && n.Reason == "" {
				return errno.InvalidNodeState
			}
			m.Set = node.Drain
		case "RESUME", "IDLE":
			m.Clear, m.Down, m.ClearReason = node.Drain|node.Fail|node.PowerDown, &up, c.Reason == ""
		case "UNDRAIN":
			m.Clear, m.ClearReason = node.Drain, c.Reason == ""
		case "DOWN":
			m.Down = &down
		case "FAIL":
			m.Set = node.Fail
		case "POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE":
			if n.Pool == "" || n.Flags.Has(node.PoweredDown) {
				return errno.InvalidNodeState
			}
			m.Set = node.PowerDown
		case "POWER_UP":
			if n.Pool == "" || !n.Flags.Has(node.PoweredDown) {
				return errno.InvalidNodeState
			}
			return w.resume(n)
		default:
			return errno.InvalidNodeState
		}
		if err := w.emit(m); err != nil {
			return err
		}
		if m.Down != nil && *m.Down {
			return w.setDown(n, who)
		}
		return nil
	})
}

// setDown ends what is on a node an admin set DOWN. The agent may be well and
// its jobs running, so they end by order, or when the node is lost for good.
func (w *work) setDown(n *node.Node, who auth.Identity) error {
	if err := w.takeBack(n, "node set DOWN by "+who.User); err != nil {
		return err
	}
	for _, id := range n.Jobs {
		j, ok := w.onNode(id)
		if !ok || !j.Active() || j.Flags.Has(job.Completing) {
			continue
		}
		if err := w.nodeFailed(j, who.UID); err != nil {
			return err
		}
	}
	return nil
}

// resume starts a node's next incarnation.
func (w *work) resume(n *node.Node) error {
	timeout := w.Config.ResumeTimeout
	if pool := w.Config.Pool(n.Pool); pool != nil && pool.ResumeTimeout > 0 {
		timeout = pool.ResumeTimeout
	}
	return w.emit(state.NodeResuming{
		Name: n.Name, Incarnation: n.Incarnation + 1, At: w.Now, By: w.Now.Add(timeout),
	})
}

// Reconfigure puts a new config in force.
func (q *Queue) Reconfigure(ctx context.Context, who auth.Identity, cfg *partitions.Config) error {
	return q.send(ctx, who.User, func(w *work) error {
		if err := w.may(who, actConfigure, "reconfigure"); err != nil {
			return err
		}
		if err := w.emit(state.Reconfigured{Config: cfg}); err != nil {
			return err
		}
		return w.emit(state.Audited{What: "reconfigure", By: who.User, Allowed: true})
	})
}

// graceAfterRestart counts every agent's silence from our own start on: until
// now nobody listened.
func graceAfterRestart(s *state.State, now time.Time) *state.State {
	var grace []state.Event
	for n := range s.Nodes() {
		switch {
		case n.Up():
			grace = append(grace, state.NodeSeen{Name: n.Name, At: now})
		case n.Flags.Has(node.PoweringUp) && n.ResumeBy.Before(now.Add(bootGrace)):
			grace = append(grace, state.NodeResumeBy{Name: n.Name, By: now.Add(bootGrace)})
		}
	}
	for _, e := range grace {
		if next, _, err := state.Apply(s, e); err == nil {
			s = next
		}
	}
	return s
}

// bootGrace is what a machine that booted while we were away gets to register:
// more than the longest wait between two tries of its agent.
const bootGrace = time.Minute

// inGroups asks whether a user is in one of the named Unix groups.
func (q *Queue) inGroups(who auth.Identity, groups []string) bool {
	for _, g := range groups {
		if gid, ok := q.groups(g); ok && who.InGroup(gid) {
			return true
		}
	}
	return false
}

func (q *Queue) groups(name string) (uint32, bool) {
	if q.Groups == nil {
		return 0, false
	}
	return q.Groups(name)
}
