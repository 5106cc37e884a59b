package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
	"github.com/sbatchd/sbatchd/runtime/container"
)

// Files are the files of one kind that the controller keeps for an attempt, over
// the link. It is a checkpoint.Link, and what staging moves files with.
type Files struct {
	a    *Agent
	key  journal.Attempt
	kind agentapi.FileKind
}

func (a *Agent) files(k journal.Attempt, kind agentapi.FileKind) *Files {
	return &Files{a: a, key: k, kind: kind}
}

func (f *Files) ref(path string) *agentapi.FileRef {
	return &agentapi.FileRef{Kind: f.kind, Attempt: f.key.Proto(), Path: path}
}

// client waits for the link.
func (f *Files) client(ctx context.Context) (agentapi.AgentLinkClient, error) {
	s, err := f.a.await(ctx)
	if err != nil {
		return nil, err
	}
	return s.client, nil
}

// fileError gives the link's errors their names.
func fileError(op, path string, err error) error {
	switch status.Code(err) { //nolint:exhaustive // the other codes say nothing more
	case codes.OK:
		return nil
	case codes.NotFound:
		err = checkpoint.ErrNotFound
	case codes.AlreadyExists:
		err = checkpoint.ErrExists
	case codes.FailedPrecondition:
		err = checkpoint.ErrOld
	case codes.InvalidArgument, codes.ResourceExhausted, codes.PermissionDenied:
		// The same on every node.
		err = container.Fail(container.ErrUser, errors.New(status.Convert(err).Message()))
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// Put stores size bytes of r as a file of mode 0600.
func (f *Files) Put(ctx context.Context, path string, r io.Reader, size int64) error {
	return f.PutFile(ctx, &agentapi.FileInfo{Path: path, Mode: 0o600, Size: uint64(size)}, r)
}

// PutFile stores a file, folder or link as its info says; r is a file's content and
// nil for the others.
func (f *Files) PutFile(ctx context.Context, info *agentapi.FileInfo, r io.Reader) error {
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a half-sent file is dropped by the controller
	stream, err := client.Put(ctx)
	if err != nil {
		return fileError("put", info.GetPath(), err)
	}
	err = stream.Send(&agentapi.PutRequest{Ref: f.ref(info.GetPath()), Info: info})
	buf := make([]byte, agentapi.ChunkBytes)
	for err == nil && r != nil {
		n, rerr := r.Read(buf)
		if n > 0 {
			err = stream.Send(&agentapi.PutRequest{Data: buf[:n]})
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return fmt.Errorf("put %s: %w", info.GetPath(), rerr)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fileError("put", info.GetPath(), err)
	}
	_, err = stream.CloseAndRecv()
	return fileError("put", info.GetPath(), err)
}

// Get opens a file; checkpoint.ErrNotFound comes at the first Read at the latest.
func (f *Files) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	client, err := f.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := client.Get(ctx, &agentapi.GetRequest{Ref: f.ref(path)})
	if err != nil {
		cancel()
		return nil, fileError("get", path, err)
	}
	return &reader{path: path, stream: stream, cancel: cancel}, nil
}

type reader struct {
	path   string
	stream agentapi.AgentLink_GetClient
	cancel context.CancelFunc
	rest   []byte
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		m, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, fileError("get", r.path, err)
		}
		r.rest = m.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.cancel()
	return nil
}

// Info looks at a file; checkpoint.ErrNotFound when it is not there.
func (f *Files) Info(ctx context.Context, path string) (*agentapi.FileInfo, error) {
	client, err := f.client(ctx)
	if err != nil {
		return nil, err
	}
	info, err := client.Stat(ctx, f.ref(path))
	if err == nil && !info.GetExists() {
		err = status.Error(codes.NotFound, "not found")
	}
	return info, fileError("stat", path, err)
}

// Stat is Info as a checkpoint store tells it.
func (f *Files) Stat(ctx context.Context, path string) (checkpoint.Object, error) {
	info, err := f.Info(ctx, path)
	if err != nil {
		return checkpoint.Object{}, err
	}
	return object(info), nil
}

func object(info *agentapi.FileInfo) checkpoint.Object {
	return checkpoint.Object{Key: info.GetPath(), Size: int64(info.GetSize()), Modified: time.Unix(0, info.GetMtimeUnixNano())}
}

// Walk calls visit for everything whose path begins with prefix, in path order.
func (f *Files) Walk(ctx context.Context, prefix string, visit func(*agentapi.FileInfo) error) error {
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ListObjects(ctx, f.ref(prefix))
	if err != nil {
		return fileError("list", prefix, err)
	}
	for {
		info, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fileError("list", prefix, err)
		}
		if err := visit(info); err != nil {
			return err
		}
	}
}

// List names the regular files whose path begins with prefix.
func (f *Files) List(ctx context.Context, prefix string) ([]checkpoint.Object, error) {
	var out []checkpoint.Object
	err := f.Walk(ctx, prefix, func(info *agentapi.FileInfo) error {
		if fs.FileMode(info.GetMode()).IsRegular() {
			out = append(out, object(info))
		}
		return nil
	})
	return out, err
}

// Delete removes a file; what is gone is success.
func (f *Files) Delete(ctx context.Context, path string) error {
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	_, err = client.Remove(ctx, f.ref(path))
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return fileError("remove", path, err)
}
