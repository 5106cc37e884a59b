//go:build e2e

package clients_test

import (
	"os"
	"strings"
	"testing"
)

// installed skips the test unless the file of a library is there.
func installed(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed (tests/setup/clients.sh)", path)
	}
}

// Snakemake 7 runs a rule as a job of its own, with srun inside.
func TestSnakemake7(t *testing.T) {
	needs(t, "snakemake")
	d := newDesk(t)
	d.account("lab")
	d.file("Snakefile", "rule all:\n    input: 'out.txt'\nrule make:\n    output: 'out.txt'\n    resources: runtime=5, mem_mb=600, slurm_account='lab'\n    shell: 'echo made by $SLURM_JOB_ID > {output}'\n")
	d.sh("snakemake --slurm -j1 --max-status-checks-per-second 1 --latency-wait 20 --default-resources slurm_partition=main 2>&1 || { cat .snakemake/slurm_logs/*/*.log; false; }")
	d.match(`^made by (\d+)\n$`, d.text("out.txt"))
}

// The older way of Snakemake: any submit command and a status script.
func TestSnakemakeCluster(t *testing.T) {
	needs(t, "snakemake")
	d := newDesk(t)
	d.file("Snakefile", "rule all:\n    input: expand('{n}.txt', n=[1, 2])\nrule make:\n    output: '{n}.txt'\n    threads: 1\n    shell: 'echo {wildcards.n} > {output}'\n")
	d.file("status.sh", "#!/bin/sh\ncase $(sacct -j $1 --format State --noheader | head -1) in *COMPLETED*) echo success;; *RUNNING*|*PENDING*|'') echo running;; *) echo failed;; esac\n")
	d.sh("chmod +x status.sh")
	d.sh(`snakemake --cluster "sbatch --parsable -c {threads} --mem=600" --cluster-status ./status.sh --cluster-cancel scancel -j2 --latency-wait 20 2>&1`)
	if got := d.sh("cat 1.txt 2.txt"); got != "1\n2\n" {
		t.Errorf("results %q", got)
	}
}

// Toil runs a CWL tool.
func TestToilCWL(t *testing.T) {
	needs(t, "toil-cwl-runner")
	d := newDesk(t)
	d.file("x.cwl", "cwlVersion: v1.2\nclass: CommandLineTool\nbaseCommand: [echo, made by toil]\ninputs: []\noutputs:\n  out:\n    type: stdout\nstdout: out.txt\n"+
		"requirements:\n  ResourceRequirement:\n    coresMin: 1\n    ramMin: 600\n")
	d.sh("toil-cwl-runner --batchSystem slurm --jobStore " + d.dir + "/js --disableCaching --defaultMemory 600M --outdir " + d.dir + " x.cwl 2>&1")
	if got := d.text("out.txt"); got != "made by toil\n" {
		t.Errorf("out.txt %q", got)
	}
}

const batchtools = `#!/bin/bash
#SBATCH --job-name=<%= job.name %>
#SBATCH --output=<%= log.file %>
#SBATCH --time=5
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=200
<%= if (array.jobs) sprintf("#SBATCH --array=1-%i", nrow(jobs)) else "" %>
Rscript -e 'batchtools::doJobCollection("<%= uri %>")'
`

// batchtools maps a function over jobs, and over an array.
func TestBatchtools(t *testing.T) {
	needs(t, "Rscript")
	installed(t, "/usr/lib/R/site-library/batchtools/DESCRIPTION")
	for name, resources := range map[string]string{"jobs": "list()", "array": "list(chunks.as.arrayjobs = TRUE)"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.file("slurm.tmpl", batchtools)
			d.file("run.R", "library(batchtools)\nreg <- makeRegistry('reg', seed = 1)\nreg$cluster.functions <- makeClusterFunctionsSlurm('slurm.tmpl', array.jobs = TRUE)\n"+
				"ids <- batchMap(function(x) x^2, 1:3)\nids$chunk <- 1L\n"+map[bool]string{true: "", false: "ids$chunk <- NULL\n"}[name == "array"]+
				"submitJobs(ids, resources = "+resources+")\nstopifnot(waitForJobs(timeout = 180, sleep = 1))\ncat(unlist(reduceResultsList()), '\\n')\n")
			if got := d.sh("Rscript run.R 2>/dev/null"); !strings.HasSuffix(strings.TrimSpace(got), "1 4 9") {
				t.Errorf("results %q", got)
			}
		})
	}
}

