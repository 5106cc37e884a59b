package sim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/launch"
)

// keepalive is how long a link may be cut before both ends give it up.
const keepalive = 40 * time.Second

var errLink = errors.New("the link is down")

// stream is one link, both ends of it. It carries messages while the machine's
// network works and ends keepalive after it stopped.
type stream struct {
	grpc.ServerStream
	ctx  context.Context
	end  context.CancelFunc
	m    *machine
	up   chan *agentapi.AgentMessage
	down chan *agentapi.ControllerMessage
}

func (s *stream) Context() context.Context { return s.ctx }

// pass waits until the network works.
func (s *stream) pass() error {
	t := time.NewTimer(keepalive)
	defer t.Stop()
	select {
	case <-s.m.network():
		return s.ctx.Err()
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-t.C:
		s.end()
		return errLink
	}
}

func (s *stream) Send(msg *agentapi.ControllerMessage) error {
	if err := s.pass(); err != nil {
		return err
	}
	select {
	case s.down <- msg:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *stream) Recv() (*agentapi.AgentMessage, error) {
	select {
	case msg := <-s.up:
		return msg, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// say sends from the agent's end.
func (s *stream) say(msg *agentapi.AgentMessage) bool {
	if s.pass() != nil {
		return false
	}
	select {
	case s.up <- msg:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// proven is a context as TLS makes it for a client with this certificate.
func proven(ctx context.Context, id agentapi.Identity) context.Context {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: id.Node}, URIs: []*url.URL{id.URI()}}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{
		State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}},
	}})
}

// agent is the agent process: it keeps a session with whatever controller
// lives, and ends the machine when there is none for OrphanTimeout.
func (m *machine) agent(ctx context.Context) {
	for ctx.Err() == nil {
		if hub, alive := m.w.hub(); hub != nil && isClosed(m.network()) {
			m.session(ctx, alive, hub)
		}
		m.mu.Lock()
		lost := time.Since(m.renewed)
		wait := time.Duration(500+m.rng.Intn(2500)) * time.Millisecond
		m.mu.Unlock()
		if m.ended != nil && lost > m.w.with.OrphanTimeout {
			m.ended()
			return
		}
		sleep(ctx, wait)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// session is one link from hello to its end. alive ends with the controller,
// ctx with the agent.
func (m *machine) session(ctx, alive context.Context, hub *launch.Hub) {
	both, end := context.WithCancel(proven(alive, agentapi.Identity{Cluster: uuid, Node: m.node, Tag: m.tag}))
	defer end()
	defer context.AfterFunc(ctx, end)()
	s := &stream{
		ctx: both, end: end, m: m,
		up: make(chan *agentapi.AgentMessage, 64), down: make(chan *agentapi.ControllerMessage, 64),
	}
	m.w.spawn(func() {
		defer end()
		_ = hub.Session(s) // why it ended is the controller's to log
	})
	began := time.Now()
	if !s.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Hello{Hello: m.hello()}}) {
		return
	}
	select {
	case msg := <-s.down:
		m.welcome(msg.GetHelloReply(), began)
	case <-s.ctx.Done():
		return
	}
	m.talk(s)
}

func (m *machine) hello() *agentapi.Hello {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &agentapi.Hello{
		ProtocolMajor: agentapi.ProtocolMajor, ProtocolMinor: agentapi.ProtocolMinor, Version: "sim",
		Node: m.node, Tag: m.tag, Epoch: m.epoch, TimeUnixNano: time.Now().UnixNano(),
		Hardware: &agentapi.Hardware{Cpus: uint32(m.cpus), MemoryMib: 32 << 10},
	}
	for i := range m.gpus {
		h.Hardware.Gpus = append(h.Hardware.Gpus, &agentapi.Gpu{Index: uint32(i), Type: "a100"})
	}
	for _, a := range m.held {
		h.Running = append(h.Running, &agentapi.Running{Attempt: agentapi.NewAttempt(a.key.Job, a.key.Restart), Frozen: a.frozen})
	}
	return h
}

