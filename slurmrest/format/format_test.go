package format_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

var ctx = &format.Context{Now: time.Date(2026, 11, 30, 8, 23, 27, 0, time.UTC), Location: time.UTC}

func pending() format.Job {
	return format.Job{JobInfo: &wire.JobInfo{
		Account: "physics", JobID: 41262, Name: "pend", Partition: "main", UserName: "alice", UserID: 1000, GroupName: "alice",
		JobState: []string{"PENDING"}, StateReason: "JobHeldUser", Comment: "cc", QOS: "normal", NodeCount: wire.N(1), CPUs: wire.N(2),
		MinimumCPUsPerNode: wire.N(2), MemoryPerNode: wire.N(300), TimeLimit: wire.N(1564), CurrentWorkingDirectory: "/home/alice/work",
		SubmitTime: wire.N(ctx.Now.Unix()), Priority: wire.N(0),
	}}
}

func running() format.Job {
	j := pending()
	j.JobID, j.Name, j.JobState, j.Nodes = 41250, "runner", []string{"RUNNING"}, "node01"
	j.StartTime, j.TimeLimit, j.StateReason = wire.N(ctx.Now.Unix()-3661), wire.N(60), "None"
	return j
}

func TestSqueueLetters(t *testing.T) {
	t.Parallel()
	array := pending()
	array.ArrayJobID, array.ArrayTaskString = wire.N(41161), "1-3,7-8%4"
	task := running()
	task.ArrayJobID, task.ArrayTaskID, task.JobState = wire.N(41161), wire.N(2), []string{"RUNNING", "CONFIGURING"}
	failed := running()
	failed.JobState, failed.StateReason, failed.EndTime = []string{"FAILED"}, "NonZeroExitCode", wire.N(ctx.Now.Unix()-3600)
	tests := []struct {
		name, spec   string
		job          format.Job
		header, line string
		unknown      []string
	}{
		{
			"default", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R", pending(),
			"             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
			"             41262      main     pend    alice PD       0:00      1 (JobHeldUser)", nil,
		},
		{
			"long", "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R", pending(),
			"             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)",
			"             41262      main     pend    alice  PENDING       0:00 1-02:04:00      1 (JobHeldUser)", nil,
		},
		{
			"start", "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R", pending(),
			"             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)",
			"             41262      main     pend    alice PD                 N/A      1 (null)               (JobHeldUser)", nil,
		},
		{"running", "%i %t %M %L %R %r", running(), "JOBID ST TIME TIME_LEFT NODELIST(REASON) REASON", "41250 R 1:01:01 0:00 node01 None", nil},
		{"failed", "%M|%R", failed, "TIME|NODELIST(REASON)", "1:01|(NonZeroExitCode)", nil},
		{"array", "%i|%K|%F|%A", array, "JOBID|ARRAY_TASK_ID|ARRAY_JOB_ID|JOBID", "41161_[1-3,7-8%4]|1-3,7-8%4|41161|41262", nil},
		{"task", "%i %t %T", task, "JOBID ST STATE", "41161_2 CF CONFIGURING", nil},
		{
			"many a", "%a|%A|%B|%c|%C|%d|%D|%E|%f|%F|%g|%h|%H|%I|%j|%J|%k|%K", pending(),
			"ACCOUNT|JOBID|EXEC_HOST|MIN_CPUS|CPUS|MIN_TMP_DISK|NODES|DEPENDENCY|FEATURES|ARRAY_JOB_ID|GROUP|OVER_SUBSCRIBE|SOCKETS_PER_NODE|CORES_PER_SOCKET|NAME|THREADS_PER_CORE|COMMENT|ARRAY_TASK_ID",
			"physics|41262|n/a|2|2|0|1|(null)|(null)|41262|alice|NO|*|*|pend|*|cc|N/A", nil,
		},
		{
			"many b", "%l|%L|%m|%M|%n|%N|%o|%O|%P|%q|%Q|%r|%R|%t|%T|%u|%v|%w|%W|%x|%X|%y|%Y|%z|%Z", pending(),
			"TIME_LIMIT|TIME_LEFT|MIN_MEMORY|TIME|REQ_NODES|NODELIST|COMMAND|CONTIGUOUS|PARTITION|QOS|PRIORITY|REASON|NODELIST(REASON)|ST|STATE|USER|RESERVATION|WCKEY|LICENSES|EXC_NODES|CORE_SPEC|NICE|SCHEDNODES|S:C:T|WORK_DIR",
			"1-02:04:00|1-02:04:00|300M|0:00|||(null)|0|main|normal|0|JobHeldUser|(JobHeldUser)|PD|PENDING|alice|(null)|(null)|(null)||N/A|0|(null)|*:*:*|/home/alice/work", nil,
		},
		{"unknown", "%i %!", pending(), "JOBID %!", "41262 %!", []string{"!"}},
		{"text and braces", `{"id": %A, "u": "%u"}`, pending(), `{"id": JOBID, "u": "USER"}`, `{"id": 41262, "u": "alice"}`, nil},
		{"cut short", "%.3j|%2j|", running(), "NAM|NA|", "run|ru|", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cols, unknown := format.ByLetter(format.JobFields, tt.spec)
			if diff := cmp.Diff(tt.unknown, unknown); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.header+"\n", string(cols.Header(nil))); diff != "" {
				t.Errorf("header (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.line+"\n", string(cols.Line(nil, ctx, &tt.job))); diff != "" {
				t.Errorf("line (-want +got)\n%s", diff)
			}
		})
	}
}

