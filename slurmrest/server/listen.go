package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
)

// Listen opens one address of RestListen. A unix socket may be used by
// everybody, since the kernel tells who is there; a socket file that nobody
// listens on any more is replaced, a taken one is an error that says so. certs
// is needed for tls alone.
func Listen(ctx context.Context, l partitions.Listen, certs *tls.Config) (net.Listener, error) {
	var lc net.ListenConfig
	switch l.Network {
	case "unix":
		return listenUnix(ctx, lc, l.Address)
	case "tcp":
		ln, err := lc.Listen(ctx, "tcp", l.Address)
		return ln, taken(l, err)
	case "tls":
		if certs == nil {
			return nil, fmt.Errorf("RestListen=%s: no certificate is configured", l)
		}
		ln, err := lc.Listen(ctx, "tcp", l.Address)
		if err != nil {
			return nil, taken(l, err)
		}
		return tls.NewListener(ln, certs), nil
	}
	return nil, fmt.Errorf("RestListen=%s: want unix:, tcp: or tls:", l)
}

func listenUnix(ctx context.Context, lc net.ListenConfig, path string) (net.Listener, error) {
	l := partitions.Listen{Network: "unix", Address: path}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody may look for the socket
		return nil, fmt.Errorf("RestListen=%s: %w", l, err)
	}
	ln, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		d := net.Dialer{Timeout: time.Second}
		conn, dialErr := d.DialContext(ctx, "unix", path)
		if dialErr == nil {
			conn.Close() //nolint:errcheck // only to see whether somebody answers
			return nil, taken(l, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("RestListen=%s: %w", l, err)
		}
		ln, err = lc.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("RestListen=%s: %w", l, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // peer credentials decide
		ln.Close() //nolint:errcheck // never used
		return nil, fmt.Errorf("RestListen=%s: %w", l, err)
	}
	return ln, nil
}

func taken(l partitions.Listen, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("RestListen=%s is taken: another controller or slurmrestd listens there", l)
	}
	return fmt.Errorf("RestListen=%s: %w", l, err)
}
