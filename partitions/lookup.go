package partitions

import (
	"slices"
	"strconv"
	"strings"
)

// index makes the maps behind the look-up methods.
func (c *Config) index() {
	c.partition = byName(c.Partitions, func(p *Partition) string { return p.Name })
	c.pool = byName(c.Pools, func(p *Pool) string { return p.Name })
	c.provider = byName(c.Providers, func(p *Provider) string { return p.Name })
	c.image = byName(c.Images, func(i *Image) string { return i.Name })
	c.node = byName(c.Nodes, func(n *Node) string { return n.Name })
}

func byName[T any](list []*T, name func(*T) string) map[string]*T {
	m := make(map[string]*T, len(list))
	for _, v := range list {
		if _, twice := m[name(v)]; !twice {
			m[name(v)] = v
		}
	}
	return m
}

// Partition returns the partition of that name, or nil. Aliases do not count.
func (c *Config) Partition(name string) *Partition { return c.partition[name] }

// Pool returns the pool of that name, or nil.
func (c *Config) Pool(name string) *Pool { return c.pool[name] }

// Provider returns the provider of that name, or nil.
func (c *Config) Provider(name string) *Provider { return c.provider[name] }

// Image returns the image of that name, or nil.
func (c *Config) Image(name string) *Image { return c.image[name] }

// Node returns the static node of that name, or nil.
func (c *Config) Node(name string) *Node { return c.node[name] }

// DefaultPartition returns the partition of jobs that name none, or nil.
func (c *Config) DefaultPartition() *Partition {
	for _, p := range c.Partitions {
		if p.Default {
			return p
		}
	}
	return nil
}

// ResolvePartition returns the partition a script means: the one of that name,
// or what PartitionAlias makes of it ("*" stands for any unknown name), or nil.
func (c *Config) ResolvePartition(name string) *Partition {
	if p := c.partition[name]; p != nil {
		return p
	}
	for _, alias := range [...]string{name, "*"} {
		if to, ok := c.PartitionAlias[alias]; ok {
			return c.partition[to]
		}
	}
	return nil
}

// PoolNode tells which pool a node name belongs to and its number in it, from 1.
func (c *Config) PoolNode(name string) (*Pool, int, bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return nil, 0, false
	}
	p := c.pool[name[:i]]
	n, err := strconv.Atoi(name[i+1:])
	if p == nil || err != nil || n < 1 || n > p.MaxNodes || p.NodeName(n) != name {
		return nil, 0, false
	}
	return p, n, true
}

// NodeName returns the name of the pool's n-th node, n from 1.
func (p *Pool) NodeName(n int) string { return p.Name + "-" + strconv.Itoa(n) }

// NodeNames returns the names of all of the pool's nodes, rented or not.
func (p *Pool) NodeNames() []string {
	names := make([]string, p.MaxNodes)
	for i := range names {
		names[i] = p.NodeName(i + 1)
	}
	return names
}

// NodeNames returns the names of the partition's nodes: static ones first, then
// each pool's, in the order of the file.
func (p *Partition) NodeNames() []string {
	var names []string
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	for _, pool := range p.Pools {
		names = append(names, pool.NodeNames()...)
	}
	return names
}

// NodeNames returns the names of all nodes, static ones first, then each pool's.
func (c *Config) NodeNames() []string {
	var names []string
	for _, n := range c.Nodes {
		names = append(names, n.Name)
	}
	for _, p := range c.Pools {
		names = append(names, p.NodeNames()...)
	}
	return names
}

// ImageFor returns the image of jobs that name none on the pool's nodes, or nil.
func (p *Partition) ImageFor(pool *Pool) *Image {
	if p.Image != nil {
		return p.Image
	}
	return pool.Image
}

// Allows reports whether the partition's jobs may run on machines of that trust.
func (p *Partition) Allows(t Trust) bool {
	if len(p.AllowTrust) == 0 {
		return true
	}
	return slices.Contains(p.AllowTrust, t)
}

// Down reports whether the pool rents nothing (State=DOWN).
func (p *Pool) Down() bool { return p.State != "" && p.State != "UP" }
