package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// session is one live agent. A newer session of the same node replaces it.
type session struct {
	node string
	hub  *Hub
	out  chan *agentapi.ControllerMessage
	end  context.CancelFunc

	mu    sync.Mutex
	sent  map[uint64]sentOrder     // by id, in this session
	tails map[string]chan struct{} // the last thing being done, by key
}

// sentOrder is what an order was about. A node that refuses a vital one, a launch
// or a kill, has nothing of the attempt and will never report on it.
type sentOrder struct {
	attempt job.Attempt
	vital   bool
}

// sendQueue is how many messages may wait for a slow agent.
const sendQueue = 1024

// Session is the link itself: Hello first, then messages both ways until
// either side ends it.
func (h *Hub) Session(stream agentapi.AgentLink_SessionServer) error {
	id, err := h.peer(stream.Context())
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil || hello.GetNode() != id.Node {
		return status.Error(codes.InvalidArgument, "the first message must be the node's own hello")
	}
	minor, err := agentapi.Negotiate(agentapi.ProtocolMajor, agentapi.ProtocolMinor, hello.GetProtocolMajor(), hello.GetProtocolMinor())
	if err != nil {
		h.Log.Warn("agent refused", "node", id.Node, "err", err)
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if s := h.Jobs.Snapshot(); hello.GetEpoch() > s.Epoch {
		return status.Errorf(codes.FailedPrecondition, "this controller's epoch %d is over: the node has seen %d", s.Epoch, hello.GetEpoch())
	}
	if err := h.Jobs.NodeUp(stream.Context(), h.registration(id, hello)); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if err := h.missing(stream.Context(), id.Node, hello); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &session{
		node: id.Node, hub: h, end: cancel,
		out:  make(chan *agentapi.ControllerMessage, sendQueue),
		sent: map[uint64]sentOrder{}, tails: map[string]chan struct{}{},
	}
	reply, err := h.helloReply(id, hello, minor)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	s.out <- reply
	h.enter(s)
	defer h.leave(s)
	h.Log.Info("agent connected", "node", id.Node, "instance", id.Tag, "version", hello.GetVersion())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.sendAll(ctx, stream) })
	g.Go(func() error {
		defer cancel()
		return s.receiveAll(ctx, g, stream)
	})
	h.order(s) // what the state already wants of the node
	err = g.Wait()
	h.Log.Info("agent disconnected", "node", id.Node, "err", err)
	return err
}

// missing takes back attempts that began on a node which does not hold them any
// more: its agent lists everything up to the release.
func (h *Hub) missing(ctx context.Context, name string, hello *agentapi.Hello) error {
	held := map[job.Attempt]bool{}
	for _, r := range hello.GetRunning() {
		held[attemptOf(r.GetAttempt())] = true
	}
	s := h.Jobs.Snapshot()
	n, ok := s.Node(name)
	if !ok {
		return nil
	}
	for _, id := range n.Jobs {
		j, ok := s.Job(id)
		if !ok || !j.Active() || j.Run.Nodes[0].Node != name || held[j.Run.Attempt] || j.Run.Ordered.IsZero() ||
			j.Run.Start.IsZero() && j.Run.Ended.IsZero() {
			continue
		}
		h.Log.Warn("attempt is not on its node any more", "job", j.ID.Raw, "restart", j.Run.Restart, "node", name)
		if err := h.Jobs.Vanished(ctx, j.Run.Attempt, "node "+name+" does not hold the job any more"); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hub) enter(s *session) {
	h.mu.Lock()
	old := h.sessions[s.node]
	h.sessions[s.node] = s
	h.mu.Unlock()
	if old != nil {
		old.end()
	}
}

func (h *Hub) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.node] == s {
		delete(h.sessions, s.node)
	}
}

func (h *Hub) session(name string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[name]
}

func (s *session) sendAll(ctx context.Context, stream agentapi.AgentLink_SessionServer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
}

type received struct {
	m   *agentapi.AgentMessage
	err error
}

