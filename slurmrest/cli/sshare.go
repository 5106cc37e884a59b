package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sshare", About: "fair shares of accounts and users", Flags: sshareFlags, Run: sshare})
}

var sshareFlags = []Flag{
	{Long: "accounts", Short: 'A', Arg: option.Required, Meta: "names", Join: true, Help: "these accounts"},
	{Long: "all", Short: 'a', Help: "all users"},
	{Long: "helpformat", Short: 'e', Help: "the fields of --format"},
	{Long: "long", Short: 'l', Help: "more fields"},
	{Long: "clusters", Short: 'M', Arg: option.Required, Meta: "names", Help: "one cluster: no effect"},
	{Long: "partition", Short: 'm', Help: "partitions of associations"},
	{Long: "noheader", Short: 'n', Help: "no header"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "fields", Help: "fields to print"},
	{Long: "parsable", Short: 'p', Help: "| after each field"},
	{Long: "parsable2", Short: 'P', Help: "| between fields"},
	{Long: "users", Short: 'u', Arg: option.Required, Meta: "names", Join: true, Help: "these users"},
	{Long: "Users", Short: 'U', Help: "users only"},
	{Long: "verbose", Short: 'v', Help: "say more"},
	{Long: "json", Arg: option.Optional, Meta: "data_parser", Help: "answer as JSON"},
	{Long: "yaml", Arg: option.Optional, Meta: "data_parser", Help: "answer as YAML"},
}

// shareRow is an association of the tree.
type shareRow struct {
	*wire.AssocSharesObjWrap
	account, user string
	depth         int
}

func ratio(n wire.NumFloat) string {
	switch {
	case n.Infinite:
		return "inf"
	case !n.Set:
		return ""
	}
	return fmt.Sprintf("%f", n.Number)
}

var shareFields = []format.TableField[shareRow]{
	{Name: "Account", Width: -20, Value: func(_ *format.Context, r *shareRow) string { return strings.Repeat(" ", r.depth) + r.account }},
	{Name: "Cluster", Width: 10, Value: func(_ *format.Context, r *shareRow) string { return r.Cluster }},
	{Name: "EffectvUsage", Width: 13, Value: func(_ *format.Context, r *shareRow) string { return ratio(r.EffectiveUsage) }},
	{Name: "FairShare", Width: 10, Value: func(_ *format.Context, r *shareRow) string { return ratio(r.Fairshare.Factor) }},
	{Name: "GrpTRESMins", Width: 30, Value: func(_ *format.Context, r *shareRow) string { return shareTRES(r.TRES.GroupMinutes) }},
	{Name: "GrpTRESRaw", Width: 30, Value: func(_ *format.Context, r *shareRow) string {
		var out []string
		for _, t := range r.TRES.Usage {
			out = append(out, fmt.Sprintf("%s=%d", t.Name, int64(math.Round(t.Value/60))))
		}
		return strings.Join(out, ",")
	}},
	{Name: "ID", Width: 6, Value: func(_ *format.Context, r *shareRow) string { return itoa(r.ID) }},
	{Name: "LevelFS", Width: 10, Value: func(_ *format.Context, r *shareRow) string { return ratio(r.Fairshare.Level) }},
	{Name: "NormShares", Width: 11, Value: func(_ *format.Context, r *shareRow) string {
		return fmt.Sprintf("%f", r.SharesNormalized.Number)
	}},
	{Name: "NormUsage", Width: 11, Value: func(_ *format.Context, r *shareRow) string { return ratio(r.UsageNormalized) }},
	{Name: "Partition", Width: 12, Value: func(_ *format.Context, r *shareRow) string { return r.Partition }},
	{Name: "RawShares", Width: 10, Value: func(_ *format.Context, r *shareRow) string {
		if r.Shares.Set && r.Shares.Number == 0x7fffffff {
			return "parent"
		}
		return num(r.Shares)
	}},
	{Name: "RawUsage", Width: 11, Value: func(_ *format.Context, r *shareRow) string { return itoa(r.Usage) }},
	{Name: "TRESRunMins", Width: 30, Value: func(_ *format.Context, r *shareRow) string { return shareTRES(r.TRES.RunSeconds) }},
	{Name: "User", Width: 10, Value: func(_ *format.Context, r *shareRow) string { return r.user }},
}

