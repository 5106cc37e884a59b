package scheduler

import (
	"errors"
	"slices"
	"strings"
)

// constraint is a feature expression in disjunctive form: any of the lists,
// all of its features. Empty holds everywhere. Of a matching one, [a|b], all
// nodes of the job satisfy the same list.
type constraint struct {
	any  alternatives
	same bool
}

type alternatives [][]string

// maxAlternatives bounds what a short expression can unfold to.
const maxAlternatives = 256

var errConstraint = errors.New("invalid feature expression")

// parseConstraint reads a, a&b, a,b, a|b, one group in brackets and parentheses.
// Counts (a*4) are refused until gangs know them.
func parseConstraint(text string) (constraint, error) {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", "&")
	if text == "" {
		return constraint{}, nil
	}
	p := &constraintParser{rest: text}
	list, err := p.or()
	if err != nil || p.rest != "" {
		return constraint{}, errConstraint
	}
	return constraint{list, p.same}, nil
}

type constraintParser struct {
	rest  string
	same  bool // brackets were met
	depth int
}

func (p *constraintParser) or() (alternatives, error) {
	var out alternatives
	for {
		c, err := p.and()
		if err != nil {
			return nil, err
		}
		if out = append(out, c...); len(out) > maxAlternatives {
			return nil, errConstraint
		}
		if !p.take('|') {
			return out, nil
		}
	}
}

func (p *constraintParser) and() (alternatives, error) {
	out := alternatives{nil}
	for {
		c, err := p.term()
		if err != nil {
			return nil, err
		}
		if len(out)*len(c) > maxAlternatives {
			return nil, errConstraint
		}
		var product alternatives
		for _, a := range out {
			for _, b := range c {
				product = append(product, append(slices.Clone(a), b...))
			}
		}
		out = product
		if !p.take('&') {
			return out, nil
		}
	}
}

func (p *constraintParser) term() (alternatives, error) {
	end := byte(0)
	switch {
	case p.take('('):
		end = ')'
	case !p.same && p.take('['):
		end, p.same = ']', true
	}
	if end != 0 {
		if p.depth++; p.depth > 4 {
			return nil, errConstraint
		}
		c, err := p.or()
		if err == nil && !p.take(end) {
			err = errConstraint
		}
		p.depth--
		return c, err
	}
	return p.word()
}

func (p *constraintParser) word() (alternatives, error) {
	end := strings.IndexAny(p.rest, "&|()[]*")
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.TrimSpace(p.rest[:end])
	if word == "" || end < len(p.rest) && strings.ContainsRune("[*(", rune(p.rest[end])) {
		return nil, errConstraint
	}
	p.rest = p.rest[end:]
	return alternatives{{word}}, nil
}

func (p *constraintParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// holds says whether a node with these features satisfies the expression.
func (c constraint) holds(features []string) bool {
	if len(c.any) == 0 {
		return true
	}
	for _, all := range c.any {
		ok := true
		for _, f := range all {
			ok = ok && slices.Contains(features, f)
		}
		if ok {
			return true
		}
	}
	return false
}

// knownAmong says whether every feature named exists on some node.
func (c constraint) knownAmong(features map[string]bool) bool {
	for _, all := range c.any {
		for _, f := range all {
			if !features[f] {
				return false
			}
		}
	}
	return true
}
