package exec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/boot"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// question is what a program reads.
type question struct {
	Provider   string            `json:"provider"`
	Cluster    string            `json:"cluster"`
	Credential map[string]string `json:"credential"`
	Want       *want             `json:"want,omitempty"`
	Request    *request          `json:"request,omitempty"`
	ID         string            `json:"id,omitempty"`
}

// answer is what a program prints.
type answer struct {
	Offers    []offer     `json:"offers"`
	Instance  *instance   `json:"instance"`
	Instances *[]instance `json:"instances"`
	Error     *failure    `json:"error"`
}

type failure struct {
	Class   string  `json:"class"`
	Message string  `json:"message"`
	After   float64 `json:"after"` // seconds to wait, class rate
}

var classes = map[string]error{
	"no-capacity": cloudburst.ErrNoCapacity, "quota": cloudburst.ErrQuota, "auth": cloudburst.ErrAuth,
	"no-balance": cloudburst.ErrNoBalance, "bad-request": cloudburst.ErrBadRequest, "transient": cloudburst.ErrTransient,
	"not-found": cloudburst.ErrNotFound, "unsupported": cloudburst.ErrUnsupported,
}

func (f *failure) err() error {
	if f.Class == "rate" {
		return cloudburst.RateLimited{After: time.Duration(max(0, f.After) * float64(time.Second))}
	}
	if err, ok := classes[f.Class]; ok {
		return err
	}
	return cloudburst.ErrTransient
}

// want is a cloudburst.Want: what the machine must have at least. A program may
// offer more than fits; it is sorted out here again.
type want struct {
	GPUType      string   `json:"gpu_type,omitempty"`
	GPUs         int      `json:"gpus,omitempty"`
	MaxGPUs      int      `json:"max_gpus,omitempty"`
	GPUMemoryMiB int64    `json:"gpu_memory_mib,omitempty"`
	CPUs         int      `json:"cpus,omitempty"`
	MemoryMiB    int64    `json:"memory_mib,omitempty"`
	DiskMiB      int64    `json:"disk_mib,omitempty"`
	Capacity     string   `json:"capacity"` // ondemand, spot, auto, reserved, prepaid
	Regions      []string `json:"regions,omitempty"`
	Zones        []string `json:"zones,omitempty"`
	InstanceType string   `json:"instance_type,omitempty"`
	Interconnect string   `json:"interconnect,omitempty"`
	MaxPrice     float64  `json:"max_price,omitempty"` // per hour
	Currency     string   `json:"currency,omitempty"`
}

func wantOf(w cloudburst.Want) want {
	return want{
		GPUType: w.GPUs.Type, GPUs: w.GPUs.Count, MaxGPUs: w.MaxGPUs, GPUMemoryMiB: w.GPUs.MemoryMiB,
		CPUs: w.CPUs, MemoryMiB: w.MemoryMiB, DiskMiB: w.DiskMiB,
		Capacity: string(cmp.Or(w.Capacity, cloudburst.OnDemand)), Regions: w.Regions, Zones: w.Zones,
		InstanceType: w.InstanceType, Interconnect: w.Interconnect,
		MaxPrice: float64(w.MaxPrice.Micros) / 1e6, Currency: w.MaxPrice.Currency,
	}
}

// offer is a cloudburst.Offer.
type offer struct {
	ID           string  `json:"id"`
	InstanceType string  `json:"instance_type,omitempty"`
	Region       string  `json:"region,omitempty"`
	Zone         string  `json:"zone,omitempty"`
	GPUType      string  `json:"gpu_type,omitempty"`
	GPUs         int     `json:"gpus,omitempty"`
	GPUMemoryMiB int64   `json:"gpu_memory_mib,omitempty"`
	CPUs         int     `json:"cpus,omitempty"`
	MemoryMiB    int64   `json:"memory_mib,omitempty"`
	DiskMiB      int64   `json:"disk_mib,omitempty"`
	Interconnect string  `json:"interconnect,omitempty"`
	Spot         bool    `json:"spot,omitempty"`
	Price        float64 `json:"price"` // per machine and hour
	Currency     string  `json:"currency,omitempty"`
	Available    *int    `json:"available,omitempty"` // left out: unknown
}

func (o offer) offer(provider string) (cloudburst.Offer, error) {
	price, err := money(o.Price, o.Currency)
	switch {
	case o.ID == "":
		return cloudburst.Offer{}, errors.New("an offer has no id")
	case err != nil:
		return cloudburst.Offer{}, fmt.Errorf("offer %s: %w", o.ID, err)
	case o.GPUs < 0 || o.CPUs < 0 || o.MemoryMiB < 0 || o.DiskMiB < 0 || o.GPUMemoryMiB < 0:
		return cloudburst.Offer{}, fmt.Errorf("offer %s has a size below zero", o.ID)
	}
	return cloudburst.Offer{
		ID: cloudburst.OfferID(o.ID), Provider: provider, InstanceType: o.InstanceType, Region: o.Region, Zone: o.Zone,
		GPUs: cloudburst.GPUs{Type: o.GPUType, Count: o.GPUs, MemoryMiB: o.GPUMemoryMiB},
		CPUs: o.CPUs, MemoryMiB: o.MemoryMiB, DiskMiB: o.DiskMiB, Interconnect: o.Interconnect,
		Spot: o.Spot, Price: price, Available: o.Available,
	}, nil
}

