package state

import (
	"fmt"
	"maps"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// NodeResuming tells that a powered-down node is to boot; the pool rents a machine for it.
type NodeResuming struct {
	Name        string
	Incarnation uint32
	At, By      time.Time
}

func (NodeResuming) Kind() string                        { return "NodeResuming" }
func (e NodeResuming) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeResuming) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	if !n.Flags.Has(node.PoweredDown) {
		return fmt.Errorf("node %s is not powered down", e.Name)
	}
	n.Flags = n.Flags&^node.PoweredDown | node.PoweringUp
	n.Incarnation, n.ResumeBy, n.PowerSince, n.Instance = e.Incarnation, e.By, e.At, ""
	t.putNode(n)
	return nil
}

// NodeResumeBy tells that a booting node gets until then. Volatile.
type NodeResumeBy struct {
	Name string
	By   time.Time
}

func (NodeResumeBy) Kind() string                        { return "NodeResumeBy" }
func (e NodeResumeBy) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (NodeResumeBy) volatile()                           {}
func (e NodeResumeBy) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.ResumeBy = e.By
	t.putNode(n)
	return nil
}

// NodeUp tells that the node's agent registered.
type NodeUp struct {
	Name                  string
	At                    time.Time
	Boot                  time.Time
	BootID, Version       string
	Driver, Arch, OS      string
	SkewMs                int64
	CPUs                  int         `json:",omitempty"` // 0 keeps what the config declares
	MemoryMiB, TmpDiskMiB int64       `json:",omitempty"`
	Gres                  []node.Gres `json:",omitempty"`
	Agent                 time.Time   // its start
}

func (NodeUp) Kind() string                        { return "NodeUp" }
func (e NodeUp) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeUp) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	if n.Flags.Has(node.PoweringUp) {
		n.PowerSince, n.LastBusy = e.At, e.At
	}
	n.Flags &^= node.PoweringUp | node.PoweredDown | node.NotResponding
	t.heard(n)
	n.Boot, n.BootID, n.Version, n.Driver, n.Arch, n.OS = e.Boot, e.BootID, e.Version, e.Driver, e.Arch, e.OS
	n.SkewMs, n.AgentStart, n.LastSeen, n.ResumeBy = e.SkewMs, e.Agent, e.At, time.Time{}
	if e.CPUs > 0 {
		n.CPUs = e.CPUs
	}
	if e.MemoryMiB > 0 {
		n.MemoryMiB = e.MemoryMiB
	}
	if e.TmpDiskMiB > 0 {
		n.TmpDiskMiB = e.TmpDiskMiB
	}
	if len(e.Gres) > 0 {
		n.Gres = e.Gres
	}
	t.putNode(n)
	return nil
}

// heard ends what the controller itself held against a node: its agent is
// there. What an admin said stays.
func (t *tx) heard(n *node.Node) {
	if n.ReasonUser != "" {
		return
	}
	n.Down = false
	if n.Flags&(node.Drain|node.Fail|node.PowerDown) == 0 {
		n.Reason, n.ReasonTime = "", time.Time{}
	}
}

// NodeBack tells that a node that did not respond is heard again.
type NodeBack struct {
	Name string
	At   time.Time
}

func (NodeBack) Kind() string                        { return "NodeBack" }
func (e NodeBack) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeBack) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.Flags &^= node.NotResponding
	n.LastSeen = e.At
	t.heard(n)
	t.putNode(n)
	return nil
}

// NodeRemoved tells that a node that left the config has nothing on it any more.
type NodeRemoved struct{ Name string }

func (NodeRemoved) Kind() string                        { return "NodeRemoved" }
func (e NodeRemoved) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeRemoved) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	if !n.Removed() || len(n.Jobs) > 0 || n.Instance != "" {
		return fmt.Errorf("node %s is in use", e.Name)
	}
	t.nodes.Delete(e.Name)
	t.ch.DropNodes = append(t.ch.DropNodes, e.Name)
	return nil
}

// NodeSeen tells that the agent spoke. Volatile.
type NodeSeen struct {
	Name    string
	At      time.Time
	Load    float64
	FreeMiB int64
}

