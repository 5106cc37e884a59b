package option

import (
	"strings"
	"sync"
)

// Tool names the submitting commands an option belongs to.
type Tool uint8

// The three commands that make or join a job.
const (
	Sbatch Tool = 1 << iota
	Salloc
	Srun
)

// Short names for the rows of the table.
const (
	onlySbatch = Sbatch
	onlySrun   = Srun
	onlySalloc = Salloc
	ba         = Sbatch | Salloc
	bs         = Sbatch | Srun
	sa         = Srun | Salloc
	bsa        = Sbatch | Srun | Salloc
)

func (t Tool) String() string {
	switch t {
	case Salloc:
		return "salloc"
	case Srun:
		return "srun"
	default:
		return "sbatch"
	}
}

// Effect says what sbatchd does with an option.
type Effect uint8

// Acts: as in Slurm. NoEffect: accepted, harmless, Why says why nothing
// happens. Refused: answered with Slurm's "not supported" error, since the job
// would come out wrong.
const (
	Acts Effect = iota
	NoEffect
	Refused
)

func (e Effect) String() string {
	return [...]string{"acts", "no effect", "refused"}[e]
}

// Option is one row of the table.
type Option struct {
	Long  string
	Short byte // 0: no short form
	Arg   Arg
	Meta  string // the argument's name in help
	Tools Tool
	Reset bool // starts afresh in each component of a heterogeneous job
	Ours  bool // sbatchd's own: also on #BURST lines; unknown to Slurm
	Alias string
	Do    Effect
	Why   string
	Help  string

	env   string // see envNames
	check func(*reader, *Values, *Option, string) error
	index int
}

// Env returns the variables that set the option for one command, the later
// ones winning.
func (o *Option) Env(t Tool) []string { return envNames(o.env, t) }

// ArgOf says whether the option takes an argument with one command: --wait does
// with srun alone.
func (o *Option) ArgOf(t Tool) Arg {
	if o.Long == "wait" && t == Srun {
		return Required
	}
	return o.Arg
}

// Table returns every option, in the order of the printed table.
func Table() []*Option { return table }

// The table and what is made of it. A command needs the names of one tool, and
// those that submit nothing need none: bin/slurm starts the faster for it.
var (
	table []*Option

	byName = sync.OnceValue(func() map[string]*Option {
		m := make(map[string]*Option, len(table))
		for _, o := range table {
			m[o.Long] = o
		}
		return m
	})
	sets = map[Tool]func() *Set{
		Sbatch: sync.OnceValue(func() *Set { return toolSet(Sbatch) }),
		Salloc: sync.OnceValue(func() *Set { return toolSet(Salloc) }),
		Srun:   sync.OnceValue(func() *Set { return toolSet(Srun) }),
	}
	envs = map[Tool]func() map[string]*Option{
		Sbatch: sync.OnceValue(func() map[string]*Option { return toolEnv(Sbatch) }),
		Salloc: sync.OnceValue(func() map[string]*Option { return toolEnv(Salloc) }),
		Srun:   sync.OnceValue(func() map[string]*Option { return toolEnv(Srun) }),
	}
	// burstSet are the options a #BURST line may hold.
	burstSet = sync.OnceValue(func() *Set {
		var names []Name
		for _, o := range table {
			if o.Ours {
				names = append(names, Name{Long: o.Long, Arg: o.Arg, Key: o.index})
			}
		}
		return NewSet(names)
	})
)

func init() {
	table = make([]*Option, 0, len(commonOptions)+len(stepOptions)+len(ourOptions))
	for _, part := range [][]Option{commonOptions, stepOptions, ourOptions} {
		for i := range part {
			part[i].index = len(table)
			table = append(table, &part[i])
		}
	}
}

func toolSet(t Tool) *Set {
	var names []Name
	for _, o := range table {
		if o.Tools&t == 0 {
			continue
		}
		key := o.index
		if o.Alias != "" {
			key = find(o.Alias).index
		}
		names = append(names, Name{Long: o.Long, Short: o.Short, Arg: o.ArgOf(t), Key: key, Exact: o.Ours || o.Alias != ""})
	}
	return NewSet(names)
}

func toolEnv(t Tool) map[string]*Option {
	m := map[string]*Option{}
	for _, o := range table {
		if o.Tools&t == 0 || o.env == "" {
			continue
		}
		for _, name := range envNames(o.env, t) {
			m[name] = o
		}
	}
	return m
}

// envNames reads the shorthand of the table: words "TOOLS:NAME", where TOOLS
// are letters b, a and s and NAME gets the command's prefix; "+NAME" is taken
// whole.
func envNames(shorthand string, t Tool) []string {
	letter, prefix := "b", "SBATCH_"
	switch t {
	case Salloc:
		letter, prefix = "a", "SALLOC_"
	case Srun:
		letter, prefix = "s", "SLURM_"
	}
	var out []string
	for _, w := range strings.Fields(shorthand) {
		tools, name, _ := strings.Cut(w, ":")
		if !strings.Contains(tools, letter) {
			continue
		}
		if full, ok := strings.CutPrefix(name, "+"); ok {
			out = append(out, full)
		} else {
			out = append(out, prefix+name)
		}
	}
	return out
}

// find returns the row called name; a name that is not in the table is a
// mistake in this package.
func find(name string) *Option {
	o, ok := byName()[name]
	if !ok {
		panic("option: no option " + name)
	}
	return o
}
