package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"sync"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Limits of requests.
const (
	maxBody   = 64 << 20 // bytes
	flushSize = 64 << 10
)

// call is one request being answered.
type call struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	v        *version.Version
	db       bool // under /slurmdb
	own      bool // under /sbatchd
	who      auth.Identity
	sparse   bool
	mime     string // of the answer
	yaml     bool
	scratch  []byte // one record in the newest version
	digest   string // of the body, where a key makes the request repeatable
	errors   []wire.Error
	warnings []wire.Warning
}

// fail keeps an error for the answer. description says what was being done,
// source where Slurm would have found it.
func (c *call) fail(err error, description, source string) {
	e := numberOf(err)
	if _, ours := errno.Of(err); !ours {
		c.s.cfg.Log.Error("request failed", "err", err, "user", c.who.User)
	}
	if description == "" {
		description = e.Error()
	}
	c.errors = append(c.errors, wire.Error{
		Description: description, ErrorNumber: int64(e), Error: e.Error(), Source: source,
	})
}

func (c *call) warn(description, source string) {
	c.warnings = append(c.warnings, wire.Warning{Description: description, Source: source})
}

// read reads the request's body into a request type. It answers by itself, and
// returns false, where the body can't be used.
func (c *call) read(into wire.Target) bool {
	body, ok := c.body()
	return ok && c.parse(body, into)
}

// parse reads a body that is there already.
func (c *call) parse(body []byte, into wire.Target) bool {
	if c.r.Header.Get(wire.IdempotencyHeader) != "" {
		sum := sha256.Sum256(body)
		c.digest = hex.EncodeToString(sum[:])
	}
	res, err := wire.ReadFormer(body, into, c.v.Former())
	if err != nil {
		text(c.w, errno.RESTFailParsing)
		return false
	}
	c.errors = append(c.errors, res.Errors...)
	c.warnings = append(c.warnings, res.Warnings...)
	if len(c.errors) > 0 || res.Refused {
		c.reply(nil)
		return false
	}
	return true
}

// body reads a request's body and checks its type.
func (c *call) body() ([]byte, bool) {
	n := c.r.ContentLength
	if n > maxBody {
		text(c.w, errno.DataTooLarge)
		return nil, false
	}
	var buf []byte
	var err error
	if n >= 0 {
		buf = make([]byte, n)
		_, err = io.ReadFull(c.r.Body, buf)
	} else {
		buf, err = io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	}
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		text(c.w, errno.DataTooLarge)
		return nil, false
	}
	if err != nil {
		text(c.w, errno.RESTFailParsing)
		return nil, false
	}
	if len(buf) == 0 {
		return nil, true
	}
	json, err := asJSON(buf, c.r.Header.Get("Content-Type"))
	if err != nil {
		text(c.w, numberOf(err))
		return nil, false
	}
	return json, true
}

// text answers as the router does: plain text, and the connection is closed.
func text(w http.ResponseWriter, e errno.Errno) {
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	h.Set("Connection", "Close")
	body := e.Error()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status(e))
	io.WriteString(w, body) //nolint:errcheck // the client is gone
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2*flushSize); return &b }}

// reply answers with the payload's members, which payload appends with a comma
// behind each, and the envelope. nil is no payload.
func (c *call) reply(payload func(b []byte) []byte) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := append((*buf)[:0], '{')
	if payload != nil {
		b = payload(b)
	}
	b = append(c.envelope(b), '}')
	if c.yaml {
		b = wire.AppendYAML(nil, b)
	}
	code := http.StatusOK
	if len(c.errors) > 0 {
		code = status(errno.Errno(c.errors[len(c.errors)-1].ErrorNumber))
	}
	c.header(code)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(code)
	c.w.Write(b) //nolint:errcheck // the client is gone
	if cap(b) <= 1<<20 {
		*buf = b
	}
}

func (c *call) header(code int) {
	h := c.w.Header()
	h.Set("Content-Type", c.mime)
	if code == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	if code >= http.StatusBadRequest {
		h.Set("Connection", "Close")
	}
}

// record appends one record in the request's version.
func (c *call) record(b []byte, schema string, v wire.Value) []byte {
	switch {
	case c.sparse:
		return wire.AppendSparse(b, v)
	case c.v.Newest():
		return wire.Append(b, v)
	}
	c.scratch = wire.Append(c.scratch[:0], v)
	return c.v.Rewrite(b, c.scratch, schema)
}

// list answers 200 with a list of records, written as they come: an answer of any
// length takes one buffer.
func (c *call) list(key, schema string, records iter.Seq[wire.Value], tail func(b []byte) []byte) {
	c.header(http.StatusOK)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	l := lister{call: c, key: key, schema: schema}
	b := l.open((*buf)[:0])
	for v := range records {
		b = l.record(b, v)
		if len(b) >= flushSize {
			if _, err := c.w.Write(b); err != nil {
				return
			}
			b = b[:0]
		}
	}
	c.w.Write(l.close(b, tail)) //nolint:errcheck // the client is gone
	if cap(b) <= 1<<20 {
		*buf = b
	}
}

// now appends last_update and friends: the snapshot is of this moment.
func (c *call) now(names ...string) func(b []byte) []byte {
	n := wire.N(c.s.cfg.Now().Unix())
	return func(b []byte) []byte {
		for _, name := range names {
			b = append(append(append(b, '"'), name...), `":{"set":true,"infinite":false,"number":`...)
			b = strconv.AppendInt(b, n.Number, 10)
			b = append(b, '}', ',')
		}
		return b
	}
}

// sees reports whether the caller may see that a job exists: everybody, unless
// PrivateData says otherwise; a process in a job only its own user's.
func (c *call) sees(private bool, j *job.Job) bool {
	switch {
	case c.may(j):
		return true
	case c.who.Role == auth.Guest:
		return false
	}
	return !private
}

// wantsSparse reports whether our own client asks.
func wantsSparse(r *http.Request) bool { return r.Header.Get(wire.SparseHeader) != "" }
