package auth_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

var (
	noon   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	secret = []byte("0123456789abcdef0123456789abcdef")
)

// people is a user database in memory.
type people []auth.Account

func (p people) ByName(_ context.Context, name string) (auth.Account, error) {
	for _, a := range p {
		if a.Name == name {
			return a, nil
		}
	}
	return auth.Account{}, auth.ErrUnknownUser
}

func (p people) ByUID(_ context.Context, uid uint32) (auth.Account, error) {
	for _, a := range p {
		if a.UID == uid {
			return a, nil
		}
	}
	return auth.Account{}, auth.ErrUnknownUser
}

var campus = people{
	{Name: "root", Groups: []uint32{0}},
	{Name: "slurm", UID: 64030, GID: 64030, Groups: []uint32{64030}},
	{Name: "alice", UID: 1001, GID: 1001, Groups: []uint32{1001, 50}},
	{Name: "bob", UID: 1002, GID: 1002, Groups: []uint32{1002}},
}

func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwt_hs256.key")
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newAuth(t *testing.T, edit func(*auth.Config)) *auth.Authenticator {
	t.Helper()
	keys, err := auth.LoadKeys(auth.Parameters{JWTKey: keyFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := auth.Config{Keys: keys, Users: campus, SlurmUser: "slurm", Now: func() time.Time { return noon }}
	if edit != nil {
		edit(&cfg)
	}
	return auth.New(cfg)
}

func sign(t *testing.T, m jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	s, err := jwt.NewWithClaims(m, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Minute).Unix()
	hs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, secret, c) }
	alice := hs(jwt.MapClaims{"exp": later, "sun": "alice"})
	root := hs(jwt.MapClaims{"exp": later, "sun": "root"})
	slurm := hs(jwt.MapClaims{"exp": later, "username": "slurm"})
	wantAlice := auth.Identity{
		User: "alice", UID: 1001, GID: 1001, Groups: []uint32{1001, 50},
		Role: auth.User, Method: auth.Token, Signer: "alice",
	}
	bySlurm := wantAlice
	bySlurm.Signer = "slurm"
	byRoot := wantAlice
	byRoot.Signer = "root"
	tests := []struct {
		name   string
		header map[string]string
		ctx    func(context.Context) context.Context
		want   auth.Identity // zero: refused
	}{
		{name: "nothing"},
		{name: "name alone", header: map[string]string{auth.UserHeader: "alice"}},
		{name: "token", header: map[string]string{auth.TokenHeader: alice}, want: wantAlice},
		{name: "token and name", header: map[string]string{auth.TokenHeader: alice, auth.UserHeader: "alice"}, want: wantAlice},
		{name: "bearer", header: map[string]string{"Authorization": "Bearer " + alice}, want: wantAlice},
		{name: "bearer lower case", header: map[string]string{"Authorization": "bearer " + alice}},
		{name: "basic", header: map[string]string{"Authorization": "Basic YTpi"}},
		{name: "both", header: map[string]string{"Authorization": "Bearer " + alice, auth.TokenHeader: alice}},
		{name: "other user", header: map[string]string{auth.TokenHeader: alice, auth.UserHeader: "bob"}},
		{name: "root for alice", header: map[string]string{auth.TokenHeader: root, auth.UserHeader: "alice"}, want: byRoot},
		{name: "SlurmUser for alice", header: map[string]string{auth.TokenHeader: slurm, auth.UserHeader: "alice"}, want: bySlurm},
		{name: "root for nobody known", header: map[string]string{auth.TokenHeader: root, auth.UserHeader: "carol"}},
		{name: "unknown user", header: map[string]string{auth.TokenHeader: hs(jwt.MapClaims{"exp": later, "sun": "carol"})}},
		{name: "expired", header: map[string]string{auth.TokenHeader: hs(jwt.MapClaims{"exp": noon.Unix() - 1, "sun": "alice"})}},
		{name: "no exp", header: map[string]string{auth.TokenHeader: hs(jwt.MapClaims{"sun": "alice"})}},
		{name: "no user", header: map[string]string{auth.TokenHeader: hs(jwt.MapClaims{"exp": later})}},
		{name: "user of wrong type", header: map[string]string{auth.TokenHeader: hs(jwt.MapClaims{"exp": later, "sun": 7})}},
		{name: "not signed", header: map[string]string{
			auth.TokenHeader: sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"exp": later, "sun": "root"}),
		}},
		{name: "other algorithm", header: map[string]string{
			auth.TokenHeader: sign(t, jwt.SigningMethodHS512, secret, jwt.MapClaims{"exp": later, "sun": "alice"}),
		}},
		{name: "other key", header: map[string]string{
			auth.TokenHeader: sign(t, jwt.SigningMethodHS256, []byte("another key of length"), jwt.MapClaims{"exp": later, "sun": "alice"}),
		}},
		{name: "junk", header: map[string]string{auth.TokenHeader: "bogus"}},
		{
			name: "peer", ctx: func(ctx context.Context) context.Context {
				return auth.WithPeer(ctx, auth.Credential{UID: 0, GID: 0})
			},
			want: auth.Identity{User: "root", Groups: []uint32{0}, Role: auth.Admin, Method: auth.Peer, Signer: "root"},
		},
		{
			name: "peer without a name", ctx: func(ctx context.Context) context.Context {
				return auth.WithPeer(ctx, auth.Credential{UID: 4711, GID: 12})
			},
			want: auth.Identity{User: "4711", UID: 4711, GID: 12, Groups: []uint32{12}, Role: auth.User, Method: auth.Peer, Signer: "4711"},
		},
		{
			name: "peer of an unmapped namespace", ctx: func(ctx context.Context) context.Context {
				return auth.WithPeer(ctx, auth.Credential{UID: 65534, GID: 65534})
			},
		},
		{
			name: "peer with a bad token", header: map[string]string{auth.TokenHeader: "bogus"},
			ctx: func(ctx context.Context) context.Context { return auth.WithPeer(ctx, auth.Credential{}) },
		},
		{
			name: "relayed root stays a guest, token or not", header: map[string]string{auth.TokenHeader: root},
			ctx: func(ctx context.Context) context.Context {
				return auth.WithRelay(ctx, auth.Relay{Node: "a100-1", Job: 7})
			},
			want: auth.Identity{
				User: "root", Groups: []uint32{0}, Role: auth.Guest, Method: auth.Agent, Signer: "root", Node: "a100-1", Job: 7,
			},
		},
	}
	a := newAuth(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx(ctx)
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://slurm/slurm/v0.0.45/jobs", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.header {
				r.Header.Set(k, v)
			}
			for range 2 { // the second time from what is kept
				got, err := a.Identify(r)
				if tt.want.User == "" {
					if !errors.Is(err, errno.RESTAuthFail) {
						t.Fatalf("error %v, want %v", err, errno.RESTAuthFail)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

func TestKeptTokenStillExpires(t *testing.T) {
	t.Parallel()
	now := noon
	a := newAuth(t, func(c *auth.Config) { c.Now = func() time.Time { return now } })
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://slurm/", http.NoBody)
	r.Header.Set(auth.TokenHeader, sign(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"exp": noon.Unix() + 10, "sun": "alice"}))
	if _, err := a.Identify(r); err != nil {
		t.Fatal(err)
	}
	now = noon.Add(11 * time.Second)
	if _, err := a.Identify(r); !errors.Is(err, errno.RESTAuthFail) {
		t.Fatalf("error %v after expiry", err)
	}
}

func TestOnlyOwner(t *testing.T) {
	t.Parallel()
	owner := uint32(1001)
	a := newAuth(t, func(c *auth.Config) { c.Only = &owner })
	for uid, ok := range map[uint32]bool{1001: true, 0: true, 1002: false} {
		r, _ := http.NewRequestWithContext(auth.WithPeer(t.Context(), auth.Credential{UID: uid}),
			http.MethodGet, "http://slurm/", http.NoBody)
		if _, err := a.Identify(r); (err == nil) != ok {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
}

func TestRS256(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig",
		"n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes()),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o644); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.LoadKeys(auth.Parameters{JWKS: path, UserClaimField: "preferred", UseClientIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	a := newAuth(t, func(c *auth.Config) { c.Keys = keys })
	try := func(kid string) (auth.Identity, error) {
		tok := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
			"exp": noon.Unix() + 60, "preferred": "dora", "uid": 2000, "gid": 2001, "id": map[string]any{"gids": []int{5}},
		})
		tok.Header["kid"] = kid
		s, err := tok.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://slurm/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+s)
		return a.Identify(r)
	}
	got, err := try("k1")
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Identity{
		User: "dora", UID: 2000, GID: 2001, Groups: []uint32{2001, 5},
		Role: auth.User, Method: auth.Token, Signer: "dora",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if _, err := try("k2"); !errors.Is(err, errno.RESTAuthFail) {
		t.Fatalf("unknown kid: %v", err)
	}
	// The public key must not serve as an HMAC secret.
	forged := sign(t, jwt.SigningMethodHS256, key.N.Bytes(), jwt.MapClaims{"exp": noon.Unix() + 60, "sun": "root"})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://slurm/", http.NoBody)
	r.Header.Set(auth.TokenHeader, forged)
	if _, err := a.Identify(r); !errors.Is(err, errno.RESTAuthFail) {
		t.Fatalf("forged: %v", err)
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	alice := auth.Identity{User: "alice", Role: auth.User}
	root := auth.Identity{User: "root", Role: auth.Admin}
	tests := []struct {
		name     string
		params   auth.Parameters
		by       auth.Identity
		user     string
		lifespan time.Duration
		err      error
	}{
		{name: "own", by: alice},
		{name: "own by name", by: alice, user: "alice"},
		{name: "of another", by: alice, user: "bob", err: errno.AccessDenied},
		{name: "root for another", by: root, user: "bob"},
		{name: "infinite", by: alice, lifespan: auth.Infinite},
		{name: "too long", params: auth.Parameters{MaxTokenLifespan: time.Hour}, by: alice, lifespan: 2 * time.Hour, err: errno.AccessDenied},
		{name: "root has no limit", params: auth.Parameters{MaxTokenLifespan: time.Hour}, by: root, lifespan: 2 * time.Hour},
		{name: "disabled", params: auth.Parameters{DisableTokenCreation: true}, by: alice, err: errno.AccessDenied},
		{name: "disabled, root", params: auth.Parameters{DisableTokenCreation: true}, by: root},
		{name: "from a job", by: auth.Identity{User: "root", Role: auth.Guest}, err: errno.AccessDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.params.JWTKey = path
			keys, err := auth.LoadKeys(tt.params)
			if err != nil {
				t.Fatal(err)
			}
			token, err := keys.Create(tt.by, tt.user, tt.lifespan, noon)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.err != nil {
				return
			}
			a := newAuth(t, func(c *auth.Config) { c.Keys = keys })
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://slurm/", http.NoBody)
			r.Header.Set(auth.TokenHeader, token)
			id, err := a.Identify(r)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.by.User
			if tt.user != "" {
				want = tt.user
			}
			if id.User != want {
				t.Fatalf("token of %s, want %s", id.User, want)
			}
		})
	}
	if _, err := new(auth.Keys).Create(root, "", 0, noon); !errors.Is(err, errno.AuthUnableToGenerateToken) {
		t.Fatalf("without a key: %v", err)
	}
}

func TestLoadKeysRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, p := range map[string]auth.Parameters{
		"missing":  {JWTKey: filepath.Join(dir, "none")},
		"short":    {JWTKey: write("short", "short", 0o600)},
		"readable": {JWTKey: write("open", string(secret), 0o644)},
		"jwks":     {JWKS: write("jwks", `{"keys":[]}`, 0o644)},
		"not json": {JWKS: write("text", `keys`, 0o644)},
	} {
		if _, err := auth.LoadKeys(p); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestPeerOfARealSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path) //nolint:noctx // a test's own socket
	if err != nil {
		t.Fatal(err)
	}
	a := newAuth(t, func(c *auth.Config) {
		c.Users = people{{Name: "me", UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	})
	srv := &http.Server{
		ConnContext: auth.ConnContext, ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, err := a.Identify(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, id.User, " ", id.Method)
		}),
	}
	go srv.Serve(l) //nolint:errcheck // ends with the test
	t.Cleanup(func() { srv.Close() })
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://slurm/", http.NoBody)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var user, method string
	if _, err := fmt.Fscan(resp.Body, &user, &method); err != nil || user != "me" || method != "peer" {
		t.Fatalf("%q %q %v", user, method, err)
	}
}
