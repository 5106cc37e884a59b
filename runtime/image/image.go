// Package image brings a job's image onto the node: pulled once by digest into
// containerd, checked, unpacked, and from then on started without network or
// unpacking. The agent calls it before a container is started; containers are
// not its business.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/patience"
)

// Options say how to reach a registry.
type Options struct {
	// Dial connects to registries; nil for the network of this process.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PlainHTTP uses HTTP without TLS. A registry on loopback, localhost or
	// 127.0.0.0/8, gets it without asking.
	PlainHTTP bool
	// Auth gives user and password for a registry host; nil or empty for none.
	Auth func(host string) (user, password string, err error)
}

// Image is an image on the node.
type Image struct {
	Name   string // registry/repository@digest: what a container.Spec names
	Digest digest.Digest
	Env    []string
	Labels map[string]string
}

// Stats count what a Store has done since it was made.
type Stats struct {
	Pulls    uint64 // images fetched and unpacked
	Hits     uint64 // images found ready
	Requests uint64 // sent to registries
	Bytes    uint64 // received from registries
}

// Store is the images of one node.
type Store struct {
	client      *containerd.Client
	snapshotter string
	log         *slog.Logger
	pulling     singleflight.Group

	pulls, hits, requests, bytes atomic.Uint64
}

// New returns the store of images in the client's namespace, unpacked by that
// snapshotter.
func New(client *containerd.Client, snapshotter string, log *slog.Logger) *Store {
	return &Store{client: client, snapshotter: snapshotter, log: log}
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	return Stats{Pulls: s.pulls.Load(), Hits: s.hits.Load(), Requests: s.requests.Load(), Bytes: s.bytes.Load()}
}

// Pull makes the image ready to start from and returns it. One that is ready
// costs no network and no unpacking. Pulls of one image at the same time are
// one pull. Errors are of the classes ErrPin, ErrImage (the registry does not
// have it, does not let us, or it is not for this machine) and ErrInfra (network,
// disk space, containerd).
func (s *Store) Pull(ctx context.Context, ref string, opts Options) (*Image, error) {
	name, want, err := Name(ref)
	if err != nil {
		return nil, err
	}
	var img *Image
	err = patience.Do(ctx, lookTimeout, s.log, func(ctx context.Context) error {
		img, err = s.ready(ctx, name, want)
		return err
	})
	if err != nil {
		return nil, classify(name, err)
	}
	if img != nil {
		s.hits.Add(1)
		return img, nil
	}
	done := s.pulling.DoChan(name, func() (any, error) {
		return s.pull(context.WithoutCancel(ctx), name, want, opts)
	})
	select {
	case <-ctx.Done():
		return nil, container.Failf(container.ErrInfra, "pull %s: %w", name, ctx.Err())
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*Image), nil
	}
}

// ready finds an image that can be started, or nil.
func (s *Store) ready(ctx context.Context, name string, want digest.Digest) (*Image, error) {
	img, err := s.client.GetImage(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for it on the node: %w", err)
	}
	if err := CheckPin(name, want, img.Target().Digest); err != nil {
		return nil, err
	}
	unpacked, err := img.IsUnpacked(ctx, s.snapshotter)
	if errdefs.IsNotFound(err) || err == nil && !unpacked {
		return nil, nil // a part is missing: it is fetched again
	}
	if err != nil {
		return nil, fmt.Errorf("look for its snapshots: %w", err)
	}
	return s.describe(ctx, img)
}

func (s *Store) describe(ctx context.Context, img containerd.Image) (*Image, error) {
	spec, err := img.Spec(ctx)
	if err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	if !platforms.Default().Match(spec.Platform) {
		return nil, container.Failf(container.ErrImage, "image %s is for %s and the node is %s", img.Name(), platforms.Format(spec.Platform), platforms.DefaultString())
	}
	return &Image{Name: img.Name(), Digest: img.Target().Digest, Env: spec.Config.Env, Labels: spec.Config.Labels}, nil
}

func (s *Store) pull(ctx context.Context, name string, want digest.Digest, opts Options) (*Image, error) {
	var pulled *Image
	err := patience.Do(ctx, pullTimeout, s.log, func(ctx context.Context) error {
		img, err := s.fetch(ctx, name, opts)
		if err == nil {
			err = CheckPin(name, want, img.Target().Digest)
		}
		if err == nil {
			pulled, err = s.describe(ctx, img)
		}
		return s.judge(ctx, name, err)
	})
	if err != nil {
		return nil, classify(name, err)
	}
	s.pulls.Add(1)
	return pulled, nil
}

const (
	lookTimeout = 30 * time.Second
	pullTimeout = 2 * time.Hour // an image of tens of gigabytes over a poor line
)

