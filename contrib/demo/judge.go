package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/tests/rig"
)

// judge shows what came out, checks it, waits until the nodes are given back and
// returns the demo's last line.
func (s *story) judge(ctx context.Context) (string, error) {
	text := s.output()
	s.say("cat iris-%s.out", s.job)
	fmt.Fprint(s.out, indent(shorten(text)))
	t, err := readOutput(text)
	if err != nil {
		return "", fmt.Errorf("the output: %w", err)
	}
	switch {
	case len(t.runs) != 2:
		return "", fmt.Errorf("the output shows %d runs of the script, want 2", len(t.runs))
	case t.resumedAt == 0:
		return "", fmt.Errorf("the job started over from epoch 0 after the reclaim")
	}
	if err := s.show(ctx, "sacct", "-j", s.job, "--duplicates"); err != nil {
		return "", err
	}
	if err := s.show(ctx, "sburst", "bill", "-j", s.job); err != nil {
		return "", err
	}
	if err := s.states(ctx); err != nil {
		return "", err
	}
	restarts, err := s.field(ctx, "Restarts")
	if err != nil {
		return "", err
	}
	cost, err := s.cost(ctx)
	if err != nil {
		return "", err
	}
	if err := s.nodesGone(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("demo: ok job=%s state=COMPLETED restarts=%s resumed_at_epoch=%d cost=$%s", s.job, restarts, t.resumedAt, cost), nil
}

// states checks what accounting says of the two attempts.
func (s *story) states(ctx context.Context) error {
	text, err := s.as(ctx, "sacct", "-j", s.job, "--duplicates", "-X", "-n", "-P", "-o", "State,ExitCode")
	if err != nil {
		return err
	}
	attempts := strings.Fields(text)
	if len(attempts) != 2 || attempts[1] != "COMPLETED|0:0" {
		return fmt.Errorf("sacct --duplicates: %q, want two attempts, the second COMPLETED|0:0", attempts)
	}
	return nil
}

// total is the line of the bill that adds everything up.
var total = regexp.MustCompile(`(?mi)^\s*total\b.*?\$?([0-9]+\.[0-9]+)`)

// cost reads the job's whole cost, in dollars, from its bill.
func (s *story) cost(ctx context.Context) (string, error) {
	text, err := s.as(ctx, "sburst", "bill", "-j", s.job)
	if err != nil {
		return "", err
	}
	f := total.FindStringSubmatch(text)
	if f == nil {
		return "", fmt.Errorf("sburst bill: no total in %q", text)
	}
	return f[1], nil
}

// nodesGone waits until the idle node is given back and asks the provider what
// it still has of ours.
func (s *story) nodesGone(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("a node is still rented"))
	defer cancel()
	var text string
	if err := rig.Eventually(ctx, "the nodes to be given back", func() (bool, string, error) {
		leaks, err := s.ctl.As(ctx, rig.Cmd{User: s.rig.Admin()}, "sburst", "leaks")
		if err != nil {
			return false, "", err
		}
		nodes, err := s.as(ctx, "sinfo", "-N", "-h", "-o", "%t")
		if err != nil {
			return false, "", err
		}
		for state := range strings.FieldsSeq(nodes) {
			if state != "idle~" {
				return false, nodes, nil
			}
		}
		text = leaks.Stdout
		return rig.NothingRented(text), leaks.String(), nil
	}); err != nil {
		return err
	}
	if err := s.show(ctx, "sinfo"); err != nil {
		return err
	}
	s.say("sburst leaks, as %s", s.rig.Admin().Name)
	fmt.Fprint(s.out, indent(text))
	return nil
}

// shorten leaves out the middle of runs of epochs.
func shorten(text string) string {
	lines := strings.SplitAfter(text, "\n")
	var b strings.Builder
	for i, line := range lines {
		inside := i > 1 && i < len(lines)-4
		for _, near := range lines[max(0, i-2):min(len(lines), i+3)] {
			inside = inside && strings.HasPrefix(near, "epoch ")
		}
		switch {
		case !inside:
			b.WriteString(line)
		case !strings.HasSuffix(b.String(), "...\n"):
			b.WriteString("...\n")
		}
	}
	return b.String()
}
