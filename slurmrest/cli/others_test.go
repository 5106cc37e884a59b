package cli_test

import (
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// TestUnbuiltCommands: what is not built says so as Slurm does.
func TestUnbuiltCommands(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{own: map[string]any{"/steps": runningSteps()}})
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"scrontab: fatal: scrontab is disabled on this cluster\n", []string{"scrontab", "-l"}},
		{"strigger: error: You must use exactly one of the following options: --set, --get or --clear\n", []string{"strigger"}},
		{"strigger: error: You must specify a trigger\n", []string{"strigger", "--set"}},
		{"strigger: error: You must specify a --program value\n", []string{"strigger", "--set", "--jobid=9", "--fini"}},
		{"slurm_set_trigger: Access/permission denied\n", []string{"strigger", "--set", "--node=node01", "--down", "--program=/bin/true"}},
		{"strigger: error: You must specify a --id, --jobid, or --user to clear\n", []string{"strigger", "--clear"}},
		{"slurm_clear_trigger: No such process\n", []string{"strigger", "--clear", "--id=1"}},
		{"sattach: error: too many parameters\nUsage: sattach [options] <jobid.stepid>\n", []string{"sattach"}},
		{"sattach: fatal: Bad job/step specified: abc: JobID can not be zero\n", []string{"sattach", "abc"}},
		{"sattach: error: Could not get job step info: Invalid job id specified\n", []string{"sattach", "999999.0"}},
		{"sattach: error: Could not get job step info: Requested operation not supported on this system\n", []string{"sattach", "41250.0"}},
		{"Need two file names, have 1 names\nTry \"sbcast --help\" for more information\n", []string{"sbcast", "a"}},
		{"sbcast: error: Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.\n", []string{"sbcast", "a", "/tmp/x"}},
	} {
		s.expect("", tt.says, 1, tt.args...)
	}
	s.expect("", "", 0, "strigger", "--get")
}

func TestSbcastInAJob(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{})
	s.env = []string{"SLURM_JOB_ID=7", "SBATCHD_STEP_SOCKET=/run/x"}
	s.file("data", "hello")
	s.expect("", "", 0, "sbcast", "data", "copy")
	if got := s.read("copy"); got != "hello" {
		t.Errorf("copied %q", got)
	}
	s.expect("", "sbcast: error: Can't open `DIR/copy`: File exists\n", 1, "sbcast", "data", "copy")
	s.file("data", "again")
	s.expect("", "", 0, "sbcast", "-f", "data", "copy")
	if got := s.read("copy"); got != "again" {
		t.Errorf("copied %q", got)
	}
	s.expect("", "sbcast: error: Can't open `DIR/nothing`: No such file or directory\n", 1, "sbcast", "nothing", "copy")
}

func TestSeff(t *testing.T) {
	t.Parallel()
	j := wire.DBJob{JobID: 41250, Cluster: "base", User: "alice", Group: "alice", State: wire.DBJobState{Current: []string{"COMPLETED"}}}
	j.TRES.Allocated = []wire.TRES{{Type: "cpu", Count: 2}, {Type: "mem", Count: 400}, {Type: "node", Count: 1}}
	j.Time.Elapsed, j.Time.Total.Seconds = 100, 150
	j.Steps = []wire.DBStep{{}}
	j.Steps[0].TRES.Requested.Max = []wire.TRES{{Type: "mem", Count: 100 << 20}}
	s := newSession(t, &controller{acct: []wire.DBJob{j}})
	s.expect(`Job ID: 41250
Cluster: base
User/Group: alice/alice
State: COMPLETED (exit code 0)
Nodes: 1
Cores per node: 2
CPU Utilized: 00:02:30
CPU Efficiency: 75.00% of 00:03:20 core-walltime
Job Wall-clock time: 00:01:40
Memory Utilized: 100.00 MB
Memory Efficiency: 25.00% of 400.00 MB (400.00 MB/node)
`, "", 0, "seff", "41250")
	s.ctl.acct = nil
	s.expect("", "Job not found.\n", 2, "seff", "999")
}