func TestSqueueNames(t *testing.T) {
	t.Parallel()
	j := running()
	cols, unknown := format.ByName(format.JobFields, "JobID:\x1f,state,Name:.10,UserName:4|,nosuch,")
	if diff := cmp.Diff([]string{"nosuch"}, unknown); diff != "" {
		t.Error(diff)
	}
	if got, want := string(cols.Header(nil)), "JOBID\x1fSTATE                     NAMEUSER|\n"; got != want {
		t.Errorf("header %q, want %q", got, want)
	}
	if got, want := string(cols.Line(nil, ctx, &j)), "41250\x1fRUNNING                 runneralic|\n"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

func TestNodeState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		states        []string
		long, compact string
	}{
		{[]string{"IDLE"}, "idle", "idle"},
		{[]string{"IDLE", "CLOUD", "POWERED_DOWN"}, "idle~", "idle~"},
		{[]string{"ALLOCATED", "CLOUD", "POWERING_UP"}, "allocated#", "alloc#"},
		{[]string{"MIXED", "CLOUD"}, "mixed", "mix"},
		{[]string{"IDLE", "CLOUD", "POWERING_DOWN"}, "idle%", "idle%"},
		{[]string{"IDLE", "CLOUD", "POWER_DOWN"}, "idle!", "idle!"},
		{[]string{"DOWN", "NOT_RESPONDING"}, "down*", "down*"},
		{[]string{"IDLE", "DRAIN"}, "drained", "drain"},
		{[]string{"MIXED", "DRAIN"}, "draining", "drng"},
		{[]string{"IDLE", "COMPLETING"}, "completing", "comp"},
		{[]string{"IDLE", "MAINTENANCE"}, "maint", "maint"},
		{[]string{"DOWN", "POWERED_DOWN"}, "down~", "down~"},
		{[]string{"IDLE", "PLANNED"}, "planned", "plnd"},
		{[]string{"MIXED", "PLANNED"}, "mixed-", "mix-"},
		{nil, "unknown", "unk"},
	}
	for _, tt := range tests {
		if long, compact := format.NodeState(tt.states); long != tt.long || compact != tt.compact {
			t.Errorf("%v: %s %s, want %s %s", tt.states, long, compact, tt.long, tt.compact)
		}
	}
}

