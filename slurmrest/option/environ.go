package option

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shell is the submitting process as the job will see it.
type Shell struct {
	Environ []string
	Dir     string            // current directory
	Host    string            // host name
	Umask   int               // of this process
	Nice    int               // scheduling priority of this process
	Limits  map[string]uint64 // soft limits by name without RLIMIT_; ^0: unlimited
	JobName string

	// ReadFile reads --export-file; nil: none can be read.
	ReadFile func(name string) ([]byte, error)
}

// Environ returns the environment that travels with the job: what --export
// chose, then what Slurm's commands add. Tokens and sbatchd's own addresses
// stay behind.
func (v *Values) Environ(sh Shell) ([]string, error) {
	e := newEnviron(len(sh.Environ) + 40)
	given, export := v.Given("export"), v.Str("export")
	login := v.Given("get-user-env")
	switch word := strings.ToUpper(export); {
	case v.Given("export-file"):
		if err := e.file(v, sh); err != nil {
			return nil, err
		}
	case !given || word == "ALL":
		e.copy(sh.Environ, func(string) bool { return true })
	case word == "NIL":
		e.copy(sh.Environ, slurms)
	default:
		login = true
		e.chosen(export, sh.Environ)
	}
	e.unset("SLURM_JWT")
	if given && !strings.EqualFold(export, "ALL") {
		e.set("SLURM_EXPORT_ENV", export)
	}
	if login {
		e.set("SLURM_GET_USER_ENV", "1")
	}
	v.submitVariables(e, sh)
	return e.list(), nil
}

func slurms(name string) bool {
	return strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SPANK_")
}

// submitVariables adds what sbatch tells the job about its submission.
func (v *Values) submitVariables(e *environ, sh Shell) {
	e.set("SLURM_SUBMIT_DIR", sh.Dir)
	e.set("SLURM_SUBMIT_HOST", sh.Host)
	e.set("SLURM_JOB_NAME", sh.JobName)
	e.set("SLURM_PRIO_PROCESS", strconv.Itoa(sh.Nice))
	if e.get("SLURM_UMASK") == "" {
		e.set("SLURM_UMASK", fmt.Sprintf("%04o", sh.Umask))
	}
	v.rlimits(e, sh)
	for _, s := range []struct{ option, variable string }{
		{"acctg-freq", "SLURM_ACCTG_FREQ"},
		{"cpu-freq", "SLURM_CPU_FREQ_REQ"},
		{"cpus-per-gpu", "SLURM_CPUS_PER_GPU"},
		{"cpus-per-task", "SLURM_CPUS_PER_TASK"},
		{"dependency", "SLURM_JOB_DEPENDENCY"},
		{"distribution", "SLURM_DISTRIBUTION"},
		{"gpu-bind", "SLURM_GPU_BIND"},
		{"gpu-freq", "SLURM_GPU_FREQ"},
		{"gpus", "SLURM_GPUS"},
		{"gpus-per-node", "SLURM_GPUS_PER_NODE"},
		{"gpus-per-socket", "SLURM_GPUS_PER_SOCKET"},
		{"gpus-per-task", "SLURM_GPUS_PER_TASK"},
		{"mem-bind", "SLURM_MEM_BIND"},
		{"network", "SLURM_NETWORK"},
		{"ntasks", "SLURM_NTASKS"},
		{"ntasks", "SLURM_NPROCS"},
		{"ntasks-per-core", "SLURM_NTASKS_PER_CORE"},
		{"ntasks-per-gpu", "SLURM_NTASKS_PER_GPU"},
		{"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
		{"ntasks-per-socket", "SLURM_NTASKS_PER_SOCKET"},
		{"profile", "SLURM_PROFILE"},
		{"segment", "SLURM_JOB_SEGMENT_SIZE"},
		{"threads-per-core", "SLURM_THREADS_PER_CORE"},
		{"tres-per-task", "SLURM_TRES_PER_TASK"},
	} {
		if !v.Given(s.option) {
			continue
		}
		value := v.Str(s.option)
		if n := v.Num(s.option); n != 0 && s.option != "distribution" {
			value = strconv.FormatInt(n, 10)
		}
		e.set(s.variable, value)
	}
	if v.Given("mem-per-gpu") {
		e.set("SLURM_MEM_PER_GPU", strconv.FormatInt(v.Num("mem-per-gpu"), 10))
	}
	if n := v.Num("distribution"); n != 0 {
		e.set("SLURM_DIST_PLANESIZE", strconv.FormatInt(n, 10))
	}
	if v.Given("overcommit") {
		e.set("SLURM_OVERCOMMIT", "1")
	}
	if m := v.Str("open-mode"); m != "" {
		e.set("SLURM_OPEN_MODE", m[:1])
	}
}

// rlimits passes this process's soft limits on. A limit that --propagate names
// is marked with U: it must hold, or the job fails.
func (v *Values) rlimits(e *environ, sh Shell) {
	wanted, named := limits, false
	switch p := v.Str("propagate"); {
	case strings.EqualFold(p, "NONE"):
		return
	case p != "" && !strings.EqualFold(p, "ALL"):
		wanted, named = nil, true
		for _, w := range strings.Split(p, ",") {
			wanted = append(wanted, limitName(w))
		}
	}
	for _, name := range wanted {
		n, ok := sh.Limits[name]
		if !ok {
			continue
		}
		value := strconv.FormatUint(n, 10)
		if named {
			value = "U" + value
		}
		e.set("SLURM_RLIMIT_"+name, value)
	}
}

// environ is an environment under construction, in order.
type environ struct {
	items []string
	at    map[string]int
}

func newEnviron(size int) *environ {
	return &environ{items: make([]string, 0, size), at: make(map[string]int, size)}
}

func (e *environ) set(name, value string) {
	if i, ok := e.at[name]; ok {
		e.items[i] = name + "=" + value
		return
	}
	e.at[name] = len(e.items)
	e.items = append(e.items, name+"="+value)
}

func (e *environ) get(name string) string {
	if i, ok := e.at[name]; ok {
		_, value, _ := strings.Cut(e.items[i], "=")
		return value
	}
	return ""
}

func (e *environ) unset(name string) {
	if i, ok := e.at[name]; ok {
		e.items[i] = ""
		delete(e.at, name)
	}
}

func (e *environ) list() []string {
	return slices.DeleteFunc(e.items, func(s string) bool { return s == "" })
}

func (e *environ) copy(from []string, keep func(name string) bool) {
	for _, kv := range from {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" && !strings.HasPrefix(name, "SBATCHD_") && keep(name) {
			e.set(name, value)
		}
	}
}