// receive reads a stream into a channel, because Recv itself ends with the
// stream only, which is when Session returns.
func receive(ctx context.Context, stream agentapi.AgentLink_SessionServer) <-chan received {
	in := make(chan received)
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case in <- received{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

func (s *session) receiveAll(ctx context.Context, g *errgroup.Group, stream agentapi.AgentLink_SessionServer) error {
	in := receive(ctx, stream)
	for {
		var r received
		select {
		case <-ctx.Done():
			return nil
		case r = <-in:
		}
		if errors.Is(r.err, io.EOF) {
			return nil
		}
		if r.err != nil {
			return r.err
		}
		switch b := r.m.GetBody().(type) {
		case *agentapi.AgentMessage_Heartbeat:
			g.Go(func() error { return s.heartbeat(ctx, b.Heartbeat) })
		case *agentapi.AgentMessage_Report:
			s.inTurn(ctx, g, turnOf(attemptOf(b.Report.GetKey().Attempt())), func() error { return s.report(ctx, b.Report) })
		case *agentapi.AgentMessage_Output:
			key := b.Output.GetStream() + " " + b.Output.GetAttempt().Name()
			s.inTurn(ctx, g, key, func() error { return s.output(ctx, b.Output) })
		case *agentapi.AgentMessage_OrderAck:
			s.refused(ctx, g, b.OrderAck)
		case *agentapi.AgentMessage_Hello:
			return status.Error(codes.InvalidArgument, "a second hello")
		}
	}
}

// refused takes a node's no to an order, after the reports it sent before.
func (s *session) refused(ctx context.Context, g *errgroup.Group, ack *agentapi.OrderAck) {
	why := ack.GetRefused()
	if why == "" {
		return
	}
	s.mu.Lock()
	o := s.sent[ack.GetId()]
	s.mu.Unlock()
	s.hub.Log.Warn("order refused", "node", s.node, "job", o.attempt.Job, "restart", o.attempt.Restart, "err", why)
	if o.vital {
		s.inTurn(ctx, g, turnOf(o.attempt), func() error {
			return s.hub.Jobs.Vanished(ctx, o.attempt, "refused by node "+s.node+": "+why)
		})
	}
}

// turnOf is the key under which what a node says of an attempt is taken in turn.
func turnOf(a job.Attempt) string { return "report " + a.String() }

// inTurn runs do after everything given before under the same key.
func (s *session) inTurn(ctx context.Context, g *errgroup.Group, key string, do func() error) {
	done := make(chan struct{})
	s.mu.Lock()
	before := s.tails[key]
	s.tails[key] = done
	s.mu.Unlock()
	g.Go(func() error {
		defer func() {
			s.mu.Lock()
			if s.tails[key] == done {
				delete(s.tails, key)
			}
			s.mu.Unlock()
			close(done)
		}()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return nil
			}
		}
		return do()
	})
}

// send queues a message. A session whose queue is full is of no use: it ends,
// and the agent comes back.
func (s *session) send(m *agentapi.ControllerMessage) {
	select {
	case s.out <- m:
	default:
		s.hub.Log.Warn("agent is too slow, link ended", "node", s.node)
		s.end()
	}
}

func (s *session) heartbeat(ctx context.Context, b *agentapi.Heartbeat) error {
	if err := s.hub.Jobs.NodeSeen(ctx, s.node, float64(b.GetCpuLoad())/100, int64(b.GetFreeMemoryMib())); err != nil {
		return err
	}
	s.send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_HeartbeatAck{HeartbeatAck: &agentapi.HeartbeatAck{
		Seq: b.GetSeq(), Epoch: s.hub.Jobs.Snapshot().Epoch,
	}}})
	return nil
}

