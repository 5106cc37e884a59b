package site

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/tests/differential/session"
	"github.com/sbatchd/sbatchd/tests/rig"
)

// layout is the part of slurm.conf that shapes answers: that of the layout
// "sessions" of tests/setup/real-slurm.sh, and both must be changed together.
const layout = `SlurmctldHost=login01(127.0.0.1)
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
MaxJobCount=200000
MaxArraySize=100001
FirstJobId=41000
MinJobAge=3600
KillWait=5
ReturnToService=2
PriorityType=priority/multifactor
NodeName=node01 CPUs=64 RealMemory=64000 Feature=fast Weight=1
NodeName=node02 CPUs=8 RealMemory=16000 Feature=slow Weight=10
PartitionName=main Nodes=node01,node02 Default=YES MaxTime=7-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=short Nodes=node02 MaxTime=30:00 State=UP
PartitionName=closed Nodes=node02 State=DOWN
PartitionName=priv Nodes=node02 AllowGroups=root State=UP
`

// nodes are the machines of the layout.
var nodes = []struct {
	name   string
	cpus   int
	memory int64 // MiB
}{{"node01", 64, 64000}, {"node02", 8, 16000}}

// Ours is sbatchd with two nodes whose jobs are processes.
type Ours struct {
	server
	rig *rig.Rig
	ctl *rig.Controller
}

// StartOurs starts it. It must be called in the world.
func StartOurs(ctx context.Context) (*Ours, error) {
	r, err := rig.New("site")
	if err != nil {
		return nil, err
	}
	r.Bin = Bin
	o := &Ours{rig: r}
	if err := o.start(ctx); err != nil {
		if o.ctl != nil {
			err = fmt.Errorf("%w\n%s", err, o.ctl.LogTail(20))
		}
		return nil, errors.Join(err, r.Close())
	}
	return o, nil
}

func (o *Ours) start(ctx context.Context) (err error) {
	if o.ctl, err = o.rig.Controller(ctx, rig.Config{Slurm: layout}); err != nil {
		return err
	}
	o.server = server{url: o.ctl.URL, token: func(ctx context.Context, user string) (string, error) {
		a, err := o.Run(ctx, session.Command{User: "root", Dir: "/", Line: "scontrol token lifespan=7200 username=" + user})
		if err != nil {
			return "", err
		}
		token, ok := strings.CutPrefix(strings.TrimSpace(a.Stdout), "SLURM_JWT=")
		if !ok {
			return "", fmt.Errorf("scontrol token: %+v", a)
		}
		return token, nil
	}}
	authority, err := agentapi.OpenAuthority(filepath.Join(o.ctl.State, "ca"), "rig", time.Now())
	if err != nil {
		return err
	}
	for _, n := range nodes {
		file := agentapi.Config{
			Node: n.name, Tag: n.name, Controller: o.ctl.Agents, Link: "dial",
			CPUs: n.cpus, MemoryMiB: n.memory, Runtime: "process", Workdir: "shared",
		}
		if err := o.startNode(file, authority); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return rig.Eventually(ctx, "both nodes", func() (bool, string, error) {
		a, err := o.Run(ctx, session.Command{User: "root", Dir: "/", Line: "sinfo -h -N -o %T | sort -u"})
		return a.Stdout == "idle\n", a.Stdout + a.Stderr, err
	})
}

// startNode starts an agent on a machine of its own, as far as processes and host
// name go: when it is killed, all that it started goes with it.
func (o *Ours) startNode(file agentapi.Config, authority *agentapi.Authority) error {
	dir := o.rig.Path("nodes", file.Node)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	if err := agentapi.SaveConfig(filepath.Join(dir, "agent.json"), file); err != nil {
		return err
	}
	if err := certify(filepath.Join(dir, "node"), file.Node, authority); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", //nolint:noctx // it outlives the call
		`hostname "$0" && exec "$1/sbatchd-node" agent --state "$2"`, file.Node, Bin, dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	o.rig.Defer(func() error {
		err := cmd.Process.Kill()
		cmd.Wait() //nolint:errcheck // it was killed
		return err
	})
	return nil
}

// certify gives a machine of one's own the certificate that a rented one gets for its
// join token.
func certify(path, node string, authority *agentapi.Authority) error {
	ca, err := x509.ParseCertificate(authority.CAs()[0])
	if err != nil {
		return err
	}
	key, err := agentapi.NewKey()
	if err != nil {
		return err
	}
	csr, err := agentapi.NewRequest(key, node)
	if err != nil {
		return err
	}
	id := agentapi.Identity{Cluster: strings.TrimPrefix(ca.Subject.CommonName, "sbatchd "), Node: node, Tag: node}
	reply, err := authority.Renew(id, &agentapi.RenewRequest{Csr: csr}, time.Now())
	if err != nil {
		return err
	}
	return errors.Join(agentapi.SaveKey(path, key), agentapi.SaveReply(path, reply))
}

// Close stops it.
func (o *Ours) Close() error { return o.rig.Close() }

// Host is the path itself: the world is this program's.
func (o *Ours) Host(path string) string { return path }

// Run runs a command line as a user.
func (o *Ours) Run(ctx context.Context, c session.Command) (session.Answer, error) {
	id := uint32(session.Users[c.User]) //nolint:gosec // small
	c.Env = append([]string{"SBATCHD_SERVER=unix://" + o.ctl.Socket}, c.Env...)
	return execute(ctx, c, &syscall.Credential{Uid: id, Gid: id},
		"/bin/sh", "-c", `cd "$0" || exit 125; eval "$1"`, c.Dir, c.Line)
}

// REST asks sbatchd.
func (o *Ours) REST(ctx context.Context, user, method, path, body string) (session.Answer, error) {
	return o.ask(ctx, user, method, path, body)
}
