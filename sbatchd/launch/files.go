package launch

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
)

// Put receives one file of a job.
func (h *Hub) Put(stream agentapi.AgentLink_PutServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	j, err := h.attempt(stream.Context(), first.GetRef().GetAttempt())
	if err != nil {
		return err
	}
	next := func() (*agentapi.PutRequest, error) {
		// An attempt that ended meanwhile must not go on writing.
		if cur, ok := h.Jobs.Snapshot().Job(j.ID.Raw); !ok || !present(cur, j.Run.Attempt) {
			return nil, status.Error(codes.FailedPrecondition, "the attempt is over")
		}
		return stream.Recv()
	}
	info, err := h.Files.Put(stream.Context(), j, first, next)
	if err != nil {
		return fileError(err)
	}
	return stream.SendAndClose(info)
}

// Get sends one file of a job.
func (h *Hub) Get(r *agentapi.GetRequest, stream agentapi.AgentLink_GetServer) error {
	j, err := h.attempt(stream.Context(), r.GetRef().GetAttempt())
	if err != nil {
		return err
	}
	return fileError(h.Files.Get(stream.Context(), j, r, stream.Send))
}

// Stat describes one file of a job.
func (h *Hub) Stat(ctx context.Context, r *agentapi.FileRef) (*agentapi.FileInfo, error) {
	j, err := h.attempt(ctx, r.GetAttempt())
	if err != nil {
		return nil, err
	}
	info, err := h.Files.Stat(ctx, j, r)
	return info, fileError(err)
}

// ListObjects describes the files below a path of a job.
func (h *Hub) ListObjects(r *agentapi.FileRef, stream agentapi.AgentLink_ListObjectsServer) error {
	j, err := h.attempt(stream.Context(), r.GetAttempt())
	if err != nil {
		return err
	}
	return fileError(h.Files.List(stream.Context(), j, r, stream.Send))
}

// Remove deletes one object of a job.
func (h *Hub) Remove(ctx context.Context, r *agentapi.FileRef) (*agentapi.RemoveReply, error) {
	j, err := h.attempt(ctx, r.GetAttempt())
	if err != nil {
		return nil, err
	}
	if err := h.Files.Remove(ctx, j, r); err != nil {
		return nil, fileError(err)
	}
	return &agentapi.RemoveReply{}, nil
}

// fileError keeps a status and makes anything else Unknown with its text.
func fileError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}

// Relay answers one REST request made inside a job. Whose it is, the agent has
// from the kernel; that the job runs on that node, we check.
func (h *Hub) Relay(r *agentapi.RelayRequest, stream agentapi.AgentLink_RelayServer) error {
	j, err := h.attempt(stream.Context(), r.GetAttempt())
	if err != nil {
		return err
	}
	if r.GetUid() != j.UID && r.GetUid() != 0 {
		return status.Error(codes.PermissionDenied, "not a process of the job's user")
	}
	req, err := relayed(stream.Context(), r, j)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	w := &relayWriter{stream: stream, header: http.Header{}}
	h.REST.ServeHTTP(w, req)
	return w.finish()
}

func relayed(ctx context.Context, r *agentapi.RelayRequest, j *job.Job) (*http.Request, error) {
	u, err := url.ParseRequestURI(r.GetPath())
	if err != nil {
		return nil, err
	}
	ctx = auth.WithRelay(ctx, auth.Relay{Node: j.Run.Nodes[0].Node, Job: j.ID.Raw, User: j.User, UID: j.UID, GID: j.GID})
	req, err := http.NewRequestWithContext(ctx, r.GetMethod(), u.String(), strings.NewReader(string(r.GetBody())))
	if err != nil {
		return nil, err
	}
	for _, hd := range r.GetHeaders() {
		// Who asks is attested, never claimed.
		if name := http.CanonicalHeaderKey(hd.GetName()); name != "Authorization" && !strings.HasPrefix(name, "X-Slurm-") {
			req.Header.Add(name, hd.GetValue())
		}
	}
	req.RequestURI = r.GetPath()
	return req, nil
}

// relayWriter sends a handler's answer in pieces as it is written.
type relayWriter struct {
	stream agentapi.AgentLink_RelayServer
	header http.Header
	began  bool
	err    error
}

func (w *relayWriter) Header() http.Header { return w.header }

func (w *relayWriter) WriteHeader(code int) {
	if w.began {
		return
	}
	w.began = true
	reply := &agentapi.RelayReply{Status: int32(code)}
	for name, values := range w.header {
		for _, v := range values {
			reply.Headers = append(reply.Headers, &agentapi.Header{Name: name, Value: v})
		}
	}
	w.err = w.stream.Send(reply)
}

func (w *relayWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	for sent := 0; sent < len(p) && w.err == nil; {
		n := min(len(p)-sent, agentapi.ChunkBytes)
		w.err = w.stream.Send(&agentapi.RelayReply{Body: p[sent : sent+n]})
		sent += n
	}
	return len(p), w.err
}

// Flush does nothing: every piece is sent as it is written.
func (w *relayWriter) Flush() {}

func (w *relayWriter) finish() error {
	w.WriteHeader(http.StatusOK)
	return w.err
}
