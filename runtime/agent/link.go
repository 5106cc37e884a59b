package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// callTimeout bounds one small call over the link.
const callTimeout = 30 * time.Second

// leaseFile has the last renewal, for all shims of the node.
const leaseFile = "lease.json"

// session is one established stream. Messages are sent by one goroutine, in the
// order they were queued.
type session struct {
	out    chan *agentapi.AgentMessage
	client agentapi.AgentLinkClient
	done   <-chan struct{}
	reply  *agentapi.HelloReply
}

// send queues a message; false when the session is over.
func (s *session) send(m *agentapi.AgentMessage) bool {
	select {
	case s.out <- m:
		return true
	case <-s.done:
		return false
	}
}

// runLink keeps a session up until ctx ends.
func (a *Agent) runLink(ctx context.Context) error {
	var backoff agentapi.Backoff
	for {
		start := time.Now()
		err := a.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(start) > 10*time.Second {
			backoff.Reset()
		}
		wait := min(backoff.Next(), a.cfg.RedialMax)
		a.log.Debug("no link to the controller", "err", err, "again", wait)
		if err := agentapi.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// connect runs one session to its end.
func (a *Agent) connect(ctx context.Context) error {
	cred, err := a.credential(ctx)
	if err != nil {
		return err
	}
	cc, err := agentapi.Connect(ctx, a.dial, cred.TLS(a.cfg.Now))
	if err != nil {
		return err
	}
	defer cc.Close() // the session's error is the one to tell
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := agentapi.NewAgentLinkClient(cc)
	stream, err := client.Session(ctx)
	if err != nil {
		return err
	}
	hello := a.hello()
	if err := stream.Send(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Hello{Hello: hello}}); err != nil {
		return errors.Join(err, recvErr(stream))
	}
	first, err := recvWithin(ctx, cancel, stream, callTimeout)
	if err != nil {
		return err
	}
	reply := first.GetHelloReply()
	if reply == nil {
		return errors.New("controller did not answer the hello")
	}
	if _, err := agentapi.Negotiate(agentapi.ProtocolMajor, agentapi.ProtocolMinor, reply.GetProtocolMajor(), reply.GetProtocolMinor()); err != nil {
		return err
	}
	if current, err := a.journal.SawEpoch(reply.GetEpoch()); err != nil || !current {
		return fmt.Errorf("controller of epoch %d is not the leader: %w", reply.GetEpoch(), err)
	}

	g, gctx := errgroup.WithContext(ctx)
	s := &session{out: make(chan *agentapi.AgentMessage, 64), client: client, done: gctx.Done(), reply: reply}
	a.renewed(time.Duration(hello.GetSentBoottimeNs()))
	g.Go(func() error { return a.write(gctx, stream, s) })
	a.log.Info("registered with the controller", "version", reply.GetVersion(), "epoch", reply.GetEpoch())
	a.sessionUp(s)
	// Orders are read only now that what they depend on (fence, store) is known.
	g.Go(func() error { return a.read(stream, s) })
	g.Go(func() error { return a.heartbeat(gctx, s, cred) })
	err = g.Wait()
	a.sessionDown(s)
	return err
}

// recvErr asks the stream why a send failed.
func recvErr(stream agentapi.AgentLink_SessionClient) error {
	_, err := stream.Recv()
	return err
}

func recvWithin(ctx context.Context, cancel func(), stream agentapi.AgentLink_SessionClient, d time.Duration) (*agentapi.ControllerMessage, error) {
	t := time.AfterFunc(d, cancel)
	defer t.Stop()
	m, err := stream.Recv()
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("no answer to the hello: %w", ctx.Err())
	}
	return m, err
}