func (NodeSeen) Kind() string                        { return "NodeSeen" }
func (e NodeSeen) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (NodeSeen) volatile()                           {}
func (e NodeSeen) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.LastSeen, n.Load, n.FreeMiB = e.At, e.Load, e.FreeMiB
	t.putNode(n)
	return nil
}

// NodeMarked tells that an admin or the controller changed a node's flags or reason.
type NodeMarked struct {
	Name        string
	Set, Clear  node.Flags
	Down        *bool  `json:",omitempty"`
	Reason      string `json:",omitempty"`
	User        string `json:",omitempty"` // who, empty for the controller
	ClearReason bool   `json:",omitempty"`
	At          time.Time
}

func (NodeMarked) Kind() string                        { return "NodeMarked" }
func (e NodeMarked) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeMarked) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.Flags = n.Flags&^e.Clear | e.Set
	if e.Down != nil {
		n.Down = *e.Down
	}
	switch {
	case e.ClearReason:
		n.Reason, n.ReasonUser, n.ReasonTime = "", "", time.Time{}
	case e.Reason != "":
		n.Reason, n.ReasonUser, n.ReasonTime = e.Reason, e.User, e.At
	}
	t.putNode(n)
	return nil
}

// NodeJoined tells that a static node's machine joined with a token of its own.
type NodeJoined struct{ Name, Tag, Key string }

func (NodeJoined) Kind() string                        { return "NodeJoined" }
func (e NodeJoined) Subject() (uint32, string, string) { return 0, e.Name, e.Tag }
func (e NodeJoined) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.JoinTag, n.JoinKey = e.Tag, e.Key
	t.putNode(n)
	return nil
}

// NodeReclaiming tells that the provider takes the machine at the deadline.
type NodeReclaiming struct {
	Name     string
	Deadline time.Time
}

func (NodeReclaiming) Kind() string                        { return "NodeReclaiming" }
func (e NodeReclaiming) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodeReclaiming) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.Flags |= node.Reclaimed
	n.ReclaimAt = e.Deadline
	t.putNode(n)
	return nil
}

// NodePoweringDown tells that the node's machine is to be given back.
type NodePoweringDown struct {
	Name string
	Why  string
	At   time.Time
}

func (NodePoweringDown) Kind() string                        { return "NodePoweringDown" }
func (e NodePoweringDown) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodePoweringDown) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.Flags = n.Flags&^(node.PoweringUp|node.PowerDown) | node.PoweringDown
	n.PowerSince, n.PowerWhy = e.At, e.Why
	t.putNode(n)
	return nil
}

// NodePoweredDown tells that no machine is behind the node any more; it may be resumed.
type NodePoweredDown struct {
	Name string
	At   time.Time
}

func (NodePoweredDown) Kind() string                        { return "NodePoweredDown" }
func (e NodePoweredDown) Subject() (uint32, string, string) { return 0, e.Name, "" }
func (e NodePoweredDown) apply(t *tx) error {
	n, err := t.editNode(e.Name)
	if err != nil {
		return err
	}
	n.Flags = n.Flags&^(node.PoweringUp|node.PoweringDown|node.PowerDown|node.NotResponding|node.Reclaimed) | node.PoweredDown
	n.Instance, n.ResumeBy, n.ReclaimAt, n.PowerSince = "", time.Time{}, time.Time{}, e.At
	if n.ReasonUser == "" && !n.Removed() {
		n.Down = false
		n.Reason, n.ReasonTime = "", time.Time{}
	}
	if p := t.Config.Pool(n.Pool); p != nil { // the next machine may be another
		reshape(n, pooled(p, n.Name))
	}
	t.putNode(n)
	return nil
}

// InstanceIntended tells that a machine is about to be asked of a provider.
type InstanceIntended struct{ Instance *node.Instance }

func (InstanceIntended) Kind() string { return "InstanceIntended" }
func (e InstanceIntended) Subject() (uint32, string, string) {
	return 0, e.Instance.Node, e.Instance.Tag
}

