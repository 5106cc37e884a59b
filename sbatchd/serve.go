package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/launch"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/sbatchd/store/sqlstore"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/server"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "run the controller (the default)",
		Flags: []cli.Flag{configFlag()},
		Action: func(c *cli.Context) error {
			where, err := findConfig(c.String("config"), true)
			if err != nil {
				return err
			}
			cfg, err := load(where.dir)
			if err != nil {
				for _, f := range partitions.Faults(err) {
					fmt.Fprintln(os.Stderr, f)
				}
				return errors.New("the configuration is faulty: nothing was started")
			}
			return serve(c.Context, where, cfg)
		},
	}
}

// house is everything that runs, wired together.
type house struct {
	where place
	log   *slog.Logger
	queue *queue.Queue
	rest  *server.Server
	users *auth.Users
}

// serve runs the controller until ctx ends or a part of it fails.
func serve(ctx context.Context, where place, cfg *partitions.Config) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level(cfg.SlurmctldDebug)}))
	lock, err := claim(cfg.StateSaveLocation)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // ends with the process

	journal, err := openJournal(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer journal.Close() //nolint:errcheck // every commit is already on disk

	h := &house{where: where, log: log, users: auth.NewUsers(time.Now)}
	if h.queue, err = queue.Open(ctx, cfg, journal, time.Now, log); err != nil {
		return err
	}
	h.queue.Groups = func(name string) (uint32, bool) {
		gid, err := h.users.Group(ctx, name)
		return gid, err == nil
	}
	return h.run(ctx, cfg)
}

// openJournal opens the state where AccountingStorageType says.
func openJournal(ctx context.Context, cfg *partitions.Config, log *slog.Logger) (*sqlstore.Store, error) {
	c := sqlstore.Config{Driver: "sqlite", Path: filepath.Join(cfg.StateSaveLocation, "state.db"), Log: log}
	if a := cfg.AccountingStorage; a.Type == partitions.StorageMySQL {
		password, err := a.Password()
		if err != nil {
			return nil, fmt.Errorf("AccountingStoragePass: %w", err)
		}
		c.Driver = "mysql"
		c.MySQL = sqlstore.MySQL{Host: a.Host, Port: a.Port, User: a.User, Password: password, Database: a.Loc}
	}
	return sqlstore.Open(ctx, c)
}

// run builds the parts around the queue and runs them all: the first that ends
// with an error stops the house.
func (h *house) run(ctx context.Context, cfg *partitions.Config) error {
	snapshot := h.queue.Snapshot()
	authority, err := agentapi.OpenAuthority(filepath.Join(cfg.StateSaveLocation, "ca"), snapshot.UUID, time.Now())
	if err != nil {
		return err
	}
	out, err := newOutputs(cfg, h)
	if err != nil {
		return err
	}
	saved, err := newCheckpoints(cfg, snapshot.UUID, h.log)
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	market, err := newMarket(h, cfg, authority, metrics)
	if err != nil {
		return err
	}
	authenticator, err := h.authenticator(cfg)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	h.rest = server.New(server.Config{
		Controller: h.queue, Auth: authenticator, Users: h.users, Now: time.Now, Log: h.log,
		Hostname: host, Release: version, Reload: func() (*partitions.Config, error) { return h.reload() },
		Market: market, Logs: out, Checkpoints: saved, Explain: explain,
		Bill:    func(r store.JobRecord, _ map[string]node.Instance) wire.Bill { return billOf(r, time.Now()) },
		Metrics: promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}),
	})
	hub := launch.New(launch.Config{
		Jobs: h.queue, Output: out, Files: newFiles(saved), REST: h.rest.Handler(), Authority: authority, Users: h.users,
		Store: saved.announce(), Version: version, Now: time.Now, Log: h.log,
	})
	links := &launch.SSH{Hub: hub, Signer: market.signer, Dial: func(ctx context.Context, tag string) (net.Conn, string, error) {
		return market.DialSSH(ctx, cloudburst.Tag(tag))
	}}

	rest, agents, err := h.listeners(ctx, cfg)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		h.queue.Run, h.queue.Schedule, out.Run, market.Run, links.Run, h.watchReload,
		func(ctx context.Context) error { return hub.Run(ctx, agents...) },
		func(ctx context.Context) error { return h.rest.Run(ctx, rest...) },
	} {
		g.Go(func() error { return run(ctx) })
	}
	h.log.Info("serving", "cluster", cfg.ClusterName, "config", cfg.Path, "epoch", snapshot.Epoch)
	err = g.Wait()
	h.log.Info("stopped", "err", err)
	return err
}

