package server

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getNodes answers GET /nodes.
func getNodes(c *call) {
	if !c.since() {
		return
	}
	s := c.s.cfg.Controller.Snapshot()
	c.list("nodes", "node", nodes(s, c.memberships(s)), c.now("last_update"))
}

func nodes(s *state.State, member map[string][]string) iter.Seq[wire.Value] {
	return func(yield func(wire.Value) bool) {
		for n := range s.Nodes() {
			if !yield(nodeOf(s, n, member[n.Name])) {
				return
			}
		}
	}
}

// memberships lists each node's partitions: all of them over REST as in Slurm,
// those the caller sees to our own commands without flags=ALL.
func (c *call) memberships(s *state.State) map[string][]string {
	m := map[string][]string{}
	for _, p := range s.Config.Partitions {
		if c.sparse && !c.flagged("ALL") && !c.shown(p) {
			continue
		}
		for _, name := range p.NodeNames() {
			m[name] = append(m[name], p.Name)
		}
	}
	return m
}

// getNode answers GET /node/{node_name}.
func getNode(c *call) {
	name := mux.Vars(c.r)["node_name"]
	s := c.s.cfg.Controller.Snapshot()
	n, ok := s.Node(name)
	if !ok {
		// Slurm's own error is that there is none, and 200.
		c.fail(errno.Success, "Failure to query node "+name, "_dump_nodes")
		c.reply(nil)
		return
	}
	c.list("nodes", "node", func(yield func(wire.Value) bool) {
		yield(nodeOf(s, n, c.memberships(s)[name]))
	}, c.now("last_update"))
}

// postNode answers POST /node/{node_name}: drain, resume, power up and down.
func postNode(c *call) {
	name := mux.Vars(c.r)["node_name"]
	var m wire.UpdateNodeMsg
	if !c.read(&m) {
		return
	}
	c.updateNodes([]string{name}, &m, "_update_node")
}

// postNodes answers POST /nodes: the same for the nodes that the body names.
func postNodes(c *call) {
	var m wire.UpdateNodeMsg
	if !c.read(&m) {
		return
	}
	names, err := hostlist.Parse(strings.Join(m.Name, ","))
	if err != nil || len(names) == 0 {
		c.fail(errno.InvalidNodeName, "Failure to update node "+or(strings.Join(m.Name, ","), "(null)"), "_update_nodes")
		c.reply(nil)
		return
	}
	c.updateNodes(names, &m, "_update_nodes")
}

func (c *call) updateNodes(names []string, m *wire.UpdateNodeMsg, source string) {
	for _, field := range m.GivenFields() {
		if !slices.Contains([]string{"state", "reason", "name", "reason_uid"}, field) {
			c.warn(fmt.Sprintf("Field %q of a node can not be changed", field), "#/"+field+"/")
		}
	}
	states := m.State
	if len(states) == 0 {
		states = []string{""}
	}
	for _, name := range names {
		for _, st := range states {
			err := c.s.cfg.Controller.UpdateNode(c.r.Context(), c.who, name, queue.NodeChange{State: st, Reason: m.Reason})
			if err != nil {
				c.fail(notAdmin(err), "Failure to update node "+name, source)
				c.reply(nil)
				return
			}
		}
	}
	c.reply(nil)
}

// notAdmin is what Slurm calls an administrator's act by somebody else.
func notAdmin(err error) error {
	if numberOf(err) == errno.AccessDenied {
		return errno.UserIDMissing
	}
	return err
}

