package option

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
)

// verify checks options against each other, after all sources were read.
// earlier are the components before this one. The sentences are sbatch 26.05's.
func (v *Values) verify(earlier []*Values) error {
	if err := v.exclusiveSets(); err != nil {
		return err
	}
	switch {
	case v.Given("verbose") && v.Given("quiet"):
		return failure("don't specify both --verbose (-v) and --quiet (-Q)")
	case len(earlier) > 0 && (v.Given("array") || earlier[0].Given("array")):
		return fatal("Job arrays and heterogeneous jobs may not be combined.")
	}
	if err := v.verifyGPUs(); err != nil {
		return err
	}
	if err := v.verifySize(); err != nil {
		return err
	}
	notices := &v.Notices
	if len(earlier) > 0 {
		notices = &earlier[0].Notices
	}
	v.ignored(notices)
	if n := int(v.Num("ntasks")); v.Given("ntasks") && v.NodesMin > n {
		*notices = append(*notices, Line{Warning, fmt.Sprintf("can't run %d processes on %d nodes, setting nnodes to %d", n, v.NodesMin, n)})
		v.NodesMin = n
		if v.NodesMax > n {
			v.NodesMax = n
		}
	}
	return v.refused()
}

// noGres is how the check of a request for generic resources ends.
func noGres(format string, a ...any) error {
	return &Error{Exit: ExitError, Lines: []Line{
		{Err, fmt.Sprintf(format, a...)},
		{Err, "Invalid generic resource (gres) specification"},
	}}
}

// verifyGPUs checks what is asked for each GPU against the GPUs asked for.
func (v *Values) verifyGPUs() error {
	perTask := v.Given("gpus-per-task") || strings.Contains(v.Str("tres-per-task"), "gres/gpu")
	sized := v.Given("ntasks") || v.NodesMin > 0
	some := perTask || v.Given("gpus") || v.Given("gpus-per-node") || v.Given("gpus-per-socket") || gresHasGPU(v.Str("gres")) ||
		v.Given("ntasks-per-gpu") && sized
	switch {
	case v.Tool == Srun: // a step may have its GPUs from the job
	case v.Given("gpus-per-node") && gresHasGPU(v.Str("gres")):
		return fatal("--gpus-per-node and --gres=gpu are mutually exclusive.")
	case v.Given("tres-per-task") && v.cpusOfTask > 0 && v.Given("cpus-per-task"):
		return fatal("You can not have --tres-per-task=cpu= and --cpus-per-task please use one or the other")
	case perTask && !v.Given("gpus") && !sized:
		return noGres("Failed to validate job spec. --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is not allowed.")
	case v.Given("gpus-per-socket") && !v.Given("sockets-per-node"):
		return noGres("--gpus-per-socket option requires --sockets-per-node specification")
	case v.Given("ntasks-per-gpu") && !some:
		return noGres("gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification")
	case v.Given("mem-per-gpu") && !some:
		return noGres("Requested mem_per_tres=gres/gpu:%d but did not request any GPU.", v.Num("mem-per-gpu"))
	case v.Given("cpus-per-gpu") && !some:
		return noGres("Requested cpus_per_tres=gres/gpu:%d but did not request any GPU.", v.Num("cpus-per-gpu"))
	}
	return nil
}

// verifySize checks node counts and lists; a node list alone says how many
// nodes the job has.
func (v *Values) verifySize() error {
	if v.Tool == Srun {
		return nil
	}
	layout, _, _ := strings.Cut(strings.ToLower(v.Str("distribution")), ":")
	if layout == "arbitrary" && !v.Given("nodelist") {
		return failure("With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option")
	}
	if n := int(v.Num("segment")); n > 0 && v.NodesMin > 0 && v.NodesMin%n != 0 {
		return fatal("--segment=%d does not fit the job size (%d): node count must be evenly divisible by segment size", n, v.NodesMin)
	}
	if v.Given("resv-ports") && !v.Given("stepmgr") {
		return failure("Slurmstepd step management must be enabled to use --resv-ports for job allocations")
	}
	if strings.EqualFold(v.Str("requeue"), "expedite") {
		return failure("Batch job submission failed: Requested operation not supported on this system")
	}
	if v.NodesMin == 0 && v.Given("nodelist") {
		names, err := hostlist.Parse(v.Str("nodelist"))
		if err != nil {
			return badHosts(err)
		}
		slices.Sort(names)
		v.NodesMin = len(slices.Compact(names))
	}
	return nil
}

// ignored drops what a cluster does not let its users choose, with Slurm's line.
func (v *Values) ignored(notices *[]Line) {
	for _, o := range []struct{ name, shown string }{{"core-spec", "-S"}, {"thread-spec", "--thread-spec"}} {
		if v.Given(o.name) {
			v.clear(find(o.name))
			*notices = append(*notices, Line{Err, "Ignoring " + o.shown + " since it's not allowed by configuration (AllowSpecResourcesUsage = No)"})
		}
	}
}

// exclusiveSets lets an option of the command line, or else of the
// environment, displace those that exclude it.
func (v *Values) exclusiveSets() error {
	for _, set := range []struct {
		names []string
		text  string
	}{
		{[]string{"mem", "mem-per-cpu", "mem-per-gpu"}, "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."},
		{[]string{"cpus-per-task", "cpus-per-gpu"}, "--cpus-per-task, --tres-per-task=cpu:#, and --cpus-per-gpu are mutually exclusive"},
		{[]string{"exclusive", "oversubscribe"}, "--exclusive and --oversubscribe options are mutually exclusive"},
		{[]string{"core-spec", "thread-spec"}, "-S/--core-spec and --thred-spec options are mutually exclusive"}, // Slurm's spelling
	} {
		var best Source
		for _, n := range set.names {
			best = max(best, v.Source(n))
		}
		given := 0
		for _, n := range set.names {
			switch {
			case v.Source(n) == best && best != Unset:
				given++
			case best > Script:
				v.clear(find(n))
			}
		}
		if given > 1 && best == CommandLine {
			return fatal("%s", set.text)
		}
	}
	return nil
}

func gresHasGPU(gres string) bool {
	for _, g := range splitList(gres) {
		name, _, _ := strings.Cut(strings.TrimPrefix(g, "gres/"), ":")
		name, _, _ = strings.Cut(name, "=")
		if name == "gpu" {
			return true
		}
	}
	return false
}

// refused answers options under which the job would come out wrong.
func (v *Values) refused() error {
	what := "Batch job submission failed: "
	if v.Tool != Sbatch {
		what = "Unable to allocate resources: "
	}
	for _, o := range table {
		if o.Do != Refused || v.src[o.index] == Unset {
			continue
		}
		if o.Long == "reboot" {
			return &Error{Exit: ExitError, Lines: []Line{
				{Err, "rebooting of nodes is only allowed for admins"}, {Err, what + "Access/permission denied"},
			}}
		}
		return notSupported("--"+o.Long+" is not supported here: "+o.Why, what)
	}
	if v.Num("checkpoint-interval") == AutoInterval {
		return notSupported("--checkpoint-interval=auto is not supported here: say minutes", what)
	}
	return nil
}

func notSupported(why, what string) error {
	return &Error{Exit: ExitError, Lines: []Line{{Err, why}, {Err, what + "Requested operation not supported on this system"}}}
}
