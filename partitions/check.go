package partitions

import (
	"os"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/slurmconf"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// aliases reads PartitionAlias=name:partition[,...]; lines add up.
func (l *loader) aliases() {
	c := l.cfg
	for _, p := range l.repeated["partitionalias"] {
		for _, item := range splitList(p.Value) {
			i := strings.IndexAny(item, ":=")
			if i <= 0 || i == len(item)-1 {
				l.fault(posOf(p), "PartitionAlias: %q is not name:partition", item)
				continue
			}
			from, to := item[:i], item[i+1:]
			switch {
			case c.partition[to] == nil:
				l.fault(posOf(p), "PartitionAlias: there is no PartitionName=%s", to)
			case c.partition[from] != nil:
				l.fault(posOf(p), "PartitionAlias: %s is itself a partition", from)
			case c.PartitionAlias[from] != "":
				l.fault(posOf(p), "PartitionAlias: %s is given twice", from)
			default:
				if c.PartitionAlias == nil {
					c.PartitionAlias = map[string]string{}
				}
				c.PartitionAlias[from] = to
			}
		}
	}
}

// check looks at rules between records.
func (l *loader) check() {
	c := l.cfg
	var def *Partition
	for _, p := range c.Partitions {
		if p.Default {
			if def != nil {
				l.fault(p.At, "partition %s is Default=YES, and so is %s", p.Name, def.Name)
			}
			def = p
		}
		for _, ref := range [...]struct{ key, name string }{{"Overflow", p.Overflow}, {"Alternate", p.Alternate}} {
			if ref.name == "" {
				continue
			}
			if c.partition[ref.name] == nil {
				l.fault(p.At, "partition %s: %s=%s: there is no such partition", p.Name, ref.key, ref.name)
			} else if ref.name == p.Name {
				l.fault(p.At, "partition %s: %s is the partition itself", p.Name, ref.key)
			}
		}
	}
	l.overflowCycles()
	for _, n := range c.Nodes {
		if p, _, ok := c.PoolNode(n.Name); ok {
			l.fault(n.At, "NodeName=%s is also a node of pool %s", n.Name, p.Name)
		}
		if _, ok := l.nodeSets[n.Name]; ok {
			l.fault(n.At, "NodeName=%s is also a NodeSet", n.Name)
		}
	}
	used := map[*Pool]bool{}
	for _, p := range c.Partitions {
		for _, pool := range p.Pools {
			used[pool] = true
		}
	}
	for _, p := range c.Pools {
		if !used[p] {
			l.warn(p.At, "pool %s is in no partition", p.Name)
		}
	}
}

// overflowCycles reports partitions whose jobs would go round for ever.
func (l *loader) overflowCycles() {
	for _, p := range l.cfg.Partitions {
		seen := []string{p.Name}
		for at := p; at.Overflow != "" && at.Overflow != at.Name; {
			next := l.cfg.partition[at.Overflow]
			if next == nil {
				break
			}
			if next == p {
				if slices.Min(seen) == p.Name { // once a cycle
					l.fault(p.At, "Overflow goes round in a circle: %s", strings.Join(append(seen, p.Name), " -> "))
				}
				break
			}
			if slices.Contains(seen, next.Name) {
				break
			}
			seen = append(seen, next.Name)
			at = next
		}
	}
}

var gresConfKeys = newKind("gres.conf", `AutoDetect Count Cores CPUs File Flags Links MultipleFiles Name NodeName Type`, "")

// gresConf checks the site's gres.conf if there is one. Devices are found by
// the agent, so nothing is taken from it; a name that does not fit the rest of the
// configuration is a fault all the same.
func (l *loader) gresConf(path string) {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return
	}
	doc, faults := slurmconf.Read(path)
	l.cfg.Files = append(l.cfg.Files, doc.Files...)
	for _, f := range faults {
		l.fault(Position{f.File, f.Line}, "%s", f.Msg)
	}
	for _, st := range doc.Statements {
		s := &section{l: l, kind: gresConfKeys, name: "gres.conf", at: posOf(st[0]), pairs: map[string]slurmconf.Pair{}}
		for _, p := range st {
			if l.known(gresConfKeys, p) {
				s.pairs[strings.ToLower(p.Key)] = p
			}
		}
		if name := s.str("Name", ""); name != "" && !slices.Contains(l.cfg.GresTypes, name) {
			s.fault("Name", "is not in GresTypes")
		}
		if text := s.str("NodeName", ""); text != "" {
			s.hosts("NodeName", text)
		}
		if text := s.str("Count", ""); text != "" {
			if _, err := tres.ParseGres("x=" + text); err != nil {
				s.fault("Count", "not a count")
			}
		}
	}
}
