package agent

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// environment is what the batch script sees: what the user submitted, then what
// Slurm sets on the first node (its names and forms).
func (r *run) environment() []string {
	l, i, u := r.launch, r.launch.GetInfo(), r.launch.GetUser()
	job := strconv.FormatUint(uint64(r.key.Job), 10)
	env := newEnviron(l.GetEnv())
	env.drop("SLURM_JWT")
	for _, name := range []string{"SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "CUDA_VISIBLE_DEVICES", "SLURM_RESTART_COUNT", "SLURM_JOB_GROUP"} {
		env.drop(name) // another job's, when this one was submitted from within it
	}
	for _, name := range slices.Clone(env.names) {
		if strings.HasPrefix(name, "SLURM_RLIMIT_") || name == "SLURM_UMASK" {
			env.drop(name) // in force already
		}
	}

	env.set("SLURM_JOB_ID", job)
	env.set("SLURM_JOBID", job)
	env.set("SLURM_JOB_SLUID", i.GetSluid())
	env.set("SLURM_JOB_NAME", i.GetName())
	env.set("SLURM_JOB_PARTITION", i.GetPartition())
	env.set("SLURM_JOB_ACCOUNT", i.GetAccount())
	env.set("SLURM_JOB_QOS", i.GetQos())
	env.set("SLURM_JOB_RESERVATION", i.GetReservation())
	env.set("SLURM_JOB_USER", u.GetName())
	env.set("SLURM_JOB_UID", number(u.GetUid()))
	env.set("SLURM_JOB_GID", number(u.GetGid()))
	env.set("SLURM_CLUSTER_NAME", i.GetCluster())
	env.set("SLURM_CONF", i.GetConf())
	env.set("SLURM_SUBMIT_DIR", i.GetSubmitDir())
	env.set("SLURM_SUBMIT_HOST", i.GetSubmitHost())

	nodes := max(i.GetNumNodes(), 1)
	env.set("SLURM_JOB_NODELIST", i.GetNodeList())
	env.set("SLURM_NODELIST", i.GetNodeList())
	env.set("SLURM_JOB_NUM_NODES", number(nodes))
	env.set("SLURM_NNODES", number(nodes))
	env.set("SLURM_JOB_CPUS_PER_NODE", i.GetCpusPerNode())
	env.set("SLURM_TASKS_PER_NODE", i.GetTasksPerNode())
	env.set("SLURM_CPUS_ON_NODE", number(l.GetCpus()))
	env.setNumber("SLURM_NTASKS", uint64(i.GetNtasks()))
	env.setNumber("SLURM_NPROCS", uint64(i.GetNtasks()))
	env.setNumber("SLURM_CPUS_PER_TASK", uint64(i.GetCpusPerTask()))
	env.setNumber("SLURM_MEM_PER_NODE", i.GetMemPerNode())
	env.setNumber("SLURM_MEM_PER_CPU", i.GetMemPerCpu())
	env.setNumber("SLURM_JOB_START_TIME", uint64(i.GetStartTime()))
	env.setNumber("SLURM_JOB_END_TIME", uint64(i.GetEndTime()))
	env.set("SLURM_JOB_LICENSES", i.GetLicenses())
	env.set("SLURM_JOB_DEPENDENCY", i.GetDependency())
	env.set("SLURM_JOB_OVERSUBSCRIBE", i.GetOversubscribe())
	env.set("SLURM_JOB_EXCLUSIVE", i.GetExclusive())
	env.set("SLURM_OPEN_MODE", i.GetOpenMode())

	for _, name := range []string{"SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"} {
		env.set(name, "0")
	}
	env.set("SLURMD_NODENAME", r.a.cfg.Node)
	env.set("SLURM_TOPOLOGY_ADDR", r.a.cfg.Node)
	env.set("SLURM_TOPOLOGY_ADDR_PATTERN", "node")
	env.set("SLURM_PRIO_PROCESS", "0")
	env.set("SLURM_STEP_ID", "-5") // the batch step's number, as Slurm prints it
	env.set("SLURM_STEPID", "-5")
	env.preset("SLURM_OOM_KILL_STEP", "0")
	for _, v := range launchers {
		env.preset(v[0], v[1])
	}
	env.setNumber("SLURM_RESTART_COUNT", uint64(r.key.Restart))
	if a := i.GetArray(); a.GetCount() > 0 {
		env.set("SLURM_ARRAY_JOB_ID", number(a.GetJobId()))
		env.set("SLURM_ARRAY_TASK_ID", number(a.GetTaskId()))
		env.set("SLURM_ARRAY_TASK_COUNT", number(a.GetCount()))
		env.set("SLURM_ARRAY_TASK_MIN", number(a.GetMin()))
		env.set("SLURM_ARRAY_TASK_MAX", number(a.GetMax()))
		env.set("SLURM_ARRAY_TASK_STEP", number(max(a.GetStep(), 1)))
	}
	if gpus := l.GetGpus(); len(gpus) > 0 {
		ids := make([]string, len(gpus))
		for n, g := range gpus {
			ids[n] = number(g.GetIndex())
		}
		env.set("SLURM_JOB_GPUS", strings.Join(ids, ","))
		env.set("SLURM_GPUS_ON_NODE", strconv.Itoa(len(gpus)))
	}
	env.set("ENVIRONMENT", "BATCH")
	env.set("HOSTNAME", r.a.cfg.Node)
	r.userEnv(env)
	if l.GetRuntime() != "containerd" {
		// A node without namespaces of its own knows its processes by this.
		env.set(localnode.Mark, r.a.cfg.Tag)
	}
	if l.GetRelay() {
		env.set("SBATCHD_SERVER", "unix://"+filepath.Join(r.runDir(), jobSocket))
	}
	for _, kv := range i.GetExtra() {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env.set(name, value)
		}
	}
	return env.list()
}

