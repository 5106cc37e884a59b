package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// wide is a column's width, which percentages make wider.
func (r *reporter) wide(plain, percent int) int {
	if r.unit == "Percent" || r.per {
		return percent
	}
	return plain
}

func (r *reporter) withTRES(columns ...reportColumn) []reportColumn {
	if !r.in.Given("tres") {
		return columns
	}
	at := slices.IndexFunc(columns, func(c reportColumn) bool { return c.header == "Used" || c.header == "Allocated" })
	return slices.Insert(columns, at, reportColumn{header: "TRES Name", width: 14})
}

// row puts the name of the TRES into its place.
func (r *reporter) row(at int, tres string, cells ...string) []string {
	if !r.in.Given("tres") {
		return cells
	}
	return slices.Insert(cells, at, tres)
}

var clusterReports = []reportKind{
	{name: "AccountUtilizationByUser", title: "Cluster/Account/User Utilization", secs: true, make: byAccount, columns: func(r *reporter) []reportColumn {
		return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "Account", width: r.accountWidth()}, reportColumn{header: "Login", width: 9}, reportColumn{header: "Proper Name", width: 15}, reportColumn{header: "Used", width: r.wide(8, 18)}, reportColumn{header: "Energy", width: r.wide(8, 18)})
	}},
	{name: "AccountUtilizationByQOS", title: "Cluster/Account/QOS Utilization", secs: true, make: grouped(func(j *wire.DBJob) []string { return []string{j.Account, j.QOS} }), columns: func(r *reporter) []reportColumn {
		return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "Account", width: 15}, reportColumn{header: "QOS", width: 9}, reportColumn{header: "Used", width: r.wide(8, 18)}, reportColumn{header: "Energy", width: r.wide(8, 18)})
	}},
	{name: "UserUtilizationByAccount", title: "Cluster/User/Account Utilization", secs: true, make: byUser, columns: userColumns},
	{name: "UserUtilizationByWckey", title: "Cluster/User/WCKey Utilization", secs: true, make: grouped(func(j *wire.DBJob) []string { return keyed(j, j.User, "", j.Wckey.Wckey) }), columns: func(r *reporter) []reportColumn {
		return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "Login", width: 9}, reportColumn{header: "Proper Name", width: 15}, reportColumn{header: "WCKey", width: 15}, reportColumn{header: "Used", width: r.wide(8, 18)})
	}},
	{name: "Utilization", title: "Cluster Utilization", make: utilization, columns: func(r *reporter) []reportColumn {
		return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "Allocated", width: r.wide(8, 20)}, reportColumn{header: "Down", width: r.wide(8, 18)}, reportColumn{header: "PLND Down", width: r.wide(8, 18)},
			reportColumn{header: "Idle", width: r.wide(8, 20)}, reportColumn{header: "Planned", width: r.wide(8, 18)}, reportColumn{header: "Reported", width: r.wide(8, 20)})
	}},
	{name: "WCKeyUtilizationByUser", title: "Cluster/WCKey/User Utilization", secs: true, make: grouped(func(j *wire.DBJob) []string { return keyed(j, j.Wckey.Wckey, j.User, "") }), columns: func(r *reporter) []reportColumn {
		return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "WCKey", width: 15}, reportColumn{header: "Login", width: 9}, reportColumn{header: "Proper Name", width: 15}, reportColumn{header: "Used", width: r.wide(8, 18)})
	}},
}

var userReports = []reportKind{{name: "TopUsage", secs: true, make: topUsers, columns: userColumns}}

var jobReports = []reportKind{
	{name: "SizesByAccount", title: "Job Sizes", jobs: true, secs: true, make: sizes(func(j *wire.DBJob) string { return j.Account }), columns: sizeColumns("Account", 9)},
	{name: "SizesByAccountAndWckey", title: "Job Sizes", jobs: true, secs: true, make: sizes(func(j *wire.DBJob) string { return j.Account + ":" + j.Wckey.Wckey }), columns: sizeColumns("Account", -20)},
	{name: "SizesByWckey", title: "Job Sizes by Wckey", jobs: true, secs: true, make: sizes(func(j *wire.DBJob) string { return j.Wckey.Wckey }), columns: sizeColumns("Wckey", 9)},
}

var reservationReports = []reportKind{
	{name: "Utilization", title: "Reservation Utilization", make: func(*reporter) [][]string { return nil }, columns: func(*reporter) []reportColumn {
		return []reportColumn{
			{header: "Cluster", width: 9}, {header: "Name", width: 9}, {header: "Start", width: 19}, {header: "End", width: 19},
			{header: "TRES Name", width: 14}, {header: "Allocated", width: 20}, {header: "Idle", width: 20},
		}
	}},
}

func userColumns(r *reporter) []reportColumn {
	return r.withTRES(reportColumn{header: "Cluster", width: 9}, reportColumn{header: "Login", width: 9}, reportColumn{header: "Proper Name", width: 15}, reportColumn{header: "Account", width: 15}, reportColumn{header: "Used", width: r.wide(8, 18)}, reportColumn{header: "Energy", width: r.wide(8, 18)})
}

