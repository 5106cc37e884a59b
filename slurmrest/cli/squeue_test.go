package cli_test

import (
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

const squeueHeader = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"

func TestSqueue(t *testing.T) {
	t.Parallel()
	done := running()
	done.JobID, done.JobState = 41240, []string{"COMPLETED"}
	array := pending()
	array.JobID, array.ArrayJobID, array.ArrayTaskString, array.Name = 41161, wire.N(41161), "1-2,7%4", "arr"
	s := newSession(t, &controller{jobs: []wire.JobInfo{pending(), running(), done, array}, nodes: []wire.Node{{Name: "node01"}}})

	s.expect(squeueHeader+
		"             41262      main     pend    alice PD       0:00      1 (JobHeldUser)\n"+
		"   41161_[1-2,7%4]      main      arr    alice PD       0:00      1 (JobHeldUser)\n"+
		"             41250      main   runner    alice  R       0:01      1 node01\n", "", 0, "squeue")
	s.expect("41161_1\n41161_2\n41161_7\n", "", 0, "squeue", "-rhj41161", "-o%i")
	s.expect(squeueHeader+"             41262      main     pend    alice PD       0:00      1 (JobHeldUser)\n", "", 0, "squeue", "-j", "41262")
	s.expect("", "slurm_load_jobs error: Invalid job id specified\n", 1, "squeue", "-j", "999999")
	s.expect(squeueHeader, "", 0, "squeue", "-j", "999998,999999")
	s.expect("", "squeue: error: Invalid job id: abc\n", 1, "squeue", "-j", "abc")
	s.expect("Mon Nov 30 08:23:27 2026\n"+
		"             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"+
		"             41262      main     pend    alice  PENDING       0:00 1-02:04:00      1 (JobHeldUser)\n", "", 0, "squeue", "-l", "-j", "41262")
	s.expect("41240 COMPLETED\n", "", 0, "squeue", "-h", "-t", "CD", "-o", "%A %T")
	s.expect(squeueHeader, "squeue: error: Invalid user: nosuchuser\n\n", 0, "squeue", "-u", "nosuchuser")
	s.expect("alice\n", "", 0, "squeue", "--me", "-h", "-o", "%u", "-n", "pend")
	s.expect("", "", 0, "squeue", "-h", "--notme")
	s.expect(squeueHeader, "", 0, "squeue", "-p", "nosuch")
	s.expect("", "squeue: error: Invalid node name nosuch\n", 1, "squeue", "-w", "nosuch")
	s.expect("41250\n", "", 0, "squeue", "-h", "-w", "node01", "-o", "%i")
	s.expect("", "squeue: error: Invalid sort specification: ?\n", 1, "squeue", "-S", "?")
	s.expect("41161_[1-2,7%4]\n41250\n41262\n", "", 0, "squeue", "-h", "-S", "i", "-o", "%i")
	s.expect("JOBID %!\n41262 %!\n", "squeue: error: Invalid job format specification: !\n", 0, "squeue", "-j", "41262", "-o", "%i %!")
	s.expect("", "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.\n", 1, "squeue", "-l", "-o", "%i")
	s.expect("", "squeue: unrecognized option '--nosuch'\nTry \"squeue --help\" for more information\n", 1, "squeue", "--nosuch")
	s.expect("slurm 26.05.3\n", "", 0, "squeue", "-V")
	_, errs, status := s.run("squeue", "-t", "nosuch")
	if !strings.HasPrefix(errs, "squeue: error: Invalid job state specified: nosuch\nsqueue: error: Valid job states include: pending,running,") || !strings.HasSuffix(errs, ",stopped\n\n") || status != 1 {
		t.Errorf("bad state: %d %q", status, errs)
	}

	s.env = []string{"SQUEUE_FORMAT=%i|%j", "SQUEUE_STATES=R"}
	s.expect("JOBID|NAME\n41250|runner\n", "", 0, "squeue")
	s.expect(squeueHeader[0:0]+"41262|pend\n41161_[1-2,7%4]|arr\n", "", 0, "squeue", "-h", "-t", "PD")

	out, _, _ := s.run("squeue", "--json", "-j", "41250")
	if !strings.Contains(out, `"job_id": 41250`) || strings.Contains(out, `"job_id": 41262`) {
		t.Errorf("json: %.300s", out)
	}
	out, _, _ = s.run("squeue", "--yaml", "-j", "41250")
	if !strings.HasPrefix(out, "---\njobs:\n  -\n    account: physics\n") && !strings.Contains(out, "job_id: 41250\n") {
		t.Errorf("yaml: %.300s", out)
	}
}

func TestNoController(t *testing.T) {
	t.Parallel()
	s := newSession(t, &controller{})
	s.addr = ""
	s.file("job.sh", "#!/bin/sh\n")
	const text = "Unable to contact slurm controller (connect failure)\n"
	s.expect("", "slurm_load_jobs error: "+text, 1, "squeue")
	s.expect("", "slurm_load_partitions: "+text, 1, "sinfo")
	s.expect("", "sbatch: error: Batch job submission failed: "+text, 1, "sbatch", "job.sh")
	s.expect("", "scancel: error: "+text, 8, "scancel", "5")
	s.expect("Slurmctld(primary) at login01 is DOWN\n", "", 1, "scontrol", "ping")
}

func TestScancel(t *testing.T) {
	t.Parallel()
	ctl := &controller{jobs: []wire.JobInfo{pending(), running()}}
	s := newSession(t, ctl)
	s.expect("", "", 0, "scancel", "999999")
	s.expect("", "", 0, "scancel", "41262", "999999")
	s.expect("", "scancel: error: No job identification provided\n", 1, "scancel")
	s.expect("", "scancel: error: Invalid job id abc\n", 1, "scancel", "abc")
	s.expect("", "scancel: error: Invalid job id 0\n", 1, "scancel", "0")
	s.expect("", "scancel: error: Invalid user name: nosuchuser\n", 1, "scancel", "-u", "nosuchuser")
	s.expect("", "Unknown job signal: NOPE\n", 1, "scancel", "-s", "NOPE", "41250")
	s.expect("", "Invalid job state specified: nosuch\nValid job states are PENDING, RUNNING, and SUSPENDED\n", 1, "scancel", "-t", "nosuch", "41250")
	s.expect("", "scancel: error: Kill job error on job id 999999: Invalid job id specified\n", 1, "scancel", "-s", "USR1", "999999")
	s.expect("", "scancel: error: Kill job error on job step id 999999.0: Invalid job id specified\n", 1, "scancel", "999999.0")
	s.expect("", "scancel: Terminating job 41262\n", 0, "scancel", "-v", "41262")
	s.expect("", "scancel: Signal 10 to job 41250\n", 0, "scancel", "41250", "--signal", "SIGUSR1", "-bv")

	before := len(ctl.calls)
	s.expect("", "", 0, "scancel", "-n", "runner")
	s.expect("", "", 0, "scancel", "-p", "short", "41262")
	s.expect("", "", 0, "scancel", "-u", "bob")
	s.expect("", "", 0, "scancel", "-t", "PENDING", "41262,41250")
	got := strings.Join(ctl.calls[before:], "\n")
	if want := "DELETE /slurm/v0.0.45/job/41250\nDELETE /slurm/v0.0.45/job/41262"; got != want {
		t.Errorf("calls\n%s\nwant\n%s", got, want)
	}
	if want := "DELETE /slurm/v0.0.45/job/41250?flags=BATCH_JOB&signal=USR1"; ctl.calls[before-1] != want {
		t.Errorf("call %s, want %s", ctl.calls[before-1], want)
	}

	s.stdin = "n\ny\n"
	s.expect("Cancel job_id=41262 name=pend partition=main [y/n]? Cancel job_id=41250 name=runner partition=main [y/n]? ", "", 0, "scancel", "-i", "--me")
	if last := ctl.calls[len(ctl.calls)-1]; last != "DELETE /slurm/v0.0.45/job/41250" {
		t.Errorf("call %s", last)
	}
}
