//go:build e2e

package e2e_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// kills is how often each victim dies in one test.
const kills = 20

// exclusive is a script of which no two copies may run at once. Beside its
// output it writes each step into a file of the shared work directory, so that
// an older copy that goes on beside a newer one is seen. Its output goes through
// the controller's spool, for it lies outside of that directory.
const exclusive = `#!/bin/sh
#SBATCH --chdir=work
#SBATCH --output=../x-%j.out
#SBATCH --requeue
run=${SLURM_RESTART_COUNT:-0}
echo "run $run"
n=0
while [ $n -lt ${LINES:-12} ]; do
	n=$((n + 1))
	echo "$run" >>beats-$SLURM_JOB_ID
	echo "line $n"
	sleep 0.1
done
echo "end"
`

func (h *house) kill(pids ...int) {
	h.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			h.t.Fatalf("kill %d: %v", pid, err)
		}
	}
}

// victim finds the processes to kill next; none when there is nothing to kill
// at this moment.
type victim func(h *house) []int

// work is what a killing test watches: jobs that are submitted all the while.
type work struct {
	mu  sync.Mutex
	ids []string // those whose id was printed
}

func (w *work) add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = append(w.ids, id)
}

func (w *work) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids)
}

// submitting submits a job every so often until stop is closed. Commands that
// fail while the controller is dead are repeated; an id that was printed counts.
func (h *house) submitting(w *work, stop <-chan struct{}, every time.Duration) {
	h.must(h.alice, "mkdir", "work")
	h.script(h.alice, "x.sh", exclusive)
	for {
		result, err := h.ctl.As(h.t.Context(), rig.Cmd{User: h.alice}, "sbatch", "--parsable", "x.sh")
		if err == nil && result.Code == 0 {
			w.add(strings.TrimSpace(result.Stdout))
		}
		select {
		case <-stop:
			return
		case <-time.After(every):
		}
	}
}

// killing runs jobs while one kind of process is killed over and over, at
// moments drawn from a seed, and checks at the end that every job whose id was
// printed came to its end, alone, with every line of each run.
func killing(t *testing.T, h *house, next victim, after func()) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SBATCHD_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SBATCHD_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))

	w, stop, stopped := &work{}, make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); h.submitting(w, stop, 600*time.Millisecond) }()
	for n := 0; n < kills; n++ {
		var pids []int
		h.eventually(time.Minute, "something to kill", func() (bool, string, error) {
			pids = next(h)
			return len(pids) > 0, "", nil
		})
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
		if pids = next(h); len(pids) == 0 {
			n-- // it ended by itself meanwhile
			continue
		}
		h.kill(pids[random.IntN(len(pids))])
		if after != nil {
			after()
		}
	}
	close(stop)
	<-stopped

	ids := w.list()
	t.Logf("%d kills, %d jobs", kills, len(ids))
	if len(ids) < 5 {
		t.Errorf("only %d jobs were taken", len(ids))
	}
	if sorted := slices.Sorted(slices.Values(ids)); len(slices.Compact(sorted)) != len(ids) {
		t.Errorf("an id was given out twice: %v", ids)
	}
	for _, id := range ids {
		h.ended(id, "COMPLETED", 3*time.Minute)
	}
	for _, id := range ids {
		h.shows(h.alice, "x-"+id+".out", "end\n", 20*time.Second)
		ended, err := checkExclusive(h.read(h.alice, "x-"+id+".out"))
		if err != nil {
			t.Errorf("job %s: %v\n%s", id, err, h.read(h.alice, "x-"+id+".out"))
		}
		// A machine that dies between the script's last line and the word that it
		// ended takes that word along: the job runs again. What the controller
		// was told, it never forgets.
		records := strings.Fields(h.must(h.alice, "sacct", "-j", id, "--duplicates", "-X", "-n", "-P", "-o", "State"))
		for _, run := range ended[:max(0, len(ended)-1)] {
			if run >= len(records) || records[run] == "COMPLETED" {
				t.Errorf("job %s: run %d ended and was run again, and was known to have ended: %v", id, run, records)
			}
		}
		beats := strings.Fields(h.read(h.alice, "work/beats-"+id))
		if !slices.IsSortedFunc(beats, func(a, b string) int { return cmp.Compare(number(a), number(b)) }) {
			t.Errorf("job %s: two copies ran at once: %v", id, beats)
		}
	}
}