func (r *reporter) accountWidth() int {
	if r.options.tree {
		return -20
	}
	return 15
}

// print prints the banner and the table.
func (r *reporter) print(p *reportKind) {
	cols := p.columns(r)
	at := r.chosen(&cols)
	if !r.in.Given("noheader") {
		r.banner(p)
	}
	parsable := r.in.Given("parsable") || r.in.Given("parsable2")
	line := func(cells []string, header bool) {
		var b []byte
		for i, c := range cols {
			cell := cells[c.at]
			if parsable {
				b = append(b, cell...)
				if i+1 < len(cols) || r.in.Given("parsable") {
					b = append(b, '|')
				}
				continue
			}
			width := max(c.width, -c.width)
			if len(cell) > width {
				cell = cell[:width]
				if !header {
					cell = cell[:width-1] + "+"
				}
			}
			b = append(format.Pad(b, cell, width, c.width > 0), ' ')
		}
		r.e.printf("%s\n", b)
	}
	if !r.in.Given("noheader") {
		heads, dashes := make([]string, len(p.columns(r))), make([]string, len(p.columns(r)))
		for i, c := range cols {
			heads[at[i]], dashes[at[i]] = c.header, strings.Repeat("-", max(c.width, -c.width))
		}
		line(heads, true)
		if !parsable {
			line(dashes, true)
		}
	}
	for _, cells := range p.make(r) {
		line(cells, false)
	}
}

// chosen leaves the columns that format= names, and says which cells they show.
func (r *reporter) chosen(cols *[]reportColumn) []int {
	all := *cols
	for i := range all {
		all[i].at = i
	}
	if r.options.format != "" {
		*cols = nil
		for _, item := range csv(r.options.format) {
			name, width, _ := strings.Cut(item, "%")
			i := slices.IndexFunc(all, func(c reportColumn) bool { return abbreviates(name, strings.ReplaceAll(c.header, " ", ""), 1) })
			if i < 0 {
				fmt.Fprintf(r.e.Stderr, " Unknown field '%s'\n", name)
				continue
			}
			c := all[i]
			if w, err := strconv.Atoi(width); err == nil && w != 0 {
				c.width = w
			}
			*cols = append(*cols, c)
		}
	}
	at := make([]int, len(*cols))
	for i, c := range *cols {
		at[i] = c.at
	}
	return at
}

func (r *reporter) banner(p *reportKind) {
	title := p.title
	if p.name == "TopUsage" {
		title = fmt.Sprintf("Top %d Users", r.options.top)
	}
	const stamp = "2006-01-02T15:04:05"
	title += " " + r.start.In(r.e.Local).Format(stamp) + " - " + r.end.In(r.e.Local).Format(stamp)
	if p.secs {
		title += fmt.Sprintf(" (%d secs)", r.end.Unix()-r.start.Unix()+1)
	}
	of := "CPU"
	if r.in.Given("tres") || p.title == "Reservation Utilization" {
		of = "TRES"
	}
	usage := "Usage reported in " + of + " " + r.unit
	switch {
	case r.unit == "Percent":
		usage = "Usage reported in Percentage of Total"
	case r.per:
		usage += "/Percentage of Total"
	case p.jobs:
		usage = "Time reported in " + r.unit
	}
	bar := strings.Repeat("-", 80)
	r.e.printf("%s\n%s\n%s\n%s\n", bar, title, usage, bar)
}

// utilization: what of the cluster was given to jobs. How long nodes were down
// isn't kept, so that time counts as idle.
func utilization(r *reporter) [][]string {
	var out [][]string
	for _, name := range r.tres {
		whole := r.total[name]
		if whole == 0 {
			continue
		}
		var given float64
		for i := range r.jobs {
			given += r.used(&r.jobs[i], name)
		}
		given = min(given, whole)
		zero := r.amount(0, whole)
		out = append(out, r.row(1, name, r.cluster, r.amount(given, whole), zero, zero, r.amount(whole-given, whole), zero, r.amount(whole, whole)))
	}
	return out
}

// keyed is a group of a job, none where its wckey is empty.
func keyed(j *wire.DBJob, cells ...string) []string {
	if j.Wckey.Wckey == "" {
		return nil
	}
	return cells
}

// grouped makes a report with a row for each group of jobs.
func grouped(of func(*wire.DBJob) []string) func(*reporter) [][]string {
	return func(r *reporter) [][]string {
		var out [][]string
		for _, name := range r.tres {
			sums, cells := map[string]float64{}, map[string][]string{}
			for i := range r.jobs {
				g := of(&r.jobs[i])
				if used := r.used(&r.jobs[i], name); g != nil && used > 0 {
					key := strings.Join(g, "\x00")
					sums[key], cells[key] = sums[key]+used, g
				}
			}
			for _, key := range sortedKeys(sums) {
				row := append([]string{r.cluster}, cells[key]...)
				at := len(row)
				row = append(row, r.amount(sums[key], r.total[name]), r.amount(0, 0))
				out = append(out, r.row(at, name, row...))
			}
		}
		return out
	}
}

