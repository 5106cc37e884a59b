package agentapi

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

// Lifetimes of certificates. Backdating lets a node whose clock is behind join.
const (
	CertLifetime = 7 * 24 * time.Hour
	Backdate     = 24 * time.Hour
	caLifetime   = 10 * 365 * 24 * time.Hour
)

// ServerName is the DNS name in the controller's certificate, the same for every
// controller of every cluster: the CA tells clusters apart.
const ServerName = "controller.sbatchd"

// Files of an authority's folder.
const (
	caCertFile   = "ca.pem"
	caKeyFile    = "ca.key"
	caOldFile    = "ca-old.pem"
	tokenKeyFile = "token.key"
)

// Identity is who a client certificate says its holder is.
type Identity struct {
	Cluster string // UUID
	Node    string
	Tag     string // of the instance
}

// URI is the identity as the certificate carries it.
func (id Identity) URI() *url.URL {
	return &url.URL{Scheme: "sbatchd", Host: id.Cluster, Path: "/" + id.Node + "/" + id.Tag}
}

// IdentityOf reads a client certificate's identity.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	for _, u := range cert.URIs {
		node, tag, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if u.Scheme == "sbatchd" && ok && node == cert.Subject.CommonName {
			return Identity{Cluster: u.Host, Node: node, Tag: tag}, nil
		}
	}
	return Identity{}, fmt.Errorf("certificate of %q names no node", cert.Subject.CommonName)
}

// Authority is the cluster's certificate authority, with the one before it while a
// rotation lasts. It is the same files on each controller.
type Authority struct {
	cert     *x509.Certificate
	key      crypto.Signer
	old      []*x509.Certificate
	tokenKey []byte
}

// caName begins the CA's common name; the cluster's UUID ends it.
const caName = "sbatchd "

// OpenAuthority loads the authority of a folder and makes it on first use: a CA
// named after the cluster and the key that signs join tokens, files of mode 0600.
func OpenAuthority(dir, cluster string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	_, err := os.Stat(filepath.Join(dir, caCertFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = newAuthority(dir, cluster, now)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	a := &Authority{}
	if err := a.load(dir); err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", dir, err)
	}
	return a, nil
}

// Cluster is the UUID of the authority's cluster.
func (a *Authority) Cluster() string { return strings.TrimPrefix(a.cert.Subject.CommonName, caName) }

// RotateAuthority makes a new CA and keeps trusting the one in use. Nodes learn
// the new one when they renew; the old one ends at the next rotation.
func RotateAuthority(dir, cluster string, now time.Time) error {
	pemData, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err == nil {
		err = atomicfile.WriteDurable(filepath.Join(dir, caOldFile), pemData)
	}
	if err == nil {
		err = newAuthority(dir, cluster, now)
	}
	if err != nil {
		return fmt.Errorf("rotate certificate authority: %w", err)
	}
	return nil
}

func newAuthority(dir, cluster string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: caName + cluster, SerialNumber: serial.Text(16)},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, tokenKeyFile)); errors.Is(err, fs.ErrNotExist) {
		secret := []byte(rand.Text() + rand.Text())
		if err := atomicfile.WriteDurable(filepath.Join(dir, tokenKeyFile), secret); err != nil {
			return err
		}
	}
	// The certificate is last: it says that the rest is there.
	if err := atomicfile.WriteDurable(filepath.Join(dir, caKeyFile), keyPEM); err != nil {
		return err
	}
	return atomicfile.WriteDurable(filepath.Join(dir, caCertFile), encodeCerts(der))
}

func (a *Authority) load(dir string) error {
	certs, err := readCerts(filepath.Join(dir, caCertFile))
	if err != nil {
		return err
	}
	a.cert = certs[0]
	if a.key, err = readKey(filepath.Join(dir, caKeyFile)); err != nil {
		return err
	}
	pub, ok := a.cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || !pub.Equal(a.key.Public()) {
		return fmt.Errorf("%s and %s do not belong together", caCertFile, caKeyFile)
	}
	if a.tokenKey, err = readSecret(filepath.Join(dir, tokenKeyFile)); err != nil {
		return err
	}
	a.old, err = readCerts(filepath.Join(dir, caOldFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// SHA256 is the hash of the CA certificate in hex, as join tokens carry it.
func (a *Authority) SHA256() string {
	return hashCert(a.cert.Raw)
}

// CAs are the DER certificates to trust: the current one first.
func (a *Authority) CAs() [][]byte {
	all := [][]byte{a.cert.Raw}
	for _, c := range a.old {
		all = append(all, c.Raw)
	}
	return all
}

// Issue signs a client certificate for the key of a request. What the request says
// about its subject is ignored: the identity is the caller's to know.
func (a *Authority) Issue(id Identity, csr []byte, now time.Time) ([]byte, error) {
	req, err := x509.ParseCertificateRequest(csr)
	if err == nil {
		err = req.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate request of %s: %w", id.Node, err)
	}
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: id.Node},
		URIs:        []*url.URL{id.URI()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, req.PublicKey, now)
}

func (a *Authority) sign(template *x509.Certificate, key any, now time.Time) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = now.Add(-Backdate)
	template.NotAfter = now.Add(CertLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return der, nil
}

// RenewAt is when a certificate of this build should be replaced: two thirds of the
// way from its issue to its end.
func RenewAt(cert *x509.Certificate) time.Time {
	issued := cert.NotBefore.Add(Backdate)
	return issued.Add(cert.NotAfter.Sub(issued) * 2 / 3)
}

// NewKey makes the private key of a node.
func NewKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// NewRequest is the certificate request for a key.
func NewRequest(key crypto.Signer, node string) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

func hashCert(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func encodeCerts(ders ...[]byte) []byte {
	var out []byte
	for _, der := range ders {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func readCerts(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return certs, nil
}

func readKey(path string) (crypto.Signer, error) {
	data, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a key that cannot sign", path)
	}
	return signer, nil
}

// readSecret refuses a file that others may read.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: mode %04o lets others read it, must be 0600", path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}
