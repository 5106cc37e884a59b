package agentapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Dialer opens the byte stream of the link. TLS and gRPC run on top of it.
type Dialer func(ctx context.Context) (net.Conn, error)

// ParseAddress splits an address of the link, tcp:host:port or unix:/path, into
// what net.Dial and net.Listen take.
func ParseAddress(s string) (network, address string, err error) {
	network, address, ok := strings.Cut(s, ":")
	switch {
	case ok && network == "unix" && strings.HasPrefix(address, "/"):
		return network, address, nil
	case ok && network == "tcp" && strings.Contains(address, ":"):
		return network, address, nil
	}
	return "", "", fmt.Errorf("address %q must be tcp:host:port or unix:/path", s)
}

// DialAddress is the Dialer of an address.
func DialAddress(s string) (Dialer, error) {
	network, address, err := ParseAddress(s)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: 20 * time.Second, KeepAlive: 15 * time.Second}
		return d.DialContext(ctx, network, address)
	}, nil
}

// ListenAddress listens on an address of the link. A unix socket that nobody
// serves any more is replaced; its mode is 0600. Closing the listener leaves the
// socket's name, which may be a later listener's by then.
func ListenAddress(ctx context.Context, s string) (net.Listener, error) {
	network, address, err := ParseAddress(s)
	if err != nil {
		return nil, err
	}
	l, err := listen(ctx, network, address)
	if err == nil || network != "unix" {
		return l, err
	}
	dialer := net.Dialer{Timeout: time.Second}
	if c, derr := dialer.DialContext(ctx, network, address); derr == nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return listen(ctx, network, address)
}

func listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if u, ok := l.(*net.UnixListener); ok && err == nil {
		u.SetUnlinkOnClose(false)
		err = os.Chmod(address, 0o600)
	}
	return l, err
}

// Sizes and timeouts of the link, the same on both sides.
const (
	maxMessage       = 16 << 20
	keepaliveEvery   = 20 * time.Second
	keepaliveTimeout = 20 * time.Second
)

// NewServer is a gRPC server that speaks the link; register an AgentLinkServer on
// it and serve any listener.
func NewServer(tlsConfig *tls.Config, opts ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(tlsConfig)),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, opts...)...)
}

// Connect makes one gRPC connection over one byte stream. It does not redial: when
// the stream ends the connection is of no more use and the caller connects again,
// with its own backoff and perhaps another certificate.
func Connect(ctx context.Context, dial Dialer, tlsConfig *tls.Config) (*grpc.ClientConn, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	once := make(chan net.Conn, 1)
	once <- conn
	cc, err := grpc.NewClient("passthrough:///"+ServerName,
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, errors.New("agent link is down")
			}
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return cc, nil
}

// Backoff is the wait before the next try: exponential from 250 ms to 30 s, with
// jitter so that a thousand nodes do not come back at once.
type Backoff struct {
	Rand *rand.Rand // nil: the process's own source
	n    int
}

// Next is the next wait.
func (b *Backoff) Next() time.Duration {
	full := min(250*time.Millisecond<<min(b.n, 10), 30*time.Second)
	b.n++
	jitter := rand.Int64N
	if b.Rand != nil {
		jitter = b.Rand.Int64N
	}
	return full/2 + time.Duration(jitter(int64(full/2)+1))
}

// Reset starts over after a success.
func (b *Backoff) Reset() { b.n = 0 }

// Sleep returns after d, or with ctx's error when it ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
