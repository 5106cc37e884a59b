package partitions_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// expectations reads the "# word: message" comments of a test file: "line:
// message" for each, the line being the comment's own.
func expectations(t *testing.T, path, word string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, line := range strings.Split(string(text), "\n") {
		for _, c := range strings.Split(line, "# ")[1:] {
			at := strconv.Itoa(i + 1)
			msg, ok := strings.CutPrefix(c, word+": ")
			if !ok {
				msg, ok = strings.CutPrefix(c, "file "+word+": ")
				at = "0"
			}
			if ok {
				want = append(want, at+": "+strings.ReplaceAll(strings.TrimSpace(msg), "DIR", dir))
			}
		}
	}
	slices.Sort(want)
	return want
}

// found prints faults as expectations does.
func found(t *testing.T, path string, list []partitions.Fault) []string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		if f.File != filepath.Join(dir, filepath.Base(path)) {
			t.Errorf("fault in another file: %v", f)
		}
		got = append(got, fmt.Sprintf("%d: %s", f.Line, strings.ReplaceAll(f.Msg, dir+"/"+filepath.Base(path), filepath.Base(path))))
	}
	slices.Sort(got)
	return got
}

func TestGoodFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.good.conf")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c, err := partitions.Load(path)
			if err != nil {
				t.Fatalf("must load:\n%v", err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if _, err := fmt.Sscanf(string(text), "# warnings: %d\n", &n); err == nil {
				if len(c.Warnings) != n {
					t.Errorf("%d warnings, want %d:", len(c.Warnings), n)
					for _, w := range c.Warnings {
						t.Log(w)
					}
				}
				return
			}
			if diff := cmp.Diff(expectations(t, path, "warn"), found(t, path, c.Warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bad.conf")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c, err := partitions.Load(path)
			if err == nil || c != nil {
				t.Fatalf("loads: %v, %v", c, err)
			}
			if diff := cmp.Diff(expectations(t, path, "fault"), found(t, path, partitions.Faults(err))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// write makes a config folder with the given files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, path string) *partitions.Config {
	t.Helper()
	c, err := partitions.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadPools(t *testing.T) {
	t.Parallel()
	c := load(t, "testdata/pools.good.conf")
	if got := c.AgentAddress; got != "burst.example.org:6817" {
		t.Errorf("AgentAddress %s", got)
	}
	wantListen := []partitions.Listen{{Network: "unix", Address: "/run/sbatchd/sbatchd.sock"}, {Network: "tcp", Address: "127.0.0.1:6820"}, {Network: "tls", Address: "0.0.0.0:6821"}}
	if diff := cmp.Diff(wantListen, c.RestListen); diff != "" {
		t.Errorf("RestListen (-want +got):\n%s", diff)
	}
	if c.SlurmdTimeout != 2*time.Minute || c.FenceTimeout != 30*time.Minute || c.OrphanTimeout != time.Hour || c.InteractiveIdle != 2*time.Hour {
		t.Errorf("timeouts: %v %v %v %v", c.SlurmdTimeout, c.FenceTimeout, c.OrphanTimeout, c.InteractiveIdle)
	}
	if c.JobLogLimit != 2<<30 || !c.JobFileAppend || !c.JobRequeue {
		t.Errorf("JobLogLimit %d JobFileAppend %v JobRequeue %v", c.JobLogLimit, c.JobFileAppend, c.JobRequeue)
	}

	spot := c.Pool("a100-spot")
	if diff := cmp.Diff([]tres.GresRange{{Name: "gpu", Type: "a100", Min: 1, Max: 8}}, spot.Gres); diff != "" {
		t.Errorf("Gres (-want +got):\n%s", diff)
	}
	if spot.MaxPrice != (partitions.Money{Amount: 60_000_000, Currency: "CNY"}) || spot.GpuMemory != 80<<10 || spot.Image != c.Image("cuda12.4") ||
		spot.Provider != c.Provider("ali") || spot.Trust != partitions.TrustCloud || spot.Runtime != partitions.Containerd || spot.MaxNodes != 8 || spot.CPUs != 0 {
		t.Errorf("pool a100-spot: %+v", spot)
	}
	a100 := c.Pool("a100")
	if a100.SuspendTime != partitions.Never || a100.StageOutTimeout != 30*time.Minute || a100.Env["HF_HOME"] != "/scratch/hf" || a100.MaxNodes != 4 ||
		a100.AgentLink != partitions.SSH || !filepath.IsAbs(a100.UserData) || len(a100.Mounts) != 2 || spot.SuspendTime != 5*time.Minute {
		t.Errorf("pool a100: %+v", a100)
	}
	local := c.Pool("local")
	if local.CPUs != 2 || local.RealMemory != 2048 || local.Trust != partitions.TrustOwn || local.Workdir != partitions.WorkdirShared {
		t.Errorf("pool local: %+v", local)
	}
	if r := c.Pool("r4090"); r.Trust != partitions.TrustShared || r.RealMemory != 32<<10 || r.MaxPrice.String() != "3.00" {
		t.Errorf("pool r4090: %+v", r)
	}
	if i := c.Image("cuda12.4"); !strings.HasPrefix(i.Digest, "sha256:0123") || i.MinDriver != "550.54.14" {
		t.Errorf("image: %+v", i)
	}

	gpu := c.DefaultPartition()
	if gpu == nil || gpu.Name != "gpu" || gpu.MaxTime != 2880 || gpu.DefaultTime != 60 || gpu.ImageFor(local) != c.Image("cuda12.4") {
		t.Errorf("partition gpu: %+v", gpu)
	}
	names := gpu.NodeNames()
	if len(names) != 16 || names[0] != "ws01" || names[4] != "a100-spot-1" || names[15] != "a100-4" {
		t.Errorf("nodes of gpu: %v", names)
	}
	for name, want := range map[string]string{"gpu": "gpu", "v100": "gpu", "cheap": "cheap", "typo": "gpu"} {
		if p := c.ResolvePartition(name); p == nil || p.Name != want {
			t.Errorf("ResolvePartition(%s) = %v", name, p)
		}
	}
	for name, want := range map[string]int{"a100-spot-1": 1, "a100-spot-8": 8, "a100-4": 4, "a100-spot-9": 0, "a100-0": 0, "a100-01": 0, "ws01": 0, "a100-": 0, "nope-1": 0} {
		p, n, ok := c.PoolNode(name)
		if n != want || ok != (want > 0) || ok != (p != nil) {
			t.Errorf("PoolNode(%s) = %v, %d, %v", name, p, n, ok)
		}
	}
	if c.Partition("cheap").Allows(partitions.TrustOwn) || !gpu.Allows(partitions.TrustShared) {
		t.Error("AllowTrust")
	}
	if got := len(c.Partition("all").Pools); got != len(c.Pools) {
		t.Errorf("Pools=ALL: %d", got)
	}
}

func TestLoadSite(t *testing.T) {
	t.Parallel()
	c := load(t, "testdata/slurm-20.11.good.conf")
	if len(c.Nodes) != 170 || c.AccountingStorage.Type != "accounting_storage/sqlite" || c.SuspendTime != partitions.Never || c.ResumeTimeout != time.Minute {
		t.Errorf("%d nodes, %s, SuspendTime %v, ResumeTimeout %v", len(c.Nodes), c.AccountingStorage.Type, c.SuspendTime, c.ResumeTimeout)
	}
	n := c.Node("gpu03")
	if n == nil || n.Addr != "10.1.2.3" || n.RealMemory != 380000 || n.CPUs != 40 || n.Sockets != 2 || tres.FormatGres(n.Gres) != "gpu:v100:4" || n.State != "UNKNOWN" {
		t.Errorf("gpu03: %+v", n)
	}
	if n := c.Node("cn150"); n.RealMemory != 770000 || !slices.Contains(n.Features, "bigmem") {
		t.Errorf("cn150: %+v", n)
	}
	p := c.Partition("scavenge")
	if len(p.Nodes) != 170 || p.OverSubscribe != "FORCE" || p.MaxShare != 2 || p.MaxTime != 10080 || p.DefaultTime != 60 || p.GraceTime != time.Minute || p.QOS != "scavenge" {
		t.Errorf("scavenge: %+v", p)
	}
	if w := c.Partition("gpu").TRESBillingWeight; w["cpu"] != 1 || w["mem"] != 0.25/1024 || w["gres/gpu"] != 10 {
		t.Errorf("billing weights: %v", w)
	}
	if c.AgentAddress != "10.1.0.1:6817" || c.Priority.DecayHalfLife != 14*24*time.Hour || c.Priority.WeightFairshare != 100000 || c.EnforcePartLimits != "ALL" {
		t.Errorf("%s %+v %s", c.AgentAddress, c.Priority, c.EnforcePartLimits)
	}
	if c.SchedulerParameters["bf_window"] != "4320" || c.Values["SchedulerType"] != "sched/backfill" || c.Values["WaitTime"] != "0" {
		t.Errorf("%v %v", c.SchedulerParameters, c.Values)
	}

	c = load(t, "testdata/slurm-26.05.good.conf")
	gpu := c.Partition("gpu")
	if len(gpu.Nodes) != 32 || gpu.Exclusive != "NODE" || gpu.SuspendTime != 10*time.Minute || gpu.NodesText != "gpus" {
		t.Errorf("gpu: %+v", gpu)
	}
	if n := c.Node("p4d-31"); n.State != "DOWN" || n.Reason != "broken link" || tres.FormatGres(n.Gres) != "gpu:a100:8" {
		t.Errorf("p4d-31: %+v", n)
	}
	if c.JobFileAppend || c.OverTimeLimit != 5 || !slices.Equal(c.Preempt.Mode, []string{"SUSPEND", "GANG"}) || c.Preempt.ExemptTime != 10*time.Minute {
		t.Errorf("%v %v %+v", c.JobFileAppend, c.OverTimeLimit, c.Preempt)
	}
}

func TestMinimalDefaults(t *testing.T) {
	t.Parallel()
	c := load(t, "testdata/minimal.good.conf")
	if c.StateSaveLocation != "/var/lib/sbatchd" || c.RestListen[0].String() != "unix:/run/sbatchd/sbatchd.sock" || c.AgentListen[0].String() != "tcp:0.0.0.0:6817" ||
		c.AgentAddress != "localhost:6817" || c.CheckpointStore != "file:///var/lib/sbatchd/checkpoints" || c.SlurmUser != "root" {
		t.Errorf("%+v", c)
	}
	if c.MinJobAge != 300*time.Second || c.KillWait != 30*time.Second || c.MaxArraySize != 1001 || c.MaxJobCount != 10000 || c.FirstJobID != 1 ||
		c.MaxJobID != 67043328 || c.MaxBatchRequeue != 5 || c.SlurmdTimeout != 300*time.Second || c.FenceTimeout != 1800*time.Second || c.OrphanTimeout != 3600*time.Second {
		t.Errorf("%+v", c)
	}
	p := c.Partition("p")
	if p.MaxTime != tres.Infinite || p.DefaultTime != tres.NoVal || p.MaxNodes != partitions.Unlimited || p.PriorityTier != 1 || p.PriorityJobFactor != 1 || p.State != "UP" || p.OverSubscribe != "NO" {
		t.Errorf("%+v", p)
	}
	if c.DefaultPartition() != nil || c.ResolvePartition("x") != nil {
		t.Error("a default partition from nowhere")
	}
}

func TestIncludeAndFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"slurm.conf": "ClusterName=x\nInclude pools.conf\nPartitionName=p Pools=a\n",
		"pools.conf": "ProviderName=l Type=local\nPoolName=a Provider=l MaxNodes=1 Runtime=process\nPoolName=b Provider=zz MaxNodes=1\n",
	})
	_, err := partitions.Load(dir)
	want := filepath.Join(dir, "pools.conf") + ":3: Provider=zz: pool b: there is no ProviderName=zz"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if c := load(t, "testdata/include.good.conf"); len(c.Files) != 2 || c.Pool("small") == nil {
		t.Errorf("files %v", c.Files)
	}
	if _, err := partitions.Load(filepath.Join(dir, "nowhere.conf")); err == nil || err.Error() != filepath.Join(dir, "nowhere.conf")+": no such file or directory" {
		t.Errorf("missing file: %v", err)
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"slurm.conf": "ClusterName=x\nAuthAltParameters=jwt_key=jwt.key,jwks=jwks.json,disable_token_creation,max_token_lifespan=3600\n" +
			"AccountingStorageType=accounting_storage/mysql\nAccountingStorageUser=u\nAccountingStoragePass=file:DIR/pass\n" +
			"ProviderName=a Type=aws CredentialFile=cred/aws\nPartitionName=p\n",
		"jwt.key": "k", "jwks.json": "{}", "cred/aws": "secret", "pass": "pw",
	})
	conf := filepath.Join(dir, "slurm.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, bytes.ReplaceAll(text, []byte("DIR"), []byte(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, dir)
	if c.Provider("a").CredentialFile != filepath.Join(dir, "cred/aws") || c.AuthAlt.JWTKey != filepath.Join(dir, "jwt.key") || !c.AuthAlt.DisableTokenCreation ||
		c.AuthAlt.MaxTokenLifespan != time.Hour || c.AccountingStorage.Loc != "sbatchd" || c.AccountingStorage.Port != 3306 {
		t.Errorf("%+v %+v %+v", c.Provider("a"), c.AuthAlt, c.AccountingStorage)
	}
	if got := c.Values["AccountingStoragePass"]; got != "(null)" {
		t.Errorf("Values shows the password: %q", got)
	}
	for _, name := range []string{"cred/aws", "pass", "jwt.key"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err = partitions.Load(dir)
	var got []string
	for _, f := range partitions.Faults(err) {
		got = append(got, fmt.Sprintf("%d: %s", f.Line, f.Msg))
	}
	want := []string{
		"2: AuthAltParameters=jwt_key=jwt.key,jwks=jwks.json,disable_token_creation,max_token_lifespan=3600: jwt_key: its mode is 0644, must be 0640",
		"5: AccountingStoragePass: " + dir + "/pass: its mode is 0644, must be 0600",
		"6: CredentialFile=cred/aws: its mode is 0644, must be 0600",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestGresConf(t *testing.T) {
	t.Parallel()
	main := "ClusterName=x\nGresTypes=gpu\nPartitionName=p\n"
	c := load(t, write(t, map[string]string{
		"slurm.conf": main,
		"gres.conf":  "AutoDetect=nvml\nNodeName=gpu[01-08] Name=gpu Type=v100 File=/dev/nvidia[0-3] Cores=0-19 Count=4\nName=gpu MultipleFiles=/dev/a Flags=CountOnly Links=-1,1\n",
	}))
	if len(c.Files) != 2 {
		t.Errorf("files %v", c.Files)
	}
	dir := write(t, map[string]string{"slurm.conf": main, "gres.conf": "Name=shard Count=x NodeName=n[\nColour=red\n"})
	_, err := partitions.Load(dir)
	at := filepath.Join(dir, "gres.conf")
	want := at + ":1: Name=shard: is not in GresTypes\n" + at + ":1: NodeName=n[: Invalid hostlist: n[\n" + at + ":1: Count=x: not a count\n" + at + ":2: Parsing error at unrecognized key: Colour"
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.conf")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	path := filepath.Join(f.TempDir(), "slurm.conf")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(strings.ToLower(s), "include") || len(s) > 1<<16 {
			return // no reading outside of the folder
		}
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := partitions.Load(path)
		if err != nil {
			for _, fault := range partitions.Faults(err) {
				if fault.File != path || fault.Line < 0 || fault.Msg == "" {
					t.Fatalf("fault %+v", fault)
				}
			}
			return
		}
		if err := partitions.Summary(c, io.Discard); err != nil {
			t.Fatal(err)
		}
		for key, v := range c.Settings() {
			if v == "" && c.Values[key] != "" {
				t.Fatalf("%s is lost", key)
			}
		}
		if keys := c.NeedsRestart(c); len(keys) > 0 {
			t.Fatalf("%v differ from themselves", keys)
		}
	})
}
