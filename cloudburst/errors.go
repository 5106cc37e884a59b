package cloudburst

import (
	"errors"
	"fmt"
	"time"
)

// What a provider can answer besides success. A provider maps its vendor's
// codes to these and wraps them with what it was doing; the pool branches on
// nothing else. An unknown code is ErrTransient for reads and deletes and
// ErrBadRequest for creates, so that nobody pays for endless retries.
var (
	ErrNoCapacity  = errors.New("no capacity")               // try the next offer or pool now
	ErrQuota       = errors.New("quota reached")             // this pool waits for an operator or for room
	ErrAuth        = errors.New("credentials refused")       // the provider waits for an operator
	ErrNoBalance   = errors.New("no balance")                // the provider waits for money
	ErrBadRequest  = errors.New("request refused")           // our fault or the configuration's: no retry
	ErrTransient   = errors.New("temporary provider error")  // repeat the same call with the same tag
	ErrNotFound    = errors.New("no such instance")          // on read or delete: it is gone
	ErrUnsupported = errors.New("not supported by provider") // this provider can never do it
)

// RateLimited is the answer "too many calls". After is how long the provider
// asks us to wait; 0 when it did not say.
type RateLimited struct{ After time.Duration }

// Error says that the provider limits our calls and for how long.
func (e RateLimited) Error() string {
	if e.After <= 0 {
		return "rate limited"
	}
	return fmt.Sprintf("rate limited for %s", e.After)
}

// Class names the class of a provider's error in a word that metrics and
// sentences use: no-capacity, quota, auth, no-balance, bad-request, rate,
// not-found, unsupported, and transient for everything else. It is "" for nil.
func Class(err error) string {
	var rate RateLimited
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrNoCapacity):
		return "no-capacity"
	case errors.Is(err, ErrQuota):
		return "quota"
	case errors.Is(err, ErrAuth):
		return "auth"
	case errors.Is(err, ErrNoBalance):
		return "no-balance"
	case errors.Is(err, ErrBadRequest):
		return "bad-request"
	case errors.Is(err, ErrNotFound):
		return "not-found"
	case errors.Is(err, ErrUnsupported):
		return "unsupported"
	case errors.As(err, &rate):
		return "rate"
	default:
		return "transient"
	}
}
