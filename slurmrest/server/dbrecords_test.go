package server_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

const (
	root   = 0
	dbPath = "/slurmdb/v0.0.45"
)

// post sends a record and fails unless it is taken.
func (h *house) post(path, body string) {
	h.t.Helper()
	if r := h.do(root, "POST", dbPath+path, body, ""); r.status != http.StatusOK {
		h.t.Fatalf("POST %s %s: %d %s", path, body, r.status, r.body)
	}
}

// accounts makes the accounts physics and optics below it, with alice in both.
func (h *house) accounts() {
	h.t.Helper()
	h.post("/qos/", `{"qos":[{"name":"high","priority":10,"flags":["DENY_LIMIT"],"limits":{"max":{"jobs":{"active_jobs":{"per":{"user":7}}}}}}]}`)
	h.post("/accounts/", `{"accounts":[{"name":"physics","description":"Physics","organization":"science"}]}`)
	h.post("/accounts_association/", `{"association_condition":{"accounts":["optics"],"association":{"parent":"physics"}},"account":{}}`)
	h.post("/users_association/", `{"association_condition":{"users":["alice"],"accounts":["physics","optics"],"wckeys":["laser"]},"user":{}}`)
}

func TestRecordsHaveTheirStructure(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.accounts()
	for _, v := range version.Served() {
		for _, tt := range []struct{ path, template string }{
			{"/accounts?WithAssociations&WithCoordinators", "/accounts/"}, {"/account/physics?with_assocs", "/account/{account_name}"},
			{"/users?with_assocs&with_coords&with_wckeys", "/users/"}, {"/user/alice?with_assocs", "/user/{name}"},
			{"/associations", "/associations/"}, {"/association?account=root&user=root", "/association/"},
			{"/qos", "/qos/"}, {"/qos/high", "/qos/{qos}"}, {"/clusters", "/clusters/"}, {"/cluster/test", "/cluster/{cluster_name}"},
			{"/wckeys", "/wckeys/"}, {"/wckey/1", "/wckey/{id}"}, {"/tres", "/tres/"}, {"/config", "/config"}, {"/diag", "/diag/"},
		} {
			r := h.do(root, "GET", "/slurmdb/"+v.Name+tt.path, "", "/slurmdb/"+v.Name+tt.template)
			if r.status != http.StatusOK || strings.Contains(string(r.body), "found nothing") {
				t.Errorf("%s %s: %d %s", v.Name, tt.path, r.status, r.body)
			}
		}
		if r := h.do(root, "GET", "/slurm/"+v.Name+"/shares", "", "/slurm/"+v.Name+"/shares"); r.status != http.StatusOK {
			t.Errorf("%s shares: %d %s", v.Name, r.status, r.body)
		}
	}
}

func TestRecordsComeBackAsWritten(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.accounts()
	h.post("/associations/", `{"associations":[{"account":"optics","user":"alice","shares_raw":5,"qos":["high","normal"],"default":{"qos":"high"},
		"max":{"jobs":{"active":3,"per":{"wall_clock":{"number":60,"set":true}}},"tres":{"per":{"job":[{"type":"cpu","count":4},{"type":"gres","name":"gpu","count":1}]}}}}]}`)
	var got wire.AssocsResp
	r := h.do(root, "GET", dbPath+"/association?user=alice&account=optics", "", "")
	if err := json.Unmarshal(r.body, &got); err != nil || len(got.Associations) != 1 {
		t.Fatalf("%v: %s", err, r.body)
	}
	a := got.Associations[0]
	if a.SharesRaw != 5 || strings.Join(a.QOS, ",") != "high,normal" || a.Default.QOS != "high" || a.Lineage != "/physics/optics/0-alice/" ||
		a.Max.Jobs.Active.Number != 3 || a.Max.Jobs.Per.WallClock.Number != 60 || len(a.Max.TRES.Per.Job) != 2 || a.Max.TRES.Per.Job[0].ID != 1 {
		t.Errorf("%+v", a)
	}
	// Infinite takes a limit away, what isn't named stays.
	h.post("/associations/", `{"associations":[{"account":"optics","user":"alice","max":{"jobs":{"active":{"infinite":true}}}}]}`)
	r = h.do(root, "GET", dbPath+"/association?user=alice&account=optics", "", "")
	got = wire.AssocsResp{}
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	if a := got.Associations[0]; !a.Max.Jobs.Active.Infinite || a.Max.Jobs.Per.WallClock.Number != 60 {
		t.Errorf("%+v", a.Max.Jobs)
	}
}

