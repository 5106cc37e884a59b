//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counting is a script that prints numbered lines, keeps the last number in its
// checkpoint, and says where it began.
const counting = `#!/bin/sh
#SBATCH --job-name=counting
#SBATCH --output=count-%j.out
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#BURST --checkpoint-dir=ckpt
mkdir -p ckpt
n=$(cat ckpt/n 2>/dev/null || echo 0)
save() { echo $n >ckpt/.n && mv ckpt/.n ckpt/n; }
trap 'save; echo "saved $n"' USR1 TERM
echo "start $n restart ${SLURM_RESTART_COUNT:-0}"
while [ $n -lt ${LINES:-50} ]; do
	n=$((n + 1))
	echo "line $n"
	[ $((n % 5)) -ne 0 ] || save
	sleep 0.2
done
save
echo end
`

// runs cuts the output of the counting script into its runs and checks that in
// each the lines follow one another. It returns where each began.
func runs(t *testing.T, text string) []int {
	t.Helper()
	var began []int
	last, ended := -1, false
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var first, restart, number int
		switch {
		case strings.HasPrefix(line, "start "):
			if _, err := fmt.Sscanf(line, "start %d restart %d", &first, &restart); err != nil || restart != len(began) {
				t.Errorf("line %d: %q: restart %d expected", n+1, line, len(began))
			}
			if first > max(last, 0) {
				t.Errorf("line %d: %q, but %d was the last number printed", n+1, line, last)
			}
			began = append(began, first)
			last = first
		case strings.HasPrefix(line, "line "):
			if _, err := fmt.Sscanf(line, "line %d", &number); err != nil || number != last+1 {
				t.Errorf("line %d: %q after %d: lost or doubled", n+1, line, last)
			}
			last = number
		case strings.HasPrefix(line, "saved "), isNotice(line):
		case line == "end":
			if ended {
				t.Errorf("line %d: a second end", n+1)
			}
			ended = true
		default:
			t.Errorf("line %d: unexpected: %q", n+1, line)
		}
	}
	if !ended {
		t.Errorf("no end in the output:\n%s", text)
	}
	return began
}

// isNotice says whether a line is Slurm's own about the end of a job.
func isNotice(line string) bool {
	return strings.HasPrefix(line, "[") && strings.Contains(line, "] error: *** JOB ")
}