// future.batchtools evaluates a future in a job.
func TestFutureBatchtools(t *testing.T) {
	needs(t, "Rscript")
	installed(t, "/usr/lib/R/site-library/future.batchtools/DESCRIPTION")
	d := newDesk(t)
	d.file("slurm.tmpl", batchtools)
	d.file("run.R", "library(future.batchtools)\nplan(batchtools_slurm, template = 'slurm.tmpl')\nf <- future(Sys.getenv('SLURM_JOB_ID'))\ncat('job', value(f), '\\n')\n")
	d.match(`job (\d+)`, d.sh("Rscript run.R 2>&1"))
}

// rslurm sends a data frame's rows to an array job.
func TestRslurm(t *testing.T) {
	needs(t, "Rscript")
	installed(t, "/usr/lib/R/site-library/rslurm/DESCRIPTION")
	d := newDesk(t)
	d.file("run.R", "library(rslurm)\nj <- slurm_apply(function(a) a * 2, data.frame(a = 1:4), jobname = 'rs', nodes = 2, cpus_per_node = 1, slurm_options = list(time = '5', mem = '300'))\n"+
		"print(get_job_status(j)$completed)\nr <- get_slurm_out(j, outtype = 'raw', wait = TRUE)\ncat('sum', sum(unlist(r)), '\\n')\n")
	if got := d.sh("Rscript run.R 2>/dev/null"); !strings.Contains(got, "sum 20") {
		t.Errorf("results %q", got)
	}
}

// ClusterShell asks for the nodes of partitions, states, jobs and users.
func TestClusterShell(t *testing.T) {
	needs(t, "nodeset")
	d := newDesk(t)
	d.sh("mkdir -p " + d.dir + "/conf/groups.conf.d")
	d.sh("cp /etc/clustershell/*.conf conf/; cp /etc/clustershell/groups.conf.d/slurm.conf.example conf/groups.conf.d/slurm.conf")
	d.sh("sed -i 's,^confdir:.*,confdir: " + d.dir + "/conf/groups.conf.d,' conf/groups.conf")
	id := strings.TrimSpace(d.sh("sbatch --parsable --wrap 'sleep 120'"))
	d.until("squeue -h -j "+id+" -o %t", "R")
	d.env = append(d.env, "CLUSTERSHELL_CFGDIR="+d.dir+"/conf")
	for _, group := range []string{"@sp:main", "@sj:" + id, "@su:" + site.user.Name} {
		if got := d.sh("nodeset -f " + group); got != "p-1\n" {
			t.Errorf("%s: %q", group, got)
		}
	}
	d.sh("scancel " + id)
}

// Open MPI's and MPICH's launchers start two ranks on the job's node.
func TestMPI(t *testing.T) {
	for launcher, call := range map[string]string{
		"mpirun.openmpi": "mpirun.openmpi -n 2 sh -c 'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'",
		"mpiexec.hydra":  "mpiexec.hydra -n 2 sh -c 'echo rank $PMI_RANK of $PMI_SIZE'",
	} {
		t.Run(launcher, func(t *testing.T) {
			needs(t, launcher)
			d := newDesk(t)
			d.file("mpi.sh", "#!/bin/bash\n#SBATCH -n 2 -o mpi.log --mem=1G -t 5\n"+call+"\n")
			d.sh("sbatch --wait mpi.sh || { cat mpi.log >&2; false; }")
			if got := d.sh("sort mpi.log"); got != "rank 0 of 2\nrank 1 of 2\n" {
				t.Errorf("output %q", got)
			}
		})
	}
}
