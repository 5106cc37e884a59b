package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
	"github.com/sbatchd/sbatchd/runtime/stage"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// files serves agents: a job's submit directory with its user's rights, and
// the objects of a file:// checkpoint store.
type files struct {
	saved *checkpoints
	host  *stage.Host
}

func newFiles(c *checkpoints) files { return files{c, stage.NewHost(stage.DefaultLimits)} }

// dir is the submit directory of a job.
func dir(j *job.Job) stage.Dir {
	d := stage.Dir{Path: j.Spec.WorkDir, Owner: owner(j), Job: j.ID.Raw}
	if j.Spec.Burst != nil {
		d.In = j.Spec.Burst.StageIn
	}
	return d
}

func isWorkdir(r *agentapi.FileRef) bool { return r.GetKind() == agentapi.FileKind_FILE_WORKDIR }

// key is the object an agent means; it may name its own job's alone.
func (f files) key(j *job.Job, r *agentapi.FileRef) (string, error) {
	own := f.saved.cluster + "/" + strconv.FormatUint(uint64(j.ID.Raw), 10) + "/"
	if !strings.HasPrefix(r.GetPath(), own) {
		return "", status.Errorf(codes.PermissionDenied, "%q is not a checkpoint of job %d", r.GetPath(), j.ID.Raw)
	}
	return r.GetPath(), nil
}

// storeError gives an object store's errors the codes agents know.
func storeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, checkpoint.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, checkpoint.ErrExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, stage.ErrTooLarge):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, fs.ErrPermission):
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return err
}

// Put implements launch.Files.
func (f files) Put(ctx context.Context, j *job.Job, first *agentapi.PutRequest, next func() (*agentapi.PutRequest, error)) (*agentapi.FileInfo, error) {
	if isWorkdir(first.GetRef()) {
		data, began := first.GetData(), false
		info, err := f.host.Put(ctx, dir(j), first.GetInfo(), func() ([]byte, error) {
			if !began && len(data) > 0 {
				began = true
				return data, nil
			}
			r, err := next()
			return r.GetData(), err
		})
		return info, storeError(err)
	}
	key, err := f.key(j, first.GetRef())
	if err != nil {
		return nil, err
	}
	body := &pieces{data: first.GetData(), next: next}
	size := int64(first.GetInfo().GetSize())
	if err := checkpoint.Receive(ctx, f.saved.store, key, body, size); err != nil {
		return nil, storeError(err)
	}
	return &agentapi.FileInfo{Path: key, Exists: true, Size: uint64(size)}, nil
}

// pieces reads a stream of requests as one body.
type pieces struct {
	data []byte
	next func() (*agentapi.PutRequest, error)
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.data) == 0 {
		r, err := p.next()
		if err != nil {
			return 0, err // io.EOF ends the body
		}
		p.data = r.GetData()
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

// Get implements launch.Files.
func (f files) Get(ctx context.Context, j *job.Job, r *agentapi.GetRequest, send func(*agentapi.Chunk) error) error {
	if isWorkdir(r.GetRef()) {
		return storeError(f.host.Get(ctx, dir(j), r.GetRef().GetPath(), int64(r.GetOffset()), func(b []byte) error {
			return send(&agentapi.Chunk{Data: b})
		}))
	}
	key, err := f.key(j, r.GetRef())
	if err != nil {
		return err
	}
	body, err := f.saved.store.Get(ctx, key)
	if err != nil {
		return storeError(err)
	}
	defer body.Close() //nolint:errcheck // read only
	if _, err := io.CopyN(io.Discard, body, int64(r.GetOffset())); err != nil {
		return fmt.Errorf("offset %d: %w", r.GetOffset(), err)
	}
	buf := make([]byte, agentapi.ChunkBytes)
	for {
		n, err := io.ReadFull(body, buf)
		if n > 0 {
			if err := send(&agentapi.Chunk{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return storeError(err)
		}
	}
}

// Stat implements launch.Files.
func (f files) Stat(ctx context.Context, j *job.Job, r *agentapi.FileRef) (*agentapi.FileInfo, error) {
	if isWorkdir(r) {
		info, err := f.host.Stat(ctx, dir(j), r.GetPath())
		return info, storeError(err)
	}
	key, err := f.key(j, r)
	if err != nil {
		return nil, err
	}
	o, err := f.saved.store.Stat(ctx, key)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return &agentapi.FileInfo{Path: key}, nil
	}
	if err != nil {
		return nil, err
	}
	return infoOf(o), nil
}

func infoOf(o checkpoint.Object) *agentapi.FileInfo {
	return &agentapi.FileInfo{Path: o.Key, Exists: true, Size: uint64(o.Size), MtimeUnixNano: o.Modified.UnixNano()}
}

// List implements launch.Files.
func (f files) List(ctx context.Context, j *job.Job, r *agentapi.FileRef, send func(*agentapi.FileInfo) error) error {
	if isWorkdir(r) {
		return storeError(f.host.List(ctx, dir(j), send))
	}
	key, err := f.key(j, r)
	if err != nil {
		return err
	}
	list, err := f.saved.store.List(ctx, key)
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := send(infoOf(o)); err != nil {
			return err
		}
	}
	return nil
}

// Remove implements launch.Files.
func (f files) Remove(ctx context.Context, j *job.Job, r *agentapi.FileRef) error {
	if isWorkdir(r) {
		return status.Error(codes.PermissionDenied, "nothing is deleted on the submit side")
	}
	key, err := f.key(j, r)
	if err != nil {
		return err
	}
	return f.saved.store.Delete(ctx, key)
}
