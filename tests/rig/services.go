package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Registry starts Debian's docker-registry on a loopback port and returns its
// host:port. Plain HTTP, its store below the rig's folder.
func (r *Rig) Registry(ctx context.Context) (string, error) {
	program, err := find("docker-registry")
	if err != nil {
		return "", err
	}
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	store, err := r.mkdir(0o700, "registry")
	if err != nil {
		return "", err
	}
	config := r.Path("registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp:\n  addr: 127.0.0.1:%d\n", store, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("rig: %w", err)
	}
	if err := r.service(ctx, "registry", port, nil, program, "serve", config); err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", port), nil
}

// S3 is a running S3 server and the one account it has.
type S3 struct {
	Endpoint  string // http://127.0.0.1:port
	AccessKey string
	SecretKey string
	Bucket    string
	dir       string
}

// Objects lists the paths of a bucket's objects, as the server keeps them on
// disk.
func (s S3) Objects() ([]string, error) {
	var found []string
	base := filepath.Join(s.dir, s.Bucket)
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(base, path) //nolint:errcheck // path is below base
			found = append(found, rel)
		}
		return err
	})
	return found, err
}

// Env is what a client of the server wants in its environment.
func (s S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}
}

// StoreURL is the CheckpointStore of a configuration that uses the server.
func (s S3) StoreURL() string {
	return "s3://" + s.Bucket + "?endpoint=" + s.Endpoint + "&region=us-east-1"
}

// S3 starts versitygw on a loopback port with one empty bucket.
func (r *Rig) S3(ctx context.Context) (S3, error) {
	program, err := find("versitygw")
	if err != nil {
		return S3{}, err
	}
	port, err := FreePort()
	if err != nil {
		return S3{}, err
	}
	dir, err := r.mkdir(0o700, "s3")
	if err != nil {
		return S3{}, err
	}
	s := S3{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), AccessKey: "rig", SecretKey: "rig-secret-key", Bucket: "ckpt", dir: dir}
	if _, err := r.mkdir(0o700, "s3", s.Bucket); err != nil {
		return S3{}, err
	}
	env := []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey}
	err = r.service(ctx, "s3", port, env, program, "--port", fmt.Sprintf("127.0.0.1:%d", port), "--region", "us-east-1", "--quiet", "posix", dir)
	return s, err
}

// service starts a program that will listen on a port, waits until it does, and
// has Close stop it.
func (r *Rig) service(ctx context.Context, name string, port int, env []string, argv ...string) error {
	d, err := r.daemon(name, env, argv...)
	if err != nil {
		return err
	}
	r.Defer(func() error { return d.Stop(10 * time.Second) })
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := waitPort(ctx, name, port); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(d.Log, 10))
	}
	return nil
}
