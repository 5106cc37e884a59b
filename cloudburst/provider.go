package cloudburst

import (
	"context"
	"net"
	"time"
)

// Provider rents machines. Its methods may be called from several goroutines;
// every call ends when ctx does.
type Provider interface {
	// Offers lists what fits the want, with what is sold out as far as the
	// provider tells. An empty list without error means nothing fits.
	Offers(ctx context.Context, w Want) ([]Offer, error)
	// Create makes the machine of r.Tag, or returns the one that already has
	// this tag. After an error the machine may exist all the same: List tells.
	Create(ctx context.Context, r Request) (Instance, error)
	// List returns every instance with a tag of ours, of any cluster, in every
	// state that costs money. Gone ones may be listed for a while.
	List(ctx context.Context) ([]Instance, error)
	// Delete asks for the end of an instance. It returns before the machine is
	// gone; only List confirms. Deleting what is gone is success.
	Delete(ctx context.Context, id InstanceID) error
}

// Interrupter is a provider that can say which instances it will reclaim.
type Interrupter interface {
	// Interruptions lists the reclaims announced and not yet done.
	Interruptions(ctx context.Context) ([]Interruption, error)
}

// Interruption is one announced reclaim.
type Interruption struct {
	ID  InstanceID
	Tag Tag
	At  time.Time // when the machine is taken away
}

// AutoReleaser is a provider that honours Request.AutoRelease: it ends a
// forgotten machine by itself at that time.
type AutoReleaser interface {
	// Extend moves the auto-release time of an instance to until.
	Extend(ctx context.Context, id InstanceID, until time.Time) error
}

// Notifier is a provider that can tell when a list may have changed, so that
// the pool need not wait for its next look.
type Notifier interface {
	// Notify sends on changed, without blocking, whenever List may give a new
	// answer. It returns when ctx ends.
	Notify(ctx context.Context, changed chan<- struct{}) error
}

// SSHDialer is a provider whose machines have no address a controller could
// dial, but a way in for SSH (a namespace, a proxy). The connection leads to
// the machine's sshd.
type SSHDialer interface {
	DialSSH(ctx context.Context, i Instance) (net.Conn, error)
}

// Settler is a provider that knows how long a fresh machine may be missing from
// List, and a deleted one still be shown. Without it a minute is assumed.
type Settler interface {
	SettleTime() time.Duration
}