func sortedKeys(m map[string]float64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// byAccount walks the tree: an account with all below it, then its users.
func byAccount(r *reporter) [][]string {
	var out [][]string
	for _, name := range r.tres {
		for i := range r.assocs {
			a := &r.assocs[i]
			if a.Cluster != r.cluster || a.Partition != "" {
				continue
			}
			used := r.under(a, name)
			if used == 0 {
				continue
			}
			account := a.Account
			if r.options.tree {
				account = strings.Repeat(" ", max(0, strings.Count(a.Lineage, "/")-1)) + account
			}
			out = append(out, r.row(4, name, r.cluster, account, a.User, "", r.amount(used, r.total[name]), r.amount(0, 0)))
		}
	}
	return out
}

// under is what the jobs of an association and of those below it used. Jobs that
// belong to none are in no account's sum.
func (r *reporter) under(a *wire.Assoc, name string) float64 {
	var sum float64
	for i := range r.jobs {
		j := &r.jobs[i]
		k := slices.IndexFunc(r.assocs, func(o wire.Assoc) bool {
			return o.Cluster == r.cluster && o.Account == j.Account && o.User == j.User && (o.Partition == "" || o.Partition == j.Partition)
		})
		if k >= 0 && strings.HasPrefix(r.assocs[k].Lineage, a.Lineage) {
			sum += r.used(j, name)
		}
	}
	return sum
}

func byUser(r *reporter) [][]string {
	return grouped(func(j *wire.DBJob) []string {
		if j.Account == "" {
			return nil
		}
		return []string{j.User, "", j.Account}
	})(r)
}

// topUsers are those who used most; with Group all accounts of a user are one row.
func topUsers(r *reporter) [][]string {
	name := r.tres[0]
	sums, accounts := map[string]float64{}, map[string][]string{}
	for i := range r.jobs {
		j := &r.jobs[i]
		used := r.used(j, name)
		if used == 0 || j.Account == "" {
			continue
		}
		key := j.User
		if !r.options.group {
			key += "\x00" + j.Account
		}
		sums[key] += used
		if !slices.Contains(accounts[key], j.Account) {
			accounts[key] = append(accounts[key], j.Account)
		}
	}
	keys := sortedKeys(sums)
	slices.SortStableFunc(keys, func(x, y string) int { return cmp.Compare(sums[y], sums[x]) })
	var out [][]string
	for _, key := range keys[:min(len(keys), max(r.options.top, 0))] {
		user, _, _ := strings.Cut(key, "\x00")
		out = append(out, r.row(4, name, r.cluster, user, "", strings.Join(accounts[key], ","), r.amount(sums[key], r.total[name]), r.amount(0, 0)))
	}
	return out
}

func sizeColumns(of string, width int) func(*reporter) []reportColumn {
	return func(r *reporter) []reportColumn {
		cols := []reportColumn{{header: "Cluster", width: 9}, {header: of, width: width}}
		low := int64(0)
		for _, g := range r.options.grouping {
			cols = append(cols, reportColumn{header: fmt.Sprintf("%d-%d CPUs", low, g-1), width: 13})
			low = g
		}
		cols = append(cols, reportColumn{header: fmt.Sprintf(">= %d CPUs", low), width: 13})
		if r.options.count {
			return cols
		}
		return append(cols, reportColumn{header: "Total Count", width: 11}, reportColumn{header: "% of cluster", width: 12})
	}
}

// sizes makes a report of how large jobs were: CPU time, or with PrintJobCount
// their number, by group of sizes.
func sizes(of func(*wire.DBJob) string) func(*reporter) [][]string {
	return func(r *reporter) [][]string {
		type sums struct {
			by          []float64
			total, jobs float64
		}
		all, whole := map[string]*sums{}, 0.0
		for i := range r.jobs {
			j := &r.jobs[i]
			used := r.used(j, "cpu")
			if used == 0 || of(j) == "" {
				continue
			}
			s := all[of(j)]
			if s == nil {
				s = &sums{by: make([]float64, len(r.options.grouping)+1)}
				all[of(j)] = s
			}
			var cpus int64
			for k := range j.TRES.Allocated {
				if t := &j.TRES.Allocated[k]; t.Type == "cpu" {
					cpus = t.Count
				}
			}
			at := slices.IndexFunc(r.options.grouping, func(g int64) bool { return cpus < g })
			if at < 0 {
				at = len(r.options.grouping)
			}
			if r.options.count {
				s.by[at]++
			} else {
				s.by[at] += used
			}
			s.total, s.jobs, whole = s.total+used, s.jobs+1, whole+used
		}
		var out [][]string
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			s := all[name]
			row := []string{r.cluster, name}
			for _, v := range s.by {
				if r.options.count {
					row = append(row, fmt.Sprintf("%.0f", v))
				} else {
					row = append(row, r.amount(v, whole))
				}
			}
			if !r.options.count {
				row = append(row, fmt.Sprintf("%.0f", s.jobs), fmt.Sprintf("%.2f%%", 100*s.total/whole))
			}
			out = append(out, row)
		}
		return out
	}
}
