//go:build e2e

package clients_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// site is the controller that all clients use.
var site struct {
	rig  *rig.Rig
	ctl  *rig.Controller
	user *rig.User
}

const pools = "ProviderName=here Type=local Trust=own\n" +
	"PoolName=p Provider=here CPUs=16 RealMemory=8000 MaxNodes=1 Runtime=process Workdir=shared\n"

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("clients: skipped: they run as an ordinary user, which takes root to set up")
		return
	}
	status, err := serve(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		status = 1
	}
	os.Exit(status)
}

func serve(m *testing.M) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if site.rig, err = rig.New("clients"); err != nil {
		return 1, err
	}
	defer func() {
		if cerr := site.rig.Close(); err == nil {
			err = cerr
		}
	}()
	if site.user, err = site.rig.User(ctx, "alice"); err != nil {
		return 1, err
	}
	site.ctl, err = site.rig.Controller(ctx, rig.Config{
		Slurm: "MaxArraySize=1001\nSuspendTime=600\nDefMemPerCPU=100\nPartitionName=main Pools=p Default=YES DefaultTime=10 MaxTime=1-0\n",
		Pools: pools,
	})
	if err != nil {
		return 1, err
	}
	status = m.Run()
	return status, site.ctl.GiveBack(context.Background(), time.Minute)
}

// desk is a user's folder, and the shell in it.
type desk struct {
	t   *testing.T
	dir string
	env []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "_")
	// The folder is the home too: it is all of the user's files that the node shares.
	d := &desk{t: t, dir: filepath.Join(site.user.Home, name)}
	d.sh("mkdir -p " + d.dir)
	d.env = []string{"HOME=" + d.dir}
	return d
}

// file writes a file into the folder.
func (d *desk) file(name, text string) {
	d.t.Helper()
	if err := site.rig.WriteTo(site.user, filepath.Join(d.dir, name), text); err != nil {
		d.t.Fatal(err)
	}
}

// run runs a shell command line in the folder and returns its answer.
func (d *desk) run(line string) rig.Result {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 4*time.Minute)
	defer cancel()
	dir := d.dir
	if strings.HasPrefix(line, "mkdir") {
		dir = ""
	}
	result, err := site.ctl.As(ctx, rig.Cmd{User: site.user, Dir: dir, Env: d.env}, "sh", "-c", line)
	if err != nil {
		d.t.Fatalf("%s: %v", line, err)
	}
	return result
}

// sh is run for a command that must succeed; it returns standard output.
func (d *desk) sh(line string) string {
	d.t.Helper()
	result := d.run(line)
	if result.Code != 0 {
		d.t.Fatalf("%s: %v", line, result)
	}
	return result.Stdout
}

// account gives the user an account, which an administrator must do.
func (d *desk) account(name string) {
	d.t.Helper()
	for _, call := range [][]string{
		{"sacctmgr", "-i", "add", "account", name},
		{"sacctmgr", "-i", "add", "user", site.user.Name, "account=" + name},
	} {
		result, err := site.ctl.As(d.t.Context(), rig.Cmd{User: site.rig.Admin()}, call...)
		if err != nil || result.Code != 0 {
			d.t.Fatalf("%v: %v %v", call, result, err)
		}
	}
}

// match wants the answer to match a client's own regular expression, and
// returns its first group.
func (d *desk) match(expression, text string) string {
	d.t.Helper()
	m := regexp.MustCompile(expression).FindStringSubmatch(text)
	if m == nil {
		d.t.Fatalf("%q does not match %s", text, expression)
	}
	return m[len(m)-1]
}

// until repeats a command until its output is what is wanted.
func (d *desk) until(line, want string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 90*time.Second)
	defer cancel()
	err := rig.Eventually(ctx, line, func() (bool, string, error) {
		r := d.run(line)
		return strings.TrimSpace(r.Stdout) == want, r.String(), nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// text is the content of a file in the folder.
func (d *desk) text(name string) string {
	d.t.Helper()
	return d.sh("cat " + name)
}

// needs skips the test, by name, when a program is not installed.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (tests/setup/clients.sh)", p)
		}
	}
}
