package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// Egress dials through an HTTP CONNECT proxy at an address of the link's form; nil for
// an empty address: dial directly.
func Egress(address string) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	if address == "" {
		return nil, nil
	}
	proxy, err := agentapi.DialAddress(address)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := proxy(ctx)
		if err != nil {
			return nil, fmt.Errorf("egress: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		c, err := connectThrough(conn, address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("egress to %s: %w", address, err), conn.Close())
		}
		return c, nil
	}, nil
}

func connectThrough(conn net.Conn, address string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, req) //nolint:bodyclose // the body is the connection
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	// A server may speak first: what came along with the answer is its.
	return &buffered{Conn: conn, r: br}, nil
}

type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
