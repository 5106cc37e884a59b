package main

import (
	"context"
	"crypto/ed25519"
	crand "crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/cloudburst"
	_ "github.com/sbatchd/sbatchd/cloudburst/all" // the providers compiled in
	"github.com/sbatchd/sbatchd/cloudburst/pool"
	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/launch"
	"github.com/sbatchd/sbatchd/sbatchd/ledger"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// market connects the pools to the queue's ledger and to the REST server.
type market struct {
	*pool.Pool
	h      *house
	ca     *agentapi.Authority
	signer ssh.Signer // for AgentLink=ssh
}

func newMarket(h *house, cfg *partitions.Config, ca *agentapi.Authority, metrics prometheus.Registerer) (*market, error) {
	m := &market{h: h, ca: ca}
	var err error
	if m.signer, err = sshKey(filepath.Join(cfg.StateSaveLocation, "ca", "ssh")); err != nil {
		return nil, err
	}
	m.Pool, err = pool.New(pool.Config{
		Ledger: ledger.Of(h.queue), Nodes: ledger.Of(h.queue), Open: m.open, Agent: m.agent,
		Now: time.Now, Rand: rand.New(rand.NewSource(time.Now().UnixNano())), //nolint:gosec // jitter
		Log: h.log, Registerer: metrics,
	})
	return m, err
}

// Run rents and gives back until ctx ends.
func (m *market) Run(ctx context.Context) error {
	if err := m.Pool.Run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// open makes a configured provider.
func (m *market) open(p *partitions.Provider) (cloudburst.Provider, error) {
	s := m.h.queue.Snapshot()
	o := cloudburst.Options{
		Provider: p.Name, ClusterUUID: s.UUID, Log: m.h.log, Values: map[string]string{},
		StateDir: filepath.Join(s.Config.StateSaveLocation, "provider", p.Name),
	}
	for name, value := range map[string]string{"market": p.Market, "url": p.URL, "program": p.Program} {
		if value != "" {
			o.Values[name] = value
		}
	}
	secrets, err := p.Credential()
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	maps.Copy(o.Values, secrets)
	return cloudburst.Open(p.Type, o)
}

// agent is what a new machine's agent must know to find its way home.
func (m *market) agent(r pool.Row, p *partitions.Pool) (cloudburst.AgentConfig, error) {
	s := m.h.queue.Snapshot()
	timeout := s.Config.ResumeTimeout
	if p.ResumeTimeout > 0 {
		timeout = p.ResumeTimeout
	}
	a := cloudburst.AgentConfig{
		Controller: agentAddress(s.Config), Link: string(p.AgentLink), CASHA256: m.ca.SHA256(),
		JoinToken: m.ca.NewToken(r.Node, string(r.Tag), time.Now().Add(timeout)),
		Features:  p.Features, Runtime: string(p.Runtime), Workdir: string(p.Workdir),
		OrphanTimeout: s.Config.OrphanTimeout,
	}
	if p.AgentLink == partitions.SSH {
		a.Controller = "unix:" + launch.SSHSocket
		a.AuthorizedKeys = []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.signer.PublicKey())))}
	}
	return a, nil
}

// agentAddress is what agents dial: AgentAddress, or the first listener, or the
// first controller's host where that listens everywhere.
func agentAddress(c *partitions.Config) string {
	if c.AgentAddress != "" {
		return "tcp:" + c.AgentAddress
	}
	if len(c.AgentListen) == 0 {
		return ""
	}
	l := c.AgentListen[0]
	if l.Network == "tcp" && len(c.SlurmctldHosts) > 0 {
		for _, everywhere := range []string{"0.0.0.0:", "[::]:", ":"} {
			if port, ok := strings.CutPrefix(l.Address, everywhere); ok {
				return "tcp:" + c.SlurmctldHosts[0] + ":" + port
			}
		}
	}
	return l.String()
}

// sshKey loads the key the controller logs in to machines with, and makes it on
// first use.
func sshKey(file string) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		_, private, err := ed25519.GenerateKey(crand.Reader)
		if err != nil {
			return nil, err
		}
		block, err := ssh.MarshalPrivateKey(private, "sbatchd")
		if err != nil {
			return nil, err
		}
		data = pem.EncodeToMemory(block)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, fmt.Errorf("ssh key: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("ssh key: %w", err)
	}
	return ssh.ParsePrivateKey(data)
}

// Offers implements server.Market.
func (m *market) Offers(ctx context.Context, name string) (wire.Offers, error) {
	list, err := m.Pool.Offers(ctx, name)
	var out wire.Offers
	if err != nil {
		out.Errors = append(out.Errors, err.Error())
	}
	for _, o := range list {
		w := wire.Offer{
			Pool: o.Pool, Provider: o.Offer.Provider, InstanceType: o.Offer.InstanceType, Region: o.Offer.Region,
			CPUs: o.Offer.CPUs, MemoryMiB: o.Offer.MemoryMiB, Interconnect: o.Offer.Interconnect, Spot: o.Offer.Spot,
			PricePerHour: float64(o.Offer.Price.Micros) / micros, Currency: o.Offer.Price.Currency,
		}
		if g := o.Offer.GPUs; g.Count > 0 {
			w.Gres = tres.Gres{Name: "gpu", Type: g.Type, Count: uint64(g.Count)}.String()
		}
		if o.Offer.Available != nil {
			w.Available = *o.Offer.Available
		}
		if o.Why != "" {
			continue // what doesn't fit is not an offer to this pool
		}
		out.Offers = append(out.Offers, w)
	}
	return out, nil
}

// Leaks implements server.Market.
func (m *market) Leaks(ctx context.Context) (wire.Leaks, error) {
	c := m.Pool.Leaks(ctx)
	out := wire.Leaks{Leaked: c.Leaked(), Errors: c.Failed}
	s := m.h.queue.Snapshot()
	seen := map[string]bool{}
	for _, l := range c.Leaks {
		row := wire.LeakRow{
			Provider: l.Provider, ProviderID: string(l.ID), Tag: string(l.Tag), Listed: l.State != "", Leaked: l.Leaked, Note: l.Why,
		}
		if i, ok := s.Instance(row.Tag); ok {
			row.Node, row.Ledger = i.Node, string(i.State)
		}
		seen[row.Tag] = true
		out.Instances = append(out.Instances, row)
	}
	for i := range s.Instances() {
		if i.Live() && !seen[i.Tag] {
			out.Instances = append(out.Instances, wire.LeakRow{
				Provider: i.Provider, ProviderID: i.ProviderID, Tag: i.Tag, Node: i.Node, Ledger: string(i.State), Listed: true,
			})
		}
	}
	return out, nil
}

// DeadMan implements server.Market.
func (m *market) DeadMan(name string) string {
	for _, st := range m.Pools() {
		if st.Pool == name {
			return st.Switch
		}
	}
	return ""
}
