package assoc

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Kind says which table of records a row belongs to.
type Kind string

// The kinds of rows.
const (
	KindCluster Kind = "cluster"
	KindAccount Kind = "account"
	KindUser    Kind = "user"
	KindAssoc   Kind = "assoc"
	KindQOS     Kind = "qos"
	KindWCKey   Kind = "wckey"
	KindTRES    Kind = "tres"
	KindLast    Kind = "last" // the highest number given in a kind
)

// Row is one record as it is stored: its JSON, nil for one that is gone.
type Row struct {
	Kind Kind            `json:"kind"`
	Key  string          `json:"key"` // name or number
	Doc  json.RawMessage `json:"doc,omitempty"`
}

// Apply is the Book after rows are written; b itself stays as it is.
func (b *Book) Apply(rows []Row) (*Book, error) {
	n := b.clone()
	for _, r := range rows {
		if err := n.put(r); err != nil {
			return nil, fmt.Errorf("record %s %s: %w", r.Kind, r.Key, err)
		}
	}
	return n, nil
}

func (b *Book) put(r Row) error {
	switch r.Kind {
	case KindCluster:
		return set(b.clusters, r.Key, r)
	case KindAccount:
		return set(b.accounts, r.Key, r)
	case KindUser:
		return set(b.users, r.Key, r)
	case KindQOS:
		return numbered(b.qos, r)
	case KindWCKey:
		return numbered(b.wckeys, r)
	case KindTRES:
		return numbered(b.tres, r)
	case KindLast:
		var id ID
		err := json.Unmarshal(r.Doc, &id)
		b.last[r.Key] = id
		return err
	case KindAssoc:
		id, err := number(r.Key)
		if err != nil {
			return err
		}
		if old, ok := b.assocs[id]; ok {
			delete(b.places, old.place())
		}
		if err := numbered(b.assocs, r); err != nil {
			return err
		}
		if a, ok := b.assocs[id]; ok {
			b.places[a.place()] = a
		}
		return nil
	}
	return nil // written by a later sbatchd, which keeps it
}

func number(key string) (ID, error) {
	n, err := strconv.ParseUint(key, 10, 32)
	return ID(n), err
}

// set puts a record under its key, or takes it away where the row has none.
func set[K comparable, V any](m map[K]*V, key K, r Row) error {
	if r.Doc == nil {
		delete(m, key)
		return nil
	}
	v := new(V)
	if err := json.Unmarshal(r.Doc, v); err != nil {
		return err
	}
	m[key] = v
	return nil
}

func numbered[V any](m map[ID]*V, r Row) error {
	id, err := number(r.Key)
	if err != nil {
		return err
	}
	return set(m, id, r)
}
