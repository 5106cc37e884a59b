package state

import "github.com/sbatchd/sbatchd/sbatchd/assoc"

// RecordsChanged puts records of accounting in their place: accounts, users,
// associations, QOS and the like.
type RecordsChanged struct {
	Rows []assoc.Row `json:"rows"`
	Txns []assoc.Txn `json:"txns,omitempty"`
}

// Kind is the event's name in the story.
func (RecordsChanged) Kind() string { return "RecordsChanged" }

// Subject is nothing: records are neither jobs nor nodes.
func (RecordsChanged) Subject() (job uint32, node, tag string) { return 0, "", "" }

func (e RecordsChanged) apply(t *tx) error {
	book, err := t.Acct.Apply(e.Rows)
	if err != nil {
		return err
	}
	t.Acct = book
	t.ch.Records, t.ch.Txns = e.Rows, e.Txns
	return nil
}

// RestoreRecords is the state with the records of accounting as they were stored.
func RestoreRecords(s *State, rows []assoc.Row) (*State, error) {
	t := s.fork()
	book, err := assoc.Empty().Apply(rows)
	if err != nil {
		return nil, err
	}
	t.Acct = book
	return t, nil
}
