package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sbatchd/sbatchd/cloudburst"
)

// fault fails a call as the market file says. A call is counted once, by the
// question before its effect; after asks for the answer behind it.
func (p *provider) fault(op string, o cloudburst.Offer, after bool) error {
	if p.market == "" {
		return nil
	}
	m, err := readMarket(p.market)
	if err != nil {
		return fmt.Errorf("market: %w: %w", cloudburst.ErrBadRequest, err)
	}
	for _, f := range m.faults {
		if f.op != op || f.after != after || op == "create" && !hits(f.target, o) {
			continue
		}
		n, err := p.countCall(f.key)
		if err != nil {
			return err
		}
		if n >= f.nth && n < f.nth+f.times {
			return fmt.Errorf("%s (scripted by the market): %w", op, f.err)
		}
	}
	return nil
}

var calls sync.Mutex // guards the file of call counts within this process

// countCall counts one more call of a fault and gives its number.
func (p *provider) countCall(key string) (int, error) {
	calls.Lock()
	defer calls.Unlock()
	path := filepath.Join(p.dir, "calls.json")
	counts := map[string]int{}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &counts)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	counts[key]++
	if data, err = json.Marshal(counts); err != nil {
		return 0, err
	}
	return counts[key], os.WriteFile(path, data, 0o600)
}
