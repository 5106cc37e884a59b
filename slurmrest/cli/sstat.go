package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sstat", About: "what running job steps use", Flags: sstatFlags, Run: sstat})
}

var sstatFlags = []Flag{
	{Long: "allsteps", Short: 'a', Help: "all running steps of the jobs"},
	{Long: "helpformat", Short: 'e', Help: "the fields of --format"},
	{Long: "pidformat", Short: 'i', Help: "nodes and process ids of steps"},
	{Long: "jobs", Short: 'j', Arg: option.Required, Meta: "job[.step]", Join: true, Help: "these jobs or steps"},
	{Long: "noheader", Short: 'n', Help: "no header"},
	{Long: "noconvert", Help: "sizes in their own unit"},
	{Long: "format", Short: 'o', Arg: option.Required, Meta: "fields", Help: "fields to print"},
	{Long: "fields", Arg: option.Required, Meta: "fields", Help: "the same"},
	{Long: "parsable", Short: 'p', Help: "| after each field"},
	{Long: "parsable2", Short: 'P', Help: "| between fields"},
	{Long: "verbose", Short: 'v', Help: "say more"},
}

const sstatDefault = "jobid,alloctres,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages," +
	"maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov," +
	"consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite," +
	"tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot," +
	"tresusageoutave,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutmin,tresusageoutminnode,tresusageoutmintask,tresusageouttot"

// sstatNames are sstat's fields; they are sacct's of a step.
var sstatNames = []string{
	"AllocTRES", "AveCPU", "AveCPUFreq", "AveDiskRead", "AveDiskWrite", "AvePages", "AveRSS", "AveVMSize", "ConsumedEnergy", "ConsumedEnergyRaw",
	"JobID", "MaxDiskRead", "MaxDiskReadNode", "MaxDiskReadTask", "MaxDiskWrite", "MaxDiskWriteNode", "MaxDiskWriteTask", "MaxPages", "MaxPagesNode",
	"MaxPagesTask", "MaxRSS", "MaxRSSNode", "MaxRSSTask", "MaxVMSize", "MaxVMSizeNode", "MaxVMSizeTask", "MinCPU", "MinCPUNode", "MinCPUTask",
	"Nodelist", "NTasks", "Pids", "ReqCPUFreq", "ReqCPUFreqMin", "ReqCPUFreqMax", "ReqCPUFreqGov", "SLUID", "TRESUsageInAve", "TRESUsageInMax",
	"TRESUsageInMaxNode", "TRESUsageInMaxTask", "TRESUsageInMin", "TRESUsageInMinNode", "TRESUsageInMinTask", "TRESUsageInTot", "TRESUsageOutAve",
	"TRESUsageOutMax", "TRESUsageOutMaxNode", "TRESUsageOutMaxTask", "TRESUsageOutMin", "TRESUsageOutMinNode", "TRESUsageOutMinTask", "TRESUsageOutTot",
}

// sstatFields are the fields with sstat's own widths.
var sstatFields = sync.OnceValue(func() []format.TableField[format.Acct] {
	widths := map[string]int{"AveDiskRead": 12, "AveDiskWrite": 12, "Nodelist": 20}
	var out []format.TableField[format.Acct]
	for _, name := range sstatNames {
		f := format.TableField[format.Acct]{Name: name, Width: 20, Value: func(*format.Context, *format.Acct) string { return "" }}
		if i := slices.IndexFunc(format.AcctFields, func(a format.TableField[format.Acct]) bool { return strings.EqualFold(a.Name, name) }); i >= 0 {
			f = format.AcctFields[i]
		}
		f.Name = name
		if w, ok := widths[name]; ok {
			f.Width = w
		}
		out = append(out, f)
	}
	return out
})

func sstat(ctx context.Context, e *Env, in *Input) error {
	if in.Given("helpformat") {
		e.printf("%s", format.FieldNames(sstatFields()))
		return nil
	}
	targets := append(in.List("jobs"), in.Args...)
	if len(targets) == 0 {
		return failed("You didn't give me any jobs to stat.")
	}
	columns := sstatDefault
	switch {
	case in.Given("format"):
		columns = in.Str("format")
	case in.Given("fields"):
		columns = in.Str("fields")
	case in.Given("pidformat"):
		columns = "jobid,nodelist,pids"
	}
	table, bad := format.ParseTable(sstatFields(), columns)
	if bad != "" {
		return failed("Invalid field requested: %q", bad)
	}
	table.Parsable, table.NoTrail = in.Given("parsable") || in.Given("parsable2"), in.Given("parsable2")
	for _, t := range targets {
		if id, _, _ := strings.Cut(t, "."); id == "" || strings.Trim(id, "0123456789_+") != "" {
			return fatalf("Bad job/step specified: %s", t)
		}
	}
	c, err := e.Client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	if !in.Given("noheader") {
		e.printf("%s", table.Header(nil))
	}
	status := 0
	for _, t := range targets {
		id, step, _ := strings.Cut(t, ".")
		var resp wire.DBJobsResp
		if err := c.Get(ctx, "/slurmdb/"+wire.Newest+"/job/"+url.PathEscape(id), nil, &resp); err != nil {
			return failed("%s", text(err))
		}
		rows := runningSteps(&resp, step, in.Given("allsteps"))
		if len(rows) == 0 {
			if e.flush != nil {
				if err := e.flush(); err != nil {
					return err
				}
			}
			status = 1
			if step != "" {
				e.errorf("couldn't get steps for StepId=%s", t)
			} else {
				e.errorf("couldn't get steps for JobId=%s", id)
			}
			continue
		}
		f := e.format()
		f.NoConvert = in.Given("noconvert")
		var b []byte
		for i := range rows {
			b = table.Line(b, f, &rows[i])
		}
		e.printf("%s", b)
	}
	if status != 0 {
		return exit(status)
	}
	return nil
}

// runningSteps are the steps asked for that run: one by its name, all, or the
// first numbered one; a job without such shows its script.
func runningSteps(resp *wire.DBJobsResp, step string, all bool) []format.Acct {
	var rows, script []format.Acct
	for i := range resp.Jobs {
		j := &resp.Jobs[i]
		for k := range j.Steps {
			s := &j.Steps[k]
			_, name, _ := strings.Cut(s.Step.ID, ".")
			if !slices.Contains(s.State, "RUNNING") || step != "" && name != step {
				continue
			}
			row := format.Acct{Job: j, Step: s}
			if name == "batch" && step == "" && !all {
				script = append(script, row)
				continue
			}
			if rows = append(rows, row); step == "" && !all {
				return rows
			}
		}
	}
	if len(rows) == 0 {
		return script
	}
	return rows
}
