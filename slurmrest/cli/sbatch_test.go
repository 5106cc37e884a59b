package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func TestSbatchAnswers(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{parts: []wire.PartitionInfo{{Name: "main"}}})
	s.file("job.sh", "#!/bin/bash\n#SBATCH -J demo\necho hello\n")
	s.file("crlf.sh", "#!/bin/bash\r\necho\r\n")
	s.file("nul.sh", "#!/bin/bash\n\x00")
	s.file("bad.sh", "#!/bin/bash\n#SBATCH -J name extra\n")
	s.expect("Submitted batch job 41006\n", "", 0, "sbatch", "job.sh", "a", "--flag")
	s.expect("41006\n", "", 0, "sbatch", "--parsable", "job.sh")
	s.expect("41006;base\n", "", 0, "sbatch", "--parsable", "-M", "base", "job.sh")
	s.expect("Submitted batch job 41006 on cluster base\n", "", 0, "sbatch", "-M", "base", "job.sh")
	s.expect("", "", 0, "sbatch", "-Q", "job.sh")
	s.expect("Submitted batch job 41006\n", "", 0, "sbatch", "--wrap", "")
	s.expect("slurm 26.05.3\n", "", 0, "sbatch", "--version")
	s.expect("", "sbatch: Job 41006 to start at 2026-11-30T09:00:00 using 1 processors on nodes node01 in partition main\n", 0, "sbatch", "--test-only", "job.sh")

	s.expect("", "sbatch: error: No cluster 'nosuch' known by database.\nsbatch: error: 'nosuch' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see available clusters.\n", 1, "sbatch", "-M", "nosuch", "job.sh")
	s.expect("", "sbatch: error: Unable to open file nosuch.sh\n", 1, "sbatch", "nosuch.sh")
	s.expect("", "sbatch: error: Batch script is empty!\n", 1, "sbatch", ".")
	s.expect("", "sbatch: error: Script arguments not permitted with --wrap option\n", 1, "sbatch", "--wrap", "true", "job.sh")
	s.expect("", "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected UNIX line breaks (\\n).\n", 1, "sbatch", "crlf.sh")
	s.expect("", "sbatch: error: The Slurm controller does not allow scripts that\nsbatch: error: contain a NULL character '\\0'.\n", 1, "sbatch", "nul.sh")
	s.expect("", "sbatch: error: Batch script is empty!\n", 1, "sbatch")
	s.expect("", "sbatch: error: Invalid directive found in batch script: extra\n", 255, "sbatch", "bad.sh")
	s.expect("", "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n", 255, "sbatch", "--nosuch", "job.sh")

	s.ctl.refuse = errno.InvalidPartition
	s.expect("", "sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job submission failed: Invalid partition name specified\n", 1, "sbatch", "-p", "main,nosuch", "job.sh")
	s.ctl.refuse = errno.RequestedNodeConfigUnavailable
	s.expect("", "allocation failure: Requested node configuration is not available\n", 1, "sbatch", "--test-only", "job.sh")
	s.ctl.fault = "no pool of partition main has 9 GPUs on a node"
	s.expect("", "sbatch: error: no pool of partition main has 9 GPUs on a node\nsbatch: error: Batch job submission failed: Requested node configuration is not available\n", 1, "sbatch", "job.sh")
	s.env = []string{"SLURM_EXIT_ERROR=7"}
	s.expect("", "sbatch: error: Unable to open file nosuch.sh\n", 7, "sbatch", "nosuch.sh")
	s.expect("", "sbatch: error: Invalid --time specification\n", 255, "sbatch", "-t", "junk", "job.sh")
}

func TestSbatchBody(t *testing.T) {
	t.Parallel()
	ctl := &controller{}
	s := newSession(t, ctl)
	s.env = []string{"FOO=envfoo", "SLURM_JWT=secret", "SBATCHD_SERVER=x", "SBATCH_TIMELIMIT=7"}
	script := "#!/bin/bash\n#SBATCH -J demo -c 2 -n3 --mem=1G -N2 --gpus-per-node=a100:2 -C 'a&b'\n#SBATCH --signal=B:USR1@90 -o out-%j --no-requeue --exclusive\n" +
		"#BURST --checkpoint-dir=ckpt --queue-timeout=30 --stage-in=data\n#SBATCH --mail-type=END,FAIL -x node[1-2] --begin=now+1hour -H --container-image=img\necho\n"
	s.file("job.sh", script)
	s.expect("Submitted batch job 41006\n", "", 0, "sbatch", "-D", "sub", "job.sh", "arg one")
	req := ctl.submitted[0]
	if req.Script != script {
		t.Errorf("script %q", req.Script)
	}
	j := req.Job
	got := map[string]any{
		"name": j.Name, "argv": strings.Join(j.Argv, "|"), "cwd": j.CurrentWorkingDirectory, "cpus_per_task": *j.CPUsPerTask, "tasks": *j.Tasks,
		"nodes": j.Nodes, "memory": j.MemoryPerNode.Number, "tres_per_node": j.TRESPerNode, "tres_per_task": j.TRESPerTask, "constraints": j.Constraints,
		"signal": j.KillWarningSignal, "delay": j.KillWarningDelay.Number, "signal flags": j.KillWarningFlags, "out": j.StandardOutput, "requeue": *j.Requeue,
		"shared": j.Shared, "mail": j.MailType, "exclude": j.ExcludedNodes, "begin": j.BeginTime.Number, "hold": *j.Hold, "time": j.TimeLimit.Number,
		"min cpus": *j.MinimumCPUs,
	}
	want := map[string]any{
		"name": "demo", "argv": "job.sh|arg one", "cwd": s.dir + "/sub", "cpus_per_task": int64(2), "tasks": int64(3), "nodes": "2",
		"memory": int64(1024), "tres_per_node": "gres/gpu:a100:2", "tres_per_task": "cpu=2", "constraints": "a&b", "signal": "USR1", "delay": int64(90),
		"signal flags": []string{"BATCH_JOB"}, "out": "out-%j", "requeue": false, "shared": []string{"none"}, "mail": []string{"END", "FAIL"},
		"exclude": []string{"node[1-2]"}, "begin": now.Unix() + 3600, "hold": true, "time": int64(7), "min cpus": int64(6),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got)\n%s", diff)
	}
	var b option.Burst
	if err := json.Unmarshal(req.Sbatchd, &b); err != nil {
		t.Fatal(err)
	}
	wantBurst := option.Burst{
		CheckpointDir: "ckpt", QueueTimeout: 30, StageIn: []string{"data"}, Container: option.Container{Image: "img"},
		SubmitLine: "sbatch -D sub job.sh arg one", SubmitHost: "login01", Umask: "0022",
	}
	if diff := cmp.Diff(wantBurst, b); diff != "" {
		t.Errorf("burst (-want +got)\n%s", diff)
	}
	env := map[string]string{}
	for _, kv := range j.Environment {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"FOO": "envfoo", "SLURM_SUBMIT_DIR": s.dir, "SLURM_SUBMIT_HOST": "login01", "SLURM_UMASK": "0022", "SLURM_PRIO_PROCESS": "0",
		"SLURM_JOB_NAME": "demo", "SLURM_CPUS_PER_TASK": "2", "SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_GPUS_PER_NODE": "a100:2",
	} {
		if env[name] != want {
			t.Errorf("%s=%s, want %s", name, env[name], want)
		}
	}
	for _, name := range []string{"SLURM_JWT", "SBATCHD_SERVER", "SLURM_EXPORT_ENV"} {
		if v, ok := env[name]; ok {
			t.Errorf("%s=%s travels", name, v)
		}
	}
}

