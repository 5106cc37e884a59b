package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
)

// account is one configured provider, with what the pool remembers about it.
type account struct {
	name     string
	from     partitions.Provider // as configured when it was opened
	provider cloudburst.Provider
	driver   cloudburst.Driver

	// Guarded by Pool.mu.
	looking  bool      // a List is on its way
	looked   time.Time // when the last successful one began
	lookFail int       // failures since
	nextLook time.Time
	notifier bool      // its Notify is running
	extended time.Time // auto-release times were last moved
}

// defaultSettle is the settle time of a provider that does not say.
const defaultSettle = time.Minute

func (a *account) settle() time.Duration {
	if s, ok := a.provider.(cloudburst.Settler); ok {
		return s.SettleTime()
	}
	return defaultSettle
}

// account opens a provider once. One that left the configuration while machines
// of it live is still known, so that they can be deleted.
func (p *Pool) account(cfg *partitions.Config, name string) (*account, error) {
	var want *partitions.Provider
	for _, c := range cfg.Providers {
		if c.Name == name {
			want = c
		}
	}
	p.mu.Lock()
	have := p.accounts[name]
	p.mu.Unlock()
	if want == nil {
		if have == nil {
			return nil, fmt.Errorf("provider %s is not configured", name)
		}
		return have, nil
	}
	from := *want
	from.At = partitions.Position{} // moving a line changes nothing
	if have != nil && have.from == from {
		return have, nil
	}
	provider, err := p.cfg.Open(want)
	if err != nil {
		return nil, err
	}
	driver, _ := cloudburst.Lookup(want.Type) // unknown in tests alone
	a := &account{name: name, from: from, provider: provider, driver: driver}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts[name] = a
	return a, nil
}

// call runs one provider call with a timeout and counts it.
func (p *Pool) call(ctx context.Context, a *account, op string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	err := do(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s: no answer in %s: %w", op, p.cfg.Timeout, cloudburst.ErrTransient)
	}
	class := cloudburst.Class(err)
	if class == "" {
		class = "ok"
	}
	p.calls.WithLabelValues(a.name, op, class).Inc()
	return err
}

// newCalls is the counter of provider calls.
func newCalls(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sbatchd_provider_calls_total",
		Help: "Calls to providers, by operation and class of answer.",
	}, []string{"provider", "op", "class"})
	if r == nil {
		return c, nil
	}
	var have prometheus.AlreadyRegisteredError
	if err := r.Register(c); errors.As(err, &have) {
		if c, ok := have.ExistingCollector.(*prometheus.CounterVec); ok {
			return c, nil
		}
	} else if err != nil {
		return nil, err
	}
	return c, nil
}

// wantOf is what a node of a pool must have.
func wantOf(c *partitions.Pool, n Node) cloudburst.Want {
	w := cloudburst.Want{
		GPUs:         cloudburst.GPUs{MemoryMiB: c.GpuMemory.Bytes() >> 20},
		CPUs:         c.CPUs,
		MemoryMiB:    c.RealMemory.Bytes() >> 20,
		DiskMiB:      max(c.TmpDisk, c.Disk).Bytes() >> 20,
		Capacity:     cloudburst.Capacity(c.Capacity),
		Regions:      c.Regions,
		Zones:        c.Zones,
		InstanceType: c.InstanceType,
		MaxPrice:     cloudburst.Money{Micros: c.MaxPrice.Amount, Currency: c.MaxPrice.Currency},
	}
	if c.Interconnect != partitions.AnyLink {
		w.Interconnect = string(c.Interconnect)
	}
	for _, g := range c.Gres {
		if g.Name == "gpu" {
			w.GPUs.Type = g.Type
			w.GPUs.Count = max(int(g.Min), n.GPUs)
			w.MaxGPUs = int(g.Max)
			break
		}
	}
	if w.GPUs.Count == 0 {
		w.GPUs.MemoryMiB = 0
	}
	return w
}

// gresOf is what a machine of a pool declares: the GPUs of its offer and
// whatever else the pool says.
func gresOf(c *partitions.Pool, o cloudburst.Offer) string {
	var words []string
	gpus := o.GPUs.Count > 0
	for _, g := range c.Gres {
		switch {
		case g.Name == "gpu" && gpus:
			words = append(words, gpuGres(o.GPUs, g.Type))
			gpus = false
		case g.Name == "gpu":
		case g.Type != "":
			words = append(words, fmt.Sprintf("%s:%s:%d", g.Name, g.Type, g.Max))
		default:
			words = append(words, fmt.Sprintf("%s:%d", g.Name, g.Max))
		}
	}
	return strings.Join(words, ",")
}

// gpuGres prints GPUs as Slurm's gres. asked is the pool's own name of the
// type, which wins.
func gpuGres(g cloudburst.GPUs, asked string) string {
	switch {
	case g.Count == 0:
		return ""
	case asked != "":
		return fmt.Sprintf("gpu:%s:%d", asked, g.Count)
	case g.Type != "":
		return fmt.Sprintf("gpu:%s:%d", g.Type, g.Count)
	default:
		return fmt.Sprintf("gpu:%d", g.Count)
	}
}
