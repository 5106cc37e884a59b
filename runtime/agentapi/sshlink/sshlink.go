// Package sshlink is the controller's side of AgentLink=ssh: over an SSH connection
// to the instance it has a unix socket made there, which the agent dials as if it
// were the controller's. What is dialed comes out of a net.Listener here and feeds
// the same gRPC server as every other link. The agent needs nothing of this.
package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Config says how to log in to an instance.
type Config struct {
	User    string
	Signer  ssh.Signer
	HostKey ssh.PublicKey // pinned: any other is refused
	Socket  string        // path of the socket on the instance
}

// handshakeTimeout bounds the SSH login.
const handshakeTimeout = 30 * time.Second

// Listen logs in over conn and listens on the instance. Closing the listener, or
// the end of conn, ends it and every connection that came from it.
func Listen(ctx context.Context, conn net.Conn, c Config) (net.Listener, error) {
	if strings.ContainsAny(c.Socket, "'\x00") {
		return nil, fmt.Errorf("agent socket path %q cannot be quoted", c.Socket)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	client, err := login(conn, c)
	if err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", conn.RemoteAddr(), err)
	}
	l, err := listen(client, c.Socket)
	if err != nil {
		return nil, fmt.Errorf("listen over ssh on %s: %w", conn.RemoteAddr(), errors.Join(err, client.Close()))
	}
	return &listener{Listener: l, client: client}, nil
}

func login(conn net.Conn, c Config) (*ssh.Client, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	sc, chans, reqs, err := ssh.NewClientConn(conn, "instance", &ssh.ClientConfig{
		User:            c.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(c.Signer)},
		HostKeyCallback: ssh.FixedHostKey(c.HostKey),
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(sc, chans, reqs), conn.SetDeadline(time.Time{})
}

// listen removes the socket of an earlier session first: sshd leaves it behind when
// the connection breaks, and by default refuses to bind over it.
func listen(client *ssh.Client, path string) (net.Listener, error) {
	if _, err := Run(client, "rm -f '"+path+"'", nil); err != nil {
		return nil, err
	}
	return client.ListenUnix(path)
}

// Run runs a command on the instance with stdin and gives its output. The error of
// a failed command ends with what it said.
func Run(client *ssh.Client, command string, stdin []byte) (string, error) {
	s, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer s.Close()
	s.Stdin = bytes.NewReader(stdin)
	var out, text bytes.Buffer
	s.Stdout, s.Stderr = &out, &text
	if err := s.Run(command); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(text.String()))
	}
	return out.String(), nil
}

// listener closes the whole SSH connection with itself.
type listener struct {
	net.Listener
	client *ssh.Client
}

// Client is the SSH connection under a listener of Listen, to send the agent over.
func Client(l net.Listener) *ssh.Client {
	if s, ok := l.(*listener); ok {
		return s.client
	}
	return nil
}

func (l *listener) Close() error {
	return errors.Join(l.Listener.Close(), l.client.Close())
}
