package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/runtime/container/containerd"
	"github.com/sbatchd/sbatchd/runtime/container/process"
	"github.com/sbatchd/sbatchd/runtime/image"
)

// runtimes are the node's container drivers, opened when they are first needed: a job
// without a container must not wait for containerd.
type runtimes struct {
	state string // the node's state folder
	cfg   agentapi.Config
	log   *slog.Logger

	mu         sync.Mutex // held while one is opened: nobody needs two at a time
	process    *process.Runtime
	containerd *containerd.Runtime
}

// open gives the driver of a runtime's name.
func (r *runtimes) open(ctx context.Context, name string) (container.Runtime, error) {
	switch name {
	case "process":
		return r.openProcess()
	case "containerd":
		return r.openContainerd(ctx)
	}
	return nil, fmt.Errorf("runtime %q is not known to this node", name)
}

func (r *runtimes) openProcess() (*process.Runtime, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		return r.process, nil
	}
	rt, err := process.New(process.Config{
		State: filepath.Join(r.state, "process"), CgroupParent: r.cfg.CgroupParent,
	}, r.log)
	if err != nil {
		return nil, err
	}
	r.process = rt
	return rt, nil
}

// defaultSocket is where Debian's containerd listens.
const defaultSocket = "/run/containerd/containerd.sock"

func (r *runtimes) openContainerd(ctx context.Context) (*containerd.Runtime, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.containerd != nil {
		return r.containerd, nil
	}
	socket := r.cfg.Containerd.Socket
	if socket == "" {
		socket = defaultSocket
	}
	rt, err := containerd.New(ctx, containerd.Config{
		Address: socket, State: filepath.Join(r.state, "containers"), CgroupParent: r.cfg.CgroupParent,
	}, r.log)
	if err != nil {
		return nil, err
	}
	r.containerd = rt
	return rt, nil
}

// images pulls with the driver's connection.
type images struct {
	runtimes *runtimes
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex // protects the field below
	store *image.Store
}

// Ensure has the image on the node.
func (i *images) Ensure(ctx context.Context, img *agentapi.Image) (ref, digest string, err error) {
	rt, err := i.runtimes.openContainerd(ctx)
	if err != nil {
		return "", "", container.Fail(container.ErrInfra, err)
	}
	i.mu.Lock()
	if i.store == nil {
		i.store = image.New(rt.Client(), rt.Snapshotter(), i.runtimes.log)
	}
	store := i.store
	i.mu.Unlock()
	got, err := store.Pull(ctx, img.GetRef(), image.Options{
		Dial: i.dial, PlainHTTP: img.GetPlainHttp(),
		Auth: func(string) (string, string, error) { return img.GetUsername(), img.GetPassword(), nil },
	})
	if err != nil {
		return "", "", err
	}
	return got.Name, got.Digest.String(), nil
}

// beside is the path of a program that was installed with this one, "" if it was not.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}
