package option

import (
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Source says where a value came from; a later one wins over an earlier one.
type Source uint8

// Sources in the order in which they are read.
const (
	Unset Source = iota
	Script
	Environment
	CommandLine
)

// Input is all that parsing depends on.
type Input struct {
	Tool     Tool
	Args     []string // the command line after the program's name
	Environ  []string
	Body     []byte // the batch script; nil for srun and salloc
	Name     string // what messages call the script: its base name, or stdin
	Dir      string // current directory
	Now      time.Time
	Root     bool
	ReadFile func(name string) ([]byte, error) // for host files; nil: none can be read
}

// Values are the options of one component of a job. Given, Str and Num ask by
// an option's long name; asking for a name that is not in the table panics.
type Values struct {
	Tool    Tool
	Notices []Line // warnings to print; in the first component only
	Args    []string

	NodesMin, NodesMax int    // 0: not given
	NodesList          string // --nodes as a list of sizes
	Signal             Signal
	Verbose            int

	cpusOfTask int64 // --tres-per-task=cpu=N

	src []Source
	raw []string
	num []int64
}

// Signal is a parsed --signal.
type Signal struct {
	Number      int
	Name        string // without SIG
	Seconds     int
	Batch       bool // B: the batch shell only
	Reservation bool // R: may overlap a reservation
}

func newValues(t Tool) *Values {
	n := len(table)
	return &Values{Tool: t, src: make([]Source, n), raw: make([]string, n), num: make([]int64, n)}
}

// component returns the values the next component of a heterogeneous job
// starts with: those of v less the options that start afresh.
func (v *Values) component() *Values {
	c := *v
	c.Notices = nil
	c.src, c.raw, c.num = slices.Clone(v.src), slices.Clone(v.raw), slices.Clone(v.num)
	for _, o := range table {
		if o.Reset {
			c.clear(o)
		}
	}
	return &c
}

func (v *Values) clear(o *Option) {
	v.src[o.index], v.raw[o.index], v.num[o.index] = Unset, "", 0
	switch o.Long {
	case "nodes":
		v.NodesMin, v.NodesMax, v.NodesList = 0, 0, ""
	case "signal":
		v.Signal = Signal{}
	case "tres-per-task":
		v.cpusOfTask = 0
	}
}

// Given says whether the option was set.
func (v *Values) Given(name string) bool { return v.src[find(name).index] != Unset }

// Source says where the option's value came from.
func (v *Values) Source(name string) Source { return v.src[find(name).index] }

// Str returns the option's value as typed, empty if it was not set.
func (v *Values) Str(name string) string { return v.raw[find(name).index] }

// Num returns the option's value as its check understood it: a count, MiB,
// minutes or seconds since 1970, as the option has it; 0 if it was not set.
func (v *Values) Num(name string) int64 { return v.num[find(name).index] }

// All returns the options that were set, in table order.
func (v *Values) All() []*Option {
	var out []*Option
	for _, o := range table {
		if v.src[o.index] != Unset {
			out = append(out, o)
		}
	}
	return out
}

// reader carries what the checks of values need.
type reader struct {
	in     *Input
	source Source
	value  string // what is kept of the value; a check may put its meaning here
}

// file reads a file that an option names.
func (r *reader) file(path string) ([]byte, error) {
	if r.in.ReadFile == nil {
		return nil, fs.ErrNotExist
	}
	return r.in.ReadFile(path)
}

// setting is an option met somewhere, not yet checked.
type setting struct {
	o *Option
	w Word
}

// early options act on the command line only.
func early(o *Option) bool {
	switch o.Long {
	case "help", "usage", "version", "verbose", "quiet", "wrap", "autocomplete":
		return true
	}
	return false
}

func (r *reader) apply(v *Values, settings []setting) error {
	for _, s := range settings {
		o := s.o
		if r.source != CommandLine && early(o) {
			continue
		}
		r.value = s.w.Value
		if o.check != nil {
			if err := o.check(r, v, o, r.value); err != nil {
				return err
			}
		}
		value := r.value
		if o.Arg == Required && isList(o) && v.src[o.index] == r.source {
			value = v.raw[o.index] + "," + value
		}
		v.raw[o.index], v.src[o.index] = value, r.source
	}
	return nil
}

// isList names the options of ours that add up when given several times.
func isList(o *Option) bool {
	switch o.Long {
	case "secret", "stage-in", "stage-out", "container-mounts":
		return o.Ours
	}
	return false
}

// environ turns the environment's variables into settings.
func (r *reader) environ(v *Values) error {
	names := envs[r.in.Tool]()
	type hit struct {
		name, value string
		o           *Option
	}
	var hits []hit
	for _, kv := range r.in.Environ {
		if !strings.HasPrefix(kv, "S") {
			continue
		}
		name, value, _ := strings.Cut(kv, "=")
		if o := names[name]; o != nil {
			hits = append(hits, hit{name, value, o})
		}
	}
	slices.SortFunc(hits, func(x, y hit) int {
		if x.o != y.o {
			return x.o.index - y.o.index
		}
		order := x.o.Env(r.in.Tool)
		return slices.Index(order, x.name) - slices.Index(order, y.name)
	})
	for _, h := range hits {
		w := Word{Key: h.o.index, Value: h.value, HasArg: h.value != ""}
		if h.o.Arg == None && !(r.in.Tool == Srun && h.o.Long == "wait") {
			if !envSet(h.value) {
				v.clear(h.o)
				continue
			}
			w.Value, w.HasArg = "", false
		}
		if err := r.apply(v, []setting{{h.o, w}}); err != nil {
			return err
		}
	}
	return nil
}

// envSet says whether a variable turns an option without argument on.
func envSet(value string) bool {
	if value == "" || strings.EqualFold(value, "yes") {
		return true
	}
	n, ok := leadingInt(value)
	return ok && n != 0
}

// commandLine splits a command line into the settings of each component and
// the words after them.
func commandLine(t Tool, args []string) (components [][]setting, rest []string, err error) {
	for {
		var own []setting
		sc := sets[t]().Scan(args, false)
		for {
			w, ok, err := sc.Next()
			if err != nil {
				return nil, nil, Misspelled(err, t.String(), ExitUsage)
			}
			if !ok {
				break
			}
			own = append(own, setting{table[w.Key], w})
		}
		components, rest = append(components, own), sc.Rest()
		if len(rest) == 0 || rest[0] != ":" {
			return components, rest, nil
		}
		args = rest[1:]
	}
}

// Early is what the first pass over the command line finds.
type Early struct {
	Help, Usage, Version bool
	Verbose              int
	Quiet                bool
	Wrap                 string
	HasWrap              bool
	IgnorePBS            bool
	Chdir                bool // --chdir was given
	Autocomplete         string
	Rest                 []string // script or command, and its arguments
}

// First is the pass over the command line alone; it checks spelling, not
// values. getenv may be os.Getenv.
func First(t Tool, args []string, getenv func(string) string) (Early, error) {
	var e Early
	components, rest, err := commandLine(t, args)
	if err != nil {
		return e, err
	}
	e.Rest = rest
	e.IgnorePBS = getenv("SBATCH_IGNORE_PBS") != ""
	for _, c := range components {
		for _, s := range c {
			switch s.o.Long {
			case "help":
				e.Help = true
			case "usage":
				e.Usage = true
			case "version":
				e.Version = true
			case "verbose":
				e.Verbose++
			case "quiet":
				e.Quiet = true
			case "ignore-pbs":
				e.IgnorePBS = true
			case "chdir":
				e.Chdir = true
			case "autocomplete":
				e.Autocomplete = s.w.Value
			case "wrap":
				e.Wrap, e.HasWrap = s.w.Value, true
			}
		}
	}
	return e, nil
}

// CheckArgs checks the values on the command line alone, which sbatch does
// before it looks for the script.
func CheckArgs(in Input) error {
	components, _, err := commandLine(in.Tool, in.Args)
	if err != nil {
		return err
	}
	r := &reader{in: &in, source: CommandLine}
	for _, c := range components {
		if err := r.apply(newValues(in.Tool), c); err != nil {
			return err
		}
	}
	return nil
}

// Parse is the second pass: for each component of the job it lays script,
// environment and command line over each other and checks the whole. An
// error is an *Error.
func Parse(in Input) ([]*Values, error) {
	cli, rest, err := commandLine(in.Tool, in.Args)
	if err != nil {
		return nil, err
	}
	var script []component
	var notices []Line
	if in.Tool == Sbatch && in.Body != nil {
		if script, notices, err = directives(in.Body, in.Name, ignoresPBS(&in, cli)); err != nil {
			return nil, err
		}
	}
	all := make([]*Values, max(len(cli), len(script), 1))
	for i := range all {
		v := newValues(in.Tool)
		if i > 0 {
			v = all[i-1].component()
		}
		r := &reader{in: &in, source: Script}
		if i < len(script) {
			if err := r.apply(v, script[i].settings); err != nil {
				return nil, err
			}
			if script[i].err != nil {
				return nil, script[i].err
			}
		}
		r.source = Environment
		if err := r.environ(v); err != nil {
			return nil, err
		}
		r.source = CommandLine
		if i < len(cli) {
			if err := r.apply(v, cli[i]); err != nil {
				return nil, err
			}
		}
		v.Args = rest
		if i == 0 {
			v.Notices = notices
		}
		if err := v.verify(all[:i]); err != nil {
			return nil, err
		}
		all[i] = v
	}
	return all, nil
}

func ignoresPBS(in *Input, cli [][]setting) bool {
	for _, kv := range in.Environ {
		if strings.HasPrefix(kv, "SBATCH_IGNORE_PBS=") {
			return true
		}
	}
	return slices.ContainsFunc(cli, func(c []setting) bool {
		return slices.ContainsFunc(c, func(s setting) bool { return s.o.Long == "ignore-pbs" })
	})
}
