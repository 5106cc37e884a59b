package local

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/boot"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// Create writes the machine's folder and starts it. Whatever a killed
// controller left half done, the next call with the same tag finishes.
func (p *provider) Create(ctx context.Context, r cloudburst.Request) (cloudburst.Instance, error) {
	if err := p.fault("create", r.Offer, false); err != nil {
		return cloudburst.Instance{}, err
	}
	name := id(r.Tag, r.NodeName)
	dir, err := p.folder(name)
	if err != nil {
		return cloudburst.Instance{}, err
	}
	if err := p.intend(ctx, dir, r); err != nil {
		return cloudburst.Instance{}, fmt.Errorf("create %s: %w", r.Tag, err)
	}
	if err := p.start(ctx, dir, r.Tag); err != nil {
		return cloudburst.Instance{}, fmt.Errorf("create %s: %w", r.Tag, err)
	}
	if err := p.fault("create", r.Offer, true); err != nil {
		return cloudburst.Instance{}, err
	}
	machines, err := p.machines()
	if err != nil {
		return cloudburst.Instance{}, err
	}
	for _, m := range machines {
		if m.id == name {
			return m.instance(), nil
		}
	}
	return cloudburst.Instance{}, fmt.Errorf("create %s: it ended at once: %w", r.Tag, cloudburst.ErrTransient)
}

// intend writes the folder, unless it is there, with machine.json last: from
// then on the machine is listed.
func (p *provider) intend(ctx context.Context, dir string, r cloudburst.Request) error {
	unlock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if have, err := localnode.Load(dir); err == nil {
		if have.Tag != string(r.Tag) {
			return fmt.Errorf("folder %s belongs to %s: %w", dir, have.Tag, cloudburst.ErrBadRequest)
		}
		if exists(dir, localnode.DeletedFile) {
			return fmt.Errorf("it is being deleted: %w", cloudburst.ErrTransient)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list, m, err := p.sale(cloudburst.Want{
		GPUs: r.Offer.GPUs, CPUs: r.Offer.CPUs, MemoryMiB: r.Offer.MemoryMiB, DiskMiB: r.Offer.DiskMiB,
		Interconnect: r.Offer.Interconnect,
	})
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(o offer) bool { return o.ID == r.Offer.ID })
	if at < 0 {
		return fmt.Errorf("offer %q is not for sale: %w", r.Offer.ID, cloudburst.ErrBadRequest)
	}
	machines, err := p.machines()
	if err != nil {
		return err
	}
	if o := list[at]; o.capacity >= 0 && used(machines, o.ID) >= o.capacity {
		return fmt.Errorf("all %d %s are taken: %w", o.capacity, o.ID, cloudburst.ErrNoCapacity)
	}
	opened, err := p.opened()
	if err != nil {
		return err
	}
	next := localnode.Machine{
		Tag: string(r.Tag), ClusterUUID: r.ClusterUUID, Epoch: r.Epoch, Pool: r.Pool, Node: r.NodeName,
		Offer: string(r.Offer.ID), Region: list[at].Region, Zone: list[at].Zone,
		PriceMicros: list[at].Price.Micros, Currency: list[at].Price.Currency, CreatedAt: time.Now().UTC(),
		Binary: p.binary, Isolated: p.isolated, Index: freeIndex(machines, r.Pool), PoolFolder: p.dir,
		CgroupParent: "/sbatchd-" + filepath.Base(dir),
		Reclaims:     m.rules(list[at].Offer, opened), CountFile: filepath.Join(p.dir, "reclaims.json"),
	}
	if err := p.write(dir, r, next, machines); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// freeIndex is the lowest index no machine of the pool has.
func freeIndex(machines []machine, pool string) int {
	taken := map[int]bool{}
	for _, m := range machines {
		taken[m.Index] = taken[m.Index] || m.Pool == pool
	}
	i := 0
	for taken[i] {
		i++
	}
	return i
}

// write makes the folder of a machine. The caller holds the lock.
func (p *provider) write(dir string, r cloudburst.Request, m localnode.Machine, others []machine) error {
	if err := os.RemoveAll(dir); err != nil { // half written by one that was killed
		return err
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	agent := boot.Agent(r)
	agent.NoticeFile = filepath.Join(dir, localnode.NoticeFile)
	agent.PoweroffFile = filepath.Join(dir, localnode.PoweroffFile)
	agent.ActiveFile = filepath.Join(dir, localnode.ActiveFile)
	agent.CgroupParent = m.CgroupParent
	agent.Egress = "unix:" + filepath.Join(dir, localnode.EgressSocket)
	if r.Agent.Runtime == "containerd" && m.Isolated {
		agent.Containerd = agentapi.ContainerdConfig{
			Managed: true, Socket: "/run/containerd/containerd.sock", Root: filepath.Join(dir, "containerd"),
		}
	}
	if r.Agent.Link == "ssh" {
		if !m.Isolated {
			return fmt.Errorf("AgentLink=ssh needs root: a local node without namespaces has no sshd of its own: %w", cloudburst.ErrUnsupported)
		}
		m.SSH = true
		if err := writeSSH(dir, r.Agent.AuthorizedKeys); err != nil {
			return err
		}
	} else {
		m.Controller = r.Agent.Controller
		agent.Controller = "unix:" + filepath.Join(dir, localnode.LinkSocket)
	}
	if m.Isolated {
		m.HiddenDirs = []string{"/etc/sbatchd", "/etc/slurm"}
		if r.Agent.Workdir == "shared" {
			m.HostRoot = "/run/sbatchd/host"
			agent.HostRoot = m.HostRoot
		}
		m.HostsFile = filepath.Join(p.dir, "hosts."+r.Pool)
		if err := writeHosts(m, others); err != nil {
			return err
		}
	}
	if err := agentapi.SaveConfig(filepath.Join(dir, localnode.AgentFile), agent); err != nil {
		return err
	}
	if !r.AutoRelease.IsZero() {
		if err := localnode.SetRelease(dir, r.AutoRelease); err != nil {
			return err
		}
	}
	return localnode.Save(dir, m)
}

// writeSSH gives the node's sshd a key of its own and those who may log in.
func writeSSH(dir string, keys []string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "ssh_host_key"), pem.EncodeToMemory(block), 0o600),
		os.WriteFile(filepath.Join(dir, "ssh_host_key.pub"), ssh.MarshalAuthorizedKey(line), 0o644),
		os.WriteFile(filepath.Join(dir, "authorized_keys"), []byte(strings.Join(keys, "\n")+"\n"), 0o600),
	)
}

