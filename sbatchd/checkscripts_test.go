package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.sh", `#!/bin/bash -l
#SBATCH --gres=gpu:2 -t 1:00:00   # a comment
#SBATCH --mail-type=END
##SBATCH --mem=4G
#SBATCH --output=/scratch/lab/%j.out
module load cuda/12.4 gcc
source activate train
cd /work/lab; /usr/bin/python x.py > /tmp/log
srun --label --cpu-bind=cores -n $N ./a.out
#SBATCH --mem=1G
`)
	bad := write("bad.sh", "#!/bin/sh\n#SBATCH --container=/lab/img -N 2\n#SBATCH --time=soon\n#SBATCH stray\n")
	for _, tt := range []struct {
		name, file, want string
		fails            bool
	}{
		{"good", good, `2: --gres=gpu:2: acts
2: --time=1:00:00: acts
3: --mail-type=END: no effect: sbatchd sends no mail yet
4: ##SBATCH --mem=4G: no effect: it does not begin with #SBATCH, so it is a comment
5: --output=/scratch/lab/%j.out: acts
5: leans on path /scratch/lab/%j.out
6: leans on module cuda/12.4
6: leans on module gcc
7: leans on conda environment train
8: leans on path /work/lab
9: srun --label: acts
9: srun --cpu-bind=cores: no effect: the node's cgroup gives whole CPUs, no task binding
9: srun --ntasks=$N: acts
10: #SBATCH --mem=1G: no effect: it stands after the first command
scripts: 1; options: 5 act, 4 have no effect, 0 are refused; faults: 0; leans on: 5
`, false},
		{"bad", bad, `2: --container=/lab/img: refused: name the image with --container-image
2: --nodes=2: acts
2: leans on path /lab/img
3: fault: --time=soon: Invalid --time specification
4: fault: Invalid directive found in batch script: stray
scripts: 1; options: 1 act, 0 have no effect, 1 are refused; faults: 2; leans on: 1
`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			err := checkScripts(nil, []string{tt.file}, &out, &errs)
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if d := cmp.Diff(tt.want, strings.ReplaceAll(out.String(), tt.file+":", "")); d != "" || errs.Len() > 0 {
				t.Errorf("%s%s", d, errs.String())
			}
		})
	}
}
