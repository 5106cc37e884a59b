package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sreport", About: "reports from accounting", Args: "TYPE REPORT [OPTION=VALUE...]", Brief: 'h', Flags: sreportFlags, Run: sreport})
}

var sreportFlags = []Flag{
	{Long: "all_clusters", Short: 'a', Help: "one cluster: no effect"},
	{Long: "cluster", Short: 'M', Arg: option.Required, Meta: "names", Help: "one cluster: no effect"},
	{Long: "federation", Help: "one cluster: no effect"},
	{Long: "local", Help: "one cluster: no effect"},
	{Long: "noheader", Short: 'n', Help: "no header"},
	{Long: "parsable", Short: 'p', Help: "| after each field"},
	{Long: "parsable2", Short: 'P', Help: "| between fields"},
	{Long: "quiet", Short: 'Q', Help: "no messages but errors"},
	{Long: "time", Short: 't', Arg: option.Required, Meta: "unit", Help: "Seconds, Minutes, Hours, Percent, SecPer, MinPer or HourPer"},
	{Long: "tres", Short: 'T', Arg: option.Required, Meta: "names", Help: "report these TRES"},
	{Long: "verbose", Short: 'v', Help: "say more"},
}

// reporter is one report being made.
type reporter struct {
	e  *Env
	in *Input
	c  *client.Client

	unit       string // Seconds, Minutes, Hours or Percent
	per        bool   // the part of the whole besides
	tres       []string
	start, end time.Time // whole hours; end is the last second
	options    reportOptions

	cluster string
	total   map[string]float64 // what the cluster had in that time, TRES seconds
	jobs    []wire.DBJob
	assocs  []wire.Assoc
}

// reportOptions are what stands behind the report's name.
type reportOptions struct {
	accounts, users, wckeys, partitions []string
	format                              string
	top                                 int
	grouping                            []int64
	group, flat, tree, count            bool
}

// reportKind is one kind of report.
type reportKind struct {
	name  string
	title string
	jobs  bool // a report of job sizes: its time unit stands alone
	secs  bool // the title has the length of the time
	make  func(*reporter) [][]string
	// columns are the headers with their widths.
	columns func(*reporter) []reportColumn
}

type reportColumn struct {
	header string
	width  int // negative: left
	at     int // its cell in a row
}

var units = []struct {
	name string
	unit string
	per  bool
}{
	{"SecPer", "Seconds", true}, {"MinPer", "Minutes", true}, {"HourPer", "Hours", true},
	{"Seconds", "Seconds", false}, {"Minutes", "Minutes", false}, {"Hours", "Hours", false}, {"Percent", "Percent", false},
}

// reportTypes are the kinds of reports by their first word.
var reportTypes = []struct {
	name    string
	reports []reportKind
	valid   string
}{
	{"cluster", clusterReports, `"AccountUtilizationByUser", "AccountUtilizationByQOS", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", and "WCKeyUtilizationByUser"`},
	{"job", jobReports, `"SizesByAccount", "SizesByAccountAndWcKey", and "SizesByWckey"`},
	{"reservation", reservationReports, `"Utilization"`},
	{"user", userReports, `"TopUsage"`},
}

func sreport(ctx context.Context, e *Env, in *Input) error {
	r := &reporter{e: e, in: in, unit: "Minutes"}
	if in.Given("time") {
		i := slices.IndexFunc(units, func(u struct {
			name string
			unit string
			per  bool
		}) bool {
			return abbreviates(in.Str("time"), u.name, 1)
		})
		if i < 0 {
			return fail("unknown time format %s", in.Str("time"))
		}
		r.unit, r.per = units[i].unit, units[i].per
	}
	r.tres = []string{tres.CPU}
	if in.Given("tres") {
		r.tres = in.List("tres")
	}
	if len(in.Args) == 0 {
		e.printf("sreport: \n")
		return nil
	}
	kind := slices.IndexFunc(reportTypes, func(t struct {
		name    string
		reports []reportKind
		valid   string
	}) bool {
		return abbreviates(in.Args[0], t.name, 1)
	})
	switch {
	case kind < 0:
		return fail("invalid keyword: %s", in.Args[0])
	case len(in.Args) == 1:
		return fail("too few arguments for keyword:%s", in.Args[0])
	}
	t := &reportTypes[kind]
	i := slices.IndexFunc(t.reports, func(p reportKind) bool { return abbreviates(in.Args[1], p.name, 1) })
	if i < 0 {
		return fail("Not valid report %s\nValid %s reports are, %s", in.Args[1], t.name, t.valid)
	}
	if err := r.parse(in.Args[2:]); err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	r.print(&t.reports[i])
	return nil
}

