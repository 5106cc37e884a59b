package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/tests/differential/session"
	"github.com/sbatchd/sbatchd/tests/differential/site"
)

// outcome is one session on both sites.
type outcome struct {
	session.Session
	real, ours string // transcripts
	ran        bool
	again      bool // they differed at first, and were equal when run again
}

func (o *outcome) equal() bool { return o.real == o.ours }

// onBoth starts both sites, runs the sessions on each, and stops them.
func onBoth(ctx context.Context, all []session.Session, opts options) (outcomes []*outcome, err error) {
	real, err := site.StartReal(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := real.Close(); err == nil {
			err = e
		}
	}()
	ours, err := site.StartOurs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := ours.Close(); err == nil {
			err = e
		}
	}()
	if err := site.Prepare(ctx, ours); err != nil {
		fmt.Fprintln(os.Stderr, "differential: accounts of sbatchd:", err)
	}
	for _, s := range all {
		outcomes = append(outcomes, &outcome{Session: s})
	}
	b := both{real: real, ours: ours, of: len(all)}
	for _, class := range []session.Class{session.Quiet, session.Together, session.Alone} {
		width := opts.at
		if class == session.Alone {
			width = 1
		}
		if err := b.run(ctx, width, outcomes, func(o *outcome) bool { return o.Class == class }); err != nil {
			return outcomes, err
		}
	}
	if opts.once {
		return outcomes, nil
	}
	first := map[*outcome]bool{}
	for _, o := range outcomes {
		first[o] = o.equal()
	}
	// What is quiet wants a cluster on which no job has run: it can't be run again.
	if err := b.run(ctx, 2, outcomes, func(o *outcome) bool { return !first[o] && o.Class != session.Quiet }); err != nil {
		return outcomes, err
	}
	for _, o := range outcomes {
		o.again = !first[o] && o.equal()
	}
	return outcomes, nil
}

// both runs sessions on two sites.
type both struct {
	real, ours session.Site
	of         int
	done       atomic.Int64
	mu         sync.Mutex // one line at a time
}

// run runs those sessions that are wanted, so many at once.
func (b *both) run(ctx context.Context, width int, outcomes []*outcome, want func(*outcome) bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(width)
	for _, o := range outcomes {
		if !want(o) {
			continue
		}
		g.Go(func() error {
			pair, ctx := errgroup.WithContext(ctx)
			var real, ours string
			pair.Go(func() (err error) { real, err = o.Run(ctx, b.real); return err })
			pair.Go(func() (err error) { ours, err = o.Run(ctx, b.ours); return err })
			if err := pair.Wait(); err != nil {
				return err
			}
			o.real, o.ours, o.ran = real, ours, true
			if n := b.done.Add(1); n%50 == 0 {
				b.mu.Lock()
				fmt.Fprintf(os.Stderr, "differential: %d of %d\n", n, b.of)
				b.mu.Unlock()
			}
			return nil
		})
	}
	return g.Wait()
}
