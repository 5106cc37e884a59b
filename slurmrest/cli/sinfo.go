package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sinfo", About: "list partitions and nodes", Flags: sinfoFlags, Run: sinfo})
}

var sinfoFlags = []Flag{
	{Long: "all", Short: 'a', Env: "SINFO_ALL", Help: "hidden partitions too"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Env: "SLURM_CLUSTERS", Help: "cluster to ask"},
	{Long: "dead", Short: 'd', Help: "nodes that do not respond"},
	{Long: "exact", Short: 'e', Help: "nodes with different numbers on lines of their own"},
	{Long: "federation", Env: "SINFO_FEDERATION", Help: "no federations: no effect"},
	{Long: "future", Short: 'F', Env: "SINFO_FUTURE", Help: "nodes in state FUTURE too"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "format", Help: "columns by letter"},
	{Long: "Format", Short: 'O', Arg: option.Required, Meta: "format", Help: "columns by name"},
	{Long: "noheader", Short: 'h', Help: "no header line"},
	{Long: "helpformat", Help: "list the letters of --format"},
	{Long: "helpFormat", Help: "list the names of --Format"},
	{Long: "helpstate", Help: "list the states"},
	{Long: "hide", Help: "leave hidden partitions out (default)"},
	{Long: "iterate", Short: 'i', Arg: option.Required, Meta: "seconds", Help: "print again at this interval"},
	{Long: "local", Env: "SINFO_LOCAL", Help: "no federations: no effect"},
	{Long: "long", Short: 'l', Help: "more columns"},
	{Long: "nodes", Short: 'n', Arg: option.Required, Meta: "hosts", Help: "these nodes"},
	{Long: "noconvert", Help: "sizes keep their unit"},
	{Long: "Node", Short: 'N', Help: "a line for each node and partition"},
	{Long: "partition", Short: 'p', Arg: option.Required, Meta: "names", Env: "SINFO_PARTITION", Help: "these partitions"},
	{Long: "responding", Short: 'r', Help: "nodes that respond"},
	{Long: "list-reasons", Short: 'R', Help: "why nodes are down or drained"},
	{Long: "summarize", Short: 's', Help: "a line for each partition"},
	{Long: "sort", Short: 'S', Arg: option.Required, Meta: "fields", Env: "SINFO_SORT", Help: "order of lines"},
	{Long: "states", Short: 't', Arg: option.Required, Meta: "states", Help: "nodes in these states: a,b any of; a&b all of; ~a not"},
	{Long: "reservation", Short: 'T', Help: "list reservations"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "json", Arg: option.Optional, Meta: "version", Help: "as JSON"},
	{Long: "yaml", Arg: option.Optional, Meta: "version", Help: "as YAML"},
}

func sinfo(ctx context.Context, e *Env, in *Input) error {
	switch {
	case in.Given("helpformat"):
		return helpLetters(e, format.NodeFields)
	case in.Given("helpFormat"):
		return helpNames(e, format.NodeFields)
	case in.Given("helpstate"):
		for _, s := range nodeStates {
			e.printf("%s\n", strings.ToUpper(s))
		}
		return nil
	case in.Given("reservation"):
		e.printf("No reservations in the system\n")
		return nil
	}
	keep, err := stateFilter(in)
	if err != nil {
		return err
	}
	every, err := interval(in)
	if err != nil {
		return err
	}
	c, err := e.Client(ctx)
	if err != nil {
		return fail("slurm_load_partitions: %s", text(err))
	}
	for {
		if err := printInfo(ctx, e, c, in, keep, every > 0); err != nil || every == 0 {
			return err
		}
		if err := e.flush(); err != nil {
			return err
		}
		if err := e.Sleep(ctx, every); err != nil {
			return nil //nolint:nilerr // interrupted: that is how this ends
		}
	}
}

func sinfoFormat(e *Env, in *Input) (spec string, names bool) {
	long := in.Given("long")
	switch {
	case in.Given("format"):
		return in.Str("format"), false
	case in.Given("Format"):
		return in.Str("Format"), true
	case in.Given("summarize"):
		return "%#P %.5a %.10l %.16F %N", false
	case in.Given("Node") && long:
		return "%#9N %.6D %.#9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E", false
	case in.Given("Node"):
		return "%#9N %.6D %.#9P %6t", false
	case in.Given("list-reasons") && long:
		return "%20E %12U %19H %6t %N", false
	case in.Given("list-reasons"):
		return "%20E %9u %19H %N", false
	case long:
		return "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N", false
	case e.Getenv("SINFO_FORMAT") != "":
		return e.Getenv("SINFO_FORMAT"), false
	}
	return "%#P %.5a %.10l %.6D %.6t %N", false
}