// shareTRES prints what has a number.
func shareTRES(list []wire.SharesUint64TRES) string {
	var out []string
	for _, t := range list {
		if t.Value.Set {
			out = append(out, t.Name+"="+itoa(t.Value.Number))
		}
	}
	return strings.Join(out, ",")
}

func sshare(ctx context.Context, e *Env, in *Input) error {
	if in.Given("helpformat") {
		e.printf("%s", fieldNames(shareFields, 17))
		return nil
	}
	columns := "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
	switch {
	case in.Given("format"):
		columns = in.Str("format")
	case in.Given("long"):
		columns = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
	}
	if in.Given("partition") && !in.Given("format") {
		columns = strings.Replace(columns, "User,", "User,Partition,", 1)
	}
	table, bad := format.ParseTable(shareFields, columns)
	if bad != "" {
		return failed("Invalid field requested: %q", bad)
	}
	table.Parsable, table.NoTrail = in.Given("parsable") || in.Given("parsable2"), in.Given("parsable2")
	c, err := e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	var resp wire.SharesResp
	if err := c.Get(ctx, "/slurm/"+wire.Newest+"/shares", nil, &resp); err != nil {
		return fail("sshare: error: %s", text(err))
	}
	rows := shareRows(resp.Shares.Shares, shareFilter(e, in))
	if in.Given("json") || in.Given("yaml") {
		resp.Shares.Shares = nil
		for i := range rows {
			resp.Shares.Shares = append(resp.Shares.Shares, *rows[i].AssocSharesObjWrap)
		}
		return printStructured(e, in, &resp)
	}
	var b []byte
	if !in.Given("noheader") {
		b = table.Header(b)
	}
	f := e.format()
	for i := range rows {
		b = table.Line(b, f, &rows[i])
	}
	e.printf("%s", b)
	return nil
}

// shareFilter is which associations are asked for: those of the caller, unless
// -a or -u says otherwise, and all accounts, unless -A or -U does.
func shareFilter(e *Env, in *Input) func(*shareRow) bool {
	accounts, users := in.List("accounts"), in.List("users")
	if len(users) == 0 && !in.Given("all") {
		users = []string{e.Users.Name(int64(e.UID))}
	}
	return func(r *shareRow) bool {
		switch {
		case len(accounts) > 0 && !slices.Contains(accounts, r.account):
			return false
		case r.user == "":
			return !in.Given("Users")
		}
		return len(users) == 0 || slices.Contains(users, r.user) || slices.Contains(users, "-1")
	}
}

// shareRows are the associations asked for, each as deep as those above it that
// are asked for too.
func shareRows(list []wire.AssocSharesObjWrap, keep func(*shareRow) bool) []shareRow {
	depth := map[string]int{}
	var rows []shareRow
	for i := range list {
		w := &list[i]
		r := shareRow{AssocSharesObjWrap: w, account: w.Name}
		if slices.Contains(w.Type, "USER") {
			r.account, r.user = w.Parent, w.Name
		}
		if !keep(&r) {
			continue
		}
		if above, ok := depth[w.Parent]; ok {
			r.depth = above + 1
		}
		if r.user == "" {
			depth[w.Name] = r.depth
		}
		rows = append(rows, r)
	}
	return rows
}

// fieldNames prints the fields of a format, four on a line.
func fieldNames[R any](fields []format.TableField[R], width int) string {
	var b []byte
	for i := range fields {
		b = format.Pad(b, fields[i].Name, width, false)
		if i%4 == 3 || i == len(fields)-1 {
			b = append(b, '\n')
		} else {
			b = append(b, ' ')
		}
	}
	return string(b)
}
