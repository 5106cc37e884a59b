package auth

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

const (
	// DefaultLifespan is a new token's life where the user names none.
	DefaultLifespan = 1800 * time.Second
	// Infinite is the lifespan that "scontrol token lifespan=infinite" asks for.
	Infinite = math.MaxUint32 * time.Second

	minKeyBytes = 16
)

// Parameters are the parts of AuthAltParameters that concern tokens.
type Parameters struct {
	JWTKey               string        // path of the HS256 key, raw bytes
	JWKS                 string        // path of a JWKS file: public keys for RS256
	UserClaimField       string        // claim with the user's name
	UseClientIDs         bool          // uid, gid and groups come from the token
	DisableTokenCreation bool          // administrators only
	MaxTokenLifespan     time.Duration // 0: no limit
}

// Keys checks and makes tokens. The zero value knows no key and refuses all.
type Keys struct {
	params Parameters
	secret []byte
	public map[string]*rsa.PublicKey // by kid
}

// LoadKeys reads the key files that p names.
func LoadKeys(p Parameters) (*Keys, error) {
	k := &Keys{params: p}
	if p.JWTKey != "" {
		if err := k.loadSecret(p.JWTKey); err != nil {
			return nil, fmt.Errorf("jwt_key: %w", err)
		}
	}
	if p.JWKS != "" {
		if err := k.loadJWKS(p.JWKS); err != nil {
			return nil, fmt.Errorf("jwks: %w", err)
		}
	}
	return k, nil
}

func (k *Keys) loadSecret(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("%s: mode %04o lets others at the key; want 0600", path, info.Mode().Perm())
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(secret) < minKeyBytes {
		return fmt.Errorf("%s: %d bytes, want at least %d", path, len(secret), minKeyBytes)
	}
	k.secret = secret
	return nil
}

func (k *Keys) loadJWKS(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var set struct {
		Keys []struct{ Kty, Kid, Alg, N, E string }
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	k.public = map[string]*rsa.PublicKey{}
	for _, key := range set.Keys {
		if key.Kty != "RSA" || (key.Alg != "" && key.Alg != "RS256") {
			continue
		}
		n, errN := base64.RawURLEncoding.DecodeString(strings.TrimRight(key.N, "="))
		e, errE := base64.RawURLEncoding.DecodeString(strings.TrimRight(key.E, "="))
		exp := new(big.Int).SetBytes(e)
		if err := errors.Join(errN, errE); err != nil || !exp.IsInt64() || exp.Int64() < 3 || exp.Int64() > math.MaxInt32 {
			return fmt.Errorf("%s: key %q is not an RSA key", path, key.Kid)
		}
		k.public[key.Kid] = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exp.Int64())}
	}
	if len(k.public) == 0 {
		return fmt.Errorf("%s: no RS256 key", path)
	}
	return nil
}

// claims is what a valid token says.
type claims struct {
	user    string
	expires time.Time
	account *Account // from use_jwt_client_ids
}

// verify checks signature, algorithm and expiry of a token at the moment now.
func (k *Keys) verify(token string, now time.Time) (claims, error) {
	var methods []string
	if k.secret != nil {
		methods = append(methods, "HS256")
	}
	if k.public != nil {
		methods = append(methods, "RS256")
	}
	if methods == nil {
		return claims{}, errors.New("no token key is configured")
	}
	m := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, m, k.key, jwt.WithValidMethods(methods),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return claims{}, err
	}
	exp, err := m.GetExpirationTime()
	if err != nil || exp == nil {
		return claims{}, errors.New("token without exp")
	}
	c := claims{expires: exp.Time}
	for _, name := range []string{"sun", "username", k.params.UserClaimField} {
		if s, ok := m[name].(string); ok && name != "" && s != "" {
			c.user = s
			break
		}
	}
	if c.user == "" {
		return claims{}, errors.New("token names no user")
	}
	if k.params.UseClientIDs {
		c.account = clientIDs(m)
	}
	return c, nil
}

func (k *Keys) key(t *jwt.Token) (any, error) {
	if t.Method.Alg() == "HS256" {
		return k.secret, nil
	}
	kid, _ := t.Header["kid"].(string)
	if pub, ok := k.public[kid]; ok {
		return pub, nil
	}
	return nil, fmt.Errorf("no key %q", kid)
}

// clientIDs reads uid, gid and the id object that an identity provider may put
// into its tokens, so that the host needs no entry for the user.
func clientIDs(m jwt.MapClaims) *Account {
	uid, okU := number(m["uid"])
	gid, okG := number(m["gid"])
	if !okU || !okG {
		return nil
	}
	a := &Account{UID: uid, GID: gid, Groups: []uint32{gid}}
	id, _ := m["id"].(map[string]any)
	a.Name, _ = id["name"].(string)
	a.Home, _ = id["dir"].(string)
	a.Shell, _ = id["shell"].(string)
	switch g := id["groups"].(type) {
	case map[string]any: // name -> gid
		for _, v := range g {
			if n, ok := number(v); ok {
				a.Groups = append(a.Groups, n)
			}
		}
	default:
		list, _ := id["gids"].([]any)
		for _, v := range list {
			if n, ok := number(v); ok {
				a.Groups = append(a.Groups, n)
			}
		}
	}
	return a
}

func number(v any) (uint32, bool) {
	f, ok := v.(float64)
	if !ok || f < 0 || f > math.MaxUint32 || f != math.Trunc(f) {
		return 0, false
	}
	return uint32(f), true
}

// Create makes a token for user at the moment now, asked for by the identity
// by. A lifespan of 0 means DefaultLifespan. Errors are Slurm's: access denied
// for another user's token, 6009 when no key can sign.
func (k *Keys) Create(by Identity, user string, lifespan time.Duration, now time.Time) (string, error) {
	if by.Role == Guest || (k.params.DisableTokenCreation && by.Role != Admin) {
		return "", errno.AccessDenied
	}
	if user == "" {
		user = by.User
	}
	if user != by.User && by.Role != Admin {
		return "", errno.AccessDenied
	}
	if lifespan <= 0 {
		lifespan = DefaultLifespan
	}
	if m := k.params.MaxTokenLifespan; m > 0 && lifespan > m && by.Role != Admin {
		return "", errno.AccessDenied
	}
	return k.Sign(user, lifespan, now)
}

// Sign makes an HS256 token for user; Create asks first whether it may.
func (k *Keys) Sign(user string, lifespan time.Duration, now time.Time) (string, error) {
	if k.secret == nil {
		return "", errno.AuthUnableToGenerateToken
	}
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"exp": now.Add(lifespan).Unix(),
		"iat": now.Unix(),
		"sun": user,
	})
	s, err := t.SignedString(k.secret)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errno.AuthUnableToGenerateToken, err)
	}
	return s, nil
}
