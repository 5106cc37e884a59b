package agentapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const tokenPrefix = "sbd1."

// Token is what a new instance needs to join: whom to trust and what to show.
type Token struct {
	CASHA256 string `json:"ca_sha256"`
	Node     string `json:"node"`
	Tag      string `json:"tag"`
	Secret   string `json:"secret"`
	Expires  int64  `json:"exp"` // unix seconds
}

// ErrToken is why Join refuses: a token that is false, expired or another key's.
var ErrToken = errors.New("join token refused")

// BindKey remembers the first key that used a token and returns the key it is
// bound to. It must survive a restart of the controller: both strings are hex.
type BindKey func(ctx context.Context, id Identity, key string) (bound string, err error)

// NewToken makes the token of one instance, good until expires.
func (a *Authority) NewToken(node, tag string, expires time.Time) string {
	t := Token{CASHA256: a.SHA256(), Node: node, Tag: tag, Expires: expires.Unix()}
	t.Secret = a.tokenSecret(t)
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}

// ParseToken reads a token without judging it.
func ParseToken(s string) (Token, error) {
	var t Token
	body, ok := strings.CutPrefix(s, tokenPrefix)
	if !ok {
		return t, fmt.Errorf("%w: not a token of this version", ErrToken)
	}
	data, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return t, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return t, nil
}

// Join verifies a token, binds it to the request's key and issues the certificate.
func (a *Authority) Join(ctx context.Context, cluster string, r *JoinRequest, now time.Time, bind BindKey) (*JoinReply, error) {
	t, err := ParseToken(r.GetToken())
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(t.Secret), []byte(a.tokenSecret(t))) {
		return nil, fmt.Errorf("%w: not made by this cluster", ErrToken)
	}
	if now.Unix() > t.Expires {
		return nil, fmt.Errorf("%w: it ended at %s", ErrToken, time.Unix(t.Expires, 0).UTC().Format(time.RFC3339))
	}
	csr, err := x509.ParseCertificateRequest(r.GetCsr())
	if err != nil {
		return nil, fmt.Errorf("certificate request of %s: %w", t.Node, err)
	}
	key := hashCert(csr.RawSubjectPublicKeyInfo)
	id := Identity{Cluster: cluster, Node: t.Node, Tag: t.Tag}
	bound, err := bind(ctx, id, key)
	if err != nil {
		return nil, fmt.Errorf("bind join token of %s: %w", t.Node, err)
	}
	if bound != key {
		return nil, fmt.Errorf("%w: another key has used it", ErrToken)
	}
	return a.reply(id, r.GetCsr(), now)
}

// Renew issues a fresh certificate to a proven identity.
func (a *Authority) Renew(id Identity, r *RenewRequest, now time.Time) (*JoinReply, error) {
	return a.reply(id, r.GetCsr(), now)
}

func (a *Authority) reply(id Identity, csr []byte, now time.Time) (*JoinReply, error) {
	cert, err := a.Issue(id, csr, now)
	if err != nil {
		return nil, err
	}
	return &JoinReply{Certificate: cert, Cas: a.CAs()}, nil
}

func (a *Authority) tokenSecret(t Token) string {
	mac := hmac.New(sha256.New, a.tokenKey)
	fmt.Fprintf(mac, "%q %q %q %d", t.CASHA256, t.Node, t.Tag, t.Expires)
	return hex.EncodeToString(mac.Sum(nil))
}
