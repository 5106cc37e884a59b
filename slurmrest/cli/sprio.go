package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sprio", About: "what makes up the priority of pending jobs", Flags: sprioFlags, Run: sprio})
}

var sprioFlags = []Flag{
	{Long: "federation", Env: "SPRIO_FEDERATION", Help: "one cluster: no effect"},
	{Long: "noheader", Short: 'h', Help: "no header"},
	{Long: "jobs", Short: 'j', Arg: option.Optional, Meta: "ids", Join: true, Help: "these jobs"},
	{Long: "local", Env: "SPRIO_LOCAL", Help: "one cluster: no effect"},
	{Long: "long", Short: 'l', Help: "all factors"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Help: "one cluster: no effect"},
	{Long: "norm", Short: 'n', Help: "normalized factors"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "format", Env: "SPRIO_FORMAT", Help: "columns"},
	{Long: "partition", Short: 'p', Arg: option.Required, Meta: "names", Help: "jobs of these partitions"},
	{Long: "sibling", Env: "SPRIO_SIBLING", Help: "one cluster: no effect"},
	{Long: "sort", Short: 'S', Arg: option.Required, Meta: "letters", Help: "order of the lines"},
	{Long: "user", Short: 'u', Arg: option.Optional, Meta: "names", Help: "jobs of these users"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "weights", Short: 'w', Help: "the weights of the factors"},
}

// prioRow is a pending job, or the line of weights.
type prioRow struct {
	*wire.JobInfo
	weights map[string]string // of the configuration; set for the line of weights
}

// factor is a column of a factor: until factors act each is 0, and of the line
// of weights it is the configured one.
func factor(key, zero string) func(*format.Context, *prioRow) string {
	return func(_ *format.Context, r *prioRow) string {
		if r.weights != nil {
			return r.weights[key]
		}
		return zero
	}
}

func ofJob(f func(*wire.JobInfo) string) func(*format.Context, *prioRow) string {
	return func(_ *format.Context, r *prioRow) string {
		if r.weights != nil {
			return ""
		}
		return f(r.JobInfo)
	}
}

const normalZero = "0.0000000"

var prioFields = []format.Field[prioRow]{
	{Letter: 'a', Header: "AGE", Value: factor("PriorityWeightAge", normalZero)}, {Letter: 'A', Header: "AGE", Value: factor("PriorityWeightAge", "0")},
	{Letter: 'b', Header: "ASSOC", Value: factor("PriorityWeightAssoc", normalZero)}, {Letter: 'B', Header: "ASSOC", Value: factor("PriorityWeightAssoc", "0")},
	{Letter: 'c', Header: "CLUSTER", Value: ofJob(func(*wire.JobInfo) string { return "(null)" })},
	{Letter: 'f', Header: "FAIRSHARE", Value: factor("PriorityWeightFairShare", normalZero)}, {Letter: 'F', Header: "FAIRSHARE", Value: factor("PriorityWeightFairShare", "0")},
	{Letter: 'i', Header: "JOBID", Value: func(_ *format.Context, r *prioRow) string {
		if r.weights != nil {
			return "Weights"
		}
		return itoa(r.JobID)
	}},
	{Letter: 'j', Header: "JOBSIZE", Value: factor("PriorityWeightJobSize", normalZero)}, {Letter: 'J', Header: "JOBSIZE", Value: factor("PriorityWeightJobSize", "0")},
	{Letter: 'n', Header: "QOSNAME", Value: ofJob(func(j *wire.JobInfo) string { return j.QOS })},
	{Letter: 'N', Header: "NICE", Value: ofJob(func(j *wire.JobInfo) string { return itoa(j.Nice) })},
	{Letter: 'o', Header: "ACCOUNT", Value: ofJob(func(j *wire.JobInfo) string { return null(j.Account) })},
	{Letter: 'p', Header: "PARTITION", Value: factor("PriorityWeightPartition", normalZero)}, {Letter: 'P', Header: "PARTITION", Value: factor("PriorityWeightPartition", "0")},
	{Letter: 'q', Header: "QOS", Value: factor("PriorityWeightQOS", normalZero)}, {Letter: 'Q', Header: "QOS", Value: factor("PriorityWeightQOS", "0")},
	{Letter: 'r', Header: "PARTITION", Value: ofJob(func(j *wire.JobInfo) string { return j.Partition })},
	{Letter: 's', Header: "SLUID", Value: ofJob(func(j *wire.JobInfo) string { return j.StepID.SLUID })},
	{Letter: 'S', Header: "SITE", Value: func(_ *format.Context, r *prioRow) string {
		if r.weights != nil {
			return "1"
		}
		return "0"
	}},
	{Letter: 't', Header: "TRES", Value: factor("PriorityWeightTRES", "")}, {Letter: 'T', Header: "TRES", Value: factor("PriorityWeightTRES", "")},
	{Letter: 'u', Header: "USER", Value: ofJob(func(j *wire.JobInfo) string { return j.UserName })},
	{Letter: 'y', Header: "PRIORITY", Value: ofJob(func(j *wire.JobInfo) string {
		return strconv.FormatFloat(float64(j.Priority.Or(0))/(1<<32-1), 'f', 14, 64)
	})},
	{Letter: 'Y', Header: "PRIORITY", Value: ofJob(func(j *wire.JobInfo) string { return itoa(j.Priority.Or(0)) })},
}

