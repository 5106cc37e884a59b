package state

import (
	"slices"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// Reconfigured tells that a new config is in force. Volatile: the config is a file, and
// the nodes follow from it again at every start.
type Reconfigured struct{ Config *partitions.Config }

func (Reconfigured) Kind() string                      { return "Reconfigured" }
func (Reconfigured) Subject() (uint32, string, string) { return 0, "", "" }
func (Reconfigured) volatile()                         {}
func (e Reconfigured) apply(t *tx) error {
	t.State.Config = e.Config
	t.dismiss(t.conform())
	return nil
}

// conform makes the nodes follow the config: new ones appear powered down (or
// unknown, if static), known ones take the declared shape. It returns those
// that are wanted.
func (t *tx) conform() map[string]*node.Node {
	want := map[string]*node.Node{}
	index := 0
	add := func(n *node.Node) {
		n.Index = index
		index++
		want[n.Name] = n
	}
	for _, s := range t.Config.Nodes {
		add(static(s))
	}
	for _, p := range t.Config.Pools {
		for _, name := range p.NodeNames() {
			add(pooled(p, name))
		}
	}
	for name, w := range want {
		have, ok := t.nodes.Get(name)
		if ok {
			w = declared(have, w, t.Config.Pool(w.Pool))
		}
		t.nodes.Set(name, w)
	}
	return want
}

// dismiss lets nodes go that are not wanted, as soon as nothing lives on them.
func (t *tx) dismiss(want map[string]*node.Node) {
	var gone []string
	t.nodes.Scan(func(name string, n *node.Node) bool {
		if _, ok := want[name]; !ok {
			gone = append(gone, name)
		}
		return true
	})
	for _, name := range gone {
		n, _ := t.nodes.Get(name)
		if len(n.Jobs) == 0 && (n.Instance == "" || n.Pool == "") {
			t.nodes.Delete(name)
			continue
		}
		n = n.Clone()
		n.Flags |= node.Drain
		n.Reason, n.ReasonUser = node.RemovedReason, ""
		t.nodes.Set(name, n)
	}
}

// declared puts what the config says onto what is known of a node. Of a machine
// that is there, what its pool (nil for a static node) leaves open stays as the
// agent reported it.
func declared(have, want *node.Node, pool *partitions.Pool) *node.Node {
	n := have.Clone()
	n.Pool, n.Index, n.Features, n.Weight = want.Pool, want.Index, want.Features, want.Weight
	if n.Removed() {
		n.Flags &^= node.Drain
		n.Reason = ""
	}
	live := !n.Flags.Has(node.PoweredDown) && (!n.Flags.Has(node.PoweringUp) || n.Instance != "")
	if live && pool != nil {
		w := *want
		if pool.CPUs == 0 {
			w.CPUs = 0
		}
		if pool.RealMemory == 0 {
			w.MemoryMiB = 0
		}
		if len(n.Gres) > 0 { // the pool's are ranges
			w.Gres = nil
		}
		want = &w
	}
	reshape(n, want)
	return n
}

// reshape gives a node the size of another, where that one says.
func reshape(n, as *node.Node) {
	if as.CPUs > 0 {
		n.CPUs = as.CPUs
	}
	if as.MemoryMiB > 0 {
		n.MemoryMiB = as.MemoryMiB
	}
	if as.TmpDiskMiB > 0 {
		n.TmpDiskMiB = as.TmpDiskMiB
	}
	if len(as.Gres) > 0 {
		n.Gres = as.Gres
	}
}

func static(s *partitions.Node) *node.Node {
	n := &node.Node{
		Name: s.Name, CPUs: s.CPUs, MemoryMiB: int64(s.RealMemory), TmpDiskMiB: int64(s.TmpDisk),
		Features: s.Features, Weight: s.Weight, Flags: node.NotResponding,
	}
	for _, g := range s.Gres {
		n.Gres = append(n.Gres, node.Gres{Name: g.Name, Type: g.Type, Count: int(g.Count)})
	}
	switch s.State {
	case "DOWN":
		n.Down, n.Reason = true, s.Reason
	case "DRAIN":
		n.Flags |= node.Drain
		n.Reason = s.Reason
	}
	return n
}

// openCPUs is what a pool's node is taken to have before one was rented, where
// the pool leaves it to the offer: enough for any job, so that the offer decides.
const openCPUs, openMemory = 256, int64(4 << 20) // CPUs, MiB

func pooled(p *partitions.Pool, name string) *node.Node {
	n := &node.Node{
		Name: name, Pool: p.Name, CPUs: p.CPUs, MemoryMiB: int64(p.RealMemory), TmpDiskMiB: int64(p.TmpDisk),
		Features: slices.Clone(p.Features), Weight: p.Weight, Flags: node.Cloud | node.PoweredDown,
	}
	if n.CPUs == 0 {
		n.CPUs = openCPUs
	}
	if n.MemoryMiB == 0 {
		n.MemoryMiB = openMemory
	}
	for _, g := range p.Gres {
		n.Gres = append(n.Gres, node.Gres{Name: g.Name, Type: g.Type, Count: int(g.Max)})
	}
	if p.Image != nil {
		n.Image = p.Image.Name
	}
	return n
}

// FormatGres prints a node's gres as Slurm does: gpu:a100:2.
func FormatGres(list []node.Gres) string {
	out := make([]tres.Gres, len(list))
	for i, g := range list {
		out[i] = tres.Gres{Name: g.Name, Type: g.Type, Count: uint64(g.Count)}
	}
	return tres.FormatGres(out)
}
