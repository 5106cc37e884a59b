package partitions

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// nodes reads the static nodes, node sets and DownNodes lines.
func (l *loader) nodes() {
	seen := map[string]Position{}
	for _, s := range l.records[nodeKind] {
		names, ok := s.hosts("NodeName", s.name)
		if !ok {
			continue
		}
		shape := s.nodeShape()
		hostNames := s.perNode("NodeHostname", names)
		addrs := s.perNode("NodeAddr", hostNames)
		ports := s.perNode("Port", nil)
		for i, name := range names {
			if at, twice := seen[name]; twice {
				l.fault(s.at, "NodeName=%s is defined twice, first at %s", name, at)
				continue
			}
			seen[name] = s.at
			n := shape
			n.Name, n.HostName, n.Addr, n.Port = name, hostNames[i], addrs[i], s.port(ports, i)
			l.cfg.Nodes = append(l.cfg.Nodes, &n)
		}
	}
	l.cfg.index()
	for _, s := range l.records[nodeSetKind] {
		l.nodeSet(s)
	}
	for _, s := range l.records[downNodesKind] {
		l.downNodes(s)
	}
}

// hosts expands a host list.
func (s *section) hosts(key, text string) ([]string, bool) {
	names, err := hostlist.Parse(text)
	if err != nil {
		s.fault(key, "%v", err)
		return nil, false
	}
	if len(names) == 0 {
		s.fault(key, "names no host")
		return nil, false
	}
	return names, true
}

// perNode expands a list that has one entry for each node, or a single one for
// all; def stands for a list not given.
func (s *section) perNode(key string, def []string) []string {
	if !s.has(key) {
		return def
	}
	list, ok := s.hosts(key, s.str(key, ""))
	if !ok {
		return def
	}
	n := len(def)
	if def == nil {
		return list
	}
	if len(list) == 1 {
		return slices.Repeat(list, n)
	}
	if len(list) != n {
		s.fault(key, "names %d hosts for %d nodes", len(list), n)
		return def
	}
	return list
}

func (s *section) port(list []string, i int) int {
	if len(list) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(list[min(i, len(list)-1)], 10, 16)
	if err != nil {
		s.fault("Port", "not a port")
	}
	return int(n)
}

var nodeStates = []string{"UNKNOWN", "CLOUD", "DOWN", "DRAIN", "FAIL", "FAILING", "FUTURE", "EXTERNAL", "IDLE"}

// nodeShape reads what all nodes of a line share.
func (s *section) nodeShape() Node {
	n := Node{
		Boards:         s.number("Boards", 1, 1, 1<<16),
		CoresPerSocket: s.number("CoresPerSocket", 1, 1, 1<<16),
		ThreadsPerCore: s.number("ThreadsPerCore", 1, 1, 1<<16),
		CoreSpecCount:  s.number("CoreSpecCount", 0, 0, 1<<16),
		RealMemory:     max(s.memory("RealMemory"), 1),
		MemSpecLimit:   s.memory("MemSpecLimit"),
		TmpDisk:        s.memory("TmpDisk"),
		Features:       s.features(),
		Weight:         s.number("Weight", 1, 0, Unlimited),
		State:          s.enum("State", "UNKNOWN", nodeStates...),
		Reason:         s.str("Reason", ""),
		At:             s.at,
	}
	n.Sockets = s.number("Sockets", 0, 1, 1<<16)
	if n.Sockets == 0 {
		n.Sockets = n.Boards * s.number("SocketsPerBoard", 1, 1, 1<<16)
	} else if s.has("SocketsPerBoard") {
		s.fault("SocketsPerBoard", "must not stand beside Sockets")
	}
	product := n.Sockets * n.CoresPerSocket * n.ThreadsPerCore
	n.CPUs = product
	for _, key := range [...]string{"Procs", "CPUs"} {
		if s.has(key) {
			n.CPUs = s.number(key, product, 1, 1<<16)
		}
	}
	shaped := s.has("Sockets") || s.has("SocketsPerBoard") || s.has("CoresPerSocket") || s.has("ThreadsPerCore")
	switch {
	case !shaped:
		n.Sockets = n.CPUs // as Slurm fills in: one core a socket
	case n.CPUs != product && n.CPUs != product/n.ThreadsPerCore && n.CPUs != n.Sockets:
		s.warn("CPUs", "CPUs=%d does not match Sockets*CoresPerSocket*ThreadsPerCore, %d", n.CPUs, product)
	}
	if n.MemSpecLimit >= n.RealMemory && n.MemSpecLimit > 0 {
		s.fault("MemSpecLimit", "must be below RealMemory (%d)", uint64(n.RealMemory))
	}
	list, err := tres.ParseGres(s.str("Gres", ""))
	if err != nil {
		s.fault("Gres", "must be name[:type][:no_consume]:count")
	}
	for _, g := range list {
		s.knownGres(g.Name)
	}
	n.Gres = list
	return n
}

// nodeSet reads a named set of nodes: those listed and those with the feature.
func (l *loader) nodeSet(s *section) {
	if _, twice := l.nodeSets[s.name]; twice {
		l.fault(s.at, "NodeSet=%s is defined twice", s.name)
		return
	}
	set := []*Node{}
	if s.has("Nodes") {
		set = append(set, l.nodeList(s, "Nodes", false)...)
	}
	if f := s.str("Feature", ""); f != "" {
		for _, n := range l.cfg.Nodes {
			if slices.Contains(n.Features, f) && !slices.Contains(set, n) {
				set = append(set, n)
			}
		}
	}
	if !s.has("Nodes") && !s.has("Feature") {
		l.fault(s.at, "NodeSet=%s has neither Nodes nor Feature", s.name)
	}
	l.nodeSets[s.name] = set
}

// nodeList resolves a list of node names, node sets where sets allows them, and ALL.
func (l *loader) nodeList(s *section, key string, sets bool) []*Node {
	text := s.str(key, "")
	if text == "" || text == "(null)" {
		return nil
	}
	if strings.EqualFold(text, "ALL") {
		return l.cfg.Nodes
	}
	names, ok := s.hosts(key, text)
	if !ok {
		return nil
	}
	var list []*Node
	seen := map[*Node]bool{}
	add := func(n *Node) {
		if !seen[n] {
			seen[n] = true
			list = append(list, n)
		}
	}
	for _, name := range names {
		n := l.cfg.node[name]
		set, isSet := l.nodeSets[name]
		switch {
		case n != nil:
			add(n)
		case sets && isSet:
			for _, n := range set {
				add(n)
			}
		case sets && l.cfg.pool[name] != nil:
			s.fault(key, "%s is a pool; pools go in Pools=", name)
		default:
			s.fault(key, "there is no NodeName=%s", name)
		}
	}
	return list
}

// downNodes sets the state of nodes that another line defined.
func (l *loader) downNodes(s *section) {
	names, ok := s.hosts("DownNodes", s.name)
	if !ok {
		return
	}
	state, reason := s.enum("State", "DOWN", "DOWN", "DRAIN", "FAIL", "FAILING", "FUTURE"), s.str("Reason", "")
	for _, name := range names {
		n := l.cfg.node[name]
		if n == nil {
			s.fault("DownNodes", "there is no NodeName=%s", name)
			continue
		}
		n.State, n.Reason = state, reason
	}
}