// welcome does what the controller says of each attempt.
func (m *machine) welcome(r *agentapi.HelloReply, sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch, m.renewed = max(m.epoch, r.GetEpoch()), sent
	for _, v := range r.GetVerdicts() {
		a := m.held[job.Attempt{Job: v.GetAttempt().GetJob(), Restart: v.GetAttempt().GetRestart()}]
		if a == nil {
			continue
		}
		switch v.GetAction() {
		case agentapi.Verdict_FORGET:
			a.dropped = true
			m.forget(a)
		case agentapi.Verdict_THAW:
			if a.frozen && !a.exited {
				a.frozen = false
				m.w.truth.begin(a.key, m.name)
			}
		case agentapi.Verdict_KILL, agentapi.Verdict_KEEP:
		}
	}
	for _, o := range r.GetOutputs() {
		m.acked(o)
	}
}

func (m *machine) acked(o *agentapi.OutputAck) {
	a := m.held[job.Attempt{Job: o.GetAttempt().GetJob(), Restart: o.GetAttempt().GetRestart()}]
	if a != nil && o.GetStream() == agentapi.StreamOut {
		a.acked = max(a.acked, o.GetSize())
	}
}

// talk is the session after the hello.
func (m *machine) talk(s *stream) {
	sentAt := map[uint64]time.Time{}
	told := map[uint64]bool{}
	shipped := map[job.Attempt]uint64{}
	beat := time.NewTicker(5 * time.Second)
	defer beat.Stop()
	for n := uint64(1); ; {
		for _, msg := range m.news(told, shipped) {
			if !s.say(msg) {
				return
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-m.wake:
		case <-beat.C:
			sentAt[n] = time.Now()
			if !s.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Heartbeat{Heartbeat: &agentapi.Heartbeat{Seq: n}}}) {
				return
			}
			n++
		case msg := <-s.down:
			m.mu.Lock()
			answer := m.hear(msg, sentAt)
			m.mu.Unlock()
			if answer != nil && !s.say(answer) {
				return
			}
		}
	}
}

// hear takes one message; the caller holds mu.
func (m *machine) hear(msg *agentapi.ControllerMessage, sentAt map[uint64]time.Time) *agentapi.AgentMessage {
	switch b := msg.GetBody().(type) {
	case *agentapi.ControllerMessage_HeartbeatAck:
		if at := sentAt[b.HeartbeatAck.GetSeq()]; at.After(m.renewed) {
			m.renewed = at
		}
		m.epoch = max(m.epoch, b.HeartbeatAck.GetEpoch())
	case *agentapi.ControllerMessage_Order:
		why := m.order(b.Order)
		return &agentapi.AgentMessage{Body: &agentapi.AgentMessage_OrderAck{OrderAck: &agentapi.OrderAck{Id: b.Order.GetId(), Refused: why}}}
	case *agentapi.ControllerMessage_ReportAck:
		for i, r := range m.reports {
			if r.GetSeq() == b.ReportAck.GetSeq() {
				m.reports = append(m.reports[:i:i], m.reports[i+1:]...)
				break
			}
		}
	case *agentapi.ControllerMessage_OutputAck:
		m.acked(b.OutputAck)
	}
	return nil
}

// news is what this session has not sent yet.
func (m *machine) news(told map[uint64]bool, shipped map[job.Attempt]uint64) []*agentapi.AgentMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*agentapi.AgentMessage
	for _, a := range m.held {
		from := max(a.acked, shipped[a.key])
		if a.written > from {
			out = append(out, &agentapi.AgentMessage{Body: &agentapi.AgentMessage_Output{Output: &agentapi.Output{
				Attempt: agentapi.NewAttempt(a.key.Job, a.key.Restart), Stream: agentapi.StreamOut,
				Offset: from, Data: make([]byte, a.written-from),
			}}})
			shipped[a.key] = a.written
		}
	}
	for _, r := range m.reports {
		if !told[r.GetSeq()] {
			told[r.GetSeq()] = true
			out = append(out, &agentapi.AgentMessage{Body: &agentapi.AgentMessage_Report{Report: r}})
		}
	}
	return out
}
