// Package auth turns an HTTP request into the Identity that stands behind it.
//
// Three kinds of proof are known: a JSON web token as Slurm's auth/jwt takes it
// (HS256 with a key file, RS256 with a JWKS file), the kernel's peer credentials
// of a unix socket, and a request relayed by an agent for a process of a job.
// The package says who asks and nothing else: what that user may do is decided
// by the queue's table of roles. It reads no clock of its own and starts no
// goroutine. The REST server calls it, once for each request.
package auth

import (
	"context"
	"slices"
)

// Role is how far an identity reaches before accounting has its say. The queue
// may raise a User to Coordinator or Operator, but never a Guest.
type Role uint8

// Roles in rising order.
const (
	// Guest is a process of a job that talks through its node's agent: its
	// own user's jobs only, never an administrator, whatever its uid.
	Guest Role = iota
	// User is an ordinary user.
	User
	// Admin is root or SlurmUser.
	Admin
)

var roleNames = [...]string{"guest", "user", "admin"}

// String returns the role in lower case, as it stands in the audit record.
func (r Role) String() string { return roleNames[r] }

// Method is how an identity was proven.
type Method string

// The methods of proof.
const (
	Token Method = "token" // a JSON web token
	Peer  Method = "peer"  // SO_PEERCRED of a unix socket
	Agent Method = "agent" // attested by the agent of the node it runs on
)

// Identity is the user behind a request. It is a value; Groups must not be changed.
type Identity struct {
	User   string   // login name; the uid in decimal where the host knows no name
	UID    uint32   // user id
	GID    uint32   // primary group id
	Groups []uint32 // all group ids, the primary one included
	Role   Role
	Method Method
	// Signer is the user whose token it was where an administrator acts as
	// somebody else; otherwise it equals User.
	Signer string
	// Node and Job are set for Method Agent: where the request comes from.
	Node string
	Job  uint32
}

// InGroup reports whether gid is one of the identity's groups.
func (id Identity) InGroup(gid uint32) bool {
	return gid == id.GID || slices.Contains(id.Groups, gid)
}

// Relay says for which process an agent passes a request on. The controller
// fills it from the agent link, where the agent has read the process's peer
// credentials on the job's socket.
type Relay struct {
	Node     string // node of the agent
	Job      uint32 // raw job id of the job the process belongs to
	User     string // the job's user
	UID, GID uint32
}

type ctxKey int

const (
	relayKey ctxKey = iota
	peerKey
)

// WithRelay marks the requests served under ctx as coming from a job through
// its agent. Identify then believes r and nothing the request itself says.
func WithRelay(ctx context.Context, r Relay) context.Context {
	return context.WithValue(ctx, relayKey, r)
}