func TestSinfo(t *testing.T) {
	t.Parallel()
	n1 := &wire.Node{Name: "node01", CPUs: 64, RealMemory: 64000, Sockets: 64, Cores: 1, Threads: 1, Weight: 1, State: []string{"IDLE"}, Features: []string{"fast"}}
	n2 := &wire.Node{Name: "node02", CPUs: 8, RealMemory: 16000, Sockets: 8, Cores: 1, Threads: 1, Weight: 10, State: []string{"IDLE"}, Features: []string{"slow"}}
	main := &wire.PartitionInfo{Name: "main", Flags: []string{"DEFAULT"}}
	main.Maximums.Time, main.Partition.State = wire.N(7*24*60), []string{"UP"}
	closed := &wire.PartitionInfo{Name: "closed"}
	closed.Maximums.Time, closed.Partition.State = wire.Infinite, []string{"DOWN"}
	none := &wire.PartitionInfo{Name: "none"}
	members := map[string][]*wire.Node{"main": {n1, n2}, "closed": {n2}}
	print := func(spec string, exact, single bool) string {
		cols, _ := format.ByLetter(format.NodeFields, spec)
		groups := format.Group(&cols, ctx, []*wire.PartitionInfo{main, closed, none}, func(p *wire.PartitionInfo) []*wire.Node { return members[p.Name] }, exact, single)
		cols.Fit(ctx, groups)
		out := cols.Header(nil)
		for i := range groups {
			out = cols.Line(out, ctx, &groups[i])
		}
		return string(out)
	}
	tests := []struct {
		name, spec    string
		exact, single bool
		want          string
	}{
		{"default", "%#P %.5a %.10l %.6D %.6t %N", false, false, "" +
			"PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n" +
			"main*        up 7-00:00:00      2   idle node[01-02]\n" +
			"closed     down   infinite      1   idle node02\n" +
			"none         up   infinite      0    n/a \n"},
		{"summary", "%#P %.5a %.10l %.16F %N", false, false, "" +
			"PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n" +
			"main*        up 7-00:00:00          0/2/0/2 node[01-02]\n" +
			"closed     down   infinite          0/1/0/1 node02\n" +
			"none         up   infinite          0/0/0/0 \n"},
		{"numbers of a group", "%P %c %m %z", false, false, "" +
			"PARTITION CPUS MEMORY S:C:T\nmain* 8+ 16000+ 8+:1:1\nclosed 8 16000 8:1:1\nnone 0 0 0:0:0\n"},
		{"exact", "%R %c", true, false, "PARTITION CPUS\nmain 64\nmain 8\nclosed 8\nnone 0\n"},
		{"no partition: each node once", "%N %C", false, false, "NODELIST CPUS(A/I/O/T)\nnode[01-02] 0/72/0/72\n"},
		{"a line for each node and partition", "%N %t", false, true, "NODELIST STATE\nnode01 idle\nnode02 idle\nnode02 idle\n"},
		{"features keep apart", "%D %f", false, false, "NODES AVAIL_FEATURES\n1 fast\n1 slow\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, print(tt.spec, tt.exact, tt.single)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSacct(t *testing.T) {
	t.Parallel()
	j := &wire.DBJob{JobID: 41354, Name: "acct", Partition: "main", Account: "physics", User: "alice"}
	j.State.Current = []string{"CANCELLED"}
	j.KillRequestUser = "alice"
	j.TRES.Allocated = []wire.TRES{{Type: "cpu", Count: 2}, {Type: "mem", Count: 200}, {Type: "node", Count: 1}, {Type: "energy", Count: -2}, {Type: "billing", Count: 2}, {Type: "gres", Name: "gpu", Count: 1}}
	j.TRES.Requested = j.TRES.Allocated
	s := &wire.DBStep{State: []string{"COMPLETED"}}
	s.Step.ID, s.Step.Name = "41354.batch", "batch"
	s.TRES.Allocated = []wire.TRES{{Type: "cpu", Count: 2}}
	s.TRES.Requested.Max = []wire.TRES{{Type: "mem", Count: 1234 << 10}}
	uid := func(string) int64 { return 1000 }
	records := []format.Acct{{Job: j, UID: uid}, {Job: j, Step: s, UID: uid}}
	print := func(spec string, change func(*format.Table[format.Acct])) string {
		table, bad := format.ParseTable(format.AcctFields, spec)
		if bad != "" {
			return "bad " + bad
		}
		change(&table)
		out := table.Header(nil)
		for i := range records {
			out = table.Line(out, ctx, &records[i])
		}
		return string(out)
	}
	keep := func(*format.Table[format.Acct]) {}
	tests := []struct {
		name, spec string
		change     func(*format.Table[format.Acct])
		want       string
	}{
		{"default", "jobid,jobname,partition,account,alloccpus,state,exitcode", keep, "" +
			"JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n" +
			"------------ ---------- ---------- ---------- ---------- ---------- -------- \n" +
			"41354              acct       main    physics          2 CANCELLED+      0:0 \n" +
			"41354.batch       batch               physics          2  COMPLETED      0:0 \n"},
		{"widths", "jobid%-8,jobname%3,state%20", keep, "" +
			"JobID    Job                State \n-------- --- -------------------- \n" +
			"41354    ac+    CANCELLED by 1000 \n41354.b+ ba+            COMPLETED \n"},
		{"a width is the field's", "jobname,jobname%5,jobname", keep, "" +
			"JobNa JobNa JobNa \n----- ----- ----- \n acct  acct  acct \nbatch batch batch \n"},
		{"parsable", "JobID,AllocTRES,MaxRSS,ReqMem", func(t *format.Table[format.Acct]) { t.Parsable = true }, "" +
			"JobID|AllocTRES|MaxRSS|ReqMem|\n" +
			"41354|billing=2,cpu=2,gres/gpu=1,mem=200M,node=1||200M|\n41354.batch|cpu=2|1234K||\n"},
		{"parsable2", "job,user", func(t *format.Table[format.Acct]) { t.Parsable, t.NoTrail, t.Delimiter = true, true, ";" }, "" +
			"JobID;User\n41354;alice\n41354.batch;\n"},
		{"unknown", "jobid,nosuch", keep, "bad nosuch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, print(tt.spec, tt.change)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	at := ctx.Now.Add(-26 * time.Hour).Unix()
	for layout, want := range map[string]string{
		"": "2026-11-29T06:23:27", "standard": "2026-11-29T06:23:27", "relative": "Ystday 06:23", "%s": "1795933407", "%d/%m %H:%M %q": "29/11 06:23 %q",
	} {
		c := *ctx
		c.TimeFormat = layout
		if got := c.Time(at, "N/A"); got != want {
			t.Errorf("%q: %s, want %s", layout, got, want)
		}
	}
}

func FuzzByLetter(f *testing.F) {
	f.Add("%.18i %.9P %#P%all%")
	f.Add("%.99999999999999999999i")
	f.Fuzz(func(t *testing.T, spec string) {
		j := pending()
		cols, _ := format.ByLetter(format.JobFields, spec)
		for i := range cols.List {
			if cols.List[i].Width > 1<<10 {
				return
			}
		}
		cols.Line(cols.Header(nil), ctx, &j)
		names, _ := format.ByName(format.JobFields, spec)
		names.Header(nil)
		format.ParseTable(format.AcctFields, spec)
	})
}
