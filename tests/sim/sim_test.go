package sim_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

var (
	seeds = flag.Int("sim.seeds", usual, "how many histories to simulate")
	first = flag.Int64("sim.seed", 1, "the first history's seed")
	tell  = flag.Bool("sim.log", false, "print the log of every history")
)

// TestHistories: whatever happens, no accepted job is lost or runs twice, no
// node is given more than it has, and no machine is forgotten.
func TestHistories(t *testing.T) {
	t.Parallel()
	authority, err := agentapi.OpenAuthority(t.TempDir(), uuid, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixed{configs: loadConfigs(t), authority: authority}
	for seed := *first; seed < *first+int64(*seeds); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			defer func() {
				if *tell || t.Failed() {
					t.Logf("again: go test ./tests/sim -sim.seed=%d -sim.seeds=1 -sim.log\n%s", seed, tail(log.Bytes()))
				}
			}()
			synctest.Test(t, func(t *testing.T) { history(t, f, seed, &log) })
		})
	}
}

// tail is the end of a log that fits a failure message.
func tail(log []byte) []byte {
	const most = 30_000
	if !*tell && len(log) > most {
		log = log[len(log)-most:]
	}
	return log
}

// history plays one seed.
func history(t *testing.T, f *fixed, seed int64, log *bytes.Buffer) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, ctx, f, seed, slog.New(slog.NewTextHandler(&locked{w: log}, &slog.HandlerOptions{
		Level:       slog.LevelDebug,
		ReplaceAttr: shortTime,
	})))
	defer func() {
		w.stop()
		cancel()
		w.wg.Wait()
	}()
	w.start()
	for range 30 + w.rng.Intn(30) {
		w.act()
		sleep(ctx, time.Duration(w.rng.Intn(12_000))*time.Millisecond)
		if !w.check() {
			return
		}
		if w.now() == nil && w.rng.Intn(3) > 0 {
			w.start()
		}
	}
	w.drain()
}

// shortTime prints the time since the world's beginning.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.String("t", a.Value.Time().UTC().Format("15:04:05.000"))
	}
	return a
}
