//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// shapes are headers as they are found in public repositories of sbatch
// scripts: the spellings, quirks and combinations that people really write. out
// is where the output must appear, with JOB for the job's id; ntasks and cpus
// are what the script must see.
var shapes = []struct {
	name, header, out string
	ntasks, cpus      string
}{
	{"short options with comments", `#!/bin/bash
#SBATCH -J name # comment
#SBATCH -n 5 # comment
#SBATCH -N 1 # comment
#SBATCH -p main # comment
#SBATCH --mem=4000 # comment
#SBATCH -t 15 # comment
#SBATCH --open-mode=append
#SBATCH -o %x_%A.out # comment
#SBATCH -e %x_%A.err # comment
`, "name_JOB.out", "5", ""},
	{"long options", `#!/bin/bash
#SBATCH --ntasks=1              # one
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=a100:1
#SBATCH --mem-per-cpu=1G
#SBATCH --time=00:15:00
#SBATCH --partition=main
#SBATCH --output=slurm-%j.out
#SBATCH --requeue
#SBATCH --signal=B:TERM@300
`, "slurm-JOB.out", "1", "4"},
	{"login shell and a whole node", `#!/bin/bash -l
#SBATCH -A lab
#SBATCH -t 00:10:00
#SBATCH --exclusive
#SBATCH -n 1
#SBATCH --gres=gpu:1
`, "slurm-JOB.out", "1", ""},
	{"gres and gpus together", `#!/bin/bash
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4
#SBATCH --gpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --mem-per-gpu=1443
`, "slurm-JOB.out", "4", "4"},
	{"capital J", "#!/bin/bash\n#SBATCH --error=%J.name.err\n#SBATCH --output=%J.name.out\n#SBATCH --oversubscribe\n", "JOB.name.out", "", ""},
	{"env bash", "#!/usr/bin/env bash\n#SBATCH -A lab # account\n#SBATCH --time=00:15:00\n#SBATCH -n 2\n#SBATCH --gpus-per-node=a100:1\n", "slurm-JOB.out", "2", ""},
	{"lower-case unit, days", "#!/bin/bash\n#SBATCH --mem=16g\n#SBATCH --cpus-per-task=16\n#SBATCH --time=1-00:00:00\n#SBATCH --requeue\n", "slurm-JOB.out", "", "16"},
	{"mail", "#!/bin/bash\n#SBATCH --ntasks=4\n#SBATCH --mail-type=end,fail\n#SBATCH --mail-user=user@example.org\n", "slurm-JOB.out", "4", ""},
	{"days and hours", "#!/bin/bash\n#SBATCH -o nameout\n#SBATCH -e nameerr\n#SBATCH -t 0-00:30\n#SBATCH -c 4\n#SBATCH --mem=4000\n", "nameout", "", "4"},
	{"typed GPU", "#!/bin/bash\n#SBATCH --account=lab\n#SBATCH --partition=gpu\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=10\n#SBATCH --mem=80G\n#SBATCH --gres=gpu:a100:1\n", "slurm-JOB.out", "1", "10"},
	{"all memory", "#!/bin/bash\n#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --overcommit\n", "slurm-JOB.out", "", ""},
	{"gpus", "#!/bin/bash\n#SBATCH -n 1\n#SBATCH --time=06:20:00\n#SBATCH --gpus=a100:2\n", "slurm-JOB.out", "1", ""},
	{"values after a blank", "#!/bin/bash\n#SBATCH --job-name spaced\n#SBATCH --mem 4G\n#SBATCH --cpus-per-task 2\n#SBATCH --output %x-%j.log\n", "spaced-JOB.log", "", "2"},
	{"glued short options", "#!/bin/bash\n#SBATCH -N1 -n3 -c2\n#SBATCH -t10\n", "slurm-JOB.out", "3", "2"},
	{"several on one line, tabs", "#!/bin/bash\n#SBATCH\t-n 2   --mem=100M  --time=5\n#SBATCH   --job-name=\"two words\"\n", "slurm-JOB.out", "2", ""},
	{"inactive directives", "#!/bin/bash\n##SBATCH --mem=900G\n# SBATCH --ntasks=999\n #SBATCH --ntasks=998\n#sbatch --ntasks=997\n#SBATCH -n 2\n", "slurm-JOB.out", "2", ""},
	{"comments, then directives after the first command", "#!/bin/bash\n#\n# a header\n#\n#SBATCH -n 2\n\necho hello\n#SBATCH -n 9\n", "slurm-JOB.out", "2", ""},
	{"tasks per node", "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=1\n#SBATCH --hint=nomultithread\n", "slurm-JOB.out", "8", "1"},
	{"plain sh", "#!/bin/sh\n#SBATCH --time=30\n#SBATCH --no-requeue\n#SBATCH --export=ALL,EXTRA=yes\n", "slurm-JOB.out", "", ""},
	{"BURST lines", "#!/bin/sh\n#SBATCH -n 1\n#BURST --checkpoint-dir=ckpt --max-restarts=20\n#BURST --checkpoint-interval=20   # minutes\n", "slurm-JOB.out", "1", ""},
}

