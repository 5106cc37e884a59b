package version_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

func TestRecordsFitEveryVersion(t *testing.T) {
	t.Parallel()
	text := "a \"quoted\\\" {[,]} text"
	job := wire.JobInfo{Comment: text, JobState: []string{"RUNNING", "CONFIGURING"}, Flags: []string{"EXTERNAL_JOB", "JOB_IMPLICIT_MAX_NODES", "SPREAD_SEGMENTS", "DEPENDENT"}, JobResources: &wire.JobRes{
		SelectType: []string{"CR_CPU_MEMORY"}, Nodes: wire.JobResNodes{Allocation: make([]wire.JobResNode, 2)},
	}}
	node := wire.Node{Name: "n1", State: []string{"IDLE", "CLOUD"}, Comment: text}
	part := wire.PartitionInfo{
		Name: text, CPUs: wire.PartitionInfoCPUs{TaskBinding: []string{"CPU_BIND_OFF"}}, SelectType: []string{"CR_CPU"},
		Flags: []string{"DEFAULT"}, PreemptMode: []string{"DISABLED"}, Partition: wire.PartitionInfoPartition{State: []string{"UP"}, Exclusive: "NO"},
	}
	db := wire.DBJob{Name: text, Steps: []wire.DBStep{{SubmitLine: text}, {}}}
	stats := wire.StatsMsg{RPCsByMessageType: make([]wire.StatsMsgRPCType, 1), RPCsByUser: make([]wire.StatsMsgRPCUser, 1)}
	envelope := wire.Append(nil, &wire.Response{})
	for _, v := range version.Served() {
		for _, tt := range []struct {
			path, schema, open, end string
			value                   wire.Value
		}{
			{"/slurm/" + v.Name + "/ping", "controller_ping", `{"pings":[`, `],`, &wire.ControllerPing{Hostname: text, Status: "UP"}},
			{"/slurm/" + v.Name + "/diag", "stats_msg", `{"statistics":`, `,`, &stats},
			{"/slurm/" + v.Name + "/jobs", "job_info", `{"last_update":{"set":false,"infinite":false,"number":0},"last_backfill":{"set":false,"infinite":false,"number":0},"jobs":[`, `],`, &job},
			{"/slurm/" + v.Name + "/nodes", "node", `{"last_update":{"set":false,"infinite":false,"number":0},"nodes":[`, `],`, &node},
			{"/slurm/" + v.Name + "/partitions", "partition_info", `{"last_update":{"set":false,"infinite":false,"number":0},"partitions":[`, `],`, &part},
			{"/slurm/" + v.Name + "/licenses", "license", `{"last_update":{"set":false,"infinite":false,"number":0},"licenses":[`, `],`, &wire.License{}},
			{"/slurm/" + v.Name + "/shares", "shares_resp_msg", `{"shares":`, `,`, &wire.SharesRespMsg{Shares: make([]wire.AssocSharesObjWrap, 1)}},
			{"/slurmdb/" + v.Name + "/jobs", "job", `{"jobs":[`, `],`, &db},
			{"/slurmdb/" + v.Name + "/associations", "assoc", `{"associations":[`, `],`, &wire.Assoc{Account: text, Accounting: make([]wire.Accounting, 1), Flags: []string{"DELETED", "Exact"}}},
			{"/slurmdb/" + v.Name + "/accounts", "account", `{"accounts":[`, `],`, &wire.Account{Flags: []string{"WithAssociations"}, Associations: make([]wire.AssocShort, 1)}},
			{"/slurmdb/" + v.Name + "/users", "user", `{"users":[`, `],`, &wire.User{Name: text, Wckeys: []wire.Wckey{{Accounting: make([]wire.Accounting, 1)}}}},
			{"/slurmdb/" + v.Name + "/wckeys", "wckey", `{"wckeys":[`, `],`, &wire.Wckey{Name: text}},
			{"/slurmdb/" + v.Name + "/qos", "qos", `{"qos":[`, `],`, &wire.QOS{Name: text, Flags: []string{"DELETED", "DENY_LIMIT"}}},
			{"/slurmdb/" + v.Name + "/clusters", "cluster_rec", `{"clusters":[`, `],`, &wire.ClusterRec{Flags: []string{"DELETED"}}},
			{"/slurmdb/" + v.Name + "/diag", "stats_rec", `{"statistics":`, `,`, &wire.StatsRec{}},
		} {
			body := append([]byte(tt.open), v.Rewrite(nil, wire.Append(nil, tt.value), tt.schema)...)
			body = append(append(body, tt.end...), envelope[1:]...)
			if !json.Valid(body) {
				t.Errorf("%s: not JSON: %s", tt.path, body)
			} else if err := spec.Check(v.Name, "GET", tt.path, body); err != nil {
				t.Errorf("%s: %v", tt.path, err)
			}
		}
	}
}

func TestNewestIsUntouched(t *testing.T) {
	t.Parallel()
	v := version.Served()[0]
	record := wire.Append(nil, &wire.JobInfo{Name: "x"})
	if diff := cmp.Diff(string(record), string(v.Rewrite(nil, record, "job_info"))); diff != "" || !v.Newest() {
		t.Error(diff)
	}
	if old := version.Served()[1]; old.Newest() || !old.Lacks("job_desc_msg", "container_type") || old.Lacks("job_desc_msg", "tasks") {
		t.Error("v0.0.44 lacks nothing")
	}
}

// served finds a version by name.
func served(t *testing.T, name string) *version.Version {
	t.Helper()
	for _, v := range version.Served() {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("%s is not served", name)
	return nil
}

func TestFieldsMadeOfOthers(t *testing.T) {
	t.Parallel()
	job := &wire.JobInfo{RequiredSwitches: 3, JobResources: &wire.JobRes{CPUs: 8, Nodes: wire.JobResNodes{
		Count: 2, List: "n[1-2]", Allocation: []wire.JobResNode{
			{Name: "n1", Memory: wire.JobResNodeMemory{Allocated: 100}}, {Name: "n2", CPUs: wire.JobResNodeCPUs{Used: 4}},
		},
	}}}
	shares := &wire.SharesRespMsg{Shares: []wire.AssocSharesObjWrap{{EffectiveUsage: wire.NumFloat{Set: true, Number: 0.25}}}}
	for _, tt := range []struct {
		version, schema string
		value           wire.Value
		want            string
	}{
		{"v0.0.41", "job_info", job, `"minimum_switches":3`},
		{"v0.0.41", "shares_resp_msg", shares, `"effective_usage":0.25`},
		{"v0.0.40", "assoc", &wire.Assoc{Account: "a$b", User: "u", ID: 7}, `"id":{"account":"a$b","cluster":"","partition":"","user":"u","id":7}`},
		{"v0.0.40", "job_info", job, `"job_resources":{"nodes":"n[1-2]","allocated_cores":8,"allocated_cpus":8,"allocated_hosts":2,"allocated_nodes":[` +
			`{"nodename":"n1","sockets":{},"cpus_used":0,"memory_used":0,"memory_allocated":100},` +
			`{"nodename":"n2","sockets":{},"cpus_used":4,"memory_used":0,"memory_allocated":0}]}`},
		{"v0.0.40", "job_info", &wire.JobInfo{}, `"job_resources":null`},
	} {
		got := string(served(t, tt.version).Rewrite(nil, wire.Append(nil, tt.value), tt.schema))
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s\nlacks %s", tt.version, tt.schema, got, tt.want)
		}
	}
}
