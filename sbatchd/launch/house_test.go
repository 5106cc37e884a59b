package launch_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/launch"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

// house is a hub on a unix socket, in front of a desk.
type house struct {
	t *testing.T
	*desk
	spool     *spool
	authority *agentapi.Authority
	dial      agentapi.Dialer
}

func newHouse(t *testing.T) *house {
	t.Helper()
	authority, err := agentapi.OpenAuthority(filepath.Join(t.TempDir(), "ca"), cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, desk: newDesk(t), spool: &spool{data: map[string]string{}}, authority: authority}
	h.serve()
	return h
}

// serve starts a controller on the desk, beside any before it.
func (h *house) serve() {
	h.t.Helper()
	address := "unix:" + filepath.Join(h.t.TempDir(), "s")
	l, err := agentapi.ListenAddress(h.t.Context(), address)
	if err != nil {
		h.t.Fatal(err)
	}
	who := auth.New(auth.Config{Users: people{}, Now: time.Now})
	rest := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := who.Identify(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Who", id.User)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(id.Node + " " + r.Header.Get("Authorization") + r.Header.Get("X-Kept"))) // to the test
	})
	hub := launch.New(launch.Config{
		Jobs: h.desk, Output: h.spool, REST: rest, Authority: h.authority, Users: people{},
		Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := hub.Run(ctx, l); err != nil && !errors.Is(err, context.Canceled) {
			h.t.Errorf("hub: %v", err)
		}
	})
	h.t.Cleanup(func() { cancel(); wg.Wait() })
	if h.dial, err = agentapi.DialAddress(address); err != nil {
		h.t.Fatal(err)
	}
}

// connect opens a link as the holder of a certificate for id.
func (h *house) connect(id agentapi.Identity) *grpc.ClientConn {
	h.t.Helper()
	return h.connectBy(h.authority, id)
}

func (h *house) connectBy(a *agentapi.Authority, id agentapi.Identity) *grpc.ClientConn {
	h.t.Helper()
	key, err := agentapi.NewKey()
	if err != nil {
		h.t.Fatal(err)
	}
	csr, err := agentapi.NewRequest(key, id.Node)
	if err != nil {
		h.t.Fatal(err)
	}
	der, err := a.Issue(id, csr, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := agentapi.Connect(h.t.Context(), h.dial, clientTLS(h.t, der, h.authority.CAs(), key))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

var spot1 = agentapi.Identity{Cluster: cluster, Node: "spot-1", Tag: tag}

// agent is a fake agent in a session.
type agent struct {
	t    *testing.T
	conn *grpc.ClientConn
	in   chan *agentapi.ControllerMessage
	grpc.BidiStreamingClient[agentapi.AgentMessage, agentapi.ControllerMessage]
	reply *agentapi.HelloReply
}

func hello(edit func(*agentapi.Hello)) *agentapi.AgentMessage {
	h := &agentapi.Hello{
		ProtocolMajor: agentapi.ProtocolMajor, ProtocolMinor: agentapi.ProtocolMinor, Version: "test",
		Node: "spot-1", Tag: tag, TimeUnixNano: time.Now().UnixNano(), Hardware: &agentapi.Hardware{Cpus: 4},
	}
	if edit != nil {
		edit(h)
	}
	return &agentapi.AgentMessage{Body: &agentapi.AgentMessage_Hello{Hello: h}}
}

// enter opens a session and says hello; the error is the controller's.
func (h *house) enter(c *grpc.ClientConn, first *agentapi.AgentMessage) (*agent, error) {
	h.t.Helper()
	s, err := agentapi.NewAgentLinkClient(c).Session(h.t.Context())
	if err != nil {
		return nil, err
	}
	if err := s.Send(first); err != nil {
		h.t.Logf("send: %v", err) // Recv says why
	}
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	a := &agent{t: h.t, conn: c, BidiStreamingClient: s, reply: m.GetHelloReply(), in: make(chan *agentapi.ControllerMessage, 100)}
	go func() { // ends with the stream
		for {
			m, err := s.Recv()
			if err != nil {
				close(a.in)
				return
			}
			a.in <- m
		}
	}()
	return a, nil
}

func (h *house) agent(edit func(*agentapi.Hello)) *agent {
	h.t.Helper()
	a, err := h.enter(h.connect(spot1), hello(edit))
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (a *agent) say(m *agentapi.AgentMessage) {
	a.t.Helper()
	if err := a.Send(m); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) report(seq uint64, r *agentapi.Report, at job.Attempt) {
	a.t.Helper()
	r.Seq = seq
	r.Key = &agentapi.Key{Job: at.Job, Restart: at.Restart, Step: agentapi.BatchStep}
	a.say(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Report{Report: r}})
}

// next is the next message that want accepts.
func (a *agent) next(want func(*agentapi.ControllerMessage) bool) *agentapi.ControllerMessage {
	a.t.Helper()
	deadline := time.After(5 * time.Second)
	for {
		select {
		case m, ok := <-a.in:
			if !ok {
				a.t.Fatal("the controller ended the session")
			}
			if want(m) {
				return m
			}
		case <-deadline:
			a.t.Fatal("the message never came")
		}
	}
}

func (a *agent) order() *agentapi.Order {
	a.t.Helper()
	return a.next(func(m *agentapi.ControllerMessage) bool { return m.GetOrder() != nil }).GetOrder()
}

// quiet fails if a message of a kind comes soon.
func (a *agent) quiet(what string, is func(*agentapi.ControllerMessage) bool) {
	a.t.Helper()
	for deadline := time.After(50 * time.Millisecond); ; {
		select {
		case m := <-a.in:
			if is(m) {
				a.t.Fatalf("%s: %v", what, m)
			}
		case <-deadline:
			return
		}
	}
}

func isOrder(m *agentapi.ControllerMessage) bool { return m.GetOrder() != nil }
func isAck(m *agentapi.ControllerMessage) bool   { return m.GetReportAck() != nil }

func running(at ...job.Attempt) func(*agentapi.Hello) {
	return func(h *agentapi.Hello) {
		for _, a := range slices.Clone(at) {
			h.Running = append(h.Running, &agentapi.Running{Attempt: agentapi.NewAttempt(a.Job, a.Restart)})
		}
	}
}
