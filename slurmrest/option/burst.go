package option

import (
	"strconv"
	"strings"
)

// ourOptions are what Slurm has no option for. They also stand on #BURST
// lines, which Slurm takes for comments, and in SBATCH_ variables. The
// --container- ones are Pyxis's.
var ourOptions = []Option{
	{Long: "budget", Arg: Required, Meta: "amount", Tools: bsa, Ours: true, env: "bas:BUDGET", check: checkMoney, Do: Refused, Why: "costs are counted, not capped, job by job", Help: "what the job may cost in all"},
	{Long: "checkpoint-dir", Arg: Required, Meta: "dir", Tools: bsa, Ours: true, env: "bas:CHECKPOINT_DIR", Help: "directory saved at a checkpoint, relative to the work directory"},
	{Long: "checkpoint-hook", Arg: Required, Meta: "command", Tools: bsa, Ours: true, env: "bas:CHECKPOINT_HOOK", Help: "program that makes a checkpoint; else the --signal"},
	{Long: "checkpoint-interval", Arg: Required, Meta: "minutes|auto", Tools: bsa, Ours: true, env: "bas:CHECKPOINT_INTERVAL", check: checkInterval, Help: "minutes between checkpoints"},
	{Long: "container-env", Arg: Required, Meta: "names", Tools: bsa, Ours: true, Do: Refused, Why: "the job's variables win over the image's", Help: "variables that override the image's"},
	{Long: "container-entrypoint", Tools: bsa, Ours: true, Do: Refused, Why: "the script is what runs", Help: "run the image's entry point first"},
	{Long: "no-container-entrypoint", Tools: bsa, Ours: true, Do: NoEffect, Why: "it does not run", Help: "do not run the image's entry point (default)"},
	{Long: "container-entrypoint-log", Tools: bsa, Ours: true, Do: NoEffect, Why: "it is in the job's output", Help: "log the entry point's output"},
	{Long: "container-image", Arg: Required, Meta: "image", Tools: bsa, Ours: true, env: "bas:CONTAINER_IMAGE", Help: "image to run in; else the partition's or pool's"},
	{Long: "container-mount-home", Tools: bsa, Ours: true, Do: Refused, Why: "HomeFiles of the pool says what comes along", Help: "mount the home directory"},
	{Long: "no-container-mount-home", Tools: bsa, Ours: true, Do: NoEffect, Why: "it is not mounted", Help: "do not mount the home directory"},
	{Long: "container-mounts", Arg: Required, Meta: "src:dst[:flags]", Tools: bsa, Ours: true, env: "bas:CONTAINER_MOUNTS", Do: Refused, Why: "mounts are the pool's to say (Mounts)", Help: "directories to mount"},
	{Long: "container-name", Arg: Required, Meta: "name", Tools: bsa, Ours: true, Do: Refused, Why: "each job has a container of its own", Help: "name under which the container is kept for later steps"},
	{Long: "container-readonly", Tools: bsa, Ours: true, Do: Refused, Why: "the container is writable", Help: "root file system read-only"},
	{Long: "container-writable", Tools: bsa, Ours: true, Do: NoEffect, Why: "it is writable", Help: "root file system writable"},
	{Long: "container-remap-root", Tools: bsa, Ours: true, Do: NoEffect, Why: "jobs run as their user", Help: "be root in the container"},
	{Long: "no-container-remap-root", Tools: bsa, Ours: true, Do: NoEffect, Why: "jobs run as their user", Help: "be the submitting user in the container (default)"},
	{Long: "container-save", Arg: Required, Meta: "path", Tools: bsa, Ours: true, Do: Refused, Why: "images are pinned, not saved", Help: "save the container's files as an image"},
	{Long: "container-workdir", Arg: Required, Meta: "dir", Tools: bsa, Ours: true, Do: Refused, Why: "--chdir is where the script runs", Help: "working directory in the container"},
	{Long: "env", Arg: Required, Meta: "kind:name", Tools: bsa, Ours: true, env: "bas:ENV", check: checkPackedEnv, Do: Refused, Why: "environments are not packed", Help: "conda:NAME, venv:PATH or file:environment.yml to bring along"},
	{Long: "interconnect", Arg: Required, Meta: "kind", Tools: bsa, Ours: true, env: "bas:INTERCONNECT", check: oneOf("nvlink", "pcie", "ib", "any"), Help: "how the GPUs must be joined"},
	{Long: "max-price", Arg: Required, Meta: "amount", Tools: bsa, Ours: true, env: "bas:MAX_PRICE", check: checkMoney, Do: Refused, Why: "prices are capped by the pool (MaxPrice), not by the job", Help: "price per GPU-hour at most"},
	{Long: "max-restarts", Arg: Required, Meta: "n", Tools: bsa, Ours: true, env: "bas:MAX_RESTARTS", check: checkRestarts, Help: "times the job may lose its node, 1 to 128"},
	{Long: "providers", Arg: Required, Meta: "names", Tools: bsa, Ours: true, env: "bas:PROVIDERS", Help: "providers to rent from"},
	{Long: "queue-timeout", Arg: Required, Meta: "minutes", Tools: bsa, Ours: true, env: "bas:QUEUE_TIMEOUT", check: checkMinutes, Help: "minutes in the queue before the job fails or overflows"},
	{Long: "regions", Arg: Required, Meta: "patterns", Tools: bsa, Ours: true, env: "bas:REGIONS", Do: Refused, Why: "regions are the pool's to say (Regions)", Help: "regions to rent in"},
	{Long: "restore-hook", Arg: Required, Meta: "command", Tools: bsa, Ours: true, env: "bas:RESTORE_HOOK", Help: "program run before the script after a requeue"},
	{Long: "secret", Arg: Required, Meta: "names", Tools: bsa, Ours: true, env: "bas:SECRET", check: checkList, Do: Refused, Why: "variables travel as --export says", Help: "variables that stay in the node's memory"},
	{Long: "stage-in", Arg: Required, Meta: "paths", Tools: bsa, Ours: true, env: "bas:STAGE_IN", check: checkList, Help: "files and folders the job needs"},
	{Long: "stage-out", Arg: Required, Meta: "paths", Tools: bsa, Ours: true, env: "bas:STAGE_OUT", check: checkList, Help: "files and folders to bring back"},
	{Long: "trust", Arg: Required, Meta: "own|cloud|shared", Tools: bsa, Ours: true, env: "bas:TRUST", check: oneOf("own", "cloud", "shared"), Help: "whose machines may see the data, at worst"},
}