// writeHosts writes the pool's /etc/hosts in place: running nodes have this
// very file mounted.
func writeHosts(m localnode.Machine, others []machine) error {
	var b bytes.Buffer
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	line := func(m localnode.Machine) { fmt.Fprintf(&b, "%s %s\n", localnode.PoolAddress(m.Index), m.Node) }
	for _, o := range others {
		if o.Pool == m.Pool && o.Isolated && o.Node != m.Node {
			line(o.Machine)
		}
	}
	line(m)
	return os.WriteFile(m.HostsFile, b.Bytes(), 0o644)
}

// start runs the machine of a folder and waits until its agent is started. One
// that runs already is success.
func (p *provider) start(ctx context.Context, dir string, tag cloudburst.Tag) error {
	if alive, err := localnode.Alive(dir); err == nil && alive && exists(dir, localnode.ReadyFile) {
		return nil
	}
	if localnode.Started(dir) {
		if alive, err := localnode.Alive(dir); err != nil {
			return err
		} else if !alive && localnode.Started(dir) {
			return fmt.Errorf("it has died: %w", cloudburst.ErrTransient)
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, "forward", "--dir", dir)
	cmd.Env = append(os.Environ(), localnode.Mark+"="+string(tag)) // so that Sweep finds it, too
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if text := strings.TrimSpace(out.String()); text != "" {
			return fmt.Errorf("start machine: %s: %w", text, cloudburst.ErrTransient)
		}
		return fmt.Errorf("start machine: %w: %w", cloudburst.ErrTransient, err)
	}
	return nil
}
