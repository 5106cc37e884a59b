package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// TestReportsOfAnIdleCluster compares with what 26.05 says on its first day.
func TestReportsOfAnIdleCluster(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.people()
	for _, tt := range []struct {
		line, want string
		status     int
	}{
		{"sshare", `Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare 
-------------------- ---------- ---------- ----------- ----------- ------------- ---------- 
root                                          0.000000           0      1.000000            
 physics                                 1    0.500000           0      0.000000            
`, 0},
		{"sshare -u alice -l -n", `root                                          0.000000           0                  1.000000                                                      cpu=0,mem=0,energy=0,node=0,b+ 
 physics                                 1    0.500000           0    0.000000      0.000000                   inf                                cpu=0,mem=0,energy=0,node=0,b+ 
  physics                 alice          1    1.000000           0    0.000000      0.000000   1.000000        inf                                cpu=0,mem=0,energy=0,node=0,b+ 
`, 0},
		{"sshare -A physics -a -P", "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\nphysics||1|0.500000|0|0.000000|\n physics|alice|1|1.000000|0|0.000000|1.000000\n", 0},
		{"sshare -o bogus", "sshare: error: Invalid field requested: \"bogus\"\n", 1},
		{"sprio", "          JOBID PARTITION   PRIORITY       SITE\n", 0},
		{"sprio -w", "          JOBID PARTITION   PRIORITY       SITE\n        Weights                               1\n", 0},
		{"sprio -n", "          JOBID PARTITION PRIORITY  \n", 0},
		{"sprio -l", "          JOBID PARTITION     USER  ACCOUNT   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE    JOBSIZE  PARTITION    QOSNAME        QOS        NICE                 TRES\n", 0},
		{"sprio -j 1", "Unable to find jobs matching user/id(s) specified\n", 1},
		{"sprio -o bogus", "bogus\n", 0},
		{"sstat", "sstat: error: You didn't give me any jobs to stat.\n", 1},
		{"sstat -j abc", "sstat: fatal: Bad job/step specified: abc\n", 1},
		{"sstat -n -j 99999", "sstat: error: couldn't get steps for JobId=99999\n", 1},
		{"sreport cluster", "too few arguments for keyword:cluster\n", 1},
		{"sreport bogus", "invalid keyword: bogus\n", 1},
		{"sreport reservation bogus", "Not valid report bogus\nValid reservation reports are, \"Utilization\"\n", 1},
		{"sdiag -r", "slurm_reset_statistics: Requested operation not supported on this system\n", 1},
	} {
		out, status := h.say("", strings.Fields(tt.line)...)
		if diff := cmp.Diff(tt.want, out); diff != "" || status != tt.status {
			t.Errorf("%s: exit status %d, want %d (-Slurm +sbatchd)\n%s", tt.line, status, tt.status, diff)
		}
	}
	diag := h.must("sdiag")
	for _, want := range []string{"sdiag output at ", "Server thread count:  1\n", "\nMain schedule statistics (microseconds):\n\tLast cycle:   ", "\tLast cycle when: N/A\n", "\tNo pending RPCs\n"} {
		if !strings.Contains(diag, want) {
			t.Errorf("sdiag lacks %q:\n%s", want, diag)
		}
	}
}

// records is a controller that has two jobs of yesterday in its accounting: alice
// held 8 CPUs for half an hour, bob, who has no association, 4 for one.
func records(t *testing.T) *session {
	t.Helper()
	yesterday := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Unix()
	ran := func(user, account string, cpus, seconds int64) wire.DBJob {
		j := wire.DBJob{User: user, Account: account, QOS: "normal"}
		j.Time.Start, j.Time.End = yesterday, yesterday+seconds
		j.TRES.Allocated = []wire.TRES{{Type: "cpu", ID: 1, Count: cpus}}
		return j
	}
	answers := map[string]any{
		"/slurmdb/v0.0.45/jobs": &wire.DBJobsResp{Jobs: []wire.DBJob{ran("alice", "physics", 8, 1800), ran("alice", "physics", 64, 60), ran("bob", "", 4, 3600)}},
		"/slurmdb/v0.0.45/clusters": &wire.ClustersResp{Clusters: []wire.ClusterRec{{
			Name: "base", Nodes: "node[01-02]", TRES: []wire.TRES{{Type: "cpu", Count: 72}},
		}}},
		"/slurmdb/v0.0.45/associations": &wire.AssocsResp{Associations: []wire.Assoc{
			{Cluster: "base", Account: "root", Lineage: "/"}, {Cluster: "base", Account: "physics", Lineage: "/physics/"},
			{Cluster: "base", Account: "physics", User: "alice", Lineage: "/physics/0-alice/"},
		}},
		"/sbatchd/v1/transactions": wire.AcctTxns{Transactions: []wire.AcctTxn{{Time: time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC), Where: "base"}}},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewEncoder(w).Encode(answers[strings.TrimSuffix(r.URL.Path, "/")]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return &session{T: t, dir: t.TempDir(), uid: 1000, addr: srv.Listener.Addr().String()}
}

func TestSreport(t *testing.T) {
	t.Parallel()
	s := records(t)
	for _, tt := range []struct{ line, want string }{
		// 72 CPUs for 23 hours, since the cluster is older than that hour only.
		{"-n -P cluster utilization", "base|544|0|0|98816|0|99360\n"},
		{"-n -P -t hours cluster utilization", "base|9|0|0|1647|0|1656\n"},
		{"-n -P -t percent cluster utilization", "base|0.55%|0.00%|0.00%|99.45%|0.00%|100.00%\n"},
		{"-n -P -T cpu cluster utilization", "base|cpu|544|0|0|98816|0|99360\n"},
		{"-n -P cluster accountutilizationbyuser", "base|root|||304|0\nbase|physics|||304|0\nbase|physics|alice||304|0\n"},
		{"-n -P cluster userutil", "base|alice||physics|304|0\n"},
		{"-n -P user top", "base|alice||physics|304|0\n"},
		{"-n -P user top topcount=0", ""},
		{"-n -P job sizesbyaccount", "base|physics|240|64|0|0|0|2|100.00%\n"},
		{"-n -P job sizesbyaccount printjobcount grouping=10", "base|physics|1|1\n"},
		{"-n -P cluster utilization format=cluster,reported", "base|99360\n"},
		{"-n -P cluster utilization start=2026-11-29T12:00 end=2026-11-29T12:30", "base|544|0|0|3776|0|4320\n"},
		{"-n -P cluster utilization start=2026-11-28 end=2026-11-28T12:00", ""},
		{"user top", `--------------------------------------------------------------------------------
Top 10 Users 2026-11-29T00:00:00 - 2026-11-30T00:59:59 (90000 secs)
Usage reported in CPU Minutes
--------------------------------------------------------------------------------
  Cluster     Login     Proper Name         Account     Used   Energy 
--------- --------- --------------- --------------- -------- -------- 
     base     alice                         physics      304        0 
`},
	} {
		out, errs, status := s.run(append([]string{"sreport"}, strings.Fields(tt.line)...)...)
		if diff := cmp.Diff(tt.want, out); diff != "" || status != 0 || errs != "" {
			t.Errorf("%s: exit status %d %s (-want +got)\n%s", tt.line, status, errs, diff)
		}
	}
}