// nodeOf makes a node's record.
func nodeOf(s *state.State, n *node.Node, partitions []string) *wire.Node {
	r := &wire.Node{
		Name: n.Name, Hostname: n.Name, Address: n.Name, Architecture: n.Arch, OperatingSystem: n.OS, Version: Compatible,
		Boards: 1, Sockets: int64(n.CPUs), Cores: 1, Threads: 1, CPUs: int64(n.CPUs), EffectiveCPUs: int64(n.CPUs),
		AllocCPUs: int64(n.UsedCPUs), AllocIdleCPUs: int64(n.CPUs - n.UsedCPUs), AllocMemory: n.UsedMiB,
		RealMemory: n.MemoryMiB, TemporaryDisk: n.TmpDiskMiB, Weight: int64(n.Weight), Port: 6818,
		BootTime: at(n.Boot), SlurmdStartTime: at(n.AgentStart), LastBusy: at(n.LastBusy), ResumeAfter: zero,
		CPULoad: int64(n.Load * 100), FreeMem: wire.N(n.FreeMiB), Features: n.Features, ActiveFeatures: n.Features,
		GRES: gresText(n.Gres), GRESDrained: "N/A", GRESUsed: gresUsed(n), NextStateAfterReboot: []string{"INVALID"},
		State: append([]string{n.Base().String()}, n.AllFlags().Names()...), Partitions: partitions,
		Reason: n.Reason, ReasonSetByUser: n.ReasonUser, ReasonChangedAt: at(n.ReasonTime),
		TRES: nodeTRES(n).String(), TRESUsed: usedTRES(n).String(),
		Energy: wire.AcctGatherEnergy{CurrentWatts: zero},
	}
	if n.Reason != "" && n.ReasonUser == "" {
		r.ReasonSetByUser = "root"
	}
	if n.FreeMiB == 0 && n.LastSeen.IsZero() {
		r.FreeMem = wire.Num{}
	}
	if cfg := s.Config.Node(n.Name); cfg != nil {
		r.Address, r.Hostname = or(cfg.Addr, n.Name), or(cfg.HostName, n.Name)
		if cfg.Port > 0 {
			r.Port = int64(cfg.Port)
		}
		if cfg.Sockets*cfg.CoresPerSocket*cfg.ThreadsPerCore == n.CPUs {
			r.Boards, r.Sockets = int64(max(1, cfg.Boards)), int64(cfg.Sockets)
			r.Cores, r.Threads = int64(cfg.CoresPerSocket), int64(cfg.ThreadsPerCore)
		}
		r.SpecializedMemory, r.SpecializedCores = int64(cfg.MemSpecLimit), int64(cfg.CoreSpecCount)
	}
	if i, ok := s.Instance(n.Instance); ok && n.Instance != "" {
		r.InstanceID, r.InstanceType = i.ProviderID, i.InstanceType
	}
	return r
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// gresText prints what a node has: gpu:a100:2.
func gresText(list []node.Gres) string {
	parts := make([]string, len(list))
	for i, g := range list {
		parts[i] = g.Name
		if g.Type != "" {
			parts[i] += ":" + g.Type
		}
		parts[i] += fmt.Sprintf(":%d", g.Count)
	}
	return strings.Join(parts, ",")
}

// gresUsed prints what jobs hold of it: gpu:a100:1(IDX:0).
func gresUsed(n *node.Node) string {
	parts := make([]string, 0, len(n.Gres))
	base := map[string]int{} // devices of a name are numbered through its types
	for _, g := range n.Gres {
		name := g.Name
		if g.Type != "" {
			name += ":" + g.Type
		}
		var held []int
		for k := range g.Count {
			if d := base[g.Name] + k; d < 64 && n.UsedGres[g.Name]&(1<<d) != 0 {
				held = append(held, d)
			}
		}
		base[g.Name] += g.Count
		idx := "N/A"
		if len(held) > 0 {
			idx = indexes(held)
		}
		parts = append(parts, fmt.Sprintf("%s:%d(IDX:%s)", name, len(held), idx))
	}
	return strings.Join(parts, ",")
}

// nodeTRES counts what a node has.
func nodeTRES(n *node.Node) tres.TRES {
	t := tres.TRES{tres.CPU: uint64(n.CPUs), tres.Mem: uint64(n.MemoryMiB), tres.Billing: uint64(n.CPUs)}
	for _, g := range n.Gres {
		t["gres/"+g.Name] += uint64(g.Count)
		if g.Type != "" {
			t["gres/"+g.Name+":"+g.Type] += uint64(g.Count)
		}
	}
	return t
}

// usedTRES counts what jobs hold of it.
func usedTRES(n *node.Node) tres.TRES {
	if n.UsedCPUs == 0 {
		return nil
	}
	t := tres.TRES{tres.CPU: uint64(n.UsedCPUs), tres.Mem: uint64(max(0, n.UsedMiB))}
	for name, mask := range n.UsedGres {
		t["gres/"+name] += uint64(bits.OnesCount64(mask))
	}
	return t
}