func printInfo(ctx context.Context, e *Env, c *client.Client, in *Input, keep func(*wire.Node) bool, dated bool) error {
	if in.Given("clusters") {
		if _, err := clusterName(ctx, e, c, in.Str("clusters")); err != nil {
			return err
		}
	}
	parts, err := c.Partitions(ctx, allFlag(in.Given("all") || in.Given("partition"))...)
	if err != nil {
		return fail("slurm_load_partitions: %s", text(err))
	}
	nodes, err := c.Nodes(ctx, "ALL")
	if err != nil {
		return fail("slurm_load_node: %s", text(err))
	}
	shown := visible(e, in, parts.Partitions)
	fc := e.format()
	spec, byName := sinfoFormat(e, in)
	cols, unknown := format.ByLetter(format.NodeFields, spec)
	if byName {
		cols, unknown = format.ByName(format.NodeFields, spec)
	}
	for _, u := range unknown {
		e.errorf("Invalid job format specification: %s", u)
	}
	members := membership(in, shown, nodes.Nodes, keep)
	node := in.Given("Node")
	groups := format.Group(&cols, fc, shown, func(p *wire.PartitionInfo) []*wire.Node { return members[p.Name] }, in.Given("exact"), node)
	if node || in.Given("list-reasons") {
		groups = slices.DeleteFunc(groups, func(g format.NodeGroup) bool { return len(g.Nodes) == 0 })
	}
	if in.Given("json") || in.Given("yaml") {
		return printInfoData(e, in, groups)
	}
	if err := sortGroups(in, fc, shown, groups, node); err != nil {
		return err
	}
	cols.Fit(fc, groups)
	if (in.Given("long") || dated) && !in.Given("noheader") {
		e.printf("%s\n", fc.Now.In(e.Local).Format(time.ANSIC))
	}
	var b []byte
	if !in.Given("noheader") {
		b = cols.Header(b)
	}
	for i := range groups {
		b = cols.Line(b, fc, &groups[i])
	}
	e.Stdout.Write(b) //nolint:errcheck // Main flushes and reports
	return nil
}

// allFlag asks for hidden partitions too.
func allFlag(all bool) []string {
	if all {
		return []string{"ALL"}
	}
	return nil
}

