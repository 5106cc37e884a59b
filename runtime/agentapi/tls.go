package agentapi

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

// ServerTLS is the controller's side: it shows a certificate of the authority,
// renewed as it ages, and takes client certificates of any trusted CA. A client
// without one gets in too, for Join alone: handlers ask PeerIdentity.
func (a *Authority) ServerTLS(now func() time.Time) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, c := range a.old {
		roots.AddCert(c)
	}
	s := &serverCert{authority: a, now: now}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: s.get,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      roots,
		Time:           now,
		NextProtos:     []string{"h2"},
	}
}

type serverCert struct {
	authority *Authority
	now       func() time.Time

	mu   sync.Mutex
	cert *tls.Certificate
}

func (s *serverCert) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.cert != nil && now.Before(RenewAt(s.cert.Leaf)) {
		return s.cert, nil
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	der, err := s.authority.sign(&x509.Certificate{
		DNSNames:    []string{ServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public(), now)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The CA itself goes along: a joining node knows only its hash.
	s.cert = &tls.Certificate{Certificate: [][]byte{der, s.authority.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return s.cert, nil
}

// ErrNoCertificate says that the caller showed no client certificate.
var ErrNoCertificate = errors.New("no client certificate")

// PeerIdentity is the proven identity of a gRPC call's caller.
func PeerIdentity(ctx context.Context) (Identity, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, ErrNoCertificate
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return Identity{}, ErrNoCertificate
	}
	return IdentityOf(info.State.VerifiedChains[0][0])
}

// ClientTLS is the agent's side once it has joined.
func ClientTLS(cert *tls.Certificate, cas []*x509.Certificate, now func() time.Time) *tls.Config {
	roots := x509.NewCertPool()
	for _, c := range cas {
		roots.AddCert(c)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*cert},
		RootCAs:      roots,
		ServerName:   ServerName,
		Time:         now,
	}
}

// JoinTLS is the agent's side before that: the server must show a CA of the given
// hash (hex SHA-256) and a certificate it signed.
func JoinTLS(caSHA256 string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: ServerName,
		// The chain is verified below, against the CA that the hash names.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			certs := state.PeerCertificates
			if len(certs) < 2 || hashCert(certs[len(certs)-1].Raw) != caSHA256 {
				return errors.New("controller's CA is not the one of the join token")
			}
			roots := x509.NewCertPool()
			roots.AddCert(certs[len(certs)-1])
			_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName, CurrentTime: now()})
			return err
		},
	}
}

// Credential is a node's key with its certificate and the CAs it trusts, kept in
// two files of mode 0600: <path>.key and <path>.pem.
type Credential struct {
	Key  crypto.Signer
	Cert *x509.Certificate // nil before Join
	CAs  []*x509.Certificate
}

// LoadCredential reads a node's credential; what is missing is nil.
func LoadCredential(path string) (Credential, error) {
	var c Credential
	var err error
	if c.Key, err = readKey(path + ".key"); err != nil {
		return Credential{}, fmt.Errorf("node credential: %w", err)
	}
	certs, err := readCerts(path + ".pem")
	if err != nil {
		return c, fmt.Errorf("node credential: %w", err)
	}
	if pub, ok := c.Key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(certs[0].PublicKey) {
		return c, fmt.Errorf("node credential: %s.pem is of another key", path)
	}
	c.Cert, c.CAs = certs[0], certs[1:]
	return c, nil
}

// SaveKey keeps a new key; it must be on disk before it is shown to Join, so that
// a crash in between tries again with the same key.
func SaveKey(path string, key crypto.Signer) error {
	data, err := encodeKey(key)
	if err == nil {
		err = atomicfile.WriteDurable(path+".key", data)
	}
	if err != nil {
		return fmt.Errorf("node credential: %w", err)
	}
	return nil
}

// SaveReply keeps what Join or Renew gave for the key already saved.
func SaveReply(path string, r *JoinReply) error {
	if err := atomicfile.WriteDurable(path+".pem", encodeCerts(append([][]byte{r.GetCertificate()}, r.GetCas()...)...)); err != nil {
		return fmt.Errorf("node credential: %w", err)
	}
	return nil
}

// TLS is the client configuration of a complete credential.
func (c Credential) TLS(now func() time.Time) *tls.Config {
	return ClientTLS(&tls.Certificate{Certificate: [][]byte{c.Cert.Raw}, PrivateKey: c.Key, Leaf: c.Cert}, c.CAs, now)
}