// fetch downloads and unpacks. What an attempt that was cut off has fetched
// stays, and is not fetched again.
func (s *Store) fetch(ctx context.Context, name string, opts Options) (containerd.Image, error) {
	return s.client.Pull(ctx, name,
		containerd.WithResolver(s.resolver(opts)),
		containerd.WithPullUnpack,
		containerd.WithPullSnapshotter(s.snapshotter),
		containerd.WithMaxConcurrentDownloads(4),
		containerd.WithImageHandlerWrapper(s.checkSpace(name)),
	)
}

// judge tells a pull that was cut off by containerd's death, which may be tried
// again, from one that failed.
func (s *Store) judge(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	serving, servingErr := s.client.IsServing(brief)
	if patience.Cut(err) || servingErr != nil || !serving {
		return fmt.Errorf("%w: %w", patience.ErrAgain, err)
	}
	return classify(name, err)
}

// classify says whose fault a failed pull is.
func classify(name string, err error) error {
	for _, class := range []error{container.ErrImage, container.ErrPin, container.ErrInfra} {
		if errors.Is(err, class) {
			return err
		}
	}
	class := container.ErrInfra
	switch {
	case errdefs.IsNotFound(err), errdefs.IsInvalidArgument(err), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err),
		errors.Is(err, docker.ErrInvalidAuthorization), errdefs.IsFailedPrecondition(err):
		class = container.ErrImage
	}
	return container.Failf(class, "pull %s: %w", name, err)
}

func (s *Store) resolver(opts Options) remotes.Resolver {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	client := &http.Client{Transport: &counted{s: s, next: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}}}
	creds := func(host string) (string, string, error) {
		if opts.Auth == nil {
			return "", "", nil
		}
		return opts.Auth(host)
	}
	plain := docker.MatchLocalhost
	if opts.PlainHTTP {
		plain = docker.MatchAllHosts
	}
	return docker.NewResolver(docker.ResolverOptions{
		Hosts: docker.ConfigureDefaultRegistries(
			docker.WithClient(client),
			docker.WithPlainHTTP(plain),
			docker.WithAuthorizer(docker.NewDockerAuthorizer(docker.WithAuthClient(client), docker.WithAuthCreds(creds))),
		),
	})
}

// counted counts what goes over the network.
type counted struct {
	s    *Store
	next http.RoundTripper
}

func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.s.requests.Add(1)
	res, err := c.next.RoundTrip(req)
	if err == nil {
		res.Body = &countedBody{ReadCloser: res.Body, s: c.s}
	}
	return res, err
}

type countedBody struct {
	io.ReadCloser
	s *Store
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.bytes.Add(uint64(n))
	return n, err
}

// checkSpace stops a pull whose layers will not fit, before it fetches them.
func (s *Store) checkSpace(name string) func(images.Handler) images.Handler {
	return func(next images.Handler) images.Handler {
		return images.HandlerFunc(func(ctx context.Context, d v1.Descriptor) ([]v1.Descriptor, error) {
			children, err := next.Handle(ctx, d)
			if err != nil || !images.IsManifestType(d.MediaType) {
				return children, err
			}
			var missing int64
			for _, child := range children {
				if !images.IsLayerType(child.MediaType) {
					continue
				}
				if _, err := s.client.ContentStore().Info(ctx, child.Digest); errdefs.IsNotFound(err) {
					missing += child.Size
				}
			}
			return children, s.fits(ctx, name, missing)
		})
	}
}

// unpackedRatio is how much room a layer takes unpacked, for each compressed
// byte: gzipped layers of CUDA images come to 1.9 to 2.4.
const unpackedRatio = 2.5

func (s *Store) fits(ctx context.Context, name string, compressed int64) error {
	dir, err := s.root(ctx)
	if err != nil {
		return fmt.Errorf("find containerd's folder: %w", err)
	}
	if dir == "" {
		return nil // it does not say where it keeps them
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return container.Failf(container.ErrInfra, "look for free space in %s: %w", dir, err)
	}
	return fits(name, dir, compressed, int64(stat.Bavail)*stat.Bsize)
}

func fits(name, dir string, compressed, free int64) error {
	need := compressed + int64(float64(compressed)*unpackedRatio)
	if need <= free {
		return nil
	}
	return container.Failf(container.ErrInfra, "pull %s: it needs about %d MiB in %s and there are %d MiB: %w",
		name, need>>20+1, dir, free>>20, syscall.ENOSPC)
}

// root is the folder on which containerd keeps content and snapshots, "" when
// it cannot be told.
func (s *Store) root(ctx context.Context) (string, error) {
	plugins, err := s.client.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+s.snapshotter)
	if err != nil {
		return "", err
	}
	for _, p := range plugins.Plugins {
		for dir := p.Exports["root"]; len(dir) > 1; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil {
				return dir, nil
			}
		}
	}
	return "", nil
}