func (s *session) output(ctx context.Context, o *agentapi.Output) error {
	a := attemptOf(o.GetAttempt())
	ack := &agentapi.OutputAck{Attempt: o.GetAttempt(), Stream: o.GetStream()}
	j, ok := s.hub.Jobs.Snapshot().Job(a.Job)
	if !ok || !s.has(a) {
		// Nothing of an old attempt is wanted: let the agent be done with it.
		ack.Size = o.GetOffset() + uint64(len(o.GetData()))
	} else {
		size, capped, err := s.hub.Output.Append(ctx, j, o.GetStream(), int64(o.GetOffset()), o.GetData())
		if err != nil {
			return fmt.Errorf("output of job %s: %w", a, err)
		}
		ack.Size, ack.Capped = uint64(size), capped
	}
	s.send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_OutputAck{OutputAck: ack}})
	return nil
}

// registration is what a hello says of the machine.
func (h *Hub) registration(id agentapi.Identity, hello *agentapi.Hello) node.Registration {
	hw := hello.GetHardware()
	r := node.Registration{
		Node: id.Node, Tag: id.Tag, BootID: hello.GetBootId(), Version: hello.GetVersion(),
		Boot: time.Unix(hw.GetBootTimeUnix(), 0), Agent: h.Now(),
		Driver: hw.GetDriverVersion(), Arch: hw.GetArch(), OS: hw.GetOs(),
		SkewMs: (hello.GetTimeUnixNano() - h.Now().UnixNano()) / int64(time.Millisecond),
		CPUs:   int(hw.GetCpus()), MemoryMiB: int64(hw.GetMemoryMib()), TmpDiskMiB: int64(hw.GetTmpDiskMib()),
	}
	for _, g := range hw.GetGpus() {
		if last := len(r.Gres) - 1; last >= 0 && r.Gres[last].Type == g.GetType() {
			r.Gres[last].Count++
			continue
		}
		r.Gres = append(r.Gres, node.Gres{Name: "gpu", Type: g.GetType(), Count: 1})
	}
	return r
}

// helloReply tells the agent what this controller expects, and what becomes of
// each attempt it still holds.
func (h *Hub) helloReply(id agentapi.Identity, hello *agentapi.Hello, minor uint32) (*agentapi.ControllerMessage, error) {
	s := h.Jobs.Snapshot()
	cfg := s.Config
	r := &agentapi.HelloReply{
		ProtocolMajor: agentapi.ProtocolMajor, ProtocolMinor: minor,
		ClusterUuid: s.UUID, ClusterName: cfg.ClusterName, Epoch: s.Epoch, Version: h.Version,
		FenceTimeoutS:  seconds(cfg.FenceTimeout),
		OrphanTimeoutS: seconds(cfg.OrphanTimeout),
		HeartbeatMs:    uint32(heartbeatEvery(cfg).Milliseconds()),
		KillWaitS:      seconds(cfg.KillWait),
		Store:          h.Store,
	}
	for _, run := range hello.GetRunning() {
		a := attemptOf(run.GetAttempt())
		v := &agentapi.Verdict{Attempt: run.GetAttempt(), Action: agentapi.Verdict_FORGET}
		j, ok := s.Job(a.Job)
		if ok && present(j, a) && j.Run.Nodes[0].Node == id.Node {
			v.Action = agentapi.Verdict_KEEP
			if run.GetFrozen() && j.State != job.Suspended {
				v.Action = agentapi.Verdict_THAW
			}
			for _, name := range []string{agentapi.StreamOut, agentapi.StreamErr} {
				size, err := h.Output.Size(a, name)
				if err != nil {
					return nil, fmt.Errorf("spool of job %s: %w", a, err)
				}
				r.Outputs = append(r.Outputs, &agentapi.OutputAck{Attempt: run.GetAttempt(), Stream: name, Size: uint64(size)})
			}
		}
		r.Verdicts = append(r.Verdicts, v)
	}
	return &agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_HelloReply{HelloReply: r}}, nil
}

func seconds(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32((d + time.Second - 1) / time.Second)
}

// heartbeatEvery is a tenth of the time after which a silent node counts as
// down, between one and ten seconds.
func heartbeatEvery(c *partitions.Config) time.Duration {
	return min(max(c.SlurmdTimeout/10, time.Second), 10*time.Second)
}
