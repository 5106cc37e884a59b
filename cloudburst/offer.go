package cloudburst

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

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
// as far as its API can; price.Rank applies all of it again.
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

// Fits says why an offer does not meet a want, in words for a user, or nil.
// Unknown CPUs, memory and disk (0) of an offer are taken as enough; an unknown
// interconnect is not. Whether any is left is another question: see SoldOut.
func (w Want) Fits(o Offer) error {
	switch {
	case w.GPUs.Count > 0 && o.GPUs.Count < w.GPUs.Count:
		return fmt.Errorf("%d GPUs, %d wanted", o.GPUs.Count, w.GPUs.Count)
	case w.MaxGPUs > 0 && o.GPUs.Count > w.MaxGPUs:
		return fmt.Errorf("%d GPUs, at most %d wanted", o.GPUs.Count, w.MaxGPUs)
	case w.GPUs.Count > 0 && w.GPUs.Type != "" && !strings.EqualFold(o.GPUs.Type, w.GPUs.Type):
		return fmt.Errorf("GPU %s, %s wanted", orNone(o.GPUs.Type), w.GPUs.Type)
	case w.GPUs.MemoryMiB > 0 && o.GPUs.MemoryMiB < w.GPUs.MemoryMiB:
		return fmt.Errorf("%d MiB on each GPU, %d wanted", o.GPUs.MemoryMiB, w.GPUs.MemoryMiB)
	case o.CPUs > 0 && o.CPUs < w.CPUs:
		return fmt.Errorf("%d CPUs, %d wanted", o.CPUs, w.CPUs)
	case o.MemoryMiB > 0 && o.MemoryMiB < w.MemoryMiB:
		return fmt.Errorf("%d MiB memory, %d wanted", o.MemoryMiB, w.MemoryMiB)
	case o.DiskMiB > 0 && o.DiskMiB < w.DiskMiB:
		return fmt.Errorf("%d MiB disk, %d wanted", o.DiskMiB, w.DiskMiB)
	case w.Capacity == Spot && !o.Spot:
		return errors.New("on demand, spot wanted")
	case (w.Capacity == "" || w.Capacity == OnDemand) && o.Spot:
		return errors.New("spot, on demand wanted")
	case !matches(w.Regions, o.Region):
		return fmt.Errorf("region %s is not allowed", orNone(o.Region))
	case !matches(w.Zones, o.Zone):
		return fmt.Errorf("zone %s is not allowed", orNone(o.Zone))
	case w.InstanceType != "" && o.InstanceType != w.InstanceType:
		return fmt.Errorf("instance type %s, %s wanted", orNone(o.InstanceType), w.InstanceType)
	case w.Interconnect != "" && w.Interconnect != "any" && !strings.EqualFold(o.Interconnect, w.Interconnect):
		return fmt.Errorf("interconnect %s, %s wanted", orNone(o.Interconnect), w.Interconnect)
	case !w.MaxPrice.IsZero() && !o.Price.Comparable(w.MaxPrice):
		return fmt.Errorf("price in %s, MaxPrice in %s", o.Price.Currency, w.MaxPrice.Currency)
	case !w.MaxPrice.IsZero() && o.Price.Micros > w.MaxPrice.Micros:
		return fmt.Errorf("price %s is above MaxPrice %s", o.Price, w.MaxPrice)
	default:
		return nil
	}
}

// SoldOut reports whether the provider says that there is none to be had now.
func (o Offer) SoldOut() bool { return o.Available != nil && *o.Available <= 0 }

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// matches reports whether a name is allowed by patterns as in path.Match; no
// pattern allows everything. Case does not matter.
func matches(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if ok, err := path.Match(strings.ToLower(p), strings.ToLower(name)); err == nil && ok {
			return true
		}
	}
	return false
}
