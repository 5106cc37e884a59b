//go:build e2e

package e2e_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// TestExecProvider rents from the program in contrib/exec: a job runs on a machine
// of it, which is given back when it is idle.
func TestExecProvider(t *testing.T) {
	for _, tool := range []string{"jq", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("SKIP exec provider: " + tool + " is not installed")
		}
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	credential := folder + "/.credential"
	if err := os.WriteFile(credential, []byte("folder="+folder+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, site{
		pools: "ProviderName=ours Type=exec Trust=own Program=" + rig.Source("contrib", "exec", "processes") + " CredentialFile=" + credential +
			"\nPoolName=p Provider=ours CPUs=2 RealMemory=1000 MaxNodes=2 SuspendTime=2 Runtime=process Workdir=shared\n",
	})
	id := h.sbatch(h.alice, "-o", "x.out", "--wrap", "echo on $SLURM_JOB_NODELIST; id -un")
	h.ended(id, "COMPLETED", time.Minute)
	h.shows(h.alice, "x.out", "on p-1\n"+h.alice.Name+"\n", 10*time.Second)
	h.eventually(time.Minute, "the machine to be given back", func() (bool, string, error) {
		list, err := os.ReadDir(folder)
		return len(list) == 1, "", err
	})
	if out := h.must(h.root(), "sburst", "leaks"); !strings.HasSuffix(out, "leaked: 0\n") {
		t.Errorf("leaks: %s", out)
	}
}
