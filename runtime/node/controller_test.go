package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
	"github.com/sbatchd/sbatchd/runtime/stage"
)

const testCluster = "0b7c2c4e-3f0a-4d55-9a53-1f7f0f2d8f11"

// controller is the other end of the link, all in memory: it wants what was launched,
// keeps what is reported, and spools what is written, as the real one does.
type controller struct {
	agentapi.UnimplementedAgentLinkServer
	t         *testing.T
	authority *agentapi.Authority
	address   string
	store     checkpoint.Store
	submit    stage.Dir // what FILE_WORKDIR means
	host      *stage.Host
	settings  func(*agentapi.HelloReply)
	relayed   func(*agentapi.RelayRequest) (int, string)

	mu       sync.Mutex
	server   *grpc.Server
	listener net.Listener
	out      chan *agentapi.ControllerMessage
	epoch    uint64
	wanted   map[string]bool // attempts that may live
	reports  map[uint64]*agentapi.Report
	order    []uint64
	spool    map[string][]byte
	acks     map[uint64]string
	nextID   uint64
	hellos   int
	last     *agentapi.Hello
	bound    string
	changed  chan struct{}
	deafAcks bool // reports and output are not acknowledged
}

func newController(t *testing.T, dir string) *controller {
	t.Helper()
	a, err := agentapi.OpenAuthority(filepath.Join(dir, "ca"), testCluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	store, err := checkpoint.NewDir(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{
		t: t, host: stage.NewHost(stage.DefaultLimits), authority: a, address: "unix:" + filepath.Join(dir, "link.sock"), store: store,
		epoch: 1, wanted: map[string]bool{}, reports: map[uint64]*agentapi.Report{},
		spool: map[string][]byte{}, acks: map[uint64]string{}, changed: make(chan struct{}),
	}
	c.up()
	t.Cleanup(c.down)
	return c
}

// up serves the link.
func (c *controller) up() {
	l, err := agentapi.ListenAddress(context.Background(), c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	s := agentapi.NewServer(c.authority.ServerTLS(time.Now))
	agentapi.RegisterAgentLinkServer(s, c)
	c.mu.Lock()
	c.server, c.listener = s, l
	c.mu.Unlock()
	go func(l net.Listener) { _ = s.Serve(l) }(l) // ends with down
}

// down cuts every link at once.
func (c *controller) down() {
	c.mu.Lock()
	s, l := c.server, c.listener
	c.server = nil
	c.mu.Unlock()
	if s != nil {
		s.Stop()
		_ = l.Close() // the server has closed it, if it had come to serve it
	}
}

func (c *controller) Join(ctx context.Context, r *agentapi.JoinRequest) (*agentapi.JoinReply, error) {
	return c.authority.Join(ctx, testCluster, r, time.Now(), func(_ context.Context, _ agentapi.Identity, key string) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.bound == "" {
			c.bound = key
		}
		return c.bound, nil
	})
}

func (c *controller) Session(stream agentapi.AgentLink_SessionServer) error {
	if _, err := agentapi.PeerIdentity(stream.Context()); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	out := make(chan *agentapi.ControllerMessage, 1024)
	c.mu.Lock()
	c.out, c.last = out, hello
	c.hellos++
	reply := &agentapi.HelloReply{
		ProtocolMajor: agentapi.ProtocolMajor, ProtocolMinor: agentapi.ProtocolMinor, ClusterUuid: testCluster,
		ClusterName: "test", Epoch: c.epoch, HeartbeatMs: 200, KillWaitS: 2, FenceTimeoutS: 600,
		Store: &agentapi.CheckpointStore{Url: "file:///srv/ckpt"},
	}
	if c.settings != nil {
		c.settings(reply)
	}
	for _, r := range hello.GetRunning() {
		v := agentapi.Verdict_FORGET
		if c.wanted[r.GetAttempt().Name()] {
			v = agentapi.Verdict_KEEP
		}
		reply.Verdicts = append(reply.Verdicts, &agentapi.Verdict{Attempt: r.GetAttempt(), Action: v})
		for _, s := range r.GetStreams() {
			reply.Outputs = append(reply.Outputs, &agentapi.OutputAck{
				Attempt: r.GetAttempt(), Stream: s.GetStream(), Size: uint64(len(c.spool[spoolKey(r.GetAttempt(), s.GetStream())])),
			})
		}
	}
	c.wakeLocked()
	c.mu.Unlock()
	if err := stream.Send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_HelloReply{HelloReply: reply}}); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case m := <-out:
				if stream.Send(m) != nil {
					return
				}
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		c.take(out, m)
	}
}

