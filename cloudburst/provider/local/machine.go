package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// id is a machine's name at this provider and the name of its folder: short,
// since unix sockets lie in it.
func id(tag cloudburst.Tag, node string) cloudburst.InstanceID {
	sum := sha256.Sum256([]byte(tag))
	return cloudburst.InstanceID(fmt.Sprintf("%.20s.%s", node, hex.EncodeToString(sum[:4])))
}

func (p *provider) folder(i cloudburst.InstanceID) (string, error) {
	name := string(i)
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("instance %q: %w", name, cloudburst.ErrBadRequest)
	}
	return filepath.Join(p.dir, name), nil
}

// machine is one folder as found.
type machine struct {
	id  cloudburst.InstanceID
	dir string
	localnode.Machine
	alive, started, deleted, ready bool
}

// machines reads all folders. One that cannot be read is skipped with an error
// for the log: it must not hide the others.
func (p *provider) machines() ([]machine, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	var out []machine
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		m := machine{id: cloudburst.InstanceID(e.Name()), dir: filepath.Join(p.dir, e.Name())}
		if m.Machine, err = localnode.Load(m.dir); errors.Is(err, fs.ErrNotExist) {
			continue // not yet, or no longer a machine
		}
		if err == nil {
			m.started = localnode.Started(m.dir) // asked before alive: never "started and dead" while starting
			m.alive, err = localnode.Alive(m.dir)
		}
		if err != nil {
			if _, said := p.unreadable.LoadOrStore(e.Name(), true); !said {
				p.log.Error("read local machine", "instance", e.Name(), "err", err)
			}
			continue
		}
		m.deleted, m.ready = exists(m.dir, localnode.DeletedFile), exists(m.dir, localnode.ReadyFile)
		out = append(out, m)
	}
	return out, nil
}

// sweepHalves removes folders that a controller was killed over before they
// became machines.
func (p *provider) sweepHalves(ctx context.Context) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(p.dir, e.Name())
		fi, err := e.Info()
		if !e.IsDir() || err != nil || exists(dir, localnode.MachineFile) || time.Since(fi.ModTime()) < time.Minute {
			continue
		}
		unlock, err := p.lock(ctx)
		if err != nil {
			return err
		}
		if !exists(dir, localnode.MachineFile) { // nobody is at it: they would hold the lock
			err = os.RemoveAll(dir)
		}
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func (m machine) instance() cloudburst.Instance {
	i := cloudburst.Instance{
		ID: m.id, Tag: cloudburst.Tag(m.Tag), ClusterUUID: m.ClusterUUID, Epoch: m.Epoch, NodeName: m.Node,
		Offer: cloudburst.OfferID(m.Offer), Region: m.Region, Zone: m.Zone, CreatedAt: m.CreatedAt,
		Price: cloudburst.Money{Micros: m.PriceMicros, Currency: m.Currency},
	}
	switch {
	case m.deleted:
		i.State = cloudburst.Stopping
	case m.alive && m.ready:
		i.State = cloudburst.Running
	default:
		i.State = cloudburst.Pending
	}
	if m.SSH && m.alive {
		i.Address = "local:" + string(m.id)
		if data, err := os.ReadFile(filepath.Join(m.dir, "ssh_host_key.pub")); err == nil {
			i.HostKey = strings.TrimSpace(string(data))
		}
	}
	if n, ok, err := agentapi.LoadNotice(filepath.Join(m.dir, localnode.NoticeFile)); err == nil && ok {
		i.ReclaimAt = &n.At
	}
	return i
}
