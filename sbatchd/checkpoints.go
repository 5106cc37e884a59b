package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/checkpoint"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// checkpoints is the controller's view of the checkpoint store.
type checkpoints struct {
	url     string
	store   checkpoint.Store
	secret  checkpoint.Credentials
	cluster string
	log     *slog.Logger
}

// newCheckpoints opens the store of the config. S3 credentials are in
// credentials/s3 beside slurm.conf (mode 0600) or in the AWS variables.
func newCheckpoints(cfg *partitions.Config, cluster string, log *slog.Logger) (*checkpoints, error) {
	c := &checkpoints{url: cfg.CheckpointStore, cluster: cluster, log: log}
	place, err := checkpoint.ParseLocation(cfg.CheckpointStore)
	if err != nil {
		return nil, err
	}
	switch place.Scheme {
	case "file":
		if err := os.MkdirAll(place.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("CheckpointStore: %w", err)
		}
		c.store, err = checkpoint.NewDir(place.Dir)
		return c, err
	default:
		if c.secret, err = s3Credentials(filepath.Join(filepath.Dir(cfg.Path), "credentials", "s3")); err != nil {
			return nil, fmt.Errorf("CheckpointStore: %w", err)
		}
		c.store, err = checkpoint.NewS3(place.S3, c.secret, nil)
		return c, err
	}
}

func s3Credentials(file string) (checkpoint.Credentials, error) {
	c, err := checkpoint.FileCredentials(file)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint.EnvCredentials(os.Getenv)
	}
	return c, err
}

// announce is what agents are told of the store.
func (c *checkpoints) announce() *agentapi.CheckpointStore {
	return &agentapi.CheckpointStore{
		Url: c.url, AccessKey: c.secret.AccessKey, SecretKey: c.secret.SecretKey, SessionToken: c.secret.SessionToken,
	}
}

// List implements server.Checkpoints.
func (c *checkpoints) List(ctx context.Context, id uint32) ([]wire.Checkpoint, error) {
	list, err := checkpoint.New(c.store, c.cluster, id, c.log).List(ctx)
	if err != nil {
		return nil, err
	}
	var out []wire.Checkpoint
	for _, s := range list {
		if !s.Complete {
			continue
		}
		m := s.Manifest
		out = append(out, wire.Checkpoint{
			Number: s.Number, Restart: m.Restart, Time: m.Time, Reason: m.Reason, Bytes: m.Total, Files: len(m.Files),
		})
	}
	if len(out) > 0 {
		out[len(out)-1].Newest = true
	}
	return out, nil
}