// launchers are what tells MPI's own launchers that srun starts their daemons.
var launchers = [][2]string{
	{"HYDRA_BOOTSTRAP", "slurm"},
	{"HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"},
	{"I_MPI_HYDRA_BOOTSTRAP", "slurm"},
	{"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "--external-launcher"},
	{"OMPI_MCA_plm_slurm_args", "--external-launcher"},
	{"PRTE_MCA_plm_slurm_args", "--external-launcher"},
}

// stepEnvironment is what Slurm tells steps and not the batch script.
func (r *run) stepEnvironment() []string {
	u := r.launch.GetUser()
	group := u.GetGroup()
	if g, err := user.LookupGroupId(number(u.GetGid())); err == nil && (group == "" || group == number(u.GetGid())) {
		group = g.Name
	}
	return []string{"SLURM_JOB_GROUP=" + group}
}

// defaultPath is the PATH of a job whose environment has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// userEnv sets what a login would, where the user's environment does not say it:
// the submit host's may have stayed there. --export=NIL asks for none of it.
func (r *run) userEnv(env *environ) {
	if dir := env.get("TMPDIR"); dir == "" || !isDir(dir) {
		env.set("TMPDIR", "/tmp")
	}
	if strings.EqualFold(env.get("SLURM_EXPORT_ENV"), "NIL") {
		return
	}
	u := r.launch.GetUser()
	for name, value := range map[string]string{"HOME": u.GetHome(), "USER": u.GetName(), "LOGNAME": u.GetName(), "SHELL": u.GetShell()} {
		if env.get(name) == "" {
			env.set(name, value)
		}
	}
	path := env.get("PATH")
	if path == "" {
		path = defaultPath
	}
	env.set("PATH", withCommands(path, r.a.commandsDir()))
}

// withCommands is path with the folder of our commands in front, unless they
// are on it already: another Slurm's srun would not know this job.
func withCommands(path, dir string) string {
	if dir == "" {
		return path
	}
	for _, p := range filepath.SplitList(path) {
		if p == dir {
			return path
		}
		if target, err := filepath.EvalSymlinks(filepath.Join(p, "srun")); err == nil {
			if filepath.Base(target) == "slurm" {
				return path
			}
			break
		}
	}
	return dir + ":" + path
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// environ is an environment in the order its names first came.
type environ struct {
	names  []string
	values map[string]string
}

func newEnviron(list []string) *environ {
	e := &environ{values: map[string]string{}}
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if _, has := e.values[name]; !has {
			e.names = append(e.names, name)
		}
		e.values[name] = value
	}
	return e
}

func (e *environ) get(name string) string { return e.values[name] }

// set sets a variable; an empty value leaves it as it is.
func (e *environ) set(name, value string) {
	if value == "" {
		return
	}
	if _, has := e.values[name]; !has {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// preset sets a variable that has no value yet.
func (e *environ) preset(name, value string) {
	if e.values[name] == "" {
		e.set(name, value)
	}
}

// setNumber is set, with 0 for empty.
func (e *environ) setNumber(name string, n uint64) {
	if n != 0 {
		e.set(name, strconv.FormatUint(n, 10))
	}
}

func (e *environ) drop(name string) {
	if _, has := e.values[name]; has {
		delete(e.values, name)
		e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
	}
}

func (e *environ) list() []string {
	out := make([]string, len(e.names))
	for i, name := range e.names {
		out[i] = name + "=" + e.values[name]
	}
	return out
}
