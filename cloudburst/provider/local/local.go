// Package local rents nodes from this machine: each is an agent in processes of
// its own, with its own state folder, that lives on when the controller dies
// and is found again by List. As root it has namespaces of its own and behaves
// like a rented machine (see runtime/localnode); as an ordinary user it is a
// process tree of that user.
//
// A node has the CPUs, memory and gres its pool declares, whatever this machine
// has. Without a market file there is one offer, exactly what is wanted, free
// and always there. With Market=FILE of the provider the file says what is for
// sale, what it costs and when it is taken back, in Slurm's Key=Value syntax:
//
//	Offer=a100-spot Gres=gpu:a100:1 GpuMemory=80G CPUs=8 RealMemory=32000 Spot=yes Price=0.50 Capacity=2 Region=eu-1
//	Reclaim=spot AfterJob=25 Notice=10 Times=1
//	Reclaim=a100-* At=600 Notice=30
//	Fault=create Offer=a100-spot Error=no-capacity Nth=1 Times=3
//
// An Offer also takes InstanceType, Zone, TmpDisk and Interconnect; what it
// leaves out is enough for any want, save GPUs. Reclaim names the offers by a
// pattern, or all spot ones by the word spot, and takes a machine away After
// seconds from its boot, AfterJob seconds from the start of its first job's
// script, or At seconds after the market was opened (the provider's first use);
// Notice seconds before, the notice appears in the node's folder as a cloud's
// metadata would show it. Times limits the machines a rule takes in all.
// Fault makes the Nth call (and Times-1 after it) of offers, create, list or
// delete fail with a class of cloudburst.Class; After=yes lets the call take
// effect first. The file is read anew at every call.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

func init() {
	cloudburst.Register(cloudburst.Driver{
		Name: "local", New: New,
		Kind: cloudburst.Process, Billing: time.Second, SelfDestruct: true,
		Options: []cloudburst.Option{{Name: "market", Help: "file with offers, prices and reclaims"}},
	})
}

type provider struct {
	name     string
	dir      string // one folder per machine, and the market's own files
	binary   string // sbatchd-node
	market   string // file; "" is none
	isolated bool
	log      *slog.Logger

	unreadable sync.Map // folders that were complained about
}

// New makes the provider. Its machines live in Options.StateDir, which must not
// be on a file system that forgets, nor have a long path: unix sockets lie in it. A faulty market file is an error.
func New(o cloudburst.Options) (cloudburst.Provider, error) {
	p, err := open(o)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func open(o cloudburst.Options) (*provider, error) {
	p := &provider{
		name: o.Provider, dir: filepath.Clean(o.StateDir),
		binary: o.NodeBinary, market: o.Values["market"],
		isolated: canIsolate(), log: o.Log,
	}
	if !filepath.IsAbs(p.dir) {
		return nil, fmt.Errorf("state folder %q is not an absolute path", p.dir)
	}
	if p.market != "" {
		if _, err := readMarket(p.market); err != nil {
			return nil, fmt.Errorf("market: %w", err)
		}
	}
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return nil, err
	}
	return p, p.openMarket()
}

// canIsolate reports whether machines can have namespaces of their own: root,
// with the right to mount.
func canIsolate() bool {
	if os.Geteuid() != 0 {
		return false
	}
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && caps&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return false
}

// openMarket keeps the moment of the first use: what At counts from.
func (p *provider) openMarket() error {
	path := filepath.Join(p.dir, "opened")
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(path, nil, 0o600)
	}
	return err
}

func (p *provider) opened() (time.Time, error) {
	fi, err := os.Stat(filepath.Join(p.dir, "opened"))
	if err != nil {
		return time.Time{}, err
	}
	return fi.ModTime(), nil
}