func spoolKey(a *agentapi.Attempt, stream string) string { return a.Name() + "/" + stream }

func (c *controller) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *controller) take(out chan *agentapi.ControllerMessage, m *agentapi.AgentMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeLocked()
	switch b := m.GetBody().(type) {
	case *agentapi.AgentMessage_Heartbeat:
		out <- &agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_HeartbeatAck{HeartbeatAck: &agentapi.HeartbeatAck{Seq: b.Heartbeat.GetSeq(), Epoch: c.epoch}}}
	case *agentapi.AgentMessage_Report:
		if c.deafAcks {
			return
		}
		if _, seen := c.reports[b.Report.GetSeq()]; !seen {
			c.reports[b.Report.GetSeq()] = b.Report
			c.order = append(c.order, b.Report.GetSeq())
		}
		out <- &agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_ReportAck{ReportAck: &agentapi.ReportAck{Seq: b.Report.GetSeq()}}}
	case *agentapi.AgentMessage_Output:
		if c.deafAcks {
			return
		}
		o := b.Output
		k := spoolKey(o.GetAttempt(), o.GetStream())
		have := uint64(len(c.spool[k]))
		if end := o.GetOffset() + uint64(len(o.GetData())); o.GetOffset() <= have && end > have {
			c.spool[k] = append(c.spool[k], o.GetData()[have-o.GetOffset():]...)
		}
		out <- &agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_OutputAck{OutputAck: &agentapi.OutputAck{
			Attempt: o.GetAttempt(), Stream: o.GetStream(), Size: uint64(len(c.spool[k])),
		}}}
	case *agentapi.AgentMessage_OrderAck:
		c.acks[b.OrderAck.GetId()] = b.OrderAck.GetRefused()
	}
}

// links counts the links that agents have opened.
func (c *controller) links() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hellos
}

// send gives an order, again and again until it is acknowledged, and returns what it
// was refused with.
func (c *controller) send(o *agentapi.Order) string {
	c.t.Helper()
	c.mu.Lock()
	if o.Id == 0 {
		c.nextID++
		o.Id = c.nextID
	}
	if o.Key.Epoch == 0 {
		o.Key.Epoch = c.epoch
	}
	delete(c.acks, o.Id)
	if o.GetLaunch() != nil {
		c.wanted[o.Key.Attempt().Name()] = true
	}
	c.mu.Unlock()
	hellos := -1
	var refused string
	c.until("order acknowledged", 20*time.Second, func() bool {
		if c.hellos != hellos && c.out != nil {
			hellos = c.hellos
			c.out <- &agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_Order{Order: o}}
		}
		var ok bool
		refused, ok = c.acks[o.Id]
		return ok
	})
	return refused
}

// until waits for a condition, asked under the lock whenever something happens.
func (c *controller) until(what string, limit time.Duration, cond func() bool) {
	c.t.Helper()
	timeout := time.After(limit)
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatalf("waited %v for: %s", limit, what)
		}
	}
}

// event waits for the first report of an attempt that match takes.
func event[T any](c *controller, a *agentapi.Attempt, what string, match func(*agentapi.Report) (T, bool)) T {
	c.t.Helper()
	var got T
	c.until(what, 40*time.Second, func() bool {
		for _, seq := range c.order {
			r := c.reports[seq]
			if r.GetKey().GetJob() != a.GetJob() || r.GetKey().GetRestart() != a.GetRestart() {
				continue
			}
			if v, ok := match(r); ok {
				got = v
				return true
			}
		}
		return false
	})
	return got
}

func (c *controller) started(a *agentapi.Attempt) *agentapi.Started {
	c.t.Helper()
	return event(c, a, "start of "+a.Name(), func(r *agentapi.Report) (*agentapi.Started, bool) {
		return r.GetStarted(), r.GetStarted() != nil && r.GetKey().GetStep() == agentapi.BatchStep
	})
}

func (c *controller) exited(a *agentapi.Attempt) *agentapi.Exited {
	c.t.Helper()
	return event(c, a, "end of "+a.Name(), func(r *agentapi.Report) (*agentapi.Exited, bool) {
		return r.GetExited(), r.GetExited() != nil && r.GetKey().GetStep() == agentapi.BatchStep
	})
}

