package main

import (
	"context"
	"fmt"
	"time"
)

// loadTime is how long one try of a rate lasts.
const loadTime = 2 * time.Second

// submitting measures durable submissions a second over REST from so many
// clients at once.
func submitting(clients int) func(context.Context, system) (float64, error) {
	return func(ctx context.Context, s system) (float64, error) {
		e, err := fresh(ctx, s)
		if err != nil {
			return 0, err
		}
		n, took, err := e.submit(ctx, clients, loadTime, 0)
		return float64(n) / took.Seconds(), err
	}
}

// pendingRSS measures the controller's memory with 10,000 pending jobs.
func pendingRSS(ctx context.Context, s system) (float64, error) {
	e, err := fresh(ctx, s)
	if err != nil {
		return 0, err
	}
	const jobs = 10_000
	n, _, err := e.submit(ctx, 32, 2*time.Minute, jobs)
	if err != nil {
		return 0, err
	}
	if n != jobs {
		return 0, fmt.Errorf("only %d of %d jobs were taken", n, jobs)
	}
	rss, err := s.RSS(ctx)
	return float64(rss) / 1e6, err
}

// fresh starts the system over and returns where to submit.
func fresh(ctx context.Context, s system) (endpoint, error) {
	if err := s.Fresh(ctx); err != nil {
		return endpoint{}, err
	}
	return s.REST(ctx)
}

// commandStart is the shortest of many starts of a command that does nothing.
func commandStart(ctx context.Context, s system) (float64, error) {
	var best time.Duration
	for range 20 {
		took, err := s.Version(ctx)
		if err != nil {
			return 0, err
		}
		if best == 0 || took < best {
			best = took
		}
	}
	return milliseconds(best), nil
}

func sbatchTime(ctx context.Context, s system) (float64, error) {
	return overJobs(ctx, s, func(sbatch, _ time.Duration) time.Duration { return sbatch })
}

func firstLine(ctx context.Context, s system) (float64, error) {
	return overJobs(ctx, s, func(_, line time.Duration) time.Duration { return line })
}

// firstLineAfter is what the user still waits after the prompt is back.
func firstLineAfter(ctx context.Context, s system) (float64, error) {
	return overJobs(ctx, s, func(sbatch, line time.Duration) time.Duration { return line - sbatch })
}

// overJobs submits a few jobs one after the other, the first to warm the node,
// and returns the least of what pick takes from each.
func overJobs(ctx context.Context, s system, pick func(sbatch, line time.Duration) time.Duration) (float64, error) {
	if err := s.Fresh(ctx); err != nil {
		return 0, err
	}
	var best time.Duration
	for n := range 6 {
		sbatch, line, err := s.FirstLine(ctx)
		if err != nil {
			return 0, err
		}
		if took := pick(sbatch, line); n == 1 || n > 1 && took < best {
			best = took
		}
	}
	return max(milliseconds(best), 0.1), nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
