package scheduler

import (
	"errors"
	"slices"
	"strings"
)

// constraint is a feature expression in disjunctive form: any of the lists,
// all of its features. Empty holds everywhere.
type constraint [][]string

var errConstraint = errors.New("invalid feature expression")

// parseConstraint reads a, a&b, a,b, a|b and parentheses one level deep.
// Counts and matching sets in brackets are refused until gangs know them.
func parseConstraint(text string) (constraint, error) {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", "&")
	if text == "" {
		return nil, nil
	}
	p := &constraintParser{rest: text}
	c, err := p.or()
	if err != nil || p.rest != "" {
		return nil, errConstraint
	}
	return c, nil
}

type constraintParser struct{ rest string }

func (p *constraintParser) or() (constraint, error) {
	var out constraint
	for {
		c, err := p.and()
		if err != nil {
			return nil, err
		}
		out = append(out, c...)
		if !p.take('|') {
			return out, nil
		}
	}
}

func (p *constraintParser) and() (constraint, error) {
	out := constraint{nil}
	for {
		c, err := p.term()
		if err != nil {
			return nil, err
		}
		var product constraint
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

func (p *constraintParser) term() (constraint, error) {
	if p.take('(') {
		c, err := p.or()
		if err == nil && !p.take(')') {
			err = errConstraint
		}
		return c, err
	}
	end := strings.IndexAny(p.rest, "&|()[]*")
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.TrimSpace(p.rest[:end])
	if word == "" || end < len(p.rest) && strings.ContainsRune("[]*(", rune(p.rest[end])) {
		return nil, errConstraint
	}
	p.rest = p.rest[end:]
	return constraint{{word}}, nil
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
	if len(c) == 0 {
		return true
	}
	for _, all := range c {
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
	for _, all := range c {
		for _, f := range all {
			if !features[f] {
				return false
			}
		}
	}
	return true
}
