package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/agent"
	"github.com/sbatchd/sbatchd/runtime/agent/machine"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/gpu"
)

// configFile is the agent's configuration, in its state folder.
const configFile = "agent.json"

// cdiDir is where container runtimes look for devices.
const cdiDir = "/var/run/cdi"

func agentCommand() *cli.Command {
	return &cli.Command{
		Name: "agent", Usage: "serve this node",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state", Usage: "folder with " + configFile, Value: "/var/lib/sbatchd-node"},
			&cli.StringFlag{Name: "log-level", Usage: "debug, info, warn or error", Value: "info"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			var level slog.Level
			if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			return runAgent(ctx, c.String("state"), log)
		},
	}
}

// runAgent wires an agent from its configuration.
func runAgent(ctx context.Context, state string, log *slog.Logger) error {
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	file, err := agentapi.LoadConfig(filepath.Join(state, configFile))
	if err != nil {
		return err
	}
	log = log.With("node", file.Node)
	dial, err := agentapi.DialAddress(file.Controller)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	egress, err := machine.Egress(file.Egress)
	if err != nil {
		return err
	}
	devices, err := findGPUs(ctx, file, log)
	if err != nil {
		return err
	}
	hardware, err := machine.Hardware(file, devices.Inventory, time.Now().Unix())
	if err != nil {
		return err
	}
	shims := &machine.Shims{Program: self, State: state, Log: log}
	rt := &runtimes{state: state, cfg: file, log: log}
	cfg := agent.Config{
		Config: file, StateDir: state, RunDir: runDir(state, file.Node), Version: version,
		Dial: dial, Now: time.Now, Open: rt.open, StartShim: shims.Start,
		Images:   &images{runtimes: rt, dial: egress},
		Hardware: hardware, Load: machine.Load, GPUDevices: devices.Setup,
		HTTP:          transport(egress),
		Poweroff:      poweroff(file.PoweroffFile),
		SlurmCommands: beside("slurm"),
	}
	if network, _, err := agentapi.ParseAddress(file.Controller); err == nil && network == "unix" {
		cfg.RedialMax = time.Second // a local socket costs nothing to try
	}
	shims.Warm()
	g, ctx := errgroup.WithContext(ctx)
	if file.Runtime == "containerd" && file.Containerd.Managed {
		d := machine.NewDaemon(file.Containerd, filepath.Join(state, "containerd.log"), log)
		g.Go(func() error { return d.Run(ctx) })
	}
	g.Go(func() error { return agent.New(cfg, log).Run(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, agent.ErrShutdown) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runDir is the folder that jobs may enter. A root agent's is short, for the sockets
// in it, and on a file system that programs may run from.
func runDir(state, node string) string {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/spool/sbatchd", node)
	}
	dir := filepath.Join(state, "run")
	if len(dir) < 70 {
		return dir
	}
	sum := sha256.Sum256([]byte(state))
	return filepath.Join(os.TempDir(), "sbatchd-"+strconv.Itoa(os.Geteuid())+"-"+hex.EncodeToString(sum[:6]))
}

// findGPUs asks what GPUs there are and lets containers have them.
func findGPUs(ctx context.Context, cfg agentapi.Config, log *slog.Logger) (*machine.Devices, error) {
	program := beside("sbatchd-gpu")
	inv, err := gpu.Query(ctx, program)
	if err != nil && !errors.Is(err, gpu.ErrNone) {
		return nil, err
	}
	if err != nil && err.Error() != gpu.ErrNone.Error() {
		log.Warn("GPUs cannot be seen", "err", err)
	}
	for _, g := range inv.GPUs {
		if g.Fault != "" {
			log.Error("GPU is left out", "gpu", g.Index, "err", g.Fault)
		}
	}
	d := &machine.Devices{Inventory: inv}
	if cfg.Runtime != "containerd" || inv.Source != "nvml" {
		return d, nil
	}
	spec, err := exec.CommandContext(ctx, program, "cdi").Output()
	if err != nil {
		return nil, fmt.Errorf("CDI specification: %w", err)
	}
	d.CDIDir = cdiDir
	return d, d.WriteCDI(spec)
}

func transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if dial != nil {
		t.DialContext, t.Proxy = dial, nil
	}
	return t
}

// poweroff ends the machine, by the file that its maker watches or for real.
func poweroff(file string) func(context.Context) error {
	return func(ctx context.Context) error {
		if file != "" {
			return os.WriteFile(file, nil, 0o600)
		}
		return exec.CommandContext(ctx, "poweroff").Run()
	}
}
