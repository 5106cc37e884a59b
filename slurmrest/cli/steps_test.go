package cli_test

import (
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// runningSteps are a job's batch script with an srun, and an array task's.
func runningSteps() wire.Steps {
	one := wire.Step{
		ID: "41250.batch", JobID: 41250, Name: "batch", Partition: "main", User: "alice", UserID: 1001, Nodes: "node01", NumberTasks: 1,
		State: []string{"RUNNING"}, Array: wire.StepArray{TaskID: 0xfffffffe}, Task: wire.StepTask{Distribution: "Unknown"},
	}
	one.Time.Limit, one.Time.Running, one.Time.Start = wire.Infinite, wire.N(1), wire.N(now.Unix()-1)
	srun := one
	srun.ID, srun.Name, srun.NumberCPUs, srun.TRES.Allocation, srun.Task.Distribution = "41250.0", "train", 2, "cpu=2,mem=200M,node=1", "Cyclic"
	task := one
	task.ID, task.JobID, task.User, task.UserID, task.Array = "41254.batch", 41254, "bob", 1002, wire.StepArray{JobID: 41252, TaskID: 7}
	return wire.Steps{Steps: []wire.Step{one, srun, task}}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{nodes: []wire.Node{{Name: "node01"}}, own: map[string]any{"/steps": runningSteps()}})
	const header = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n"
	const first = "        41250.0    train      main    alice      0:01 node01\n    41250.batch    batch      main    alice      0:01 node01\n"
	s.expect(header+first+"  41252_7.batch    batch      main      bob      0:01 node01\n", "", 0, "squeue", "-s")
	s.expect(header+first, "", 0, "squeue", "-s", "-j", "41250")
	s.expect("41252_7.batch\n", "", 0, "squeue", "-hs41252_7", "-o", "%i")
	s.expect("41250.0\n", "", 0, "squeue", "-s", "41250.0", "-h", "-o", "%i")
	s.expect("train               2cpu\n", "", 0, "squeue", "-s41250.0", "-h", "-O", "StepName,NumCPUs:.0cpu")
	s.expect(`StepId=41250.0 UserId=1001 StartTime=2026-11-30T08:23:26 TimeLimit=UNLIMITED
   State=RUNNING Partition=main NodeList=node01
   Nodes=1 CPUs=2 Tasks=1 Name=train Network=(null)
   TRES=cpu=2,mem=200M,node=1
   ResvPorts=(null)
   CPUFreqReq=Default Dist=Cyclic
   SrunHost:Pid=(null):0

`, "", 0, "scontrol", "show", "step", "41250.0")
	s.expect("", "scontrol: error: scontrol_print_step: slurm_get_job_steps(999) failed: Invalid job id specified\n", 1, "scontrol", "show", "step", "999")
	out, _, _ := s.run("squeue", "-s", "--json")
	if !strings.Contains(out, `"id": "41250.0"`) || !strings.Contains(out, `"steps": [`) {
		t.Errorf("json: %.200s", out)
	}
}

func TestPartitionVerbs(t *testing.T) {
	t.Parallel()
	ctl := &controller{own: map[string]any{"/partition": ""}}
	s := newSession(t, ctl)
	s.expect("", "", 0, "scontrol", "update", "PartitionName=short", "State=DRAIN", "MaxTime=2:00:00")
	if got := ctl.bodies[len(ctl.bodies)-1]; got != `{"name":"short","values":{"maxtime":"2:00:00","state":"DRAIN"}}` {
		t.Errorf("sent %s", got)
	}
	s.expect("", "", 0, "scontrol", "create", "partition=new", "nodes=node01")
	s.expect("", "", 0, "scontrol", "delete", "partitionname=new")
	if got := ctl.bodies[len(ctl.bodies)-1]; got != `{"name":"new","delete":true}` {
		t.Errorf("sent %s", got)
	}
	for _, tt := range []struct{ word, says string }{
		{"maxtime=bogus", "scontrol: error: Invalid input maxtime=bogus\n"},
		{"state=bogus", "scontrol: error: Invalid input: state=bogus\nscontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"},
		{"default=maybe", "scontrol: error: Invalid input: default=maybe\nscontrol: error: Acceptable Default values are YES and NO\n"},
		{"foo=bar", "scontrol: error: Update of this parameter is not supported: foo=bar\n\nscontrol: error: Request aborted\n"},
		{"maxnodes=x", "scontrol: error: Invalid numeric value \"x\" for MaxNodes.\n"},
		{"prioritytier=x", "scontrol: error: Invalid PriorityTier value: x\n"},
		{"bad", "scontrol: error: Invalid input: bad  Request aborted\n"},
		{"name=x", "scontrol: error: Update of this parameter is not supported: name=x\n\nscontrol: error: Request aborted\n"},
	} {
		s.expect("", tt.says, 1, "scontrol", "update", "partitionname=short", tt.word)
	}
	s.expect("", "scontrol: error: No changes specified\n", 1, "scontrol", "update", "partitionname=short")
	s.expect("", "scontrol: error: Invalid creation entity: foo=bar\n", 1, "scontrol", "create", "foo=bar")
	s.expect("", "Invalid deletion entity: bogus=1\n", 1, "scontrol", "delete", "bogus=1")
	ctl.own = nil
	s.expect("", "delete_partition partitionname=x: Invalid job id specified\n", 1, "scontrol", "delete", "partitionname=x")
}
