package local

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/slurmconf"
	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/runtime/localnode"
)

// market is what a market file says.
type market struct {
	offers   []offer
	reclaims []reclaim
	faults   []fault
}

type offer struct {
	cloudburst.Offer
	capacity int // live machines at once; negative is no limit
}

type reclaim struct {
	target string        // pattern of offers' names, or "spot"
	at     time.Duration // after the market was opened
	rule   localnode.Reclaim
}

type fault struct {
	op     string
	target string // pattern of offers' names; "" is every call
	err    error
	nth    int
	times  int
	after  bool
	key    string // what its calls are counted under
}

// readMarket reads a market file. All faults are reported at once, each with
// file and line.
func readMarket(file string) (market, error) {
	doc, bad := slurmconf.Read(file)
	var m market
	var errs []error
	for _, f := range bad {
		errs = append(errs, fmt.Errorf("%s:%d: %s", f.File, f.Line, f.Msg))
	}
	if doc == nil {
		return m, errors.Join(errs...)
	}
	for _, s := range doc.Statements {
		if err := m.add(s); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", s[0].File, s[0].Line, err))
		}
	}
	return m, errors.Join(errs...)
}

func (m *market) add(s slurmconf.Statement) error {
	v := values{statement: s}
	switch {
	case s[0].Is("Offer"):
		o := offer{capacity: -1}
		o.ID = cloudburst.OfferID(s[0].Value)
		o.InstanceType, o.Region, o.Zone = s[0].Value, "local", "local"
		v.text("InstanceType", &o.InstanceType)
		v.text("Region", &o.Region)
		v.text("Zone", &o.Zone)
		v.text("Interconnect", &o.Interconnect)
		v.number("CPUs", &o.CPUs)
		v.memory("RealMemory", &o.MemoryMiB)
		v.memory("TmpDisk", &o.DiskMiB)
		v.memory("GpuMemory", &o.GPUs.MemoryMiB)
		v.yes("Spot", &o.Spot)
		v.number("Capacity", &o.capacity)
		v.parse("Gres", func(text string) error {
			list, err := tres.ParseGres(text)
			for _, g := range list {
				if g.Name == "gpu" {
					o.GPUs.Type, o.GPUs.Count = g.Type, o.GPUs.Count+int(g.Count)
				}
			}
			return err
		})
		v.parse("Price", func(text string) error {
			p, err := partitions.ParseMoney(text)
			o.Price = cloudburst.Money{Micros: p.Amount, Currency: p.Currency}
			return err
		})
		if s[0].Value == "" || slices.ContainsFunc(m.offers, func(have offer) bool { return have.ID == o.ID }) {
			return fmt.Errorf("offer %q: the name is empty or used twice", s[0].Value)
		}
		m.offers = append(m.offers, o)
	case s[0].Is("Reclaim"):
		r := reclaim{target: s[0].Value, at: -1}
		v.seconds("After", &r.rule.After)
		v.seconds("AfterJob", &r.rule.AfterJob)
		v.seconds("At", &r.at)
		v.seconds("Notice", &r.rule.Notice)
		v.number("Times", &r.rule.Times)
		given := 0
		for _, key := range []string{"After", "AfterJob", "At"} {
			if v.has(key) {
				given++
			}
		}
		if given != 1 {
			return errors.New("a reclaim has exactly one of After, AfterJob and At")
		}
		r.rule.Rule = v.line()
		m.reclaims = append(m.reclaims, r)
	case s[0].Is("Fault"):
		f := fault{op: strings.ToLower(s[0].Value), nth: 1, times: 1, key: v.line()}
		if !slices.Contains([]string{"offers", "create", "list", "delete"}, f.op) {
			return fmt.Errorf("fault %q: the call is one of offers, create, list, delete", s[0].Value)
		}
		v.text("Offer", &f.target)
		v.number("Nth", &f.nth)
		v.number("Times", &f.times)
		v.yes("After", &f.after)
		v.parse("Error", func(text string) error {
			for _, err := range []error{
				cloudburst.ErrNoCapacity, cloudburst.ErrQuota, cloudburst.ErrAuth, cloudburst.ErrNoBalance,
				cloudburst.ErrBadRequest, cloudburst.ErrTransient,
				cloudburst.RateLimited{},
			} {
				if strings.EqualFold(text, cloudburst.Class(err)) {
					f.err = err
				}
			}
			if f.err == nil {
				return errors.New("one of no-capacity, quota, auth, no-balance, bad-request, rate, transient")
			}
			return nil
		})
		if f.err == nil && v.err == nil {
			return errors.New("a fault needs Error=")
		}
		m.faults = append(m.faults, f)
	default:
		return fmt.Errorf("a line starts with Offer, Reclaim or Fault, not %s", s[0].Key)
	}
	return v.done()
}

