package launch

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

// Jobs is what launch needs of the queue.
type Jobs interface {
	Snapshot() *state.State
	Watch() (<-chan struct{}, func())
	Blob(ctx context.Context, hash string) ([]byte, error)

	NodeUp(ctx context.Context, r node.Registration) error
	NodeSeen(ctx context.Context, name string, load float64, freeMiB int64) error
	NodeNotice(ctx context.Context, name string, deadline time.Time) error
	BindKey(ctx context.Context, node, tag, key string) (bound string, err error)

	Ordered(ctx context.Context, a job.Attempt, hosts []job.Host) (bool, error)
	Progress(ctx context.Context, a job.Attempt, phase string) error
	Started(ctx context.Context, a job.Attempt, digest, driver string, restored uint32) error
	StepStarted(ctx context.Context, a job.Attempt, s job.Step) error
	StepEnded(ctx context.Context, a job.Attempt, id uint32, code job.ExitCode) error
	Ended(ctx context.Context, a job.Attempt, x job.Exit) error
	LaunchFailed(ctx context.Context, a job.Attempt, f job.LaunchFailure) error
	Lost(ctx context.Context, a job.Attempt, message string) error
	Vanished(ctx context.Context, a job.Attempt, message string) error
	Finished(ctx context.Context, a job.Attempt) error
	Checkpointed(ctx context.Context, a job.Attempt, c job.Checkpoint) error
	Note(ctx context.Context, id uint32, text string) error
}

// Output keeps what jobs print.
type Output interface {
	// Files are the user's files of a job's streams; err is empty when both go to one.
	Files(j *job.Job) (out, err string)
	// Prepare makes the user's files ready for an attempt; appendTo leaves what
	// is in them. userFault: they can't be opened, whatever we do.
	Prepare(ctx context.Context, j *job.Job, appendTo bool) (userFault bool, err error)
	// Append adds data at an offset of a stream and answers the stream's
	// durable size: the next offset wanted.
	Append(ctx context.Context, j *job.Job, stream string, offset int64, data []byte) (size int64, capped bool, err error)
	// Size is the durable size of a stream.
	Size(a job.Attempt, stream string) (int64, error)
	// Settle waits until the user's files hold everything, or says why they don't.
	Settle(ctx context.Context, j *job.Job) (note string)
}

// Files serves work directories and checkpoints to agents.
type Files interface {
	Put(ctx context.Context, j *job.Job, first *agentapi.PutRequest, next func() (*agentapi.PutRequest, error)) (*agentapi.FileInfo, error)
	Get(ctx context.Context, j *job.Job, r *agentapi.GetRequest, send func(*agentapi.Chunk) error) error
	Stat(ctx context.Context, j *job.Job, r *agentapi.FileRef) (*agentapi.FileInfo, error)
	List(ctx context.Context, j *job.Job, r *agentapi.FileRef, send func(*agentapi.FileInfo) error) error
	Remove(ctx context.Context, j *job.Job, r *agentapi.FileRef) error
}

// Config is what a Hub is made of.
type Config struct {
	Jobs      Jobs
	Output    Output
	Files     Files
	REST      http.Handler // for requests from inside jobs
	Authority *agentapi.Authority
	Users     auth.Directory
	// Store says where checkpoints go, credentials included.
	Store   *agentapi.CheckpointStore
	Version string
	Now     func() time.Time
	Log     *slog.Logger
}

// Hub is the controller's end of every agent link.
type Hub struct {
	agentapi.UnimplementedAgentLinkServer
	Config
	tls func() *tls.Config // with one certificate for every listener

	mu       sync.Mutex
	sessions map[string]*session // by node
}

// New makes a hub; Run serves it.
func New(c Config) *Hub {
	return &Hub{
		Config: c, sessions: map[string]*session{},
		tls: sync.OnceValue(func() *tls.Config { return c.Authority.ServerTLS(c.Now) }),
	}
}

// Run serves agents on the listeners until ctx ends, and sends orders.
func (h *Hub) Run(ctx context.Context, listeners ...net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error { return h.Serve(ctx, l) })
	}
	g.Go(func() error { return h.dispatch(ctx) })
	return g.Wait()
}

// Serve serves agents on one listener until ctx ends: one of AgentListen, or
// that of one instance (AgentLink=ssh).
func (h *Hub) Serve(ctx context.Context, l net.Listener) error {
	srv := agentapi.NewServer(h.tls())
	agentapi.RegisterAgentLinkServer(srv, h)
	stop := context.AfterFunc(ctx, srv.Stop)
	defer stop()
	if err := srv.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Join trades a join token for a certificate.
func (h *Hub) Join(ctx context.Context, r *agentapi.JoinRequest) (*agentapi.JoinReply, error) {
	bind := func(ctx context.Context, id agentapi.Identity, key string) (string, error) {
		return h.Jobs.BindKey(ctx, id.Node, id.Tag, key)
	}
	reply, err := h.Authority.Join(ctx, h.Jobs.Snapshot().UUID, r, h.Now(), bind)
	if err != nil {
		h.Log.Warn("join refused", "err", err)
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return reply, nil
}

// Renew gives a fresh certificate to a node that proves who it is.
func (h *Hub) Renew(ctx context.Context, r *agentapi.RenewRequest) (*agentapi.JoinReply, error) {
	id, err := h.peer(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := h.Authority.Renew(id, r, h.Now())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// peer is the proven identity of a caller, of this cluster and of the node's
// present machine.
func (h *Hub) peer(ctx context.Context) (agentapi.Identity, error) {
	id, err := agentapi.PeerIdentity(ctx)
	if err != nil {
		return id, status.Error(codes.Unauthenticated, err.Error())
	}
	s := h.Jobs.Snapshot()
	if id.Cluster != s.UUID {
		return id, status.Error(codes.PermissionDenied, "certificate of another cluster")
	}
	n, ok := s.Node(id.Node)
	if !ok || n.Pool != "" && n.Instance != id.Tag || n.JoinTag != "" && n.JoinTag != id.Tag {
		return id, status.Errorf(codes.PermissionDenied, "%s is not a machine behind node %s (any more)", id.Tag, id.Node)
	}
	return id, nil
}

// attempt finds the job an agent speaks for: it must run on that node, and no
// later attempt may exist.
func (h *Hub) attempt(ctx context.Context, a *agentapi.Attempt) (*job.Job, error) {
	id, err := h.peer(ctx)
	if err != nil {
		return nil, err
	}
	j, ok := h.Jobs.Snapshot().Job(a.GetJob())
	if !ok || !present(j, attemptOf(a)) || j.Run.Nodes[0].Node != id.Node {
		return nil, status.Errorf(codes.FailedPrecondition, "attempt %s is not the present one on %s", a.Name(), id.Node)
	}
	return j, nil
}

func attemptOf(a *agentapi.Attempt) job.Attempt {
	return job.Attempt{Job: a.GetJob(), Restart: a.GetRestart()}
}

// present says whether a is the attempt the job has now.
func present(j *job.Job, a job.Attempt) bool {
	return j.Run != nil && j.Run.Attempt == a && j.Active()
}