// visible keeps the partitions that are asked for and not hidden from the caller.
func visible(e *Env, in *Input, list []wire.PartitionInfo) []*wire.PartitionInfo {
	var out []*wire.PartitionInfo
	var groups []string
	for i := range list {
		p := &list[i]
		if in.Given("partition") {
			if !slices.Contains(in.List("partition"), p.Name) {
				continue
			}
		} else if !in.Given("all") && e.UID != 0 {
			if slices.Contains(p.Flags, "HIDDEN") {
				continue
			}
			if g := p.Groups.Allowed; g != "" && !strings.EqualFold(g, "ALL") {
				if groups == nil {
					groups = append(e.Users.Groups(), "")
				}
				if !overlap(strings.Split(g, ","), groups) {
					continue
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// membership finds each partition's nodes, less those that are filtered out.
func membership(in *Input, parts []*wire.PartitionInfo, nodes []wire.Node, keep func(*wire.Node) bool) map[string][]*wire.Node {
	wanted := map[string]bool{}
	if in.Given("nodes") {
		names, err := hosts(in.Str("nodes"))
		if err != nil {
			names = nil // matches nothing, as with sinfo
		}
		for _, n := range names {
			wanted[n] = true
		}
	}
	out := map[string][]*wire.Node{}
	for i := range nodes {
		n := &nodes[i]
		down := slices.Contains(n.State, "NOT_RESPONDING")
		switch {
		case in.Given("nodes") && !wanted[n.Name],
			in.Given("dead") && !down, in.Given("responding") && down,
			in.Given("list-reasons") && n.Reason == "",
			slices.Contains(n.State, "FUTURE") && !in.Given("future"),
			keep != nil && !keep(n):
			continue
		}
		for _, p := range n.Partitions {
			out[p] = append(out[p], n)
		}
	}
	return out
}

// nodeStates are the words of --states.
var nodeStates = []string{
	"unknown", "down", "idle", "allocated", "mixed", "future", "drain", "drained", "draining", "no_respond", "reserved",
	"planned", "blocked", "cloud", "completing", "powering_down", "powered_down", "power_down", "powering_up", "power_up",
	"inval", "fail", "maint", "reboot", "reboot^", "external", "dynamic_future", "dynamic_norm",
}

// stateFilter reads --states: words with commas between of which one must hold,
// or with & or + of which all must; ~ and ! negate.
func stateFilter(in *Input) (func(*wire.Node) bool, error) {
	text := in.Str("states")
	if !in.Given("states") || strings.EqualFold(text, "all") {
		return nil, nil //nolint:nilnil // no filter is a value here
	}
	var any [][]func(*wire.Node) bool
	for _, part := range strings.Split(text, ",") {
		var all []func(*wire.Node) bool
		for _, w := range strings.FieldsFunc(part, func(r rune) bool { return r == '&' || r == '+' }) {
			word := strings.TrimLeft(w, "~!")
			test := nodeStateTest(strings.ToLower(word))
			if test == nil {
				return nil, &option.Error{Exit: 1, Lines: []option.Line{
					{Level: option.Err, Text: fmt.Sprintf("Bad state string: %q", text)},
					{Level: option.Err, Text: "valid states: " + strings.Join(nodeStates, ",")},
				}}
			}
			if len(word) < len(w) {
				plain := test
				test = func(n *wire.Node) bool { return !plain(n) }
			}
			all = append(all, test)
		}
		any = append(any, all)
	}
	return func(n *wire.Node) bool {
		return slices.ContainsFunc(any, func(all []func(*wire.Node) bool) bool {
			return !slices.ContainsFunc(all, func(t func(*wire.Node) bool) bool { return !t(n) })
		})
	}, nil
}

func nodeStateTest(word string) func(*wire.Node) bool {
	has := func(names ...string) func(*wire.Node) bool {
		return func(n *wire.Node) bool { return overlap(names, n.State) }
	}
	busy := has("ALLOCATED", "MIXED", "COMPLETING")
	drain := has("DRAIN")
	switch word {
	case "alloc":
		word = "allocated"
	case "mix":
		word = "mixed"
	case "comp":
		word = "completing"
	case "drng":
		word = "draining"
	case "maint":
		return has("MAINTENANCE")
	case "no_respond", "noresp":
		return has("NOT_RESPONDING")
	case "inval":
		return has("INVALID_REG")
	case "reboot", "boot":
		return has("REBOOT_REQUESTED", "REBOOT_ISSUED")
	case "reboot^":
		return has("REBOOT_ISSUED")
	case "plnd":
		word = "planned"
	case "resv":
		word = "reserved"
	}
	switch word {
	case "drained":
		return func(n *wire.Node) bool { return drain(n) && !busy(n) }
	case "draining":
		return func(n *wire.Node) bool { return drain(n) && busy(n) }
	case "drain":
		return drain
	case "idle":
		return func(n *wire.Node) bool {
			_, compact := format.NodeState(n.State)
			return strings.HasPrefix(compact, "idle")
		}
	case "allocated":
		return func(n *wire.Node) bool { return slices.Contains(n.State, "ALLOCATED") && !drain(n) }
	case "mixed":
		return func(n *wire.Node) bool { return slices.Contains(n.State, "MIXED") && !drain(n) }
	}
	if slices.Contains(nodeStates, word) {
		return has(strings.ToUpper(word))
	}
	return nil
}

// sortGroups orders lines; # is the order of the configuration.
func sortGroups(in *Input, fc *format.Context, parts []*wire.PartitionInfo, groups []format.NodeGroup, node bool) error {
	keys := "#P,-t"
	switch {
	case in.Given("sort"):
		keys = in.Str("sort")
	case node:
		keys = "N"
	case in.Given("list-reasons"):
		keys = "E"
	}
	order := map[*wire.PartitionInfo]int{}
	for i, p := range parts {
		order[p] = i
	}
	type key struct {
		name       string
		down, conf bool
	}
	var list []key
	for _, w := range strings.Split(keys, ",") {
		var k key
		for w = strings.TrimSpace(w); w != "" && strings.ContainsRune("+-#", rune(w[0])); w = w[1:] {
			k.down = k.down || w[0] == '-'
			k.conf = k.conf || w[0] == '#'
		}
		k.name = w
		if len(w) != 1 || !slices.ContainsFunc(format.NodeFields, func(f format.Field[format.NodeGroup]) bool { return f.Letter == w[0] }) {
			return failed("Invalid sort specification: %s", w)
		}
		list = append(list, k)
	}
	slices.SortStableFunc(groups, func(a, b format.NodeGroup) int {
		for _, k := range list {
			var c int
			switch {
			case k.conf:
				c = order[a.Part] - order[b.Part]
			case k.name == "t" || k.name == "T":
				c = groupState(&a) - groupState(&b)
			default:
				c = compareColumn(fc, k.name[0], &a, &b)
			}
			if k.down {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

func groupState(g *format.NodeGroup) int {
	if len(g.Nodes) == 0 {
		return -1
	}
	return format.NodeStateNumber(g.Nodes[0].State)
}

// compareColumn compares printed values, by number where both are numbers.
func compareColumn(fc *format.Context, letter byte, a, b *format.NodeGroup) int {
	if letter == 'P' || letter == 'R' { // the name, without the star
		return strings.Compare(partName(a), partName(b))
	}
	for i := range format.NodeFields {
		if f := &format.NodeFields[i]; f.Letter == letter {
			x, y := f.Value(fc, a), f.Value(fc, b)
			if len(x) != len(y) && startsWithDigit(x) && startsWithDigit(y) {
				return len(x) - len(y)
			}
			return strings.Compare(x, y)
		}
	}
	return 0
}

func partName(g *format.NodeGroup) string {
	if g.Part == nil {
		return ""
	}
	return g.Part.Name
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