// The words are those of slurmrestd 26.05, asked the same.
func TestRecordsRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.accounts()
	for _, tt := range []struct {
		name, method, path, body string
		uid                      uint32
		status                   int
		want                     string
	}{
		{"no description", "POST", "/accounts/", `{"accounts":[{"name":"x"}]}`, root, 422, `"Missing required field 'description' in dictionary"`},
		{"its place", "POST", "/accounts/", `{"accounts":[{"name":"x"}]}`, root, 422, `"#/accounts[0]/description/"`},
		{"no list", "POST", "/accounts/", `{}`, root, 422, `"Missing required field 'accounts' in dictionary"`},
		{"empty list", "POST", "/accounts/", `{"accounts":[]}`, root, 200, `"errors":[]`},
		{"association without user", "POST", "/associations/", `{"associations":[{"account":"physics"}]}`, root, 422, "Missing required field 'user'"},
		{"unnamed QOS", "POST", "/qos/", `{"qos":[{"priority":6}]}`, root, 422, "Cannot create a QOS without a name"},
		{"rename of nobody", "POST", "/users/", `{"users":[{"name":"b","old_name":"a"}]}`, root, 422, "Unable to rename non-existent user a to b"},
		{"a user may not", "POST", "/accounts/", `{"accounts":[{"name":"x","description":"d","organization":"o"}]}`, alice, 422, "slurmdb_accounts_add() failed"},
		{"nor a QOS", "POST", "/qos/", `{"qos":[{"name":"x"}]}`, alice, 422, `"error_number":2002`},
		{"nor remove", "DELETE", "/user/alice", "", alice, 422, "slurmdb_users_remove failed"},
		{"nor see statistics", "GET", "/diag/", "", alice, 422, "stats query failed"},
		{"nothing to remove", "DELETE", "/account/nope", "", root, 304, ""},
		{"no filter, no removal", "DELETE", "/associations/", "", root, 304, ""},
		{"nothing to add", "POST", "/users_association/", `{"association_condition":{"users":["alice"],"accounts":["physics"]},"user":{}}`, root, 304, ""},
		{"no account to add to", "POST", "/users_association/", `{"association_condition":{"users":["alice"]},"user":{}}`, root, 500, "Need name of account(s) or wckey(s) to add"},
		{"TRES are fixed", "POST", "/tres/", `{"TRES":[]}`, root, 422, "Updating TRES is not currently supported"},
		{"one association", "GET", "/association?user=alice", "", root, 500, "Ambiguous request: More than 1 association would have been dumped."},
		{"not there", "GET", "/user/nobody", "", root, 200, "slurmdb_users_get() found nothing"},
		{"removed", "DELETE", "/association?account=optics&user=alice", "", root, 200, `"removed_associations":["C = test       A = optics     U = alice    "]`},
		{"removed account", "DELETE", "/account/physics", "", root, 200, `"removed_accounts":["physics"]`},
	} {
		r := h.do(tt.uid, tt.method, dbPath+tt.path, tt.body, "")
		if r.status != tt.status || !strings.Contains(string(r.body), tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, r.status, r.body, tt.status, tt.want)
		}
	}
}

func TestUnknownQOSChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.accounts()
	r := h.do(root, "POST", dbPath+"/associations/", `{"associations":[{"account":"physics","user":"alice","shares_raw":9},{"account":"optics","user":"alice","qos":["gold"]}]}`, "")
	if r.status != 422 || !strings.Contains(string(r.body), `"error_number":2066`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do(root, "GET", dbPath+"/associations?user=alice", "", ""); strings.Contains(string(r.body), `"shares_raw":9`) {
		t.Errorf("half of the request took effect: %s", r.body)
	}
}

func TestJobsGetTheDefaultAccount(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.accounts()
	for _, tt := range []struct{ name, job, want string }{
		{"default", `"hold":true`, "physics|normal"},
		{"asked for", `"hold":true,"account":"optics","qos":"high"`, "optics|high"},
		{"unknown ones run unless enforced", `"hold":true,"account":"Nobodys"`, "nobodys|normal"},
	} {
		id := h.submit(tt.job)
		j, ok := h.Snapshot().Job(id)
		if !ok {
			t.Fatalf("%s: no job %d", tt.name, id)
		}
		if got := j.Account + "|" + j.QOS; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// sacctmgr's edits and the owner's are one JSON: what the command can say, the
// owner understands.
func TestEditsOfTheCommandAreTheOwners(t *testing.T) {
	t.Parallel()
	wires, owners := fieldsOf(reflect.TypeFor[wire.AcctEdit](), ""), fieldsOf(reflect.TypeFor[assoc.Edit](), "")
	for name := range wires {
		if !owners[name] {
			t.Errorf("sacctmgr sends %s, which the owner doesn't read", name)
		}
	}
	if len(wires) < 40 {
		t.Errorf("only %d fields compared", len(wires))
	}
}

// fieldsOf lists a struct's fields with those of the structs in it.
func fieldsOf(typ reflect.Type, prefix string) map[string]bool {
	out := map[string]bool{}
	for f := range typ.Fields() {
		at := f.Type
		if at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct {
			out[prefix+f.Name] = true
			continue
		}
		for name := range fieldsOf(at, prefix+f.Name+".") {
			out[name] = true
		}
	}
	return out
}
