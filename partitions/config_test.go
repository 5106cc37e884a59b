package partitions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

func TestParseMoney(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in, out, currency string
		amount            int64
	}{
		{"3.00", "3.00", "USD", 3_000_000},
		{"60CNY", "60.00CNY", "CNY", 60_000_000},
		{"60 cny", "60.00CNY", "CNY", 60_000_000},
		{"$2.5", "2.50", "USD", 2_500_000},
		{"0.123456EUR", "0.123456EUR", "EUR", 123_456},
		{"0", "0.00", "USD", 0},
	}
	for _, tt := range tests {
		got, err := partitions.ParseMoney(tt.in)
		if err != nil || got.Amount != tt.amount || got.Currency != tt.currency || got.String() != tt.out {
			t.Errorf("ParseMoney(%q) = %+v (%s), %v", tt.in, got, got, err)
		}
	}
	for _, in := range []string{"", "x", "-1", "1.", ".5", "1,5", "1.2345678", "3XX", "3DOLLAR", "$3CNY", "99999999999999", "1e3"} {
		if got, err := partitions.ParseMoney(in); err == nil {
			t.Errorf("ParseMoney(%q) = %+v", in, got)
		}
	}
	if got := (partitions.Money{}).String(); got != "" || !(partitions.Money{}).IsZero() {
		t.Errorf("zero money prints %q", got)
	}
}

func FuzzParseMoney(f *testing.F) {
	for _, s := range []string{"3.00", "60CNY", "$1", "1.5 EUR"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := partitions.ParseMoney(s)
		if err != nil {
			return
		}
		again, err := partitions.ParseMoney(m.String())
		if err != nil || again != m {
			t.Fatalf("%q -> %v -> %v, %v", s, m, again, err)
		}
	})
}

