package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agent/journal"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

const (
	// outputWindow is how much of a stream may be on its way unacknowledged.
	outputWindow = 1 << 20
	// A running job's file is looked at this long after it grew, and then ever
	// less often while it doesn't.
	firstPoll, outputPoll = 2 * time.Millisecond, 50 * time.Millisecond
	// outputPatience is how long an acknowledgement may take before what was sent
	// is sent again.
	outputPatience = 10 * time.Second
)

// stream ships one output file. The controller's spool says how far it is; what was
// sent and not acknowledged is sent again on the next link.
type stream struct {
	r    *run
	name string
	path string

	mu    sync.Mutex // protects the fields below
	acked uint64
	sent  uint64
	known bool // acked is the spool's word
	wake  chan struct{}
}

// newStreams are the streams of an attempt. Output written straight to the user's
// own files is not shipped.
func (r *run) newStreams() []*stream {
	st := r.launch.GetStreams()
	if st.GetStdoutPath() != "" {
		return nil
	}
	names := map[string]string{agentapi.StreamOut: attempt.OutFile}
	if !st.GetMerged() {
		names[agentapi.StreamErr] = attempt.ErrFile
	}
	var out []*stream
	for _, name := range []string{agentapi.StreamOut, agentapi.StreamErr} {
		if file, ok := names[name]; ok {
			out = append(out, &stream{r: r, name: name, path: filepath.Join(r.dir, file), wake: make(chan struct{}, 1)})
		}
	}
	return out
}

// size is what the job has written; a file that is not there yet is empty.
func (s *stream) size() uint64 {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0
	}
	return uint64(info.Size())
}

func (r *run) sizes() []*agentapi.StreamSize {
	var out []*agentapi.StreamSize
	for _, s := range r.out {
		out = append(out, &agentapi.StreamSize{Stream: s.name, Size: s.size()})
	}
	return out
}

// outputAck takes the controller's word about a spool.
func (a *Agent) outputAck(ack *agentapi.OutputAck) {
	r := a.find(journal.Of(ack.GetAttempt()))
	if r == nil {
		return
	}
	for _, s := range r.out {
		if s.name == ack.GetStream() {
			s.ack(ack.GetSize())
		}
	}
}

func (s *stream) ack(size uint64) {
	s.mu.Lock()
	s.acked, s.known = size, true
	s.sent = max(s.sent, size)
	s.mu.Unlock()
	s.poke()
}

// poke lets ship look now.
func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// resend starts over from the spool's size: what was on its way with the last link
// may be lost.
func (r *run) resend() {
	for _, s := range r.out {
		s.mu.Lock()
		s.sent = s.acked
		s.mu.Unlock()
		s.poke()
	}
}

// ship sends what the job writes until ctx ends.
func (s *stream) ship(ctx context.Context) error {
	buf := make([]byte, agentapi.ChunkBytes)
	var file *os.File
	defer func() {
		if file != nil {
			file.Close()
		}
	}()
	progress, poll := time.Now(), firstPoll
	var last uint64
	for {
		session, err := s.r.a.await(ctx)
		if err != nil {
			return ctx.Err()
		}
		if file == nil {
			if file, err = os.Open(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		n := 0
		s.mu.Lock()
		acked, offset := s.acked, s.sent
		s.mu.Unlock()
		if acked != last || offset == acked {
			last, progress = acked, time.Now()
		} else if time.Since(progress) > outputPatience {
			progress = time.Now()
			s.mu.Lock()
			s.sent = s.acked
			s.mu.Unlock()
			continue
		}
		if file != nil && offset < acked+outputWindow {
			if n, err = file.ReadAt(buf, int64(offset)); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		if n > 0 {
			poll = firstPoll
			data := append([]byte(nil), buf[:n]...)
			s.mu.Lock()
			// A new link may have moved sent in between: then this is not next.
			if s.sent != offset {
				s.mu.Unlock()
				continue
			}
			s.sent = offset + uint64(n)
			s.mu.Unlock()
			session.send(&agentapi.AgentMessage{Body: &agentapi.AgentMessage_Output{Output: &agentapi.Output{
				Attempt: s.r.key.Proto(), Stream: s.name, Offset: offset, Data: data,
			}}})
			continue
		}
		select {
		case <-s.wake:
		case <-time.After(poll):
			poll = min(2*poll, outputPoll)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shipped waits until the spools have all of the ended job's output.
func (r *run) shipped(ctx context.Context) error {
	for _, s := range r.out {
		for {
			s.mu.Lock()
			acked := s.acked
			s.mu.Unlock()
			if acked >= s.size() {
				break
			}
			if err := agentapi.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}
