package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// Client talks to one controller. It is safe for concurrent use.
type Client struct {
	endpoint Endpoint
	base     string // scheme and host of URLs
	token    string
	patience time.Duration
	http     *http.Client

	mu   sync.Mutex
	conn net.Conn // made by connect, for the first request
}

// Option changes how a Client is made.
type Option func(*Client)

// WithToken sends a JSON web token instead of relying on peer credentials; the
// empty token changes nothing.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithPatience says for how long a submission is repeated after its connection
// was cut or the controller asked to come back later; the default is 30 s.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// New returns a client of the controller at e without contacting it.
func New(e Endpoint, opts ...Option) *Client {
	c := &Client{endpoint: e, base: "http://localhost", patience: 30 * time.Second}
	if e.Network != "unix" {
		c.base = e.String()
	}
	for _, o := range opts {
		o(c)
	}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: c.dial, DisableCompression: true, ForceAttemptHTTP2: false,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialTimeout,
	}}
	return c
}

// Endpoint is where the client's controller listens.
func (c *Client) Endpoint() Endpoint { return c.endpoint }

// Close drops idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close() //nolint:errcheck // nothing was sent on it
		c.conn = nil
	}
}

// connect makes the first connection, to see whether somebody listens.
func (c *Client) connect(ctx context.Context) error {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	return nil
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c.mu.Lock()
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, c.endpoint.Network, c.endpoint.Address)
}

// request is one call. Body and key make it repeatable.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	key          string // idempotency key; "" for requests that change nothing twice
	sparse       bool
}

// send makes one attempt and returns the answer's status and body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader = http.NoBody
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("X-SLURM-USER-TOKEN", c.token)
	}
	if r.key != "" {
		req.Header.Set(wire.IdempotencyHeader, r.key)
	}
	if r.sparse {
		req.Header.Set(wire.SparseHeader, "1")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// call makes a request until it is answered, at most for the client's patience,
// and reads the answer into into (nil: only the errors are looked at).
func (c *Client) call(ctx context.Context, r request, into func([]byte) error) error {
	deadline := time.Now().Add(c.patience)
	wait := 50 * time.Millisecond
	for cut := false; ; {
		body, err := c.once(ctx, r)
		if err == nil {
			if into == nil {
				return nil
			}
			if err := into(body); err != nil {
				return fmt.Errorf("%w: answer of %s: %w", errno.ControllerReceive, r.path, err)
			}
			return nil
		}
		cut = cut || errors.Is(err, errno.ControllerReceive)
		if !again(r, err, cut) || ctx.Err() != nil || time.Now().Add(wait).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // jitter
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// again reports whether a failed request may and should be repeated. Where the
// connection was cut before, the controller may be starting again.
func again(r request, err error, cut bool) bool {
	switch {
	case errors.Is(err, errno.Backoff), errors.Is(err, errno.Busy):
		return true // refused before anything was done
	case r.key != "", r.method == http.MethodGet:
		return errors.Is(err, errno.ControllerReceive) || cut && errors.Is(err, errno.ControllerConnect)
	}
	return false
}

// once makes one attempt; a failure to talk becomes Slurm's error for it.
func (c *Client) once(ctx context.Context, r request) ([]byte, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end below
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return body, answerError(resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	return body, nil
}

func transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errno.ProtocolSocketImplTimeout, err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("%w: %w", errno.ControllerConnect, err)
	}
	return fmt.Errorf("%w: %w", errno.ControllerReceive, err)
}

// Error is what the controller answered to a refused request.
type Error struct {
	Status      int         // HTTP status
	Errno       errno.Errno // the first error's number
	Description string      // what the controller was doing; may be empty
	Source      string
	Warnings    []wire.Warning
	// Tasks are the refused parts of an array, one entry for each reason.
	Tasks []wire.JobArrayResponseMsgEntry
}

// Error is Slurm's text of the number, which commands print.
func (e *Error) Error() string { return e.Errno.Error() }

// Unwrap gives the number to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Errno }

func answerError(status int, contentType string, body []byte) error {
	e := &Error{Status: status, Errno: statusErrno(status)}
	if !strings.HasPrefix(contentType, "application/json") {
		e.Description = strings.TrimSpace(string(body[:min(len(body), 500)]))
		return e
	}
	var resp struct {
		Errors   []wire.Error
		Warnings []wire.Warning
		Results  []wire.JobArrayResponseMsgEntry
	}
	if err := json.Unmarshal(body, &resp); err != nil {
		return e
	}
	e.Warnings, e.Tasks = resp.Warnings, resp.Results
	if len(resp.Errors) > 0 {
		first := resp.Errors[0]
		e.Errno, e.Description, e.Source = errno.Errno(first.ErrorNumber), first.Description, first.Source
	}
	return e
}

// statusErrno is Slurm's error for an answer without an envelope.
func statusErrno(status int) errno.Errno {
	switch status {
	case http.StatusUnauthorized:
		return errno.ProtocolAuthenticationError
	case http.StatusForbidden:
		return errno.AccessDenied
	case http.StatusNotFound:
		return errno.RESTUnknownURL
	case http.StatusTooManyRequests:
		return errno.Backoff
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return errno.ControllerReceive
	case http.StatusBadRequest:
		return errno.RESTFailParsing
	}
	return errno.Unspecified
}

// read returns a reader of one generated type.
func read(v wire.Target) func([]byte) error {
	return func(b []byte) error { return wire.Unmarshal(b, v) }
}

// Get asks one of sbatchd's own endpoints, /sbatchd/v1/..., and decodes the
// JSON answer into out (nil: it is dropped).
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query}, decodeAny(out))
}

// Post sends in as JSON to one of sbatchd's own endpoints and decodes the
// answer into out (nil: it is dropped). It is not repeated after a cut.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, body: body}, decodeAny(out))
}

func decodeAny(out any) func([]byte) error {
	if out == nil {
		return nil
	}
	return func(b []byte) error { return json.Unmarshal(b, out) }
}

// Stream opens a long answer, for instance of /sbatchd/v1/logs/123 with
// follow=1. The caller closes it.
func (c *Client) Stream(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, transportError(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only its text matters
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, transportError(ctx, err)
	}
	return nil, answerError(resp.StatusCode, resp.Header.Get("Content-Type"), body)
}

// seconds is a time as a query parameter.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
