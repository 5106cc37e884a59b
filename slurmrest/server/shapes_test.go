package server

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// TestShapes reads directives as sbatch does, makes a held job of them and
// compares its record with the one a real Slurm made of the same directives.
func TestShapes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../option/testdata/shapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := shapesState(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, block := range strings.Split(string(data), "\n== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		at := strings.LastIndex(strings.TrimRight(rest, "\n"), "\n") + 1
		directives, want := rest[:at], strings.TrimSpace(rest[at:])
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := "#!/bin/bash\n" + directives
			all, err := option.Parse(option.Input{Tool: option.Sbatch, Body: []byte(script), Name: "job.sh", Dir: "/home/alice", Now: now})
			if got := shape(t, s, script, all, err); got != want {
				t.Errorf("%s%s", directives, gocmp.Diff(strings.Fields(want), strings.Fields(got)))
			}
		})
	}
}

// shapesState is a cluster like the one that was asked.
func shapesState(t *testing.T) *state.State {
	t.Helper()
	dir := t.TempDir()
	conf := "ClusterName=c\nSlurmctldHost=h\nStateSaveLocation=" + dir + "/state\nRestListen=unix:" + dir + "/s\nGresTypes=gpu,nvme\nDefMemPerCPU=100\n" +
		"NodeName=big CPUs=256 RealMemory=4000000\nNodeName=small CPUs=64 RealMemory=256000\n" +
		"PartitionName=main Nodes=ALL Default=YES MaxTime=30-0 DefaultTime=1:00:00\n"
	if err := os.WriteFile(dir+"/slurm.conf", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := partitions.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := state.Apply(state.New(cfg, "uuid", 1), state.Reconfigured{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shape is the outcome as testdata writes it.
func shape(t *testing.T, s *state.State, script string, all []*option.Values, err error) string {
	t.Helper()
	var e *option.Error
	if errors.As(err, &e) {
		var lines []string
		for _, l := range e.Lines {
			lines = append(lines, strings.TrimSuffix(l.Print("sbatch"), "\n"))
		}
		return fmt.Sprintf("! %d %s", e.Exit, strings.Join(lines, " | "))
	}
	if err != nil {
		t.Fatal(err)
	}
	burst := all[0].Burst()
	d := all[0].Job(option.Submission{Name: "job.sh", Dir: "/home/alice", Environ: []string{"A=b"}})
	in, err := describe(&d, script, &burst, true)
	if err != nil {
		t.Fatal(err)
	}
	in.Spec.Partitions = "main"
	if !in.Spec.TimeSet {
		in.Spec.TimeLimit = 60
	}
	v := viewer{s: s, group: func(uint32) string { return "alice" }}
	return facts(v.job(&job.Job{ID: job.NewID(1), Spec: in.Spec, User: "alice", State: job.Pending, Reason: job.ReasonHeldUser}))
}

// facts are the fields of scontrol show job that differ from an empty script's.
func facts(j *wire.JobInfo) string {
	star := func(n wire.Num) string {
		if !n.Set || n.Infinite {
			return "*"
		}
		return strconv.FormatInt(n.Number, 10)
	}
	n := func(v wire.Num) string { return strconv.FormatInt(v.Or(0), 10) }
	nodes := n(j.NodeCount)
	if most := j.MaxNodes.Or(0); most > 0 {
		nodes += "-" + strconv.FormatInt(max(most, j.NodeCount.Or(0)), 10)
	}
	limit := func(v wire.Num) string {
		if v.Infinite {
			return "UNLIMITED"
		}
		return tres.FormatDuration(time.Duration(v.Number) * time.Minute)
	}
	least := "N/A"
	if j.TimeMinimum.Or(0) > 0 {
		least = limit(j.TimeMinimum)
	}
	request := slices.DeleteFunc(strings.Split(j.TRESReqStr, ","), func(item string) bool { return strings.HasPrefix(item, "gres/") })
	requeue := "0"
	if j.Requeue {
		requeue = "1"
	}
	list := func(text string) string { return cmp.Or(text, "(null)") }
	var out []string
	for _, f := range [][3]string{
		{"NumNodes", nodes, "1-1"},
		{"NumCPUs", n(j.CPUs), "1"},
		{"NumTasks", n(j.Tasks), "1"},
		{"CPUs/Task", n(j.CPUsPerTask), "1"},
		{"ReqB:S:C:T", "0:0:" + star(j.CoresPerSocket) + ":" + star(j.ThreadsPerCore), "0:0:*:*"},
		{"ReqTRES", strings.Join(request, ","), "cpu=1,mem=100M,node=1,billing=1"},
		{"Socks/Node", star(j.SocketsPerNode), "*"},
		{"NtasksPerN:B:S:C", n(j.TasksPerNode) + ":0:" + star(j.TasksPerSocket) + ":" + star(j.TasksPerCore), "0:0:*:*"},
		{"MinCPUsNode", n(j.MinimumCPUsPerNode), "1"},
		{"TimeLimit", limit(j.TimeLimit), "01:00:00"},
		{"TimeMin", least, "N/A"},
		{"Features", list(j.Features), "(null)"},
		{"ReqNodeList", list(j.RequiredNodes), "(null)"},
		{"ExcNodeList", list(j.ExcludedNodes), "(null)"},
		{"TresPerNode", j.TRESPerNode, ""},
		{"TresPerJob", j.TRESPerJob, ""},
		{"TresPerTask", j.TRESPerTask, ""},
		{"TresBind", j.TRESBind, ""},
		{"CpusPerTres", j.CPUsPerTRES, ""},
		{"MailType", mailWords(j.MailType), ""},
		{"Requeue", requeue, "1"},
		{"Exclusive", format.Exclusive(j.Shared), "NO"},
		{"Nice", strconv.FormatInt(j.Nice, 10), "0"},
	} {
		if f[1] != f[2] {
			out = append(out, f[0]+"="+f[1])
		}
	}
	return strings.TrimSpace("-> " + strings.Join(out, " "))
}

// mailWords are the events in the order in which Slurm shows them.
func mailWords(events []string) string {
	var out []string
	for _, w := range [][2]string{
		{"ARRAY_TASKS", "ARRAY_TASKS"}, {"INVALID_DEPENDENCY", "INVALID_DEPEND"}, {"BEGIN", "BEGIN"}, {"END", "END"}, {"FAIL", "FAIL"},
		{"REQUEUE", "REQUEUE"}, {"STAGE_OUT", "STAGE_OUT"}, {"TIME=50%", "TIME_LIMIT_50"}, {"TIME=80%", "TIME_LIMIT_80"},
		{"TIME=90%", "TIME_LIMIT_90"}, {"TIME=100%", "TIME_LIMIT"},
	} {
		if slices.Contains(events, w[0]) {
			out = append(out, w[1])
		}
	}
	return strings.Join(out, ",")
}
