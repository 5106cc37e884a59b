package assoc

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Share is how an association stands in the fair tree.
type Share struct {
	Assoc *Assoc
	Depth int
	// Norm is its part of its siblings' shares, Usage what it and those below
	// used (decayed TRES seconds), Effective its part of its parent's usage.
	Norm, Usage, NormUsage, Effective float64
	// Level is Norm over Effective, infinite for who used nothing.
	Level float64
	// Factor ranks the users from the best served last to 1; 0 for accounts.
	Factor float64
}

// Decayed is how many seconds of a span count at now, older ones by half each
// halfLife; a halfLife of 0 lets nothing decay.
func Decayed(start, end, now time.Time, halfLife time.Duration) float64 {
	if end.After(now) {
		end = now
	}
	if !start.Before(end) {
		return 0
	}
	if halfLife <= 0 {
		return end.Sub(start).Seconds()
	}
	h := halfLife.Seconds() / math.Ln2
	return h * (math.Exp(-now.Sub(end).Seconds()/h) - math.Exp(-now.Sub(start).Seconds()/h))
}

// Shares are the associations of a cluster in Slurm's order with their standing
// by the fair-tree rule; used is what each user's association used itself.
func (b *Book) Shares(cluster string, used func(*Assoc) float64) []Share {
	t := fairTree{children: map[ID][]*Share{}}
	for _, a := range b.Select(Filter{Clusters: []string{cluster}}) {
		s := &Share{Assoc: a}
		if a.User != "" {
			s.Usage = used(a)
			t.users++
		}
		t.list = append(t.list, s)
		t.children[a.Parent] = append(t.children[a.Parent], s)
	}
	t.left, t.place = t.users, t.users
	for _, s := range t.children[0] {
		s.NormUsage, s.Effective = 1, 1
		t.sum(s)
		t.stand(s, s.Usage)
		t.rank(t.children[s.Assoc.ID], false)
	}
	out := make([]Share, len(t.list))
	for i, s := range t.list {
		out[i] = *s
	}
	return out
}

type fairTree struct {
	list     []*Share
	children map[ID][]*Share
	users    int
	left     int // users without a place
	place    int // the last one given, counted from the best
}

// sum adds up usage from the leaves.
func (t *fairTree) sum(s *Share) {
	for _, c := range t.children[s.Assoc.ID] {
		c.Depth = s.Depth + 1
		t.sum(c)
		s.Usage += c.Usage
	}
}

// stand compares each association with its siblings.
func (t *fairTree) stand(p *Share, total float64) {
	var shares float64
	for _, c := range t.children[p.Assoc.ID] {
		if c.Assoc.Shares != ParentShares {
			shares += float64(c.Assoc.Shares)
		}
	}
	for _, c := range t.children[p.Assoc.ID] {
		c.Norm, c.Level = 1, math.Inf(1)
		if c.Assoc.Shares != ParentShares && shares > 0 {
			c.Norm = float64(c.Assoc.Shares) / shares
		}
		if total > 0 {
			c.NormUsage = c.Usage / total
		}
		if p.Usage > 0 {
			c.Effective = c.Usage / p.Usage
		}
		if c.Effective > 0 {
			c.Level = c.Norm / c.Effective
		}
		t.stand(c, total)
	}
}

// rank walks the tree, the best served last. Users get their place in that order;
// equals share one, and accounts that are equals are walked as one.
func (t *fairTree) rank(siblings []*Share, tied bool) {
	list := slices.Clone(siblings)
	slices.SortStableFunc(list, func(x, y *Share) int { return cmp.Compare(y.Level, x.Level) })
	for i := 0; i < len(list); i++ {
		c := list[i]
		tied = tied && i == 0 || i > 0 && list[i-1].Level == c.Level
		if c.Assoc.User != "" {
			if !tied {
				t.place = t.left
			}
			c.Factor = float64(t.place) / float64(t.users)
			t.left--
			continue
		}
		below := slices.Clone(t.children[c.Assoc.ID])
		for ; i+1 < len(list) && list[i+1].Level == c.Level && list[i+1].Assoc.User == ""; i++ {
			below = append(below, t.children[list[i+1].Assoc.ID]...)
		}
		t.rank(below, tied)
	}
}