func (a *Agent) write(ctx context.Context, stream agentapi.AgentLink_SessionClient, s *session) error {
	for {
		select {
		case m := <-s.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read takes what the controller says. It never waits for a job.
func (a *Agent) read(stream agentapi.AgentLink_SessionClient, s *session) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch b := m.GetBody().(type) {
		case *agentapi.ControllerMessage_HeartbeatAck:
			a.heartbeatAck(b.HeartbeatAck)
		case *agentapi.ControllerMessage_ReportAck:
			err = a.journal.Ack(b.ReportAck.GetSeq())
		case *agentapi.ControllerMessage_OutputAck:
			a.outputAck(b.OutputAck)
		case *agentapi.ControllerMessage_Order:
			err = a.order(s, b.Order)
		default: // a newer controller's word
		}
		if err != nil {
			return err
		}
	}
}

// heartbeat sends one at the controller's pace; what comes back renews the lease.
func (a *Agent) heartbeat(ctx context.Context, s *session, cred agentapi.Credential) error {
	every := time.Duration(s.reply.GetHeartbeatMs()) * time.Millisecond
	if every <= 0 {
		every = 5 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for seq := uint64(1); ; seq++ {
		if err := a.renew(ctx, s.client, cred.Cert); err != nil {
			a.log.Warn("certificate is not renewed", "err", err)
		}
		load, free := a.cfg.Load()
		sent := attempt.BootTime()
		a.mu.Lock()
		a.beats[seq] = sent
		a.mu.Unlock()
		ok := s.send(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Heartbeat{Heartbeat: &agentapi.Heartbeat{
			Seq: seq, SentBoottimeNs: int64(sent), CpuLoad: load, FreeMemoryMib: free,
		}}})
		if !ok {
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Agent) heartbeatAck(ack *agentapi.HeartbeatAck) {
	a.mu.Lock()
	sent, ok := a.beats[ack.GetSeq()]
	for seq := range a.beats {
		if seq <= ack.GetSeq() {
			delete(a.beats, seq)
		}
	}
	a.mu.Unlock()
	if ok {
		a.renewed(sent)
	}
}

// renewed moves every shim's fence: the controller answered what was sent then.
func (a *Agent) renewed(sent time.Duration) {
	a.mu.Lock()
	a.lastContact = max(a.lastContact, attempt.BootTime())
	a.mu.Unlock()
	if err := attempt.Write(a.cfg.StateDir, leaseFile, attempt.Lease{SentBoot: sent}, false); err != nil {
		a.log.Error("lease is not renewed", "err", err)
	}
}

// hello says what is here.
func (a *Agent) hello() *agentapi.Hello {
	h := &agentapi.Hello{
		ProtocolMajor: agentapi.ProtocolMajor, ProtocolMinor: agentapi.ProtocolMinor,
		Version: a.cfg.Version, Node: a.cfg.Node, Tag: a.cfg.Tag,
		Epoch: a.journal.Epoch(), BootId: bootID(),
		Capabilities: []string{"checkpoint", "relay", "step", "sync"},
		Hardware:     a.hardware, Runtimes: a.runtimes(),
		TimeUnixNano: a.cfg.Now().UnixNano(), SentBoottimeNs: int64(attempt.BootTime()),
	}
	for _, r := range a.attempts() {
		h.Running = append(h.Running, r.status())
	}
	return h
}

// sessionUp makes a session the current one: verdicts are carried out, reports are
// repeated, output goes on from where the spools are.
func (a *Agent) sessionUp(s *session) {
	a.mu.Lock()
	clear(a.beats)
	a.session, a.store = s, s.reply.GetStore()
	if w := s.reply.GetKillWaitS(); w > 0 {
		a.killWait = time.Duration(w) * time.Second
	}
	a.fence = time.Duration(s.reply.GetFenceTimeoutS()) * time.Second
	wake := a.linkUp
	a.linkUp = make(chan struct{})
	a.mu.Unlock()
	close(wake)
	for _, v := range s.reply.GetVerdicts() {
		if r := a.find(journal.Of(v.GetAttempt())); r != nil {
			r.verdict(v.GetAction())
		}
	}
	for _, ack := range s.reply.GetOutputs() {
		a.outputAck(ack)
	}
	for _, r := range a.attempts() {
		r.resend()
	}
	for _, r := range a.journal.Pending() {
		s.send(reportMessage(r))
	}
}

func (a *Agent) sessionDown(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == s {
		a.session = nil
	}
}

// current is the session, nil while there is none.
func (a *Agent) current() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// await waits for a session.
func (a *Agent) await(ctx context.Context) (*session, error) {
	for {
		a.mu.Lock()
		s, up := a.session, a.linkUp
		a.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, fmt.Errorf("no link to the controller: %w", context.Cause(ctx))
		}
	}
}

func reportMessage(r *agentapi.Report) *agentapi.AgentMessage {
	return &agentapi.AgentMessage{Body: &agentapi.AgentMessage_Report{Report: r}}
}

// report keeps an event and sends it when there is a link.
func (a *Agent) report(r *agentapi.Report) error {
	r.TimeUnixNano = a.cfg.Now().UnixNano()
	if r.Key != nil {
		r.Key.Epoch = a.journal.Epoch()
	}
	if err := a.journal.Report(r); err != nil {
		return err
	}
	if s := a.current(); s != nil {
		s.send(reportMessage(r))
	}
	return nil
}