// offerOf is an offer given back in a request.
func offerOf(o cloudburst.Offer) offer {
	return offer{
		ID: string(o.ID), InstanceType: o.InstanceType, Region: o.Region, Zone: o.Zone,
		GPUType: o.GPUs.Type, GPUs: o.GPUs.Count, GPUMemoryMiB: o.GPUs.MemoryMiB,
		CPUs: o.CPUs, MemoryMiB: o.MemoryMiB, DiskMiB: o.DiskMiB, Interconnect: o.Interconnect,
		Spot: o.Spot, Price: float64(o.Price.Micros) / 1e6, Currency: o.Price.Currency, Available: o.Available,
	}
}

func money(perHour float64, currency string) (cloudburst.Money, error) {
	micros := math.Round(perHour * 1e6)
	if !(micros >= 0 && micros < 1e15) { // also not a number
		return cloudburst.Money{}, fmt.Errorf("price %v is not one", perHour)
	}
	if micros == 0 {
		return cloudburst.Money{}, nil
	}
	return cloudburst.Money{Micros: int64(micros), Currency: cmp.Or(currency, cloudburst.DefaultCurrency)}, nil
}

// request asks for one machine.
type request struct {
	Tag       string `json:"tag"` // to be kept with the machine and shown by list
	Cluster   string `json:"cluster"`
	Epoch     uint64 `json:"epoch"`
	Pool      string `json:"pool"`
	Node      string `json:"node"`
	Offer     offer  `json:"offer"`
	BootImage string `json:"boot_image,omitempty"`
	UserData  string `json:"user_data,omitempty"`
	// Agent is the content of the agent's configuration file, agent.json of its
	// state folder; NodeBinary the agent's program on the controller's machine.
	Agent          agentapi.Config `json:"agent"`
	NodeBinary     string          `json:"node_binary"`
	AuthorizedKeys []string        `json:"authorized_keys,omitempty"` // AgentLink=ssh: keys of root on the machine
	AutoRelease    *time.Time      `json:"auto_release,omitempty"`
}

func (p *provider) requestOf(r cloudburst.Request) request {
	out := request{
		Tag: string(r.Tag), Cluster: r.ClusterUUID, Epoch: r.Epoch, Pool: r.Pool, Node: r.NodeName,
		Offer: offerOf(r.Offer), BootImage: r.BootImage, UserData: r.UserData,
		NodeBinary: p.o.NodeBinary, AuthorizedKeys: r.Agent.AuthorizedKeys,
		Agent: boot.Agent(r),
	}
	if !r.AutoRelease.IsZero() {
		out.AutoRelease = &r.AutoRelease
	}
	return out
}

// instance is a cloudburst.Instance. What a program cannot know may be left out,
// but for id, tag and state.
type instance struct {
	ID        string     `json:"id"`
	Tag       string     `json:"tag"`
	Epoch     uint64     `json:"epoch,omitempty"`
	Offer     string     `json:"offer,omitempty"`
	State     string     `json:"state"` // pending, running, stopping, stopped, gone
	Region    string     `json:"region,omitempty"`
	Zone      string     `json:"zone,omitempty"`
	Address   string     `json:"address,omitempty"`  // host or host:port of its sshd
	HostKey   string     `json:"host_key,omitempty"` // as in known_hosts
	Price     float64    `json:"price,omitempty"`    // per hour, as charged
	Currency  string     `json:"currency,omitempty"`
	CreatedAt time.Time  `json:"created_at,omitzero"`
	ReclaimAt *time.Time `json:"reclaim_at,omitempty"`
}

var errNotOurs = errors.New("not a machine of ours")

func (w instance) instance() (cloudburst.Instance, error) {
	tag := cloudburst.Tag(w.Tag)
	cluster, node, _, err := tag.Parse()
	if err != nil {
		return cloudburst.Instance{}, errNotOurs
	}
	state := cloudburst.State(w.State)
	switch state {
	case cloudburst.Pending, cloudburst.Running, cloudburst.Stopping, cloudburst.Stopped, cloudburst.Gone:
	default:
		return cloudburst.Instance{}, fmt.Errorf("instance %q has state %q", w.ID, w.State)
	}
	if w.ID == "" {
		return cloudburst.Instance{}, fmt.Errorf("the instance of %s has no id", w.Tag)
	}
	price, err := money(w.Price, w.Currency)
	if err != nil {
		return cloudburst.Instance{}, fmt.Errorf("instance %s: %w", w.ID, err)
	}
	return cloudburst.Instance{
		ID: cloudburst.InstanceID(w.ID), Tag: tag, ClusterUUID: cluster, Epoch: w.Epoch, NodeName: node,
		Offer: cloudburst.OfferID(w.Offer), State: state, Region: w.Region, Zone: w.Zone,
		Address: w.Address, HostKey: w.HostKey, Price: price, CreatedAt: w.CreatedAt, ReclaimAt: w.ReclaimAt,
	}, nil
}
