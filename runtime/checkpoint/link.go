package checkpoint

import (
	"bytes"
	"context"
	"io"
	"path"
)

// Link is the part of the agent link that carries the objects of a file://
// store: it answers as Store does, with the same errors, wrapped or not.
type Link interface {
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	Stat(ctx context.Context, key string) (Object, error)
	List(ctx context.Context, prefix string) ([]Object, error)
	Delete(ctx context.Context, key string) error
}

// OverLink is the agent's view of the controller's folder. The controller must
// take its Puts with Receive.
func OverLink(l Link) Store { return linked{l} }

type linked struct{ Link }

// Create implements Store: Receive makes a claim exclusive.
func (l linked) Create(ctx context.Context, key string, data []byte) error {
	return l.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
}

// Receive is how the controller takes an agent's Put into its own store: a
// claim only if nobody has it (ErrExists), anything else as is. Whether the
// agent may write for this job and restart is the caller's to decide.
func Receive(ctx context.Context, s Store, key string, r io.Reader, size int64) error {
	const maxClaim = 1 << 12
	if path.Base(key) != "claim" || size > maxClaim {
		return s.Put(ctx, key, r, size)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxClaim))
	if err != nil {
		return err
	}
	return s.Create(ctx, key, data)
}