func TestSummary(t *testing.T) {
	t.Parallel()
	c := load(t, write(t, map[string]string{"slurm.conf": `ClusterName=x
GresTypes=gpu
ImageName=cuda Ref=r/c@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef Cuda=12.4 MinDriver=550.54.14
ProviderName=l Type=local
PoolName=spot Provider=l Gres=gpu:a100:1-8 CPUs=4 RealMemory=2000 Capacity=spot MaxPrice=60CNY MaxNodes=8 Image=cuda
NodeName=ws[01-04] CPUs=32
PartitionName=gpu Pools=spot Nodes=ws[01-04] Default=YES MaxTime=2-0 DefaultTime=1:00:00
`}))
	var b strings.Builder
	if err := partitions.Summary(c, &b); err != nil {
		t.Fatal(err)
	}
	want := c.Path + `: cluster x, 1 partitions, 1 pools, 4 nodes, 1 images

PARTITION  STATE  TIMELIMIT   DEFAULTTIME  NODES      IMAGE  POOLS
gpu*       UP     2-00:00:00  01:00:00     ws[01-04]  -      spot

POOL  PROVIDER   CAPACITY  NODES  GRES          CPUS  MEMORY  MAXPRICE  RUNTIME     WORKDIR  SUSPEND  IMAGE
spot  l (local)  spot      0-8    gpu:a100:1-8  4     2000M   60.00CNY  containerd  sync     300s     cuda

IMAGE  CUDA  MINDRIVER  REF
cuda   12.4  550.54.14  r/c@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	base := "ClusterName=x\nPartitionName=p\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", base, nil},
		{"reloadable", base + "ResumeTimeout=5\nPartitionName=q\nMaxJobCount=7\n", nil},
		{"listeners", base + "RestListen=unix:/run/x\nSlurmctldPort=7000\n", []string{"AgentListen", "RestListen"}},
		{"state", "ClusterName=y\nPartitionName=p\nStateSaveLocation=/srv/x\nSlurmUser=slurm\n", []string{"CheckpointStore", "ClusterName", "SlurmUser", "StateSaveLocation"}},
		{"accounting", base + "AccountingStorageType=accounting_storage/none\nAuthAltParameters=disable_token_creation\n", []string{"AccountingStorage", "AuthAltParameters"}},
	}
	a := load(t, write(t, map[string]string{"slurm.conf": base}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := load(t, write(t, map[string]string{"slurm.conf": tt.text}))
			if diff := cmp.Diff(tt.want, a.NeedsRestart(b)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWritePersonalDefault(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config", "sbatchd")
	o := partitions.Personal{
		User: "alice", StateDir: "/home/alice/My Files/state", RestSocket: "/run/user/1000/sbatchd/sbatchd.sock", AgentSocket: "/run/user/1000/sbatchd/agent.sock",
		CPUs: 8, RealMemory: 16000, Gres: []tres.Gres{{Name: "gpu", Type: "rtx3090", Count: 1}},
	}
	if wrote, err := partitions.WritePersonalDefault(dir, o); err != nil || !wrote {
		t.Fatalf("first time: %v, %v", wrote, err)
	}
	c := load(t, dir)
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	p, pool := c.DefaultPartition(), c.Pool("local")
	if p == nil || p.Name != "local" || len(p.Pools) != 1 || p.Pools[0] != pool {
		t.Fatalf("partition %+v", p)
	}
	if pool.Runtime != partitions.Process || pool.Workdir != partitions.WorkdirShared || pool.CPUs != 8 || pool.RealMemory != 16000 || pool.Trust != partitions.TrustOwn || len(pool.Gres) != 1 {
		t.Errorf("pool %+v", pool)
	}
	if c.SlurmUser != "alice" || c.StateSaveLocation != o.StateDir || c.AgentListen[0].Address != o.AgentSocket || c.RestListen[0].Address != o.RestSocket {
		t.Errorf("%+v", c)
	}

	main, pools := filepath.Join(dir, "slurm.conf"), filepath.Join(dir, "pools.conf")
	for _, path := range []string{main, pools} {
		if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if wrote, err := partitions.WritePersonalDefault(dir, o); err != nil || wrote {
		t.Errorf("second time: %v, %v", wrote, err)
	}
	if err := os.Remove(main); err != nil {
		t.Fatal(err)
	}
	if wrote, err := partitions.WritePersonalDefault(dir, o); err != nil || !wrote {
		t.Errorf("after removal: %v, %v", wrote, err)
	}
	if text, err := os.ReadFile(pools); err != nil || string(text) != "# mine\n" {
		t.Errorf("pools.conf was replaced: %q, %v", text, err)
	}
	names, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	o.StateDir = "/x\"y"
	if _, err := partitions.WritePersonalDefault(t.TempDir(), o); err == nil {
		t.Error("a path that can't be written is accepted")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	got := load(t, "testdata/slurm-20.11.good.conf").Settings()
	for key, want := range map[string]string{
		"MinJobAge":             "300 sec",
		"MaxArraySize":          "20001",
		"SchedulerTimeSlice":    "30 sec",
		"AcctGatherNodeFreq":    "0 sec",
		"SlurmctldHost[0]":      "head01",
		"SlurmctldHost[1]":      "head02",
		"SlurmctldPort":         "6817",
		"SuspendTime":           "INFINITE",
		"DefMemPerCPU":          "3900",
		"MaxMemPerNode":         "UNLIMITED",
		"PriorityDecayHalfLife": "14-00:00:00",
		"PriorityMaxAge":        "14-00:00:00",
		"SchedulerType":         "sched/backfill",
		"JobRequeue":            "1",
		"PreemptMode":           "REQUEUE",
		"AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu,gres/gpu:v100",
		"AccountingStoragePass": "(null)",
		"PrivateData":           "none",
		"ResumeRate":            "300 nodes/min",
		"OverTimeLimit":         "0 min",
		"JobLogLimit":           "10G",
		"RebootProgram":         "/sbin/shutdown -r now",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	if _, ok := got["SlurmctldHost"]; ok {
		t.Error("SlurmctldHost is shown without a number")
	}
}