// chosen takes the variables of an --export list: names, with values or
// without, and perhaps ALL. Slurm's own always come along.
func (e *environ) chosen(export string, from []string) {
	e.copy(from, slurms)
	for _, item := range exportItems(export) {
		name, value, valued := strings.Cut(item, "=")
		switch {
		case valued:
			e.set(name, value)
		case strings.EqualFold(name, "ALL"):
			e.copy(from, func(n string) bool { _, have := e.at[n]; return !have })
		case strings.EqualFold(name, "NONE"), name == "":
		default:
			e.copy(from, func(n string) bool { return n == name })
		}
	}
}

// exportItems splits at commas outside quotes and drops the quotes.
func exportItems(list string) []string {
	var items []string
	var item strings.Builder
	var quote rune
	for _, c := range list {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == ',':
			items = append(items, item.String())
			item.Reset()
		default:
			item.WriteRune(c)
		}
	}
	return append(items, item.String())
}

func (e *environ) file(v *Values, sh Shell) error {
	name := v.Str("export-file")
	if n, err := strconv.ParseUint(name, 10, 16); err == nil {
		name = fmt.Sprintf("/proc/self/fd/%d", n)
	}
	if sh.ReadFile == nil {
		return failure("Could not open user environment file %s", v.Str("export-file"))
	}
	data, err := sh.ReadFile(name)
	if err != nil {
		return failure("Could not open user environment file %s", v.Str("export-file"))
	}
	e.copy(sh.Environ, slurms)
	e.copy(strings.Split(string(data), "\x00"), func(string) bool { return true })
	return nil
}

// StepEnviron returns the environment of a step: what --export chose of the
// environment srun itself has.
func (v *Values) StepEnviron(from []string) ([]string, error) {
	e := newEnviron(len(from) + 8)
	export := v.Str("export")
	switch word := strings.ToUpper(export); {
	case v.Source("export") != CommandLine || word == "ALL":
		e.copy(from, func(string) bool { return true })
	case word == "NONE" || word == "NIL":
		e.copy(from, func(name string) bool { return slurms(name) || name == "PATH" || name == "HOME" })
	default:
		e.chosen(export, from)
	}
	for _, kv := range from { // the step's own commands reach the controller too
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "SBATCHD_") {
			e.set(name, value)
		}
	}
	return e.list(), nil
}
