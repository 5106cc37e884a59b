package cloudburst

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Kind says what a driver rents and so how the agent gets there.
type Kind string

// The kinds of drivers.
const (
	VM        Kind = "vm"        // a machine of its own: containers run inside
	Container Kind = "container" // the agent is the entrypoint; no containers inside
	Process   Kind = "process"   // processes of this machine (provider/local)
)

// Option declares one setting of a driver, given as a key of ProviderName=
// lines or in the credential file.
type Option struct {
	Name     string // lower case
	Secret   bool   // never printed, logged or stored
	Required bool
	Help     string
}

// Driver is what a provider's package registers.
type Driver struct {
	Name    string // the Type= of a ProviderName line
	New     func(Options) (Provider, error)
	Kind    Kind
	Billing time.Duration // smallest step a machine is charged by
	Options []Option
	// AnyOption lets other names through: secrets that only a site's own program
	// knows what to do with.
	AnyOption bool
	// UserDataLimit is the most bytes of start-up text a machine gets; 0 is
	// no limit.
	UserDataLimit int
	// SelfDestruct says that a machine whose agent shuts it down stops costing
	// money; with AutoReleaser it decides which dead man's switch a pool has.
	SelfDestruct bool
}

// Options is what a configured provider is made from.
type Options struct {
	Provider    string            // ProviderName
	ClusterUUID string            // ours
	StateDir    string            // a folder of the controller for this provider alone
	NodeBinary  string            // path of sbatchd-node; Open sets it to the one beside the running program
	Values      map[string]string // options by lower-case name; secrets among them
	Log         *slog.Logger      // never nil
}

var registry = struct {
	sync.RWMutex
	drivers map[string]Driver
}{drivers: map[string]Driver{}}

// Register makes a driver known under its name. It is called from init
// functions and panics on a duplicate or an incomplete driver: a broken
// program.
func Register(d Driver) {
	registry.Lock()
	defer registry.Unlock()
	if d.Name == "" || d.New == nil {
		panic("cloudburst: driver without name or New")
	}
	if _, dup := registry.drivers[d.Name]; dup {
		panic("cloudburst: driver " + d.Name + " registered twice")
	}
	registry.drivers[d.Name] = d
}

// Lookup finds a driver by the Type= of a provider.
func Lookup(name string) (Driver, bool) {
	registry.RLock()
	defer registry.RUnlock()
	d, ok := registry.drivers[name]
	return d, ok
}

// Drivers lists the names of what is compiled in, sorted.
func Drivers() []string {
	registry.RLock()
	defer registry.RUnlock()
	names := make([]string, 0, len(registry.drivers))
	for name := range registry.drivers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Open makes the provider of a driver from its options. Unknown and missing
// options are errors that name the option, never its value.
func Open(driver string, o Options) (Provider, error) {
	d, ok := Lookup(driver)
	if !ok {
		return nil, fmt.Errorf("provider %s: no driver %q (have %v)", o.Provider, driver, Drivers())
	}
	for name := range o.Values {
		if !d.AnyOption && !slices.ContainsFunc(d.Options, func(opt Option) bool { return opt.Name == name }) {
			return nil, fmt.Errorf("provider %s: driver %s has no option %q", o.Provider, driver, name)
		}
	}
	for _, opt := range d.Options {
		if opt.Required && o.Values[opt.Name] == "" {
			return nil, fmt.Errorf("provider %s: driver %s needs %q", o.Provider, driver, opt.Name)
		}
	}
	if o.NodeBinary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", o.Provider, err)
		}
		o.NodeBinary = filepath.Join(filepath.Dir(self), "sbatchd-node")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := d.New(o)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", o.Provider, err)
	}
	return p, nil
}
