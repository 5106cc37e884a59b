package server

import "github.com/sbatchd/sbatchd/slurmrest/wire"

// lister writes an answer with one list, piece by piece, as JSON or YAML.
type lister struct {
	*call
	key, schema string
	n           int    // records so far
	json        []byte // one record, to make YAML of
	elements    wire.YAMLWriter
}

func (l *lister) open(b []byte) []byte {
	if l.yaml {
		return append(b, wire.YAMLStart...)
	}
	return append(append(append(b, '{', '"'), l.key...), `":[`...)
}

func (l *lister) record(b []byte, v wire.Value) []byte {
	l.n++
	if !l.yaml {
		if l.n > 1 {
			b = append(b, ',')
		}
		return l.call.record(b, l.schema, v)
	}
	if l.n == 1 {
		b = wire.AppendYAMLKey(b, l.key, false)
	}
	l.json = l.call.record(l.json[:0], l.schema, v)
	return l.elements.Element(b, l.json)
}

// close appends what follows the list: tail's members and the envelope.
func (l *lister) close(b []byte, tail func(b []byte) []byte) []byte {
	if !l.yaml {
		b = append(b, ']', ',')
		if tail != nil {
			b = tail(b)
		}
		return append(l.envelope(b), '}')
	}
	if l.n == 0 {
		b = wire.AppendYAMLKey(b, l.key, true)
	}
	l.json = append(l.json[:0], '{')
	if tail != nil {
		l.json = tail(l.json)
	}
	l.json = append(l.envelope(l.json), '}')
	return append(wire.AppendYAMLMembers(b, l.json), wire.YAMLEnd...)
}
