package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sbatchd/sbatchd/runtime/agent/machine"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/shim"
)

func shimCommand() *cli.Command {
	return &cli.Command{
		Name: "shim", Usage: "hold one job (started by the agent)", Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "the job's folder"},
			&cli.StringFlag{Name: "state", Usage: "the node's folder"},
			&cli.BoolFlag{Name: "wait", Usage: "read the folder from standard input"},
		},
		Action: runShim,
	}
}

func runShim(c *cli.Context) error {
	// Only SIGKILL ends a shim before its job: it would leave the job to nobody.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)
	dir, state := c.String("dir"), c.String("state")
	if state == "" {
		state = filepath.Dir(filepath.Dir(dir)) // <state>/jobs/<attempt>
	}
	cfg, err := agentapi.LoadConfig(filepath.Join(state, configFile))
	if err != nil {
		return err
	}
	// Standard error is the job's log from detach on.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	rt := &runtimes{state: state, cfg: cfg, log: log}
	ready := func() {}
	if c.Bool("wait") {
		// What can be done before the job is known is done by then.
		if _, err := rt.openProcess(); err != nil {
			return err
		}
		if dir, err = readDir(os.Stdin); err != nil || dir == "" {
			return err // no job came: the agent has ended
		}
		ready = tellReady()
	}
	if dir == "" {
		return errors.New("--dir is missing")
	}
	out, err := machine.ShimLog(dir)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := detach(out); err != nil {
		return err
	}
	if err := shim.Run(c.Context, shim.Config{Dir: dir, Open: rt.open, Now: time.Now, Log: log, Ready: ready}); err != nil {
		log.Error("shim ends", "err", err)
		return err
	}
	return nil
}

// tellReady writes to the agent's pipe that the job's script runs.
func tellReady() func() {
	pipe := os.NewFile(machine.ReadyFD, "ready")
	syscall.CloseOnExec(machine.ReadyFD)
	return func() {
		_, _ = pipe.Write([]byte{1}) // nobody listens once the agent was restarted
		pipe.Close()
	}
}

func readDir(r io.Reader) (string, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return strings.TrimSpace(line), err
}

// detach lets go of whatever the agent's streams are: a closed pipe must not end a
// shim, nor may a shim keep a terminal open.
func detach(log *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd, f := range map[int]*os.File{0: null, 1: log, 2: log} {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("detach: %w", err)
		}
	}
	return nil
}
