// Package step is how srun inside a job starts a step on its own node: one HTTP
// request on the job's socket, upgraded to a stream of frames. The shim serves it
// (Accept), srun uses it (Dial). It needs the standard library alone, because
// bin/slurm links it.
//
// A frame is one byte of type, four of task rank, four of length (both big endian)
// and the data. The server sends Started, then Stdout and Stderr of all tasks mixed
// as they come, one Exit per task, and Done; the client sends Stdin, StdinEOF and
// Signal. A client that goes away ends its step.
package step

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// Path is the endpoint on the job's socket and Protocol the name it is upgraded to.
const (
	Path     = "/sbatchd/step"
	Protocol = "sbatchd-step/1"
)

// AllTasks as a frame's task means every task of the step.
const AllTasks uint32 = 0xFFFFFFFF

// MaxFrame is the most data of one frame.
const MaxFrame = 64 << 10

// Type is what a frame carries.
type Type byte

// The types of frame. Data of Exit and Started is JSON, of Signal one byte (its
// number), of Error a sentence; Done, StdinEOF have none.
const (
	Stdin Type = iota + 1
	StdinEOF
	Stdout
	Stderr
	Signal
	Started
	Exit
	Error // the step could not start: the last frame
	Done  // every task has ended: the last frame
)

// Request asks for a step.
type Request struct {
	Name        string   `json:"name,omitempty"` // step name, default the program
	Argv        []string `json:"argv"`
	Env         []string `json:"env"` // NAME=value, the whole environment
	Dir         string   `json:"dir"` // as seen in the job
	NTasks      int      `json:"ntasks"`
	CPUsPerTask int      `json:"cpus_per_task,omitempty"`
	// StdinTask is the rank that gets Stdin; -1 is all tasks, -2 none.
	StdinTask int `json:"stdin_task"`
	// KillOnBadExit ends the other tasks when one fails (srun -K).
	KillOnBadExit bool `json:"kill_on_bad_exit,omitempty"`
	// WaitSeconds after the first task ended the others are ended too; 0 is never.
	WaitSeconds int `json:"wait_seconds,omitempty"`
	// TimeLimitSeconds ends the step; 0 is none.
	TimeLimitSeconds int `json:"time_limit_seconds,omitempty"`
}

// Info is the data of Started.
type Info struct {
	Job  uint32 `json:"job"`
	Step uint32 `json:"step"`
	Node string `json:"node"`
	Pids []int  `json:"pids"` // by rank
}

// Status is the data of Exit: how one task ended.
type Status struct {
	Code   int  `json:"code"`
	Signal int  `json:"signal,omitempty"`
	OOM    bool `json:"oom,omitempty"`
}

// Frame is one message of the stream. Data is valid until the next Read.
type Frame struct {
	Type Type
	Task uint32
	Data []byte
}

// Conn is an upgraded connection. Read belongs to one goroutine, Write may be
// called from many.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte

	mu  sync.Mutex
	out []byte
}

// Read gives the next frame; io.EOF when the peer is gone between two frames.
func (c *Conn) Read() (Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[5:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("step frame of %d bytes", n)
	}
	if cap(c.buf) < int(n) {
		c.buf = make([]byte, MaxFrame)
	}
	data := c.buf[:n]
	if _, err := io.ReadFull(c.r, data); err != nil {
		return Frame{}, fmt.Errorf("step frame cut short: %w", err)
	}
	return Frame{Type: Type(head[0]), Task: binary.BigEndian.Uint32(head[1:]), Data: data}, nil
}

// Write sends one frame, or several when data is longer than MaxFrame.
func (c *Conn) Write(t Type, task uint32, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		piece := data[:min(len(data), MaxFrame)]
		data = data[len(piece):]
		c.out = append(c.out[:0], byte(t))
		c.out = binary.BigEndian.AppendUint32(c.out, task)
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(piece)))
		c.out = append(c.out, piece...)
		if _, err := c.conn.Write(c.out); err != nil {
			return fmt.Errorf("step stream: %w", err)
		}
	}
	return nil
}

// WriteJSON sends v as a frame's data.
func (c *Conn) WriteJSON(t Type, task uint32, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("step stream: %w", err)
	}
	return c.Write(t, task, data)
}

// Close ends the connection, and with it the step when the client does it.
func (c *Conn) Close() error {
	return c.conn.Close()
}

// Dial asks for a step on conn, a fresh connection to the job's socket, and takes
// the connection over. A refusal is the server's sentence as an error.
func Dial(ctx context.Context, conn net.Conn, r Request) (*Conn, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("step request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://job"+Path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("step request: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("step request: %w", err)
	}
	br := bufio.NewReaderSize(conn, MaxFrame)
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, fmt.Errorf("step request: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return nil, fmt.Errorf("step request: %s", resp.Status)
		}
		return nil, errors.New(string(bytes.TrimSpace(text)))
	}
	return &Conn{conn: conn, r: br}, nil
}

// Accept reads a step request and upgrades its connection. On an error the answer
// has been written.
func Accept(w http.ResponseWriter, r *http.Request) (*Conn, Request, error) {
	var req Request
	refuse := func(err error) (*Conn, Request, error) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, Request{}, err
	}
	if r.Header.Get("Upgrade") != Protocol {
		return refuse(fmt.Errorf("step protocol must be %s", Protocol))
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 16<<20)).Decode(&req); err != nil {
		return refuse(fmt.Errorf("step request: %w", err))
	}
	if len(req.Argv) == 0 || req.NTasks < 1 {
		return refuse(errors.New("step request without a program or tasks"))
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return refuse(errors.New("step connection cannot be upgraded"))
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		return nil, Request{}, fmt.Errorf("step request: %w", err)
	}
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		conn.Close()
		return nil, Request{}, fmt.Errorf("step request: %w", err)
	}
	return &Conn{conn: conn, r: rw.Reader}, req, nil
}
