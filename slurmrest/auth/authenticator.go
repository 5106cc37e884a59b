package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// The headers of Slurm's REST authentication.
const (
	UserHeader  = "X-Slurm-User-Name"
	TokenHeader = "X-Slurm-User-Token" //nolint:gosec // the name of a header
)

// Config is what an Authenticator needs.
type Config struct {
	Keys  *Keys     // nil: tokens are refused
	Users Directory // who has which ids and groups
	// SlurmUser is the administrator beside root; empty means root alone.
	SlurmUser string
	// Only restricts the server to one user id, its owner's, and root
	// (personal mode). Nil lets every user in.
	Only *uint32
	Now  func() time.Time // wall time
}

// Authenticator identifies requests. It is safe for concurrent use.
type Authenticator struct {
	cfg Config

	mu     sync.RWMutex
	tokens map[string]claims // tokens that were good when last checked
}

// ErrToken is the cause where a request has a token, but not a good one, or not
// for the user it names. Slurm's server passes such a request on to the
// controller and answers what that says.
var ErrToken = errors.New("token refused")

// keptTokens bounds the tokens whose signature isn't checked again.
const keptTokens = 4096

// New returns an Authenticator. A changed key file needs a new one.
func New(cfg Config) *Authenticator {
	if cfg.Keys == nil {
		cfg.Keys = &Keys{}
	}
	return &Authenticator{cfg: cfg, tokens: map[string]claims{}}
}

// Keys returns the keys that tokens are checked against and signed with.
func (a *Authenticator) Keys() *Keys { return a.cfg.Keys }

// Identify says who sent r. Its error is always errno.RESTAuthFail with the
// cause wrapped beside it; the cause is for the log, never for the client.
func (a *Authenticator) Identify(r *http.Request) (Identity, error) {
	id, err := a.identify(r)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errno.RESTAuthFail, err)
	}
	if a.cfg.Only != nil && id.UID != *a.cfg.Only && id.UID != 0 {
		return Identity{}, fmt.Errorf("%w: uid %d does not own this controller", errno.RESTAuthFail, id.UID)
	}
	return id, nil
}

func (a *Authenticator) identify(r *http.Request) (Identity, error) {
	ctx := r.Context()
	if relay, ok := ctx.Value(relayKey).(Relay); ok {
		return a.relayed(ctx, relay)
	}
	token, bearer := r.Header.Get(TokenHeader), r.Header.Get("Authorization")
	name := r.Header.Get(UserHeader)
	switch {
	case token != "" && bearer != "":
		return Identity{}, errors.New("both " + TokenHeader + " and Authorization")
	case bearer != "":
		t, ok := strings.CutPrefix(bearer, "Bearer ")
		if !ok || t == "" {
			return Identity{}, errors.New("authorization scheme is not Bearer")
		}
		return a.byToken(ctx, t, name)
	case token != "":
		return a.byToken(ctx, token, name)
	case name != "":
		return Identity{}, errors.New("user name without token")
	}
	if cred, ok := ctx.Value(peerKey).(Credential); ok {
		return a.byPeer(ctx, cred)
	}
	return Identity{}, errors.New("no proof of identity")
}

// byToken believes a token; every error is an ErrToken.
func (a *Authenticator) byToken(ctx context.Context, token, name string) (Identity, error) {
	id, err := a.signed(ctx, token, name)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return id, nil
}

func (a *Authenticator) signed(ctx context.Context, token, name string) (Identity, error) {
	c, err := a.claims(token)
	if err != nil {
		return Identity{}, err
	}
	signer, err := a.account(ctx, c)
	if err != nil {
		return Identity{}, err
	}
	if name == "" || name == signer.Name {
		return a.identity(signer, signer.Name, Token)
	}
	if !a.admin(signer) {
		return Identity{}, fmt.Errorf("%s may not act as %s", signer.Name, name)
	}
	as, err := a.cfg.Users.ByName(ctx, name)
	if err != nil {
		return Identity{}, err
	}
	return a.identity(as, signer.Name, Token)
}

// claims checks a token, or finds that it was good before and isn't over yet.
func (a *Authenticator) claims(token string) (claims, error) {
	now := a.cfg.Now()
	a.mu.RLock()
	c, ok := a.tokens[token]
	a.mu.RUnlock()
	if ok && now.Before(c.expires) {
		return c, nil
	}
	c, err := a.cfg.Keys.verify(token, now)
	if err != nil {
		return claims{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tokens) >= keptTokens {
		clear(a.tokens)
	}
	a.tokens[token] = c
	return c, nil
}

// account finds the token's user; with use_jwt_client_ids the token says it all.
func (a *Authenticator) account(ctx context.Context, c claims) (Account, error) {
	if c.account == nil {
		return a.cfg.Users.ByName(ctx, c.user)
	}
	account := *c.account
	account.Name = c.user
	return account, nil
}

func (a *Authenticator) byPeer(ctx context.Context, cred Credential) (Identity, error) {
	account, err := a.cfg.Users.ByUID(ctx, cred.UID)
	if errors.Is(err, ErrUnknownUser) {
		account = Account{
			Name: strconv.FormatUint(uint64(cred.UID), 10),
			UID:  cred.UID, GID: cred.GID, Groups: []uint32{cred.GID},
		}
	} else if err != nil {
		return Identity{}, err
	}
	return a.identity(account, account.Name, Peer)
}

func (a *Authenticator) relayed(ctx context.Context, r Relay) (Identity, error) {
	id := Identity{
		User: r.User, UID: r.UID, GID: r.GID, Groups: []uint32{r.GID},
		Role: Guest, Method: Agent, Signer: r.User, Node: r.Node, Job: r.Job,
	}
	account, err := a.cfg.Users.ByUID(ctx, r.UID)
	if err == nil {
		id.Groups = account.Groups
	} else if !errors.Is(err, ErrUnknownUser) {
		return Identity{}, err
	}
	if id.User == "" {
		id.User = strconv.FormatUint(uint64(r.UID), 10)
		if err == nil {
			id.User = account.Name
		}
		id.Signer = id.User
	}
	return id, nil
}

func (a *Authenticator) identity(account Account, signer string, m Method) (Identity, error) {
	if account.UID == overflowUID {
		return Identity{}, errno.AuthNobody
	}
	id := Identity{
		User: account.Name, UID: account.UID, GID: account.GID, Groups: account.Groups,
		Role: User, Method: m, Signer: signer,
	}
	if a.admin(account) {
		id.Role = Admin
	}
	return id, nil
}

func (a *Authenticator) admin(account Account) bool {
	return account.UID == 0 || (a.cfg.SlurmUser != "" && account.Name == a.cfg.SlurmUser)
}