// withoutSlurmstepd leaves out the line that Slurm writes into the output of a
// job it takes off its node.
func withoutSlurmstepd(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !isNotice(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestMainLine is the story of the demo, with S3 for the checkpoints: one sbatch
// script rents a node, survives a spot reclaim with notice, and finishes.
func TestMainLine(t *testing.T) {
	h := open(t, site{s3: true, market: spotMarket, pool: "Capacity=spot MaxPrice=2.00"})
	h.script(h.alice, "job.sh", counting)
	id := h.sbatch(h.alice, "job.sh")
	first := h.started(id, time.Minute)["NodeList"]
	out := "count-" + id + ".out"
	h.shows(h.alice, out, "line 7\n", 20*time.Second)
	h.must(h.root(), "sburst", "reclaim", "--notice=5s", first)
	job := h.ended(id, "COMPLETED", 2*time.Minute)
	if job["Restarts"] != "1" {
		t.Errorf("Restarts=%s, want 1", job["Restarts"])
	}
	began := runs(t, h.read(h.alice, out))
	if len(began) != 2 || began[1] < 5 {
		t.Errorf("the runs began at %v: want two, the second where the first was saved:\n%s", began, h.read(h.alice, out))
	}
	if diff := cmp.Diff(h.read(h.alice, out), h.must(h.alice, "sburst", "logs", id)); diff != "" {
		t.Errorf("the file and sburst logs differ: %s", diff)
	}
	attempts := strings.Fields(h.must(h.alice, "sacct", "-j", id, "--duplicates", "-X", "-n", "-P", "-o", "State,NodeList"))
	if len(attempts) != 2 || !strings.HasSuffix(attempts[0], "|"+first) || !strings.HasPrefix(attempts[1], "COMPLETED|") {
		t.Errorf("sacct --duplicates: %v", attempts)
	}
	if bill := h.must(h.alice, "sburst", "bill", "-j", id); !strings.Contains(bill, h.image[strings.Index(h.image, "sha256:"):]) {
		t.Errorf("the bill does not say which image was really given:\n%s", bill)
	}
	if list := h.must(h.alice, "sburst", "checkpoints", id); !strings.Contains(list, " preempt ") {
		t.Errorf("sburst checkpoints:\n%s", list)
	}
}

// TestNodeDies takes the node away without notice: the job goes on from its last
// checkpoint, or from the start where there is none.
func TestNodeDies(t *testing.T) {
	h := open(t, site{runtime: "process", slurm: "SlurmdTimeout=5\n"})
	h.script(h.alice, "job.sh", counting)
	id := h.sbatch(h.alice, "job.sh")
	node := h.started(id, time.Minute)["NodeList"]
	out := "count-" + id + ".out"
	h.shows(h.alice, out, "line 3\n", 20*time.Second)
	h.killNode(node)
	job := h.ended(id, "COMPLETED", 2*time.Minute)
	if job["Restarts"] != "1" {
		t.Errorf("Restarts=%s, want 1", job["Restarts"])
	}
	if began := runs(t, h.read(h.alice, out)); len(began) != 2 {
		t.Errorf("the runs began at %v, want two", began)
	}
}

// killNode kills the first process of a node, and so the whole of it, as when a
// machine is switched off.
func (h *house) killNode(node string) {
	h.t.Helper()
	inits := h.Processes("sbatchd-node init --dir", "/"+node+".")
	if len(inits) == 0 {
		h.t.Fatalf("no sbatchd-node init of %s among %v", node, h.Processes())
	}
	h.kill(inits...)
}

// TestNoRequeue ends a reclaimed job that may not run twice.
func TestNoRequeue(t *testing.T) {
	h := open(t, site{runtime: "process"})
	id := h.sbatch(h.alice, "--no-requeue", "-o", "out", "--wrap", "echo here; sleep 60")
	node := h.started(id, time.Minute)["NodeList"]
	h.must(h.root(), "sburst", "reclaim", "--notice=4s", node)
	h.ended(id, "PREEMPTED", time.Minute)
}

// TestHooks checks what the hooks are told and that a restore comes before the
// script.
func TestHooks(t *testing.T) {
	h := open(t, site{runtime: "process", market: spotMarket + "Reclaim=spot AfterJob=2 Notice=6 Times=1\n", pool: "Capacity=spot MaxPrice=2.00"})
	h.script(h.alice, "save.sh", "#!/bin/sh\necho \"$SBATCHD_CHECKPOINT_REASON $SLURM_JOB_ID\" >ckpt/mark\n[ \"$SBATCHD_CHECKPOINT_SECONDS\" -gt 0 ]\n")
	h.script(h.alice, "load.sh", "#!/bin/sh\necho \"loaded $(cat ckpt/mark)\"\n")
	h.script(h.alice, "job.sh", `#!/bin/sh
#SBATCH -o hooks.out
#BURST --checkpoint-dir=ckpt --checkpoint-hook=./save.sh
#BURST --restore-hook=./load.sh
mkdir -p ckpt
echo "run ${SLURM_RESTART_COUNT:-0}"
[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || sleep 60
`)
	id := h.sbatch(h.alice, "job.sh")
	h.ended(id, "COMPLETED", time.Minute)
	h.shows(h.alice, "hooks.out", "run 1\n", 10*time.Second)
	want := fmt.Sprintf("run 0\nloaded reclaim %s\nrun 1\n", id)
	if diff := cmp.Diff(want, withoutSlurmstepd(h.read(h.alice, "hooks.out"))); diff != "" {
		t.Error(diff)
	}
}

// TestFailover finds no capacity in the cheap pool and takes the next one, and
// says so while the job waits.
func TestFailover(t *testing.T) {
	h := open(t, site{
		market: failoverMarket,
		pools: `PoolName=cheap Provider=here CPUs=2 RealMemory=2000 Capacity=spot MaxNodes=2 MaxPrice=1.00 Runtime=process Workdir=sync
PoolName=dear Provider=here CPUs=2 RealMemory=2000 Capacity=ondemand MaxNodes=2 MaxPrice=5.00 Runtime=process Workdir=sync
`,
		slurm: "PartitionName=main Pools=cheap,dear Default=YES MaxTime=1:00:00 DefaultTime=10:00\n",
	})
	id := h.sbatch(h.alice, "-o", "out", "--wrap", "hostname; sleep 1")
	job := h.ended(id, "COMPLETED", time.Minute)
	if !strings.HasPrefix(job["NodeList"], "dear-") {
		t.Errorf("it ran on %s, want a node of the pool dear", job["NodeList"])
	}
}

// TestOutputAfterTheNode reads output whose node is gone, follows a running job,
// and expands every pattern.
func TestOutputAfterTheNode(t *testing.T) {
	h := open(t, site{runtime: "process", slurm: "SuspendTime=1\n"})
	if err := os.Mkdir(filepath.Join(h.alice.Home, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(h.alice.Home, "logs"), int(h.alice.UID), int(h.alice.GID)); err != nil {
		t.Fatal(err)
	}
	id := h.sbatch(h.alice, "-J", "pat", "-o", "logs/%x-%j-%u-%N.out", "-e", "logs/%x.err", "--wrap", "echo to out; echo to err >&2")
	node := h.ended(id, "COMPLETED", time.Minute)["NodeList"]
	h.shows(h.alice, "logs/pat-"+id+"-alice-"+node+".out", "to out\n", 10*time.Second)
	h.shows(h.alice, "logs/pat.err", "to err\n", 10*time.Second)
	h.eventually(30*time.Second, "the node to be given back", func() (bool, string, error) {
		state := strings.TrimSpace(h.must(h.alice, "sinfo", "-h", "-N", "-n", node, "-o", "%t"))
		return state == "idle~", state, nil
	})
	if got := h.must(h.alice, "sburst", "logs", id); got != "to out\n" {
		t.Errorf("sburst logs: %q", got)
	}
	follow := h.sbatch(h.alice, "-o", "f.out", "--wrap", "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done")
	if got := h.must(h.alice, "sburst", "logs", "-f", follow); got != "1\n2\n3\n4\n5\n" {
		t.Errorf("sburst logs -f: %q", got)
	}
	if info, err := os.Stat(filepath.Join(h.alice.Home, "f.out")); err != nil || !ownedBy(info, h.alice) {
		t.Errorf("f.out is not alice's: %v %v", info, err)
	}
}

// TestPins stops a job before its start where the driver of the node is too old
// or the image's pin does not match, and says both versions.
func TestPins(t *testing.T) {
	digest := regexp.MustCompile(`[0-9a-f]{64}$`)
	h := open(t, site{
		driver: "535.54.03",
		pools: `PoolName=p Provider=here Gres=gpu:a100:1 CPUs=4 RealMemory=4000 MaxNodes=1 Workdir=sync
PoolName=pinned Provider=here Gres=gpu:a100:1 CPUs=4 RealMemory=4000 MaxNodes=1 Workdir=sync Driver=550.90.07
`,
		slurm: `MaxBatchRequeue=1
PartitionName=main Pools=p Default=YES MaxTime=1:00:00 DefaultTime=10:00 Image=jobs
PartitionName=pinned Pools=pinned MaxTime=1:00:00 DefaultTime=10:00 Image=jobs
PartitionName=new Pools=p MaxTime=1:00:00 DefaultTime=10:00 Image=newer
PartitionName=wrong Pools=p MaxTime=1:00:00 DefaultTime=10:00 Image=wrong
ImageName=newer Ref=` + imageOf(t) + ` MinDriver=550.54.14
ImageName=wrong Ref=` + digest.ReplaceAllString(imageOf(t), strings.Repeat("0", 64)) + "\n",
	})
	for partition, says := range map[string][]string{
		"new": {"550.54.14", "535.54.03"}, "pinned": {"550.90.07", "535.54.03"}, "wrong": {strings.Repeat("0", 12)},
	} {
		id := h.sbatch(h.alice, "-p", partition, "--gres=gpu:1", "-o", "never", "--wrap", "echo it ran")
		for _, what := range says {
			h.eventually(time.Minute, "the job to be stopped over "+what, func() (bool, string, error) {
				text := h.must(h.alice, "scontrol", "show", "job", id) + h.must(h.alice, "sburst", "explain", id)
				return strings.Contains(text, what), text, nil
			})
		}
		if got := h.read(h.alice, "never"); got != "" {
			t.Errorf("partition %s: the job ran: %q", partition, got)
		}
		h.run(h.alice, "scancel", id)
	}
}

func imageOf(t *testing.T) string {
	t.Helper()
	needRoot(t)
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.image
}
