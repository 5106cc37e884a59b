package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

const showPending = `JobId=41262 JobName=pend
   UserId=alice(1000) GroupId=alice(1000) MCS_label=N/A
   Priority=0 Nice=0 Account=physics QOS=normal
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=1-02:04:00 TimeMin=N/A
   SubmitTime=2026-11-30T08:23:27 EligibleTime=Unknown
   AccrueTime=Unknown
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T08:23:27 Scheduler=Main
   Partition=main AllocNode:Sid=login01:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=1 NumCPUs=2 NumTasks=1 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=300M,node=1,billing=2
   AllocTRES=(null)
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=2 MinMemoryNode=300M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Exclusive=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
   Command=(null)
   SubmitLine=sbatch -H --wrap true
   WorkDir=/home/alice/work
   Comment=cc 
   StdErr=
   StdIn=/dev/null
   StdOut=/home/alice/work/slurm-41262.out
   TresPerTask=cpu=2
   

`

func TestShowJob(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{jobs: []wire.JobInfo{pending(), running()}})
	s.expect(showPending, "", 0, "scontrol", "show", "job", "41262")
	one := strings.ReplaceAll(strings.TrimSuffix(showPending, "\n\n"), "\n   ", " ") + "\n"
	s.expect(one, "", 0, "scontrol", "sho", "j", "41262", "-o")
	s.expect("", "slurm_load_jobs error: Invalid job id specified\n", 1, "scontrol", "show", "jobid", "999999")
	s.expect("", "scontrol_print_job error: Invalid job id specified\n", 1, "scontrol", "show", "job", "x")
	out, _, _ := s.run("scontrol", "show", "job")
	if n := strings.Count(out, "JobId="); n != 2 {
		t.Errorf("%d records", n)
	}
	for _, want := range []string{
		"   JobState=RUNNING Reason=None Dependency=(null)\n", "   RunTime=00:00:01 TimeLimit=01:00:00 TimeMin=N/A\n",
		"   NodeList=node01\n   BatchHost=node01\n   NumNodes=1 NumCPUs=2 ", "   StartTime=2026-11-30T08:23:26 EndTime=2026-11-30T09:23:26 Deadline=N/A\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, _ = s.run("scontrol", "-dd", "show", "job", "41250")
	for _, want := range []string{"JobId=41250 JobName=runner\n   SLUID=\n   UserId=", "   DerivedExitCode=0:0\n", "   JOB_GRES=(null)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	s.ctl.jobs = nil
	s.expect("No jobs in the system\n", "", 0, "scontrol", "show", "jobs")
}

func cluster() *controller {
	main := wire.PartitionInfo{Name: "main", Flags: []string{"DEFAULT"}}
	main.Nodes.Configured, main.Nodes.Total, main.CPUs.Total, main.TRES.Configured = "node[01-02]", 2, 72, "cpu=72,mem=80000M,node=2,billing=72"
	main.Defaults.Time, main.Maximums.Time = wire.N(60), wire.N(7*24*60)
	main.Maximums.Nodes, main.Maximums.CPUsPerNode, main.Maximums.CPUsPerSocket = wire.Infinite, wire.Infinite, wire.Infinite
	main.Partition.State, main.Priority.JobFactor, main.Priority.Tier = []string{"UP"}, 1, 1
	priv := wire.PartitionInfo{Name: "priv"}
	priv.Groups.Allowed, priv.Partition.State, priv.Maximums.Time = "root", []string{"UP"}, wire.Infinite
	node := func(name string, cpus, memory, weight int64) wire.Node {
		return wire.Node{
			Name: name, Hostname: "node01", Address: "127.0.0.1", Architecture: "x86_64", Cores: 1, Sockets: cpus, Threads: 1, Boards: 1, CPUs: cpus,
			EffectiveCPUs: cpus, RealMemory: memory, Weight: weight, State: []string{"IDLE"}, Partitions: []string{"main"}, Version: "26.05.3",
			OperatingSystem: "Linux 6.18", FreeMem: wire.N(13948), BootTime: wire.N(now.Unix()), SlurmdStartTime: wire.N(now.Unix()), LastBusy: wire.N(now.Unix()),
			TRES: "cpu=64,mem=62.50G,billing=64", Features: []string{"fast"}, ActiveFeatures: []string{"fast"},
		}
	}
	cloud := node("pool-1", 4, 8000, 1)
	cloud.State = []string{"IDLE", "CLOUD", "POWERED_DOWN"}
	return &controller{parts: []wire.PartitionInfo{main, priv}, nodes: []wire.Node{node("node01", 64, 64000, 1), node("node02", 8, 16000, 10), cloud}}
}

func TestShowNodeAndPartition(t *testing.T) {
	t.Parallel()
	s := newSession(t, cluster())
	s.expect(`NodeName=node01 Arch=x86_64 CoresPerSocket=1 
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=N/A
   AvailableFeatures=fast
   ActiveFeatures=fast
   Gres=(null)
   NodeAddr=127.0.0.1 NodeHostName=node01 Version=26.05.3
   OS=Linux 6.18 
   RealMemory=64000 AllocMem=0 FreeMem=13948 Sockets=64 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main 
   BootTime=2026-11-30T08:23:27 SlurmdStartTime=2026-11-30T08:23:27
   LastBusyTime=2026-11-30T08:23:27 ResumeAfterTime=None SuspendTime=INFINITE
   CfgTRES=cpu=64,mem=62.50G,billing=64
   AllocTRES=
   CurrentWatts=0 AveWatts=0
   

`, "", 0, "scontrol", "show", "node", "node01")
	s.expect("Node nosuch not found\n", "", 1, "scontrol", "show", "node", "nosuch")
	s.expect(`PartitionName=main
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 DisableRootJobs=NO Exclusive=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   Nodes=node[01-02]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=72 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=72,mem=80000M,node=2,billing=72

`, "", 0, "scontrol", "show", "partition", "main")
	s.expect("Partition nosuch not found\n", "", 1, "scontrol", "show", "partition", "nosuch")
}

func TestSinfo(t *testing.T) {
	t.Parallel()
	s := newSession(t, cluster())
	s.expect("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"+
		"main*        up 7-00:00:00      1  idle~ pool-1\n"+
		"main*        up 7-00:00:00      2   idle node[01-02]\n", "", 0, "sinfo")
	s.expect("PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n"+
		"main*        up 7-00:00:00          0/3/0/3 node[01-02],pool-1\n", "", 0, "sinfo", "-s")
	out, _, _ := s.run("sinfo", "-a")
	if !strings.Contains(out, "priv         up   infinite      0    n/a \n") {
		t.Errorf("hidden partition:\n%s", out)
	}
	s.expect("NODELIST   NODES PARTITION STATE \nnode01         1     main* idle  \nnode02         1     main* idle  \npool-1         1     main* idle~ \n", "", 0, "sinfo", "-N")
	s.expect("node[01-02]\n", "", 0, "sinfo", "-h", "-n", "node01,node02", "-o", "%N")
	s.expect("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n", "", 0, "sinfo", "-p", "nosuch")
	s.expect("0/3/0/3/0/76/0/76\n", "", 0, "sinfo", "-aho", "%F/%C", "-p", "main")
	s.expect("pool-1\n", "", 0, "sinfo", "-h", "-t", "powered_down", "-o", "%N")
	s.expect("node[01-02]\n", "", 0, "sinfo", "-h", "-t", "idle&~powered_down", "-o", "%N")
	s.expect("REASON               USER      TIMESTAMP           NODELIST\n", "", 0, "sinfo", "-R")
	s.expect("\n\n", "sinfo: error: Invalid job format specification: nosuch\n", 0, "sinfo", "-O", "nosuch")
	_, errs, status := s.run("sinfo", "-t", "nosuch")
	if !strings.HasPrefix(errs, "sinfo: error: Bad state string: \"nosuch\"\nsinfo: error: valid states: unknown,down,idle,") || status != 1 {
		t.Errorf("bad state: %d %q", status, errs)
	}
}

func TestScontrol(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{jobs: []wire.JobInfo{pending(), running()}, own: map[string]any{
		"/token": wire.Token{Token: "abc"}, "/script/41262": "#!/bin/sh\n",
		"/config": wire.ConfigValues{Time: now, Values: map[string]string{"ClusterName": "base", "AuthType": "auth/x", "MinJobAge": "300 sec"}},
	}})
	s.expect("", "invalid keyword: bogus\n", 1, "scontrol", "bogus")
	s.expect("", "invalid entity:nosuch for keyword:show \n", 1, "scontrol", "show", "nosuch")
	s.expect("", "too few arguments for keyword:show\n", 1, "scontrol", "show")
	s.expect("", "too few arguments for keyword:hold\n", 1, "scontrol", "hold")
	s.expect("", "too many arguments for keyword:ping\n", 1, "scontrol", "ping", "x")
	s.expect("slurm 26.05.3\n", "", 0, "scontrol", "version")
	s.expect("Slurmctld(primary) at login01 is UP\n", "", 0, "scontrol", "ping")
	s.expect("SLURM_JWT=abc\n", "", 0, "scontrol", "token", "lifespan=60", "username=bob")
	s.expect("Configuration data as of 2026-11-30T08:23:27\nAuthType                = auth/x\nClusterName             = base\nMinJobAge               = 300 sec\n\nSlurmctld(primary) at login01 is UP\n", "", 0, "scontrol", "show", "config")
	s.expect("", "slurm_reconfigure error:Invalid user id\n", 1, "scontrol", "reconfigure")
	s.expect("", "", 0, "scontrol", "hold", "41262", "41250")
	s.expect("", "", 0, "scontrol", "release", "jobname=pend")
	s.expect("", "Invalid job id specified for job 999999\nslurm_suspend error:Invalid job id specified\n", 1, "scontrol", "hold", "999999")
	s.expect("", "Invalid job id specified for job abc\nslurm_suspend error:Invalid job id specified\n", 1, "scontrol", "hold", "abc")
	s.expect("", "Job is pending execution for job 41262\n", 1, "scontrol", "requeue", "41262")
	s.expect("", "Requested operation not supported on this system for job 41250\n", 1, "scontrol", "suspend", "41250")
	s.expect("#!/bin/sh\n", "", 0, "scontrol", "write", "batch_script", "41262", "-")
	s.expect("batch script for job 41262 written to slurm-41262.sh\n", "", 0, "scontrol", "write", "batch_script", "41262")
	s.expect("", "job script retrieval failed: Invalid job id specified\n", 0, "scontrol", "write", "batch_script", "9", "-")
	s.expect("No reservations in the system\n", "", 0, "scontrol", "show", "res")

	want := []string{`{"hold":true}`, `{"hold":true}`, `{"hold":false}`}
	var got []string
	for i, call := range s.ctl.calls {
		if strings.HasPrefix(call, "POST /slurm/v0.0.45/job/412") {
			got = append(got, s.ctl.bodies[i])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHostlists(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{})
	s.expect("n01\nn02\nm3\n", "", 0, "scontrol", "show", "hostnames", "n[01-02],m3")
	s.expect("node[3,1-2]\n", "", 0, "scontrol", "show", "hostlist", "node3,node1,node2")
	s.expect("node[1-3]\n", "", 0, "scontrol", "show", "hostlistsorted", "node3,node1,node2")
	s.expect("", "scontrol: error: host list is empty\n", 0, "scontrol", "show", "hostnames")
	s.expect("", "Invalid hostlist: node[\n", 0, "scontrol", "show", "hostname", "node[")
	s.env = []string{"SLURM_JOB_NODELIST=a[1-2]", "SLURM_NODELIST=a[1-2]"}
	s.expect("a1\na2\n", "", 0, "scontrol", "show", "hostnames")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{jobs: []wire.JobInfo{pending()}})
	tests := []struct {
		args   string
		body   string
		errors string
		status int
	}{
		{"jobid=41262 timelimit=3 comment=z", `{"comment":"z","time_limit":{"set":true,"infinite":false,"number":3}}`, "", 0},
		{"jobid=41262 timelimit=+10", `{"time_limit":{"set":true,"infinite":false,"number":1574}}`, "", 0},
		{"jobid=41262 dependency=", `{"dependency":""}`, "", 0},
		{"jobid=41262 jobname=new nice=50", `{"name":"new","nice":50}`, "", 0},
		{"jobid=41262 numnodes=2 partition=short", `{"maximum_nodes":2,"minimum_nodes":2,"partition":"short"}`, "", 0},
		{"jobid=41262 timelimit=abc", "", "scontrol: error: Invalid TimeLimit value\n", 1},
		{"jobid=41262 timelimit", "", "Invalid input: timelimit\nRequest aborted\n", 1},
		{"jobid=41262 nosuch=5", "", "Update of this parameter is not supported: nosuch=5\nRequest aborted\n", 1},
		{"jobid=999999 timelimit=5", `{"time_limit":{"set":true,"infinite":false,"number":5}}`, "Invalid job id specified for job 999999\n", 1},
		{"foo=1", "", "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"\n", 1},
		{"nodename=n1 state=drain", "", "You must specify a reason when DOWNING or DRAINING a node. Request denied\n", 1},
		{"nodename=n1 state=drain reason=x", `{"reason":"x","state":["DRAIN"]}`, "", 0},
		{"nodename=n1 state=bogus", "", "Invalid input: state=bogus\nRequest aborted\nValid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\nNot all states are valid given a node's prior state\n", 1},
	}
	for _, tt := range tests {
		before := len(s.ctl.bodies)
		s.expect("", tt.errors, tt.status, append([]string{"scontrol", "update"}, strings.Fields(tt.args)...)...)
		got := strings.Join(s.ctl.bodies[before:], "\n")
		if got != tt.body {
			t.Errorf("%s: sent %s, want %s", tt.args, got, tt.body)
		}
	}
}

func TestInteractive(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{})
	s.stdin = "show hostnames a[1-2]\nbogus\n\nquit\nversion\n"
	s.expect("scontrol: a1\na2\nscontrol: scontrol: scontrol: ", "invalid keyword: bogus\n", 1, "scontrol")
}
