package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Daemon is a containerd of our own, for a node that has none. Its files are
// all below Dir, but for the state folder: sockets need short paths.
type Daemon struct {
	Dir   string // images and snapshots
	State string // sockets, mounts; on a file system that a restart empties
}

// Address is the socket it listens on.
func (d Daemon) Address() string { return filepath.Join(d.State, "containerd.sock") }

// Command writes the configuration and returns what runs the daemon, not yet
// started; logs go to its stderr. Killing it harms no container.
func (d Daemon) Command(ctx context.Context) (*exec.Cmd, error) {
	for _, dir := range []string{d.Dir, d.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(d.Dir, "config.toml")
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = %q
[ttrpc]
  address = %q
[debug]
  level = "warn"
`, filepath.Join(d.Dir, "root"), filepath.Join(d.State, "state"), d.Address(), d.Address()+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "containerd", "--config", config)
	// A signal to the agent's group is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}
