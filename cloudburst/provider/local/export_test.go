package local

import "github.com/sbatchd/sbatchd/cloudburst"

// NewPlain makes a provider whose machines have no namespaces, whoever runs it.
func NewPlain(o cloudburst.Options) (cloudburst.Provider, error) {
	p, err := open(o)
	if err != nil {
		return nil, err
	}
	p.isolated = false
	return p, nil
}

// ReadMarket reads a market file and drops what it says.
func ReadMarket(file string) error {
	_, err := readMarket(file)
	return err
}

// CanIsolate is whether machines have namespaces here.
var CanIsolate = canIsolate