// lock holds the provider's books against other calls, of other controllers
// too.
func (p *provider) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		timer := time.NewTimer(2 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			f.Close()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// Offers lists what the market sells, or the one free offer.
func (p *provider) Offers(ctx context.Context, w cloudburst.Want) ([]cloudburst.Offer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, _, err := p.sale(w)
	if err != nil {
		return nil, err
	}
	if err := p.fault("offers", cloudburst.Offer{}, false); err != nil {
		return nil, err
	}
	machines, err := p.machines()
	if err != nil {
		return nil, err
	}
	var out []cloudburst.Offer
	for _, o := range list {
		if o.capacity >= 0 {
			left := max(0, o.capacity-used(machines, o.ID))
			o.Available = &left
		}
		if w.Fits(o.Offer) == nil {
			out = append(out, o.Offer)
		}
	}
	return out, nil
}

// sale is the price list of this moment.
func (p *provider) sale(w cloudburst.Want) ([]offer, market, error) {
	if p.market == "" {
		o := cloudburst.Offer{
			ID: "local", Provider: p.name, InstanceType: "local", Region: "local", Zone: "local",
			GPUs: w.GPUs, CPUs: w.CPUs, MemoryMiB: w.MemoryMiB, DiskMiB: w.DiskMiB,
			Spot: w.Capacity == cloudburst.Spot,
		}
		if w.Interconnect != "any" {
			o.Interconnect = w.Interconnect
		}
		if o.CPUs == 0 {
			o.CPUs = runtime.NumCPU()
		}
		return []offer{{Offer: o, capacity: -1}}, market{}, nil
	}
	m, err := readMarket(p.market)
	if err != nil {
		return nil, m, fmt.Errorf("market: %w: %w", cloudburst.ErrBadRequest, err)
	}
	for i := range m.offers {
		m.offers[i].Provider = p.name
	}
	return m.offers, m, nil
}

func used(machines []machine, o cloudburst.OfferID) int {
	n := 0
	for _, m := range machines {
		if m.Offer == string(o) && (m.alive || !m.started) && !m.deleted {
			n++
		}
	}
	return n
}

// List shows every machine. It also clears away what dead ones left: nobody
// else would, and from then on they are gone.
func (p *provider) List(ctx context.Context) ([]cloudburst.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.fault("list", cloudburst.Offer{}, false); err != nil {
		return nil, err
	}
	if err := p.sweepHalves(ctx); err != nil {
		return nil, err
	}
	machines, err := p.machines()
	if err != nil {
		return nil, err
	}
	var out []cloudburst.Instance
	for _, m := range machines {
		i := m.instance()
		if !m.alive && (m.started || m.deleted) {
			if i.State, err = cloudburst.Gone, p.clear(ctx, m); err != nil {
				p.log.Warn("clear a dead local machine away", "instance", m.id, "node", m.Node, "err", err)
				i.State = cloudburst.Stopping
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// clear removes all that is left of a machine, and what its pool had in common
// when it was the last.
func (p *provider) clear(ctx context.Context, m machine) error {
	if err := os.WriteFile(filepath.Join(m.dir, localnode.DeletedFile), nil, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !m.deleted {
		p.log.Info("local machine has died", "instance", m.id, "node", m.Node, "console", tail(filepath.Join(m.dir, localnode.ConsoleFile)))
	}
	if err := localnode.Sweep(ctx, m.dir); err != nil {
		return err
	}
	unlock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	others, err := p.machines()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(o machine) bool { return o.Pool == m.Pool }) {
		return nil
	}
	for _, path := range []string{m.HostsFile, filepath.Join(p.dir, "."+m.Pool+".netlock")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// tail is the last of a console, for the log.
func tail(path string) string {
	const most = 600
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return strings.TrimSpace(string(data))
}

// Delete ends a machine and clears it away. When it answers nil all is gone
// already, which is earlier than the contract asks.
func (p *provider) Delete(ctx context.Context, i cloudburst.InstanceID) error {
	if err := p.fault("delete", cloudburst.Offer{}, false); err != nil {
		return err
	}
	dir, err := p.folder(i)
	if err != nil {
		return err
	}
	m := machine{id: i, dir: dir, deleted: true}
	if m.Machine, err = localnode.Load(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := p.clear(ctx, m); err != nil {
		return fmt.Errorf("delete %s: %w", i, err)
	}
	return p.fault("delete", cloudburst.Offer{}, true)
}

// Interruptions lists the reclaims the market has announced.
func (p *provider) Interruptions(ctx context.Context) ([]cloudburst.Interruption, error) {
	machines, err := p.machines()
	if err != nil {
		return nil, err
	}
	var out []cloudburst.Interruption
	for _, m := range machines {
		if i := m.instance(); i.ReclaimAt != nil && m.alive {
			out = append(out, cloudburst.Interruption{ID: i.ID, Tag: i.Tag, At: *i.ReclaimAt})
		}
	}
	return out, ctx.Err()
}

// Extend moves the moment at which a machine ends by itself.
func (p *provider) Extend(_ context.Context, i cloudburst.InstanceID, until time.Time) error {
	dir, err := p.folder(i)
	if err != nil {
		return err
	}
	err = localnode.SetRelease(dir, until)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("extend %s: %w", i, cloudburst.ErrNotFound)
	}
	return err
}

// Notify looks at the machines' locks several times a second: no system call
// waits for the end of a process that is not ours and was not there when we
// started.
func (p *provider) Notify(ctx context.Context, changed chan<- struct{}) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		machines, err := p.machines()
		if err != nil {
			return err
		}
		var now strings.Builder
		for _, m := range machines {
			i := m.instance()
			fmt.Fprintln(&now, i.ID, i.State, m.alive, i.ReclaimAt)
		}
		if text := now.String(); text != last {
			last = text
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
}

// SettleTime is nothing: a folder is listed as soon as it is written.
func (p *provider) SettleTime() time.Duration { return 0 }

// DialSSH leads to the sshd of a node with AgentLink=ssh.
func (p *provider) DialSSH(ctx context.Context, i cloudburst.Instance) (net.Conn, error) {
	dir, err := p.folder(i.ID)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join(dir, localnode.SSHSocket))
}