func TestSbatchExport(t *testing.T) {
	t.Parallel()
	for export, want := range map[string]string{
		"--export=ALL":              "BAR=envbar FOO=envfoo",
		"--export=ALL,FOO=bar,BAR":  "BAR=envbar FOO=bar SLURM_EXPORT_ENV=ALL,FOO=bar,BAR SLURM_GET_USER_ENV=1",
		"--export=FOO,BAZ=q":        "BAZ=q FOO=envfoo SLURM_EXPORT_ENV=FOO,BAZ=q SLURM_GET_USER_ENV=1",
		"--export=NIL":              "SLURM_EXPORT_ENV=NIL",
		"--export=NONE":             "SLURM_EXPORT_ENV=NONE SLURM_GET_USER_ENV=1",
		"--export=":                 "SLURM_EXPORT_ENV= SLURM_GET_USER_ENV=1",
		"--export=ALL,FOO='a, b',X": "BAR=envbar FOO=a, b SLURM_EXPORT_ENV=ALL,FOO='a, b',X SLURM_GET_USER_ENV=1",
		"-Jx":                       "BAR=envbar FOO=envfoo",
		"--get-user-env":            "BAR=envbar FOO=envfoo SLURM_GET_USER_ENV=1",
	} {
		t.Run(export, func(t *testing.T) {
			t.Parallel()
			ctl := &controller{}
			s := newSession(t, ctl)
			s.env = []string{"FOO=envfoo", "BAR=envbar"}
			s.run("sbatch", export, "--wrap", "true")
			var got []string
			for _, kv := range ctl.submitted[0].Job.Environment {
				for _, name := range []string{"FOO", "BAR", "BAZ", "SLURM_EXPORT_ENV", "SLURM_GET_USER_ENV"} {
					if strings.HasPrefix(kv, name+"=") {
						got = append(got, kv)
					}
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		})
	}
}

func TestSbatchStdinAndWait(t *testing.T) {
	t.Parallel()
	done := running()
	done.JobID, done.JobState = 41006, []string{"FAILED"}
	done.ExitCode.ReturnCode = wire.N(3)
	ctl := &controller{jobs: []wire.JobInfo{done}}
	s := newSession(t, ctl)
	s.stdin = "#!/bin/bash\n#SBATCH -t 5\n"
	s.expect("Submitted batch job 41006\n", "", 3, "sbatch", "--wait")
	if j := ctl.submitted[0].Job; j.Name != "sbatch" || j.Argv != nil || j.TimeLimit.Number != 5 {
		t.Errorf("job %q %q %v", j.Name, j.Argv, j.TimeLimit)
	}
	s.stdin = "echo\n"
	s.expect("", "sbatch: error: This does not look like a batch script.  The first\nsbatch: error: line must start with #! followed by the path to an interpreter.\nsbatch: error: For instance: #!/bin/sh\n", 1, "sbatch")
}

func TestSbatchHetJob(t *testing.T) {
	t.Parallel()
	ctl := &controller{}
	s := newSession(t, ctl)
	s.file("job.sh", "#!/bin/bash\n#SBATCH -n1 -A proj\n#SBATCH hetjob\n#SBATCH -n2\n")
	s.run("sbatch", "-p", "a", ":", "-p", "b", "job.sh")
	req := ctl.submitted[0]
	if len(req.Jobs) != 2 || *req.Jobs[0].Tasks != 1 || *req.Jobs[1].Tasks != 2 || req.Jobs[1].Account != "proj" || req.Jobs[0].Partition+req.Jobs[1].Partition != "ab" {
		t.Errorf("%+v", req.Jobs)
	}
}