// listeners opens every address of the config, or none.
func (h *house) listeners(ctx context.Context, cfg *partitions.Config) (rest, agents []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range append(rest, agents...) {
				l.Close() //nolint:errcheck // never served
			}
		}
	}()
	var certs *tls.Config
	if certs, err = restTLS(cfg); err != nil {
		return nil, nil, err
	}
	for _, a := range cfg.RestListen {
		l, err := server.Listen(ctx, a, certs)
		if err != nil {
			return rest, agents, err
		}
		rest = append(rest, l)
	}
	for _, a := range cfg.AgentListen {
		l, err := agentapi.ListenAddress(ctx, a.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			return rest, agents, fmt.Errorf("AgentListen=%s is taken: another controller or slurmctld listens there", a)
		}
		if err != nil {
			return rest, agents, fmt.Errorf("AgentListen=%s: %w", a, err)
		}
		agents = append(agents, l)
	}
	return rest, agents, nil
}

// restTLS is the certificate for tls: listeners, tls.crt and tls.key beside
// slurm.conf; nil when there is none.
func restTLS(cfg *partitions.Config) (*tls.Config, error) {
	dir := filepath.Dir(cfg.Path)
	crt, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := os.Stat(crt); err != nil {
		return nil, nil //nolint:nilerr // without certificate there are no tls listeners; Listen says so
	}
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		return nil, fmt.Errorf("REST certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func (h *house) authenticator(cfg *partitions.Config) (*auth.Authenticator, error) {
	keys, err := auth.LoadKeys(auth.Parameters{
		JWTKey: cfg.AuthAlt.JWTKey, JWKS: cfg.AuthAlt.JWKS, UserClaimField: cfg.AuthAlt.UserClaimField,
		DisableTokenCreation: cfg.AuthAlt.DisableTokenCreation, MaxTokenLifespan: cfg.AuthAlt.MaxTokenLifespan,
	})
	if err != nil {
		return nil, err
	}
	a := auth.Config{Keys: keys, Users: h.users, SlurmUser: cfg.SlurmUser, Now: time.Now}
	if h.where.personal {
		uid := uint32(os.Geteuid())
		a.Only = &uid
	}
	return auth.New(a), nil
}

// reload reads the configuration again. What cannot change while running is
// named in the log.
func (h *house) reload() (*partitions.Config, error) {
	cfg, err := load(h.where.dir)
	if err != nil {
		return nil, err
	}
	for _, key := range h.queue.Snapshot().Config.NeedsRestart(cfg) {
		h.log.Warn("needs a restart to take effect", "key", key)
	}
	a, err := h.authenticator(cfg)
	if err != nil {
		return nil, err
	}
	h.rest.SetAuth(a)
	return cfg, nil
}

// watchReload reloads at SIGHUP. A faulty file changes nothing.
func (h *house) watchReload(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	root := auth.Identity{User: "root", Role: auth.Admin}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			cfg, err := h.reload()
			if err == nil {
				err = h.queue.Reconfigure(ctx, root, cfg)
			}
			if err != nil {
				h.log.Error("configuration not reloaded", "err", err)
				continue
			}
			h.log.Info("configuration reloaded")
		}
	}
}

// level maps SlurmctldDebug to slog's levels.
func level(name string) slog.Level {
	switch name {
	case "quiet", "fatal", "error":
		return slog.LevelError
	case "debug", "debug2", "debug3", "debug4", "debug5":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
