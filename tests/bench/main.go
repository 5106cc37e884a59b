// Command bench measures sbatchd where users feel it, beside a real Slurm in
// the same run where one can be installed, and prints one line a figure:
//
//	NAME VALUE UNIT RATIO
//
// RATIO is sbatchd against the real Slurm, so that more is better for rates and
// less is better for times and memory; "-" where there is nothing to compare
// with. Every figure is the best of three.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// tries is how often each figure is taken; the best counts.
const tries = 3

func main() {
	only := flag.String("run", "", "only the figures whose name holds this text")
	alone := flag.Bool("alone", false, "do not measure the real Slurm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	err := bench(ctx, os.Stdout, *only, *alone)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// system is what is measured: sbatchd or the real Slurm.
type system interface {
	// Fresh starts it over, empty of jobs.
	Fresh(ctx context.Context) error
	// REST is where and as whom to submit.
	REST(ctx context.Context) (endpoint, error)
	// Version runs a command that prints its version, and returns how long it took.
	Version(ctx context.Context) (time.Duration, error)
	// FirstLine submits a job with sbatch and returns how long sbatch took and how
	// long after its start the script wrote its first line.
	FirstLine(ctx context.Context) (sbatch, line time.Duration, err error)
	// RSS is the controller's resident memory in bytes.
	RSS(ctx context.Context) (int64, error)
	Close() error
}

// figure is one line of the result. measure takes it once.
type figure struct {
	name, unit string
	more       bool // more is better
	measure    func(ctx context.Context, s system) (float64, error)
}

var figures = []figure{
	{"rest_submit_1_client", "jobs/s", true, submitting(1)},
	{"rest_submit_8_clients", "jobs/s", true, submitting(8)},
	{"rest_submit_32_clients", "jobs/s", true, submitting(32)},
	{"rest_submit_256_clients", "jobs/s", true, submitting(256)},
	{"command_start", "ms", false, commandStart},
	{"rss_10000_pending", "MB", false, pendingRSS},
	{"sbatch_command", "ms", false, sbatchTime},
	{"first_line_after_sbatch_typed", "ms", false, firstLine},
	{"first_line_after_sbatch_done", "ms", false, firstLineAfter},
}

// bench prints every figure.
func bench(ctx context.Context, out io.Writer, only string, alone bool) (err error) {
	ours, err := newOurs(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	var real system
	if !alone {
		if real, err = newReal(ctx); err != nil {
			fmt.Fprintf(out, "# the real Slurm is not measured: %v\n", err)
			real = nil
		} else {
			defer func() { err = errors.Join(err, real.Close()) }()
		}
	}
	for _, f := range figures {
		if !strings.Contains(f.name, only) {
			continue
		}
		value, other, err := f.best(ctx, ours, real)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		ratio := "-"
		if other > 0 && value > 0 {
			ratio = fmt.Sprintf("%.2fx (%.4g)", value/other, other)
		}
		fmt.Fprintf(out, "%-30s %10.4g %-7s %s\n", f.name, value, f.unit, ratio)
	}
	return nil
}

// best takes a figure three times of both, in turn, and returns the best of
// each.
func (f figure) best(ctx context.Context, ours, real system) (value, other float64, err error) {
	for range tries {
		v, err := f.measure(ctx, ours)
		if err != nil {
			return 0, 0, err
		}
		value = f.better(value, v)
		if real == nil {
			continue
		}
		v, err = f.measure(ctx, real)
		if err != nil {
			return 0, 0, fmt.Errorf("the real Slurm: %w", err)
		}
		other = f.better(other, v)
	}
	return value, other, nil
}

// better returns the better of what was measured before, 0 for nothing, and
// now.
func (f figure) better(before, now float64) float64 {
	switch {
	case before == 0:
		return now
	case f.more:
		return max(before, now)
	default:
		return min(before, now)
	}
}
