package auth

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Credential is what the kernel knows of a process at the other end of a unix
// socket at the moment it connected.
type Credential struct {
	PID      int32
	UID, GID uint32
}

// overflowUID is what the kernel shows for a user of a namespace it cannot map.
const overflowUID = 65534

// ConnContext is meant for http.Server.ConnContext: it keeps the peer's
// credentials of unix sockets for Identify. Other connections pass unchanged.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	cred, err := PeerCredential(u)
	if err != nil {
		return ctx // Identify refuses requests without proof
	}
	return WithPeer(ctx, cred)
}

// WithPeer puts a peer's credentials in ctx as ConnContext does.
func WithPeer(ctx context.Context, cred Credential) context.Context {
	return context.WithValue(ctx, peerKey, cred)
}

// PeerCredential asks the kernel who is at the other end of c.
func PeerCredential(c *net.UnixConn) (Credential, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Credential{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Credential{}, fmt.Errorf("peer credentials: %w", err)
	}
	if sockErr != nil {
		return Credential{}, fmt.Errorf("peer credentials: %w", sockErr)
	}
	return Credential{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}, nil
}