// rules gives the reclaim rules that may take a machine of an offer.
func (m market) rules(o cloudburst.Offer, opened time.Time) []localnode.Reclaim {
	var out []localnode.Reclaim
	for _, r := range m.reclaims {
		if !hits(r.target, o) {
			continue
		}
		rule := r.rule
		if r.at >= 0 {
			rule.At = opened.Add(r.at)
		}
		out = append(out, rule)
	}
	return out
}

// hits reports whether an offer is meant: by a pattern of its name, or by the
// word spot.
func hits(target string, o cloudburst.Offer) bool {
	if target == "" || strings.EqualFold(target, "spot") && o.Spot {
		return true
	}
	ok, err := path.Match(target, string(o.ID))
	return err == nil && ok
}

// values takes a statement's values out one by one and remembers the first
// fault.
type values struct {
	statement slurmconf.Statement
	used      []string
	err       error
}

func (v *values) has(key string) bool {
	return slices.ContainsFunc(v.statement[1:], func(p slurmconf.Pair) bool { return p.Is(key) })
}

func (v *values) parse(key string, set func(string) error) {
	v.used = append(v.used, key)
	for _, p := range v.statement[1:] {
		if p.Is(key) && v.err == nil {
			if err := set(p.Value); err != nil {
				v.err = fmt.Errorf("%s=%s: %w", p.Key, p.Value, err)
			}
		}
	}
}

func (v *values) text(key string, to *string) {
	v.parse(key, func(text string) error { *to = text; return nil })
}

func (v *values) number(key string, to *int) {
	v.parse(key, func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errors.New("not a number from 0 on")
		}
		*to = n
		return nil
	})
}

func (v *values) yes(key string, to *bool) {
	v.parse(key, func(text string) error {
		switch strings.ToLower(text) {
		case "yes", "true", "1":
			*to = true
		case "no", "false", "0":
			*to = false
		default:
			return errors.New("yes or no")
		}
		return nil
	})
}

func (v *values) seconds(key string, to *time.Duration) {
	v.parse(key, func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 0 || n > 1e9 {
			return errors.New("not a number of seconds")
		}
		*to = time.Duration(n * float64(time.Second))
		return nil
	})
}

func (v *values) memory(key string, to *int64) {
	v.parse(key, func(text string) error {
		m, err := tres.ParseMemory(text)
		*to = m.Bytes() >> 20
		return err
	})
}

// done reports the first fault, unknown keys among them.
func (v *values) done() error {
	if v.err != nil {
		return v.err
	}
	for _, p := range v.statement[1:] {
		if !slices.ContainsFunc(v.used, p.Is) {
			return fmt.Errorf("unknown key %s", p.Key)
		}
	}
	return nil
}

// line is the statement as text: the name its hits are counted under.
func (v *values) line() string {
	words := make([]string, len(v.statement))
	for i, p := range v.statement {
		words[i] = p.Key + "=" + p.Value
	}
	return strings.Join(words, " ")
}