const sprioLong = "%.15i %9r %.8u %.8o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10n %.10Q %.11N %.20T"

// sprioColumns is the default format: the factors that have a weight.
func sprioColumns(in *Input, weights map[string]string) string {
	spec := "%.15i %9r"
	if in.Given("user") {
		spec += " %.8u"
	}
	norm := in.Given("norm")
	if norm {
		spec += " %10y"
	} else {
		spec += " %.10Y %.10S"
	}
	for _, f := range []struct{ key, plain, norm string }{
		{"Age", "%.10A", "%10a"}, {"Assoc", "%.10B", "%10b"}, {"FairShare", "%.10F", "%10f"}, {"JobSize", "%.10J", "%10j"},
		{"Partition", "%.10P", "%10p"}, {"QOS", "%.10Q", "%10q"}, {"TRES", "%.20T", "%20t"},
	} {
		if w := weights["PriorityWeight"+f.key]; w == "" || w == "0" || w == "(null)" {
			continue
		}
		if norm {
			spec += " " + f.norm
		} else {
			spec += " " + f.plain
		}
	}
	return spec
}

func sprio(ctx context.Context, e *Env, in *Input) error {
	c, err := e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	var conf wire.ConfigValues
	if err := c.Get(ctx, "/sbatchd/v1/config", nil, &conf); err != nil {
		return failed("%s", text(err))
	}
	if t := conf.Values["PriorityType"]; t == "priority/basic" {
		return fail("You are not running a supported priority plugin\n(%s).\nOnly 'priority/multifactor' is supported.", t)
	}
	spec := sprioColumns(in, conf.Values)
	switch {
	case in.Count("format") > 0:
		spec = in.Str("format")
	case in.Given("long"):
		spec = sprioLong
	case in.Given("format"):
		spec = in.Str("format")
	}
	cols, _ := format.ByLetter(prioFields, spec)
	f := e.format()
	var b []byte
	if !in.Given("noheader") {
		b = cols.Header(b)
	}
	if in.Given("weights") {
		e.printf("%s", cols.Line(b, f, &prioRow{weights: conf.Values}))
		return nil
	}
	users, err := sprioUsers(e, in)
	if err != nil {
		return err
	}
	rows, err := sprioJobs(ctx, e, in, users)
	if err != nil {
		return err
	}
	for i := range rows {
		b = cols.Line(b, f, &rows[i])
	}
	e.printf("%s", b)
	return nil
}

// sprioUsers are the users asked for; one that is unknown is complained about and
// passed over.
func sprioUsers(e *Env, in *Input) (map[string]bool, error) {
	if !in.Given("user") {
		return nil, nil
	}
	out := map[string]bool{}
	for _, u := range optional(in, "user") {
		id, ok := e.Users.ID(u)
		if !ok {
			e.errorf("Invalid user: %s\n", u)
			continue
		}
		out[e.Users.Name(id)] = true
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// sprioJobs are the pending jobs with a priority, in the order asked for.
func sprioJobs(ctx context.Context, e *Env, in *Input, users map[string]bool) ([]prioRow, error) {
	c, err := e.Client(ctx)
	if err != nil {
		return nil, failed("%s", text(err))
	}
	resp, err := c.Jobs(ctx, client.JobsQuery{Flags: []string{"ALL"}})
	if err != nil {
		return nil, failed("%s", text(err))
	}
	ids, parts := optional(in, "jobs"), in.List("partition")
	var rows []prioRow
	waiting := 0
	for i := range resp.Jobs {
		j := &resp.Jobs[i]
		if !slices.Contains(j.JobState, "PENDING") || j.Priority.Or(0) == 0 {
			continue
		}
		if waiting++; users != nil && !users[j.UserName] ||
			len(ids) > 0 && !slices.Contains(ids, itoa(j.JobID)) || len(parts) > 0 && !slices.Contains(parts, j.Partition) {
			continue
		}
		rows = append(rows, prioRow{JobInfo: j})
	}
	if waiting == 0 && len(ids) > 0 {
		return nil, fail("Unable to find jobs matching user/id(s) specified")
	}
	order := in.Str("sort")
	slices.SortStableFunc(rows, func(x, y prioRow) int {
		for _, key := range strings.Split(order, ",") {
			down := strings.HasPrefix(key, "-")
			n := 0
			switch strings.TrimLeft(key, "+-") {
			case "i":
				n = cmp.Compare(x.JobID, y.JobID)
			case "u":
				n = cmp.Compare(x.UserName, y.UserName)
			case "y", "Y":
				n = cmp.Compare(x.Priority.Or(0), y.Priority.Or(0))
			case "r":
				n = cmp.Compare(x.Partition, y.Partition)
			case "N":
				n = cmp.Compare(x.Nice, y.Nice)
			}
			if down {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	})
	return rows, nil
}

// optional is the value of an option that may come without one: the word behind
// it counts as well.
func optional(in *Input, long string) []string {
	if in.Given(long) && in.Str(long) == "" && len(in.Args) > 0 {
		return csv(in.Args[0])
	}
	return in.List(long)
}