// parse reads options; the time is yesterday unless it says otherwise.
func (r *reporter) parse(args []string) error {
	now := r.e.Now().In(r.e.Local)
	y, m, d := now.Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, r.e.Local)
	start, end := today.AddDate(0, 0, -1), today
	o := &r.options
	o.top, o.grouping = 10, []int64{50, 250, 500, 1000}
	for _, arg := range args {
		key, _, value := split(arg)
		if key == "" {
			key = value
		}
		var to *time.Time
		switch {
		case abbreviates(key, "start", 1):
			to = &start
		case abbreviates(key, "end", 1):
			to = &end
		case abbreviates(key, "accounts", 3):
			o.accounts = csv(strings.ToLower(value))
		case abbreviates(key, "users", 1):
			o.users = csv(value)
		case abbreviates(key, "wckeys", 1):
			o.wckeys = csv(value)
		case abbreviates(key, "partitions", 1):
			o.partitions = csv(value)
		case abbreviates(key, "format", 1):
			o.format = value
		case abbreviates(key, "topcount", 2):
			fmt.Sscanf(value, "%d", &o.top) //nolint:errcheck // what is no number leaves ten
		case abbreviates(key, "group", 5):
			o.group = true
		case abbreviates(key, "grouping", 6):
			if value != "individual" {
				o.grouping = nil
				for _, w := range csv(value) {
					var n int64
					if _, err := fmt.Sscanf(w, "%d", &n); err != nil {
						return fail(" Unknown condition: %s", arg)
					}
					o.grouping = append(o.grouping, n)
				}
			}
		case abbreviates(key, "flatview", 2):
			o.flat = true
		case abbreviates(key, "printjobcount", 2):
			o.count = true
		case abbreviates(key, "tree", 4):
			o.tree = true
		case abbreviates(key, "clusters", 1), abbreviates(key, "all_clusters", 1), abbreviates(key, "nodes", 1), abbreviates(key, "names", 1),
			abbreviates(key, "gid", 3), abbreviates(key, "jobs", 1), abbreviates(key, "where", 5), abbreviates(key, "set", 3):
		default:
			return fail(" Unknown condition: %s", arg)
		}
		if to == nil {
			continue
		}
		at, err := tres.ParsePastTime(value, now)
		if err != nil {
			r.e.rawf("%s", err)
			continue
		}
		*to = at
	}
	r.start = start.Truncate(time.Hour)
	r.end = end.Truncate(time.Hour).Add(time.Hour - time.Second)
	return nil
}

// load asks for the jobs of that time and for what the cluster had.
func (r *reporter) load(ctx context.Context) error {
	c, err := r.e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	var clusters wire.ClustersResp
	var assocs wire.AssocsResp
	var added wire.AcctTxns
	db := "/slurmdb/" + wire.Newest
	jobs, err := c.DBJobs(ctx, url.Values{
		"start_time": {itoa(r.start.Unix())}, "end_time": {itoa(r.end.Unix())}, "show_duplicates": {"true"}, "skip_steps": {"true"},
	})
	for _, get := range []func() error{
		func() error { return c.Get(ctx, db+"/clusters/", nil, &clusters) },
		func() error { return c.Get(ctx, db+"/associations/", nil, &assocs) },
		func() error {
			return c.Get(ctx, "/sbatchd/v1/transactions", url.Values{"action": {"Add Clusters"}}, &added)
		},
	} {
		if err == nil {
			err = get()
		}
	}
	if err != nil {
		return failed("%s", text(err))
	}
	r.assocs, r.total = assocs.Associations, map[string]float64{}
	i := slices.IndexFunc(clusters.Clusters, func(c wire.ClusterRec) bool { return c.Nodes != "" })
	if i < 0 {
		return nil
	}
	own := &clusters.Clusters[i]
	r.cluster = own.Name
	from := r.start
	for _, t := range added.Transactions {
		if t.Where == own.Name && t.Time.After(from) {
			from = t.Time // nothing is reported of the time before
		}
	}
	if secs := r.until().Sub(from).Seconds(); secs > 0 {
		for k := range own.TRES {
			r.total[tresName(&own.TRES[k])] = float64(own.TRES[k].Count) * secs
		}
	}
	r.jobs = slices.DeleteFunc(jobs.Jobs, func(j wire.DBJob) bool {
		o := &r.options
		return !matches(o.accounts, j.Account) || !matches(o.users, j.User) || !matches(o.partitions, j.Partition) || len(o.wckeys) > 0 && !matches(o.wckeys, j.Wckey.Wckey)
	})
	return nil
}

// until is the end of what can be reported: now at the latest.
func (r *reporter) until() time.Time {
	end := r.end.Add(time.Second)
	if now := r.e.Now(); now.Before(end) {
		return now
	}
	return end
}

// used is what a job held within the time, in TRES seconds.
func (r *reporter) used(j *wire.DBJob, name string) float64 {
	if j.Time.Start == 0 {
		return 0
	}
	start, end := time.Unix(j.Time.Start, 0), r.until()
	if j.Time.End != 0 && time.Unix(j.Time.End, 0).Before(end) {
		end = time.Unix(j.Time.End, 0)
	}
	if start.Before(r.start) {
		start = r.start
	}
	for i := range j.TRES.Allocated {
		if t := &j.TRES.Allocated[i]; tresName(t) == name && t.Count > 0 {
			return float64(t.Count) * max(0, end.Sub(start).Seconds())
		}
	}
	return 0
}

// amount prints TRES seconds in the unit asked for; whole is what 100% are.
func (r *reporter) amount(sec, whole float64) string {
	percent := "0.00%"
	if whole > 0 {
		percent = fmt.Sprintf("%.2f%%", 100*sec/whole)
	}
	var n float64
	switch r.unit {
	case "Percent":
		return percent
	case "Seconds":
		n = sec
	case "Hours":
		n = sec / 3600
	default:
		n = sec / 60
	}
	if r.per {
		return fmt.Sprintf("%.0f(%s)", n, percent)
	}
	return fmt.Sprintf("%.0f", n)
}
