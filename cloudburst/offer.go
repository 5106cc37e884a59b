package cloudburst

// Capacity is the way a machine is rented.
type Capacity string

// The kinds of capacity a pool may ask for (pool key Capacity).
const (
	OnDemand Capacity = "ondemand"
	Spot     Capacity = "spot"
	Auto     Capacity = "auto" // spot or on demand, whichever is cheaper
	Reserved Capacity = "reserved"
	Prepaid  Capacity = "prepaid"
)

// GPUs describes the devices of one machine. Count 0 means none.
type GPUs struct {
	Type      string // Slurm's gres type, lower case ("a100"); "" is any type in a Want
	Count     int
	MemoryMiB int64 // of one device; 0 is unknown, or any in a Want
}

// Want says what a node must have at least. It is a filter a provider applies
// as far as its API can; price.Choose applies all of it again.
type Want struct {
	GPUs         GPUs     // at least Count devices of this type and memory
	MaxGPUs      int      // at most this many; 0 is no upper limit
	CPUs         int      // at least; 0 is any
	MemoryMiB    int64    // at least; 0 is any
	DiskMiB      int64    // at least; 0 is any
	Capacity     Capacity // "" is OnDemand
	Regions      []string // patterns as in path.Match ("eu-*"); none is everywhere
	Zones        []string // patterns; none is everywhere
	InstanceType string   // exactly this one; "" is any
	Interconnect string   // nvlink, pcie, ib; "" and any are any
	MaxPrice     Money    // per machine and hour; zero is no cap
}

// OfferID names an offer at its provider, for as long as the offer stands.
type OfferID string

// Offer is one thing a provider would rent now. It is no reservation: Create
// may still answer ErrNoCapacity.
type Offer struct {
	ID           OfferID
	Provider     string // name of the configured provider (ProviderName)
	InstanceType string
	Region       string
	Zone         string
	GPUs         GPUs
	CPUs         int
	MemoryMiB    int64
	DiskMiB      int64
	Interconnect string // nvlink, pcie, ib; "" is unknown
	Spot         bool
	Price        Money // per machine and hour
	Available    *int  // how many could be had now; nil is unknown
}
