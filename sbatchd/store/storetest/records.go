package storetest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/store"
)

// records checks that rows of accounting are kept, replaced and removed by kind
// and key, and that their story is found again.
func records(t *testing.T, open func() store.Journal) {
	j := open()
	load(t, j)
	row := func(kind assoc.Kind, key, doc string) assoc.Row {
		r := assoc.Row{Kind: kind, Key: key}
		if doc != "" {
			r.Doc = json.RawMessage(doc)
		}
		return r
	}
	txn := func(minutes int, action, actor string) assoc.Txn {
		return assoc.Txn{Time: at(minutes), Action: action, Actor: actor, Where: "a", Info: "b"}
	}
	for _, b := range []*store.Batch{
		{
			Records: []assoc.Row{row(assoc.KindUser, "alice", `{"name":"alice"}`), row(assoc.KindAccount, "alice", `{"name":"alice"}`), row(assoc.KindUser, "bob", `{"name":"bob"}`)},
			Txns:    []assoc.Txn{txn(0, "Add Users", "root"), txn(0, "Add Accounts", "root")},
		},
		{
			// Twice in one batch: the last one counts.
			Records: []assoc.Row{
				row(assoc.KindUser, "alice", `{"name":"alice","level":1}`), row(assoc.KindUser, "alice", `{"name":"alice","level":2}`),
				row(assoc.KindUser, "bob", ""), row(assoc.KindUser, "carol", `{"name":"carol"}`), row(assoc.KindUser, "carol", ""),
			},
			Txns: []assoc.Txn{txn(5, "Modify Users", "alice")},
		},
	} {
		if err := j.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	want := []assoc.Row{row(assoc.KindAccount, "alice", `{"name":"alice"}`), row(assoc.KindUser, "alice", `{"name":"alice","level":2}`)}
	if diff := cmp.Diff(want, load(t, open()).Records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		name  string
		query store.TxnQuery
		want  []string
	}{
		{"all", store.TxnQuery{}, []string{"Add Users", "Add Accounts", "Modify Users"}},
		{"by action", store.TxnQuery{Actions: []string{"Add Accounts"}}, []string{"Add Accounts"}},
		{"by actor", store.TxnQuery{Actors: []string{"alice"}}, []string{"Modify Users"}},
		{"since", store.TxnQuery{Since: at(1)}, []string{"Modify Users"}},
		{"until", store.TxnQuery{Until: at(1)}, []string{"Add Users", "Add Accounts"}},
	} {
		list, err := j.Transactions(ctx, tt.query)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range list {
			got = append(got, x.Action)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