func number(s string) int {
	n, _ := strconv.Atoi(s) //nolint:errcheck // a torn line counts as the first run
	return n
}

var runLine = regexp.MustCompile(`^run (\d+)$`)

// checkExclusive checks the output of the exclusive script: runs one after the
// other, in each the lines follow one another, the last one complete. A run that
// was killed may end anywhere, in the middle of a line too. It returns the runs
// that came to the script's end.
func checkExclusive(text string) (complete []int, err error) {
	restart, line, ended := -1, 0, false
	for n, got := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if isNotice(got) {
			continue
		}
		if f := runLine.FindStringSubmatch(got); f != nil {
			count, _ := strconv.Atoi(f[1])
			if count <= restart {
				return complete, fmt.Errorf("line %d: run %d after run %d", n+1, count, restart)
			}
			restart, line, ended = count, 0, false
			continue
		}
		switch {
		case ended:
			return complete, fmt.Errorf("line %d: %q after the end", n+1, got)
		case got == "end":
			if line != 12 {
				return complete, fmt.Errorf("line %d: the end after %d lines", n+1, line)
			}
			ended, complete = true, append(complete, restart)
		case got != fmt.Sprintf("line %d", line+1):
			return complete, fmt.Errorf("line %d: %q, want line %d: lost or doubled", n+1, got, line+1)
		default:
			line++
		}
	}
	if !ended {
		return complete, fmt.Errorf("the last run has %d lines and no end", line)
	}
	return complete, nil
}

// killSite is a site whose nodes stay and whose jobs see one shared folder, so
// that a second copy of a job would be seen.
func killSite(runtime string) site {
	return site{runtime: runtime, workdir: "shared", nodes: 2, slurm: "SlurmdTimeout=5\nSuspendTime=60\n"}
}

func TestKillController(t *testing.T) {
	h := open(t, killSite("process"))
	restart := make(chan error, 1)
	killing(t, h, func(h *house) []int { return []int{h.ctl.Pid()} }, func() {
		h.ctl.Kill() // waits for it
		go func() { restart <- h.ctl.Start(t.Context()) }()
		if err := <-restart; err != nil {
			t.Fatal(err)
		}
	})
	for _, id := range []string{"1"} {
		if job := h.job(id); job["Restarts"] != "0" {
			t.Errorf("job %s was requeued (Restarts=%s): a killed controller harms no job", id, job["Restarts"])
		}
	}
}

func TestKillAgent(t *testing.T) {
	t.Parallel() // it waits most of the time: what dies often is started again later and later
	h := open(t, killSite("process"))
	killing(t, h, func(h *house) []int { return h.Processes("sbatchd-node agent ") }, nil)
}

func TestKillShim(t *testing.T) {
	h := open(t, killSite("process"))
	killing(t, h, func(h *house) []int { return h.Processes("sbatchd-node shim ") }, nil)
}

func TestKillContainerd(t *testing.T) {
	t.Parallel() // it waits most of the time: what dies often is started again later and later
	h := open(t, killSite("containerd"))
	killing(t, h, func(h *house) []int { return h.containerds() }, nil)
}

// containerds are the nodes' containerd daemons, not the shims beneath them.
func (h *house) containerds() []int {
	var found []int
	for _, pid := range h.Processes("containerd") {
		if name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm")); err == nil && strings.TrimSpace(string(name)) == "containerd" {
			found = append(found, pid)
		}
	}
	return found
}

// TestKillNodes takes whole nodes away at random moments, and the controller
// now and then: nothing is lost and nothing stays rented.
func TestKillNodes(t *testing.T) {
	h := open(t, site{runtime: "process", workdir: "shared", nodes: 3, slurm: "SlurmdTimeout=5\nSuspendTime=60\n"})
	turn := 0
	killing(t, h, func(h *house) []int {
		return h.Processes("sbatchd-node init ")
	}, func() {
		if turn++; turn%5 == 0 {
			h.ctl.Kill()
			if err := h.ctl.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