// Burst is what a submission carries beside Slurm's own description: the
// field "sbatchd" of the body, next to "script" and "job" (a list, one for
// each component, next to "jobs"). Zero values mean "not asked for".
type Burst struct {
	CheckpointDir      string   `json:"checkpoint_dir,omitempty"`
	CheckpointInterval string   `json:"checkpoint_interval,omitempty"` // minutes, or auto
	CheckpointHook     string   `json:"checkpoint_hook,omitempty"`
	RestoreHook        string   `json:"restore_hook,omitempty"`
	MaxRestarts        int      `json:"max_restarts,omitempty"`  // 1 to 128
	QueueTimeout       uint32   `json:"queue_timeout,omitempty"` // minutes
	MaxPrice           string   `json:"max_price,omitempty"`     // per GPU-hour; see ParseMoney
	Budget             string   `json:"budget,omitempty"`        // per job; see ParseMoney
	Regions            []string `json:"regions,omitempty"`
	Trust              string   `json:"trust,omitempty"` // own, cloud, shared
	Providers          []string `json:"providers,omitempty"`
	Interconnect       string   `json:"interconnect,omitempty"` // nvlink, pcie, ib, any
	Env                string   `json:"env,omitempty"`          // kind:name
	Secrets            []string `json:"secrets,omitempty"`      // names of variables
	StageIn            []string `json:"stage_in,omitempty"`
	StageOut           []string `json:"stage_out,omitempty"`

	Container Container `json:"container,omitzero"`

	// What Slurm's own protocol carries and its REST does not.
	SubmitLine string `json:"submit_line,omitempty"` // the command as typed
	SubmitHost string `json:"submit_host,omitempty"`
	SubmitSID  int    `json:"submit_sid,omitempty"` // session of the submitting shell
	Umask      string `json:"umask,omitempty"`      // octal, as 0022
	// TestOnly asks when the job would start; nothing is submitted. The answer's
	// job_submit_user_msg is the sentence that sbatch --test-only prints.
	TestOnly bool `json:"test_only,omitempty"`
}

