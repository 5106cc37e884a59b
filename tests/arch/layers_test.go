package arch_test

import "strings"

// layers says on which layer each package lies. A package imports only lower
// layers, save that packages of layer 1 may import each other and that a folder
// is one house: what lies under an entry belongs to it and has its layer, unless
// it has an entry of its own. Mains are layer 5.
var layers = map[string]int{
	"partitions":           1,
	"partitions/slurmconf": 0,
	"partitions/hostlist":  0,
	"partitions/tres":      0,

	"slurmrest/errno":   0,
	"slurmrest/step":    0,
	"slurmrest/option":  1,
	"slurmrest/wire":    1,
	"slurmrest/auth":    1,
	"slurmrest/version": 2,
	"slurmrest/client":  2,
	"slurmrest/format":  2,
	"slurmrest/server":  4,
	"slurmrest/cli":     4,
	"slurmrest/slurm":   5,

	"sbatchd":                5,
	"sbatchd/job":            1,
	"sbatchd/assoc":          1,
	"sbatchd/node":           1,
	"sbatchd/state":          1,
	"sbatchd/store":          1,
	"sbatchd/store/sqlstore": 2,
	"sbatchd/accounting":     2,
	"sbatchd/scheduler":      2,
	"sbatchd/queue":          3,
	"sbatchd/ledger":         4,
	"sbatchd/launch":         3,
	"sbatchd/output":         3,

	"cloudburst":          1,
	"cloudburst/rest":     1,
	"cloudburst/provider": 2,
	"cloudburst/all":      3,
	"cloudburst/price":    2,
	"cloudburst/pool":     3,

	"runtime/agentapi":             1,
	"runtime/asuser":               1,
	"runtime/atomicfile":           0,
	"runtime/attempt":              1,
	"runtime/execinit":             1,
	"runtime/localnode":            1,
	"runtime/cgroup":               1,
	"runtime/container":            1,
	"runtime/container/containerd": 2,
	"runtime/container/process":    2,
	"runtime/gpu":                  2,
	"runtime/image":                2,
	"runtime/image/build":          1,
	"runtime/checkpoint":           2,
	"runtime/stage":                2,
	"runtime/agent":                3,
	"runtime/shim":                 3,
	"runtime/node":                 5,
	"runtime/nvml":                 5,

	"contrib":   5,
	"tests":     5,
	"tests/rig": 4,
}

// cliMayImport is all of ours that the commands may see: they speak REST and
// know nothing of the controller.
var cliMayImport = []string{
	"slurmrest/client", "slurmrest/option", "slurmrest/format", "slurmrest/wire", "slurmrest/step",
	"slurmrest/errno", "slurmrest/step", "partitions/hostlist", "partitions/tres", "partitions/slurmconf",
}

// pure are the packages that read no clock: time comes in as an argument.
var pure = []string{
	"sbatchd/job", "sbatchd/assoc", "sbatchd/node", "sbatchd/state", "sbatchd/scheduler", "sbatchd/accounting",
	"cloudburst/price", "partitions", "slurmrest/option", "slurmrest/errno",
}

// vendors are modules of one cloud each: only that provider's folder may import
// them.
var vendors = []string{
	"github.com/aws/", "github.com/Azure/", "cloud.google.com/", "google.golang.org/api", "github.com/aliyun/",
	"github.com/tencentcloud/", "github.com/huaweicloud/", "github.com/volcengine/", "github.com/baidubce/",
	"github.com/digitalocean/", "github.com/linode/", "github.com/vultr/", "github.com/hetznercloud/",
	"github.com/scaleway/", "github.com/ovh/", "github.com/oracle/", "github.com/gophercloud/", "k8s.io/",
	"github.com/lambda", "github.com/runpod",
}

// heavy is what a command that starts in milliseconds must not link.
var heavy = []string{
	"google.golang.org/grpc", "github.com/containerd/", "database/sql", "modernc.org/", "github.com/go-sql-driver/",
	"github.com/getkin/", "github.com/minio/", "github.com/prometheus/", "github.com/NVIDIA/", "github.com/pressly/",
}

// house returns the entry of layers that a package (relative to the module)
// belongs to, and whether there is one.
func house(rel string) (string, bool) {
	for p := rel; ; {
		if _, ok := layers[p]; ok {
			return p, true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return "", false
		}
		p = p[:i]
	}
}

// under says whether a path is one of the given ones or lies beneath one.
func under(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}
