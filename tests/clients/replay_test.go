//go:build e2e

package clients_test

import (
	"strings"
	"testing"
)

// Nextflow's slurm executor: a wrapper submitted from the task's folder, polled
// by state, its success read from .exitcode.
func TestNextflow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file(".command.run", "#!/bin/bash\n#SBATCH -J nf-hello\n#SBATCH -o "+d.dir+"/.command.log\n#SBATCH --no-requeue \n#SBATCH --signal B:USR2@30\n"+
		"#SBATCH -c 2\n#SBATCH -t 01:00:00\n#SBATCH --mem 200M\n#SBATCH -p main\ntrap 'exit 143' USR2 TERM\necho hello; echo oops >&2\necho -n 0 > "+d.dir+"/.exitcode\n")
	id := d.match(`Submitted batch job (\d+)`, d.sh("sbatch .command.run 2>&1"))
	for line := range strings.Lines(d.sh(`squeue --noheader -o '%i %t' -t all -u $USER -p main`)) {
		if len(strings.Fields(line)) != 2 {
			t.Errorf("squeue: %q", line)
		}
	}
	d.until("cat .exitcode", "0")
	d.until("squeue --noheader -o '%i %t' -t all --only-job-state | grep '^"+id+" '", id+" CD")
	if got := d.text(".command.log"); got != "hello\noops\n" {
		t.Errorf(".command.log: %q", got)
	}
	// Fusion: the script on standard input. Then several ids are cancelled.
	more := d.match(`Submitted batch job (\d+)`, d.sh("printf '#!/bin/sh\\nsleep 300\\n' | sbatch"))
	d.sh("scancel " + more + " " + id)
	d.until("squeue -h -t all -o %t -j "+more, "CA")
}

// Snakemake 8's plugin: --wrap, one poll by the run's uuid.
func TestSnakemake8(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.match(`MinJobAge\s*=\s*(\d+ sec)`, d.sh("scontrol show config"))
	d.match(`MaxArraySize\s*=\s*(\d+)`, d.sh("scontrol show config"))
	const uuid = "0c9a5f0e-3e1b-4d2a-9a3e-8f2f1e7d6b5a"
	d.sh("mkdir -p " + d.dir + "/logs")
	answer := d.sh(`sbatch --parsable --job-name ` + uuid + ` --output logs/%j.log --export=ALL --comment rule_all -p 'main' -t 5 -C '' --mem 200 ` +
		`--ntasks=1 --cpus-per-task=1 -D ` + d.dir + ` --wrap="srun -n1 --cpu-bind=q sh -c 'echo done > result'"`)
	id := d.match(`^(\d+)\n$`, answer)
	d.until(`sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime 2020-01-01T00:00 --endtime now --name `+uuid, id+"|COMPLETED")
	d.until(`squeue --format='%i|%T' --states=all --noheader --name `+uuid, id+"|COMPLETED")
	if got := d.text("result"); got != "done\n" {
		t.Errorf("result %q", got)
	}
	if r := d.run(`sacct -nu "$USER" -o Account%256 '|' tail -1`); r.Code == 0 {
		t.Errorf("sacct took a pipe for an argument: %v", r)
	}
	if got := d.sh("sacct --name=" + uuid + " --parsable2 --noheader --format=JobID,JobName,Comment,Elapsed,TotalCPU,NNodes,NCPUS,MaxRSS,ReqMem"); !strings.Contains(got, id+"|"+uuid+"|rule_all|") {
		t.Errorf("efficiency report: %q", got)
	}
	d.match(`PartitionName=(main)`, d.sh("scontrol show partition"))
}

// submitit: sorted directives with shell quoting, srun with patterns, polling by
// sacct with repeated -j, a signal behind the id.
func TestSubmitit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file("submission.sh", "#!/bin/bash\n\n# Parameters\n#SBATCH --comment='a b'\n#SBATCH --cpus-per-task=1\n#SBATCH --error="+d.dir+"/%j_0_log.err\n#SBATCH --job-name=submitit\n"+
		"#SBATCH --mem=1GB\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n#SBATCH --open-mode=append\n#SBATCH --output="+d.dir+"/%j_0_log.out\n"+
		"#SBATCH --partition=main\n#SBATCH --signal=USR2@90\n#SBATCH --time=5\n#SBATCH --wckey=submitit\n\n# command\nexport SUBMITIT_EXECUTOR=slurm\n"+
		"srun --unbuffered --output "+d.dir+"/%j_%t_log.out --error "+d.dir+"/%j_%t_log.err sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS; trap \"echo got USR2; exit 0\" USR2; sleep 60 & wait'\n")
	id := d.match(`job (?P<id>[0-9]+)`, d.sh("sbatch submission.sh"))
	d.until("sacct -o JobID,State,NodeList --parsable2 -j "+id+" -j "+id+" | grep '^"+id+"|' | cut -d'|' -f2", "RUNNING")
	d.until("cat "+id+"_1_log.out", "rank 1 of 2")
	d.sh("scancel " + id + " --signal USR2")
	d.until("tail -n 1 "+id+"_1_log.out", "got USR2")
	d.until("sacct -X -n -o State -P -j "+id, "COMPLETED")
}

