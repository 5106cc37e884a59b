package version_test

import (
	"encoding/json"
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
	envelope := wire.Append(nil, &wire.Response{})
	for _, v := range version.Served() {
		for _, tt := range []struct {
			path, schema, open, end string
			value                   wire.Value
		}{
			{"/slurm/" + v.Name + "/ping", "controller_ping", `{"pings":[`, `],`, &wire.ControllerPing{Hostname: text, Status: "UP"}},
			{"/slurm/" + v.Name + "/diag", "stats_msg", `{"statistics":`, `,`, &wire.StatsMsg{}},
			{"/slurm/" + v.Name + "/jobs", "job_info", `{"last_update":{"set":false,"infinite":false,"number":0},"last_backfill":{"set":false,"infinite":false,"number":0},"jobs":[`, `],`, &job},
			{"/slurm/" + v.Name + "/nodes", "node", `{"last_update":{"set":false,"infinite":false,"number":0},"nodes":[`, `],`, &node},
			{"/slurm/" + v.Name + "/partitions", "partition_info", `{"last_update":{"set":false,"infinite":false,"number":0},"partitions":[`, `],`, &part},
			{"/slurmdb/" + v.Name + "/jobs", "job", `{"jobs":[`, `],`, &db},
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