func (c *controller) finished(a *agentapi.Attempt) {
	c.t.Helper()
	event(c, a, "nothing left of "+a.Name(), func(r *agentapi.Report) (bool, bool) { return true, r.GetFinished() != nil })
}

// count is how many reports of an attempt match.
func (c *controller) count(a *agentapi.Attempt, match func(*agentapi.Report) bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, r := range c.reports {
		if r.GetKey().GetJob() == a.GetJob() && r.GetKey().GetRestart() == a.GetRestart() && match(r) {
			n++
		}
	}
	return n
}

func (c *controller) output(a *agentapi.Attempt, stream string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.spool[spoolKey(a, stream)])
}

// written waits until a stream holds some text.
func (c *controller) written(a *agentapi.Attempt, stream, text string) {
	c.t.Helper()
	c.until("output "+text, 20*time.Second, func() bool { return bytes.Contains(c.spool[spoolKey(a, stream)], []byte(text)) })
}

func (c *controller) Relay(r *agentapi.RelayRequest, stream agentapi.AgentLink_RelayServer) error {
	code, body := c.relayed(r)
	return errors.Join(
		stream.Send(&agentapi.RelayReply{Status: int32(code), Headers: []*agentapi.Header{{Name: "X-Test", Value: "yes"}}}),
		stream.Send(&agentapi.RelayReply{Body: []byte(body)}))
}

// The files of the store, by key, with checkpoint's own words for errors.

func fileStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, checkpoint.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, checkpoint.ErrExists):
		return status.Error(codes.AlreadyExists, err.Error())
	}
	return err
}

func (c *controller) Put(stream agentapi.AgentLink_PutServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetRef().GetKind() == agentapi.FileKind_FILE_WORKDIR {
		info, err := c.host.Put(stream.Context(), c.submit, first.GetInfo(), func() ([]byte, error) {
			m, err := stream.Recv()
			return m.GetData(), err
		})
		if err != nil {
			return err
		}
		return stream.SendAndClose(info)
	}
	r, w := io.Pipe()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				w.CloseWithError(err) // io.EOF is its end
				return
			}
			if _, err := w.Write(m.GetData()); err != nil {
				return
			}
		}
	}()
	err = checkpoint.Receive(stream.Context(), c.store, first.GetRef().GetPath(), r, int64(first.GetInfo().GetSize()))
	r.Close()
	if err != nil {
		return fileStatus(err)
	}
	return stream.SendAndClose(first.GetInfo())
}

func (c *controller) Get(r *agentapi.GetRequest, stream agentapi.AgentLink_GetServer) error {
	if r.GetRef().GetKind() == agentapi.FileKind_FILE_WORKDIR {
		return c.host.Get(stream.Context(), c.submit, r.GetRef().GetPath(), int64(r.GetOffset()), func(data []byte) error {
			return stream.Send(&agentapi.Chunk{Data: data})
		})
	}
	f, err := c.store.Get(stream.Context(), r.GetRef().GetPath())
	if err != nil {
		return fileStatus(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return fileStatus(err)
	}
	return stream.Send(&agentapi.Chunk{Data: data})
}

func (c *controller) Stat(ctx context.Context, r *agentapi.FileRef) (*agentapi.FileInfo, error) {
	o, err := c.store.Stat(ctx, r.GetPath())
	if err != nil {
		return nil, fileStatus(err)
	}
	return &agentapi.FileInfo{Path: o.Key, Exists: true, Size: uint64(o.Size)}, nil
}

func (c *controller) ListObjects(r *agentapi.FileRef, stream agentapi.AgentLink_ListObjectsServer) error {
	if r.GetKind() == agentapi.FileKind_FILE_WORKDIR {
		return c.host.List(stream.Context(), c.submit, stream.Send)
	}
	list, err := c.store.List(stream.Context(), r.GetPath())
	for _, o := range list {
		err = errors.Join(err, stream.Send(&agentapi.FileInfo{Path: o.Key, Exists: true, Size: uint64(o.Size), Mode: uint32(fs.FileMode(0o600))}))
	}
	return err
}

func (c *controller) Remove(ctx context.Context, r *agentapi.FileRef) (*agentapi.RemoveReply, error) {
	return &agentapi.RemoveReply{}, fileStatus(c.store.Delete(ctx, r.GetPath()))
}

// newLog logs to the test.
func newLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