func (e InstanceIntended) apply(t *tx) error {
	if _, had := t.instances.Get(e.Instance.Tag); had {
		return fmt.Errorf("instance %s is known already", e.Instance.Tag)
	}
	t.putInstance(e.Instance)
	n, err := t.editNode(e.Instance.Node)
	if err != nil {
		return err
	}
	n.Instance = e.Instance.Tag
	t.offered(n, e.Instance)
	t.putNode(n)
	return nil
}

// offered gives a node that boots the size of the machine rented for it, where
// its pool leaves that open.
func (t *tx) offered(n *node.Node, i *node.Instance) {
	pool := t.Config.Pool(n.Pool)
	if pool == nil || !n.Flags.Has(node.PoweringUp) {
		return
	}
	as := &node.Node{}
	if pool.CPUs == 0 {
		as.CPUs = i.CPUs
	}
	if pool.RealMemory == 0 {
		as.MemoryMiB = i.MemoryMiB
	}
	if list, err := tres.ParseGres(i.GPUs); err == nil {
		for _, g := range list {
			as.Gres = append(as.Gres, node.Gres{Name: g.Name, Type: g.Type, Count: int(g.Count)})
		}
	}
	for _, g := range n.Gres {
		if g.Name != "gpu" && len(as.Gres) > 0 {
			as.Gres = append(as.Gres, g)
		}
	}
	reshape(n, as)
}

// InstanceChanged tells that the ledger learnt something about a machine.
type InstanceChanged struct{ Instance *node.Instance }

func (e InstanceChanged) Kind() string {
	switch e.Instance.State {
	case node.Created:
		return "InstanceCreated"
	case node.Deleting:
		return "InstanceDeleting"
	case node.Gone:
		return "InstanceGone"
	case node.Intent:
	}
	return "InstanceChanged"
}

func (e InstanceChanged) Subject() (uint32, string, string) {
	return 0, e.Instance.Node, e.Instance.Tag
}

func (e InstanceChanged) apply(t *tx) error {
	t.putInstance(e.Instance)
	n, err := t.editNode(e.Instance.Node)
	if err != nil || n.Instance != e.Instance.Tag || !n.Flags.Has(node.PoweringUp) {
		return nil //nolint:nilerr // a machine whose node left the config, or has another by now
	}
	t.offered(n, e.Instance)
	t.putNode(n)
	return nil
}

// InstanceForgotten tells that a row of a machine gone for long leaves memory. Volatile:
// the stored row stays.
type InstanceForgotten struct{ Tag string }

func (InstanceForgotten) Kind() string                        { return "InstanceForgotten" }
func (e InstanceForgotten) Subject() (uint32, string, string) { return 0, "", e.Tag }
func (InstanceForgotten) volatile()                           {}
func (e InstanceForgotten) apply(t *tx) error {
	t.instances.Delete(e.Tag)
	return nil
}

// PoolMarked tells that a pool is set aside, or usable again. Volatile.
type PoolMarked struct {
	Pool   string
	Status PoolStatus
}

func (PoolMarked) Kind() string                      { return "PoolMarked" }
func (PoolMarked) Subject() (uint32, string, string) { return 0, "", "" }
func (PoolMarked) volatile()                         {}
func (e PoolMarked) apply(t *tx) error {
	pools := make(map[string]PoolStatus, len(t.Pools)+1)
	maps.Copy(pools, t.Pools)
	if e.Status == (PoolStatus{}) {
		delete(pools, e.Pool)
	} else {
		pools[e.Pool] = e.Status
	}
	t.State.Pools = pools
	return nil
}

// Audited tells who was denied what, and what admins did to others. It changes no
// record.
type Audited struct {
	Job     uint32 `json:",omitempty"`
	Name    string `json:",omitempty"`
	What    string
	By      string
	Allowed bool
}

func (e Audited) Kind() string {
	if e.Allowed {
		return "AdminAct"
	}
	return "Denied"
}
func (e Audited) Subject() (uint32, string, string) { return e.Job, e.Name, "" }
func (e Audited) apply(*tx) error                   { return nil }
