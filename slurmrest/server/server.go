package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Controller is what the server needs of the queue.
type Controller interface {
	Snapshot() *state.State
	Submit(ctx context.Context, who auth.Identity, in queue.Submission) (queue.Submitted, error)
	Signal(ctx context.Context, who auth.Identity, ref job.Ref, sent job.Sent) error
	Hold(ctx context.Context, who auth.Identity, ref job.Ref) error
	Release(ctx context.Context, who auth.Identity, ref job.Ref) error
	Requeue(ctx context.Context, who auth.Identity, ref job.Ref, hold bool) error
	Update(ctx context.Context, who auth.Identity, ref job.Ref, c queue.Change) error
	UpdateNode(ctx context.Context, who auth.Identity, name string, c queue.NodeChange) error
	Reclaim(ctx context.Context, who auth.Identity, name string, notice time.Duration) error
	Reconfigure(ctx context.Context, who auth.Identity, cfg *partitions.Config) error
	UpdatePartition(ctx context.Context, who auth.Identity, c queue.PartitionChange) error
	Records(ctx context.Context, query store.JobQuery) ([]store.JobRecord, error)
	Ledger(ctx context.Context, tags []string) (map[string]node.Instance, error)
	Blob(ctx context.Context, hash string) ([]byte, error)
	Counters() queue.Counters
	EditRecords(ctx context.Context, who auth.Identity, edits []assoc.Edit, dry bool) ([]assoc.Result, error)
	Transactions(ctx context.Context, query store.TxnQuery) ([]assoc.Txn, error)
}

// Market is what the server needs of the pools.
type Market interface {
	// Offers lists what the pools' providers would rent now; pool "" is all.
	Offers(ctx context.Context, pool string) (wire.Offers, error)
	// Leaks compares what providers list with the ledger.
	Leaks(ctx context.Context) (wire.Leaks, error)
	// DeadMan says who ends a pool's machine that lost its controller.
	DeadMan(pool string) string
}

// Logs is what the server needs of the output spools.
type Logs interface {
	// Log opens a run's stream ("out" or "err"). With follow the reader goes on
	// until the run's output is complete or ctx ends.
	Log(ctx context.Context, job, restart uint32, stream string, follow bool) (io.ReadCloser, error)
}

// Checkpoints is what the server needs of the checkpoint store.
type Checkpoints interface {
	// List returns a job's complete checkpoints, oldest first.
	List(ctx context.Context, job uint32) ([]wire.Checkpoint, error)
}

// Biller makes a job's bill out of its record and the ledger.
type Biller func(store.JobRecord, map[string]node.Instance) wire.Bill

// Explainer says for each place where a job could run whether it fits.
type Explainer func(s *state.State, job uint32, now time.Time) []wire.ExplainPool

// Config is what a Server is made of. Where an optional part is nil, its
// endpoints answer that they are not supported.
type Config struct {
	Controller Controller
	Auth       *auth.Authenticator
	Users      *auth.Users      // names of groups; users of X-SLURM-USER-NAME
	Now        func() time.Time // wall time
	Log        *slog.Logger
	Hostname   string // of this controller, where the configuration names none
	Release    string // sbatchd's own version
	// Reload reads the configuration again (scontrol reconfigure).
	Reload func() (*partitions.Config, error)

	Market      Market       // optional
	Logs        Logs         // optional
	Checkpoints Checkpoints  // optional
	Bill        Biller       // optional
	Explain     Explainer    // optional
	Metrics     http.Handler // optional: what else /metrics shows
}

// Server answers HTTP requests. Its Handler may be used without Run, for
// instance for requests that come over an agent link.
type Server struct {
	cfg     Config
	auth    atomic.Pointer[auth.Authenticator]
	handler http.Handler
	openAPI func() ([]byte, error)
	started time.Time
	served  stats
}

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, started: cfg.Now()}
	s.auth.Store(cfg.Auth)
	s.handler = s.routes()
	return s
}

// SetAuth puts another authenticator in force, after the configuration named
// other keys.
func (s *Server) SetAuth(a *auth.Authenticator) { s.auth.Store(a) }

// Handler serves every path of the API.
func (s *Server) Handler() http.Handler { return s.handler }

// Timeouts of connections. Answers have none: a followed log may take days.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 5 * time.Second
)

// Run serves the listeners until ctx ends, then finishes what is being
// answered, for a few seconds at most.
func (s *Server) Run(ctx context.Context, listeners ...net.Listener) error {
	// Requests get a context that outlives ctx, so that a commit under way is
	// still answered; streams end with streams.
	base := context.WithoutCancel(ctx)
	base, stop := context.WithCancel(base)
	defer stop()
	srv := &http.Server{
		Handler: s.handler, ConnContext: auth.ConnContext,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		<-gctx.Done()
		end, cancel := context.WithTimeout(base, shutdownTimeout)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			stop()
			return srv.Close()
		}
		return nil
	})
	return g.Wait()
}