// Container is what Pyxis's flags asked for.
type Container struct {
	Image      string   `json:"image,omitempty"`
	Mounts     []string `json:"mounts,omitempty"`
	Workdir    string   `json:"workdir,omitempty"`
	Name       string   `json:"name,omitempty"`
	Env        []string `json:"env,omitempty"`
	MountHome  bool     `json:"mount_home,omitempty"`
	ReadOnly   bool     `json:"read_only,omitempty"`
	Entrypoint bool     `json:"entrypoint,omitempty"`
}

// Money is an amount with its currency; no currency means the pool's.
type Money struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency,omitempty"`
}

// ParseMoney reads an amount such as 2.50, 60CNY or $3.
func ParseMoney(text string) (Money, bool) {
	t := strings.TrimSpace(text)
	var m Money
	if rest, ok := strings.CutPrefix(t, "$"); ok {
		m.Currency, t = "USD", rest
	} else if i := strings.LastIndexAny(t, "0123456789.") + 1; i > 0 && i < len(t) {
		m.Currency, t = strings.ToUpper(strings.TrimSpace(t[i:])), strings.TrimSpace(t[:i])
		if len(m.Currency) != 3 || strings.Trim(m.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return Money{}, false
		}
	}
	v, err := strconv.ParseFloat(t, 64)
	if err != nil || !(v >= 0) || v > 1e12 || strings.ContainsAny(t, "xXeEpP_+") {
		return Money{}, false
	}
	m.Amount = v
	return m, true
}

// Burst gathers sbatchd's own options of one component.
func (v *Values) Burst() Burst {
	return Burst{
		CheckpointDir:      v.Str("checkpoint-dir"),
		CheckpointInterval: interval(v.Num("checkpoint-interval")),
		CheckpointHook:     v.Str("checkpoint-hook"),
		RestoreHook:        v.Str("restore-hook"),
		MaxRestarts:        int(v.Num("max-restarts")),
		QueueTimeout:       uint32(v.Num("queue-timeout")),
		MaxPrice:           v.Str("max-price"),
		Budget:             v.Str("budget"),
		Regions:            splitList(v.Str("regions")),
		Trust:              strings.ToLower(v.Str("trust")),
		Providers:          splitList(v.Str("providers")),
		Interconnect:       strings.ToLower(v.Str("interconnect")),
		Env:                v.Str("env"),
		Secrets:            splitList(v.Str("secret")),
		StageIn:            splitList(v.Str("stage-in")),
		StageOut:           splitList(v.Str("stage-out")),
		TestOnly:           v.Given("test-only"),
		Container: Container{
			Image:      v.Str("container-image"),
			Mounts:     splitList(v.Str("container-mounts")),
			Workdir:    v.Str("container-workdir"),
			Name:       v.Str("container-name"),
			Env:        splitList(v.Str("container-env")),
			MountHome:  v.Given("container-mount-home"),
			ReadOnly:   v.Given("container-readonly"),
			Entrypoint: v.Given("container-entrypoint"),
		},
	}
}

func interval(minutes int64) string {
	switch minutes {
	case 0:
		return ""
	case AutoInterval:
		return "auto"
	}
	return strconv.FormatInt(minutes, 10)
}

func splitList(text string) []string {
	var out []string
	for _, w := range strings.Split(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}
