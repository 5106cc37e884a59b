package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/asuser"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/output"
)

// outputHelper is the hidden first argument of the process that writes users'
// files.
const outputHelper = "output-helper"

// outputs connects the spools and the copier to launch and to the REST server.
type outputs struct {
	h      *house
	spool  *output.Spool
	copier *output.Copier
	notes  chan note
}

// note is a remark on a job's output, on its way to the job's record.
type note struct {
	job  uint32
	text string
}

func newOutputs(cfg *partitions.Config, h *house) (*outputs, error) {
	spool, err := output.NewSpool(filepath.Join(cfg.StateSaveLocation, "spool"), cfg.JobLogLimit, h.log)
	if err != nil {
		return nil, err
	}
	o := &outputs{h: h, spool: spool, notes: make(chan note, 256)}
	o.copier, err = output.NewCopier(spool, output.Reexec(outputHelper), o.warn, h.log)
	return o, err
}

// warn may not block: a remark too many is dropped.
func (o *outputs) warn(k output.Key, text string) {
	if text != "" {
		text = "output: " + text
	}
	select {
	case o.notes <- note{k.Job, text}:
	default:
	}
}

// Run keeps output until ctx ends.
func (o *outputs) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.spool.Run(ctx) })
	g.Go(func() error { return o.copier.Run(ctx) })
	g.Go(func() error { o.warm(ctx); return nil })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case n := <-o.notes:
				if err := o.h.queue.Note(ctx, n.job, n.text); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	})
	return g.Wait()
}

// warm starts the helpers of users whose jobs wait, so that a job's start does
// not wait for one.
func (o *outputs) warm(ctx context.Context) {
	changed, stop := o.h.queue.Watch()
	defer stop()
	next := uint32(0)
	for {
		s := o.h.queue.Snapshot()
		for j := range s.JobsFrom(next) {
			if j.State == job.Pending {
				o.copier.Warm(owner(j))
			}
		}
		next = s.NextJobID
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func owner(j *job.Job) asuser.Cred { return asuser.Cred{UID: j.UID, GID: j.GID, Groups: j.Groups} }

// paths are the files a job's streams go to; err is empty when both share one.
func paths(j *job.Job) (out, err string) {
	n := output.Names{ID: j.ID, Restart: j.Restarts, User: j.User, JobName: j.Spec.Name}
	if j.Run != nil && len(j.Run.Nodes) > 0 {
		n.Node, n.Restart = j.Run.Nodes[0].Node, j.Run.Restart
	}
	pattern := j.Spec.Output
	if pattern == "" {
		pattern = output.DefaultPattern(j.ID)
	}
	out = output.Path(pattern, j.Spec.WorkDir, n)
	if j.Spec.Error != "" {
		if err = output.Path(j.Spec.Error, j.Spec.WorkDir, n); err == out {
			err = ""
		}
	}
	return out, err
}

// Files implements launch.Output.
func (o *outputs) Files(j *job.Job) (out, err string) { return paths(j) }

// Prepare implements launch.Output: the user's files are made ready.
func (o *outputs) Prepare(ctx context.Context, j *job.Job, appendTo bool) (userFault bool, err error) {
	o.spool.Begin(j.Run.Attempt)
	out, errPath := paths(j)
	for stream, path := range map[string]string{"out": out, "err": errPath} {
		if path == "" {
			continue
		}
		t := output.Target{
			Path: path, Owner: owner(j), Umask: j.Spec.Umask,
			Append: appendTo,
		}
		if err := o.copier.Prepare(ctx, output.Key{Attempt: j.Run.Attempt, Stream: stream}, t); err != nil {
			return errors.Is(err, output.ErrTarget), err
		}
	}
	return false, nil
}

// Append implements launch.Output.
func (o *outputs) Append(ctx context.Context, j *job.Job, stream string, offset int64, data []byte) (int64, bool, error) {
	ack, err := o.spool.Append(ctx, output.Key{Attempt: j.Run.Attempt, Stream: stream}, offset, data)
	return ack.Size, ack.Capped, err
}

// Size implements launch.Output.
func (o *outputs) Size(a job.Attempt, stream string) (int64, error) {
	ack, err := o.spool.Size(output.Key{Attempt: a, Stream: stream})
	return ack.Size, err
}

// Settle implements launch.Output.
func (o *outputs) Settle(ctx context.Context, j *job.Job) string {
	if err := o.copier.Finish(ctx, j.Run.Attempt); err != nil {
		return fmt.Sprintf("output: %v; sburst logs %s has all of it", err, j.ID)
	}
	return ""
}

// Log implements server.Logs. Output that the job's node writes itself is read
// from the user's file.
func (o *outputs) Log(ctx context.Context, id, _ uint32, stream string, follow bool) (io.ReadCloser, error) {
	var live func() (uint32, bool)
	if follow {
		live = func() (uint32, bool) {
			j, ok := o.h.queue.Snapshot().Job(id)
			if !ok {
				return 0, false
			}
			return j.Restarts, !j.State.Final() || j.Active()
		}
	}
	copyTo := func(w io.Writer) error { return o.spool.Follow(ctx, w, id, stream, live) }
	if j, ok := o.h.queue.Snapshot().Job(id); ok && j.Run != nil && len(j.Run.Hosts) > 0 && j.Run.Hosts[0].Direct {
		name, errPath := paths(j)
		if stream == agentapi.StreamErr {
			name = errPath
		}
		if name == "" {
			return io.NopCloser(strings.NewReader("")), nil
		}
		copyTo = func(w io.Writer) error { return output.FollowFile(ctx, w, name, owner(j), live) }
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(copyTo(w)) }() // ends with the reader: a closed pipe fails the next write
	return r, nil
}

// helperMain runs this program as an output helper if it was started as one.
func helperMain() {
	if len(os.Args) > 1 && os.Args[1] == outputHelper {
		os.Exit(output.HelperMain(os.Args[2:]))
	}
}
