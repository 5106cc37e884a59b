package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Config is a controller's configuration.
type Config struct {
	Slurm  string // lines added to slurm.conf
	Pools  string // pools.conf: providers, images, pools
	Market string // the local provider's market file, at MarketPath
	Env    []string
	User   *User // who runs it; nil is this process's own user
}

// Controller is a sbatchd with a folder of its own.
type Controller struct {
	Config string // its configuration folder
	Socket string // its REST socket
	URL    string // its REST address on TCP
	Agents string // where nodes call, tcp:host:port
	State  string // StateSaveLocation

	rig    *Rig
	cfg    Config
	daemon *Daemon
}

// MarketPath is where Config.Market is written.
func (r *Rig) MarketPath() string { return r.Path("etc", "market.conf") }

// Controller writes a configuration and starts sbatchd on it. Close stops it.
func (r *Rig) Controller(ctx context.Context, cfg Config) (*Controller, error) {
	c := &Controller{
		Config: r.Path("etc"), Socket: r.Path("run", "sbatchd.sock"), State: r.Path("state"), rig: r, cfg: cfg,
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	r.Defer(c.Stop)
	return c, nil
}

// write makes the folders, the key and the files.
func (c *Controller) write() error {
	r := c.rig
	rest, err := FreePort()
	if err != nil {
		return err
	}
	agents, err := FreePort()
	if err != nil {
		return err
	}
	c.URL = fmt.Sprintf("http://127.0.0.1:%d", rest)
	c.Agents = fmt.Sprintf("tcp:127.0.0.1:%d", agents)
	for dir, perm := range map[string]os.FileMode{"etc": 0o755, "run": 0o755, "state": 0o700, "store": 0o700} {
		path, err := r.mkdir(perm, dir)
		if err != nil {
			return err
		}
		if c.cfg.User != nil && r.Root {
			if err := os.Chown(path, int(c.cfg.User.UID), int(c.cfg.User.GID)); err != nil {
				return fmt.Errorf("rig: %w", err)
			}
		}
	}
	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck // never fails
	slurm := fmt.Sprintf(`ClusterName=rig
SlurmctldHost=localhost
AgentListen=%s
RestListen=unix:%s,tcp:127.0.0.1:%d
StateSaveLocation=%s
AuthAltParameters=jwt_key=%s
GresTypes=gpu
`, c.Agents, c.Socket, rest, c.State, filepath.Join(c.Config, "jwt_hs256.key"))
	if !strings.Contains(c.cfg.Slurm, "AccountingStorageType=") {
		slurm += "AccountingStorageType=accounting_storage/sqlite\n"
	}
	if strings.Contains(c.cfg.Slurm, "SlurmctldHost=") {
		slurm = strings.Replace(slurm, "SlurmctldHost=localhost\n", "", 1)
	}
	if !strings.Contains(c.cfg.Slurm, "CheckpointStore=") {
		slurm += "CheckpointStore=file://" + r.Path("store") + "\n"
	}
	if owner := c.cfg.User; owner != nil {
		slurm += "SlurmUser=" + owner.Name + "\n"
	} else if !r.Root {
		me, err := user.Current()
		if err != nil {
			return fmt.Errorf("rig: %w", err)
		}
		slurm += "SlurmUser=" + me.Username + "\n"
	}
	files := map[string]string{
		"slurm.conf": slurm + "Include pools.conf\n" + c.cfg.Slurm, "pools.conf": c.cfg.Pools,
		"market.conf": c.cfg.Market, "jwt_hs256.key": string(key),
	}
	for name, text := range files {
		path, perm := filepath.Join(c.Config, name), os.FileMode(0o644)
		if name == "jwt_hs256.key" {
			perm = 0o600
		}
		if err := os.WriteFile(path, []byte(text), perm); err != nil {
			return fmt.Errorf("rig: %w", err)
		}
		if c.cfg.User != nil && r.Root {
			if err := os.Chown(path, int(c.cfg.User.UID), int(c.cfg.User.GID)); err != nil {
				return fmt.Errorf("rig: %w", err)
			}
		}
	}
	return nil
}

// Start starts sbatchd, again after Kill or Stop, and waits until it serves.
func (c *Controller) Start(ctx context.Context) error {
	d, err := c.rig.daemon("sbatchd", c.cfg.Env, c.argv()...)
	if err != nil {
		return err
	}
	c.daemon = d
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = Eventually(ctx, "the controller", func() (bool, string, error) {
		select {
		case <-d.Ended():
			return false, "", errors.New("it ended")
		default:
		}
		err := c.Healthy(ctx)
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		d.Kill()
		return fmt.Errorf("%w\n%s", err, tail(d.Log, 20))
	}
	return nil
}

// argv is the command that starts the controller, by way of setpriv where it
// runs as another user.
func (c *Controller) argv() []string {
	argv := []string{filepath.Join(c.rig.Bin, "sbatchd"), "serve", "--config", c.Config}
	if u := c.cfg.User; u != nil && c.rig.Root {
		return append([]string{
			"/usr/bin/setpriv", fmt.Sprintf("--reuid=%d", u.UID), fmt.Sprintf("--regid=%d", u.GID), "--init-groups", "--",
			"/usr/bin/env", "HOME=" + u.Home, "USER=" + u.Name, "XDG_RUNTIME_DIR=" + filepath.Join(u.Home, ".run"),
		}, argv...)
	}
	return argv
}

// Healthy asks /healthz over the socket.
func (c *Controller) Healthy(ctx context.Context) error {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sbatchd/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz: %s", resp.Status)
	}
	return nil
}

// Pid is the controller's process.
func (c *Controller) Pid() int { return c.daemon.Pid() }

// Log is the file with what the controller printed.
func (c *Controller) Log() string { return c.daemon.Log }

// LogTail is the end of it.
func (c *Controller) LogTail(lines int) string { return tail(c.daemon.Log, lines) }

// Kill ends the controller with SIGKILL.
func (c *Controller) Kill() { c.daemon.Kill() }

// Stop ends the controller in order. Stopping it again is nothing.
func (c *Controller) Stop() error { return c.daemon.Stop(30 * time.Second) }

// Reload has the controller read its files again.
func (c *Controller) Reload() error { return syscall.Kill(c.Pid(), syscall.SIGHUP) }

// As runs a command as a user, talking to this controller.
func (c *Controller) As(ctx context.Context, cmd Cmd, argv ...string) (Result, error) {
	cmd.Env = append([]string{"SBATCHD_SERVER=unix://" + c.Socket}, cmd.Env...)
	return c.rig.Run(ctx, cmd, argv...)
}
