package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"
)

// Errors that a Store returns, wrapped.
var (
	ErrNotFound = fmt.Errorf("no such object: %w", fs.ErrNotExist)
	ErrExists   = errors.New("object exists")
)

// Object is what a store knows of one stored object.
type Object struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"` // bytes
	Modified time.Time `json:"modified"`
}

// Store keeps objects by key. Keys are slash separated and clean (see CheckKey).
// An object is seen whole or not at all. Every method may be repeated.
type Store interface {
	// Put stores size bytes of r, replacing what was there.
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	// Create stores a small object, or fails with ErrExists.
	Create(ctx context.Context, key string, data []byte) error
	// Get opens an object, or fails with ErrNotFound (at the latest at the
	// first Read).
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Stat looks at an object, or fails with ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)
	// List names every object whose key begins with prefix, in key order.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete removes an object. Removing what is gone is success.
	Delete(ctx context.Context, key string) error
}

// CheckKey refuses keys that could leave a store's folder.
func CheckKey(key string) error {
	if key == "" || key == "." || key[0] == '/' || path.Clean(key) != key || key == ".." || strings.HasPrefix(key, "../") ||
		strings.ContainsAny(key, "\x00\\") {
		return fmt.Errorf("bad object key %q", key)
	}
	return nil
}

// Location is a parsed CheckpointStore value.
type Location struct {
	Scheme string // "file" or "s3"
	Dir    string // file: the folder, absolute
	S3     S3Config
}

// ParseLocation reads a CheckpointStore value: file:///folder, or
// s3://bucket/prefix?endpoint=https://host:port&region=r&path_style=1. The
// credentials are never part of it.
func ParseLocation(text string) (Location, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Location{}, fmt.Errorf("checkpoint store: %w", err)
	}
	if u.User != nil {
		return Location{}, errors.New("checkpoint store: credentials don't belong in the address")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return Location{}, fmt.Errorf("checkpoint store %q: want file:///folder", text)
		}
		return Location{Scheme: "file", Dir: path.Clean(u.Path)}, nil
	case "s3":
		c, err := parseS3(u)
		if err != nil {
			return Location{}, fmt.Errorf("checkpoint store %q: %w", text, err)
		}
		return Location{Scheme: "s3", S3: c}, nil
	}
	return Location{}, fmt.Errorf("checkpoint store %q: want file:// or s3://", text)
}