// dask-jobqueue: the id is the first number of the answer, output has %J.
func TestDaskJobqueue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file("x.sh", "#!/usr/bin/env bash\n\n#SBATCH -J dask-worker\n#SBATCH -e "+d.dir+"/dask-worker-%J.err\n#SBATCH -o "+d.dir+"/dask-worker-%J.out\n#SBATCH -p main\n"+
		"#SBATCH -n 1\n#SBATCH --cpus-per-task=1\n#SBATCH --mem=1G\n#SBATCH -t 00:30:00\necho worker up; exec sleep 300\n")
	id := d.match(`(\d+)`, d.sh("sbatch "+d.dir+"/x.sh"))
	d.until("cat dask-worker-"+id+".out", "worker up")
	d.sh("scancel " + id)
	d.until("squeue -h -t all -o %T -j "+id, "CANCELLED")
}

// Open OnDemand's adapter: the script on stdin, fields parted by byte 0x1F.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.match(`^(\d+)\n$`, d.sh(`printf '#!/bin/bash\ntest -n "$HOME" && command -v ls >ondemand; sleep 60\n' | sbatch -D `+d.dir+` -J ood -o `+d.dir+`/out.log -t 00:10:00 -n 1 --export NONE --parsable`))
	d.until("squeue -h -o %t -j "+id, "R")
	fields := `squeue --all --states=all --noconvert -O "$(printf 'JobID:\037,Name:\037,StateCompact:\037,TimeLimit:\037,tres-alloc:\037,UserName:\037,')" -j ` + id
	lines := strings.SplitN(d.sh(fields), "\x1f\n", 3)
	if got := strings.Split(lines[1], "\x1f"); got[0] != id || got[1] != "ood" || got[2] != "R" || got[3] != "10:00" || !strings.HasPrefix(got[4], "cpu=1,") {
		t.Errorf("squeue: %q", got)
	}
	d.match(`^\d+/\d+/\d+/\d+/\d+/\d+/\d+/\d+\n$`, d.sh("sinfo -aho '%F/%C'"))
	for _, word := range strings.Fields(d.sh("scontrol show part -o")) {
		if !strings.Contains(word, "=") {
			t.Errorf("scontrol show part: %q", word)
		}
	}
	d.until("cat ondemand | wc -l", "1")
	d.sh("scancel " + id)
	if r := d.run("squeue -h -j 999999"); r.Code != 1 || !strings.Contains(r.Stderr, "Invalid job id specified") {
		t.Errorf("unknown job: %v", r)
	}
}

// batchspawner: a list of variables to export, state and host in two words.
func TestBatchspawner(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.env = append(d.env, "JUPYTERHUB_API_TOKEN=secret", "OTHER=left")
	d.file("spawn.sh", "#!/bin/bash\n#SBATCH --output="+d.dir+"/jupyter.log\n#SBATCH --job-name=spawner-jupyterhub\n#SBATCH --chdir="+d.dir+
		"\n#SBATCH --export=PATH,HOME,JUPYTERHUB_API_TOKEN\n#SBATCH --get-user-env\nset -eu\ntrap 'echo SIGTERM received; exit 0' TERM\necho token=$JUPYTERHUB_API_TOKEN other=${OTHER-unset}\nsleep 300 & wait\n")
	id := d.match(`^(\d+)\n$`, d.sh("sbatch --parsable <spawn.sh"))
	d.until("squeue -h -j "+id+" -o '%T %B' | cut -d' ' -f1", "RUNNING")
	d.match(`\s+((?:[\w_-]+\.?)+)$`, strings.TrimRight(d.sh("squeue -h -j "+id+" -o '%T %B'"), "\n"))
	d.until("cat jupyter.log", "token=secret other=unset")
	d.sh("scancel " + id)
	d.until("squeue -h -t all -o %T -j "+id, "CANCELLED")
}

// AiiDA: one id is asked for twice, and every field of --helpformat is taken.
func TestAiiDA(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file("_aiidasubmit.sh", "#!/bin/bash\n#SBATCH --no-requeue\n#SBATCH --job-name=\"aiida-7\"\n#SBATCH --get-user-env\n#SBATCH --output=_scheduler-stdout.txt\n#SBATCH --error=_scheduler-stderr.txt\n"+
		"#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --time=00:05:00\n#SBATCH --mem=100\necho aiida\n")
	id := d.match(`(?:[Gg]ranted job allocation|[Ss]ubmitted batch job)\s+(?P<jobid>\d+)`, d.sh("sbatch _aiidasubmit.sh"))
	query := "SLURM_TIME_FORMAT='standard' squeue --noheader -o '%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j^^^%V' --jobs=" + id + "," + id
	for line := range strings.Lines(d.sh(query)) {
		if n := len(strings.Split(line, "^^^")); n != 14 {
			t.Errorf("%d fields: %q", n, line)
		}
	}
	d.until("cat _scheduler-stdout.txt", "aiida")
	d.until("squeue -h -o %i --jobs="+id+","+id, "")
	detail := strings.Split(d.sh(`sacct --format=$(sacct --helpformat | tr -s ' \n' ',') --parsable --jobs=`+id), "\n")
	if len(detail) < 2 || strings.Count(detail[0], "|") != strings.Count(detail[1], "|") {
		t.Errorf("sacct: %q", detail)
	}
}

