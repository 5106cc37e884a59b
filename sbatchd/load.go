package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
)

// load reads and checks a configuration, and that each provider's driver is
// compiled in.
func load(dir string) (*partitions.Config, error) {
	cfg, err := partitions.Load(dir)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, p := range cfg.Providers {
		if _, ok := cloudburst.Lookup(p.Type); !ok {
			faults = append(faults, partitions.Fault{File: p.At.File, Line: p.At.Line, Msg: fmt.Sprintf(
				"ProviderName=%s: unknown Type=%s (this build has %s)", p.Name, p.Type, strings.Join(cloudburst.Drivers(), ", "))})
		}
	}
	return cfg, errors.Join(faults...)
}