// shapeBody is what each script does below its header.
const shapeBody = `
echo "job $SLURM_JOB_ID user $(id -un) ntasks ${SLURM_NTASKS:-} cpus ${SLURM_CPUS_PER_TASK:-} partition $SLURM_JOB_PARTITION"
scontrol show hostnames "$SLURM_JOB_NODELIST" >/dev/null || echo "no hostnames"
[ "$SLURM_SUBMIT_DIR" = "$PWD" ] || echo "works in $PWD, submitted from $SLURM_SUBMIT_DIR"
nvidia-smi || true
hostname
echo "finished"
`

// TestShapes runs every shape as alice and as bob, in containers, at the same
// time: each sees its own output and nothing of the other's.
func TestShapes(t *testing.T) {
	h := open(t, site{
		pools: "PoolName=p Provider=here Gres=gpu:a100:8 CPUs=64 RealMemory=256000 MaxNodes=2 Workdir=sync\n",
		slurm: `PartitionName=main Pools=p Default=YES MaxTime=2-0 DefaultTime=10:00 Image=jobs
PartitionName=gpu Pools=p MaxTime=2-0 DefaultTime=10:00 Image=jobs
`,
	})
	type submitted struct {
		shape int
		user  *rig.User
		id    string
	}
	var jobs []submitted
	for n, shape := range shapes {
		for _, u := range []*rig.User{h.alice, h.bob} {
			name := h.script(u, fmt.Sprintf("shape%d.sh", n), shape.header+shapeBody)
			result := h.run(u, "sbatch", "--parsable", name)
			if result.Code != 0 {
				t.Errorf("%s: %v", shape.name, result)
				continue
			}
			jobs = append(jobs, submitted{n, u, strings.TrimSpace(result.Stdout)})
		}
	}
	for _, j := range jobs {
		shape := shapes[j.shape]
		h.ended(j.id, "COMPLETED", 4*time.Minute)
		out := strings.ReplaceAll(shape.out, "JOB", j.id)
		h.shows(j.user, out, "finished\n", 20*time.Second)
		got := h.read(j.user, out)
		if want := fmt.Sprintf("job %s user %s ntasks ", j.id, j.user.Name); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in:\n%s", shape.name, want, got)
		}
		for what, want := range map[string]string{" ntasks ": shape.ntasks, " cpus ": shape.cpus} {
			if want != "" && !strings.Contains(got, what+want+" ") {
				t.Errorf("%s: no %q in:\n%s", shape.name, what+want, got)
			}
		}
		for _, bad := range []string{"no hostnames", "works in"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s:\n%s", shape.name, got)
			}
		}
	}
	for _, j := range jobs {
		other := h.alice
		if j.user == h.alice {
			other = h.bob
		}
		if result := h.run(other, "sburst", "logs", j.id); result.Code == 0 {
			t.Errorf("%s reads the output of %s's job %s", other.Name, j.user.Name, j.id)
		}
	}
}

// TestWrap is the line of the issue, typed by both users.
func TestWrap(t *testing.T) {
	h := open(t, site{})
	for _, u := range []*rig.User{h.alice, h.bob} {
		id := h.sbatch(u, "--wrap", "nvidia-smi || true; hostname")
		node := h.ended(id, "COMPLETED", time.Minute)["NodeList"]
		h.shows(u, "slurm-"+id+".out", node+"\n", 20*time.Second)
	}
	if waited := h.run(h.alice, "sbatch", "--wait", "--wrap", "exit 3"); waited.Code != 3 {
		t.Errorf("sbatch --wait: %v, want exit 3", waited)
	}
}