// Parsl: the probe, abbreviated options, blank-separated columns.
func TestParsl(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.sh("sacct -X")
	d.file("parsl.sh", "#!/bin/bash\n\n#SBATCH --job-name=parsl.block-0\n#SBATCH --output="+d.dir+"/o\n#SBATCH --error="+d.dir+"/e\n#SBATCH --nodes=1\n#SBATCH --time=10\n#SBATCH --ntasks-per-node=1\n"+
		"#SBATCH --partition=main\n#SBATCH --mem=1g\nexport CORES=$SLURM_CPUS_ON_NODE\ncat << 'EOF' > cmd_$SLURM_JOB_NAME.sh\necho cores=$CORES\nEOF\nsrun --ntasks 1 -l bash cmd_$SLURM_JOB_NAME.sh\n")
	id := d.match(`Submitted batch job (?P<id>\S*)`, d.sh("sbatch parsl.sh"))
	d.until("sacct -X --noheader --format=jobid,state%20 --job '"+id+"' | tr -s ' '", id+" COMPLETED")
	if got := d.text("o"); got != "0: cores=1\n" {
		t.Errorf("output %q", got)
	}
	d.sh("squeue --noheader --format='%i %t' --job '" + id + "'")
}

// TorchX: many options on a line, version and partitions by sinfo.
func TestTorchX(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.match(`^slurm (\d+\.\d+\.\d+)`, d.sh("sinfo --version"))
	d.match(`PARTITION,MEMORY\nmain\*?,(8000)`, d.sh("sinfo --format %P,%m --noconvert"))
	d.file("job.sh", "#!/bin/bash\n#SBATCH --job-name=trainer-0 --requeue --ntasks-per-node=1 --ntasks=1 --mem=100 --partition=main --time=5\n\nset -evx\nexport PYTHONUNBUFFERED=1 SLURM_UNBUFFEREDIO=1\n"+
		`srun --output=slurm-"$SLURM_JOB_ID"-trainer-0.out --error=slurm-"$SLURM_JOB_ID"-trainer-0.err --wait=60 --kill-on-bad-exit=1 --export=ALL,RANK=3 sh -c 'echo rank=$RANK; until [ -e go ]; do sleep 0.2; done'`+"\n")
	id := d.match(`^(\d+)\n$`, d.sh("sbatch --parsable --comment=torchx job.sh"))
	d.until("cat slurm-"+id+"-trainer-0.out", "rank=3")
	if got := d.sh("squeue --json -j " + id); !strings.Contains(got, `"job_state"`) || !strings.Contains(got, `"current_working_directory"`) {
		t.Errorf("squeue --json: %.300s", got)
	}
	d.sh("touch go")
	d.until("sacct --parsable2 -n -X -o State -j "+id, "COMPLETED")
}

// Lightning: the warning signal reaches the tasks, which ask for a requeue from
// inside the job; it comes back under its id.
func TestLightningRequeue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file("train.sh", "#!/bin/bash\n#SBATCH --ntasks-per-node=1\n#SBATCH --signal=SIGUSR1@90\n#SBATCH --open-mode=append\n#SBATCH -o train.log\n#SBATCH -t 10\n"+
		"srun sh -c 'echo run ${SLURM_RESTART_COUNT-0} of $SLURM_JOB_ID tasks $SLURM_NTASKS per node $SLURM_NTASKS_PER_NODE\n"+
		"[ -n \"$SLURM_RESTART_COUNT\" ] && exit 0\ntrap \"scontrol requeue $SLURM_JOB_ID && exit 0\" USR1\nsleep 300 & wait'\n")
	id := d.match(`job (\d+)`, d.sh("sbatch train.sh"))
	line := " of " + id + " tasks 1 per node 1"
	d.until("cat train.log", "run 0"+line)
	d.sh("scancel -s USR1 " + id)
	d.until("grep ^run train.log", "run 0"+line+"\nrun 1"+line)
	d.until("sacct -X -n -P -o State -j "+id, "COMPLETED")
}

// A job's own commands: hostnames, a job within the job, the queue.
func TestInsideJob(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.file("job.sh", "#!/bin/bash\n#SBATCH -o inside.log\nset -e\nscontrol show hostnames\nscontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1\nsqueue -h -o %T -j $SLURM_JOB_ID\n"+
		"srun hostname >/dev/null\nsbatch --parsable --wait -o child.log --wrap 'echo child' >child.id\ncat child.log\n")
	d.sh("sbatch --wait job.sh")
	if got := d.text("inside.log"); got != "p-1\np-1\nRUNNING\nchild\n" {
		t.Errorf("inside.log: %q", got)
	}
}
