package localnode

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"syscall"
)

// children starts processes and reaps all that end, adopted ones too. One
// goroutine waits; it must be the only one in the process that does, so os/exec
// is not used beside it.
type children struct {
	exits   chan exit
	started chan struct{}
}

type exit struct {
	pid    int
	status syscall.WaitStatus
}

func newChildren() *children {
	return &children{exits: make(chan exit, 16), started: make(chan struct{}, 1)}
}

// start runs a program. files are its descriptors from 0 on. It must always be
// called from one locked thread: a parent-death signal follows the thread.
func (c *children) start(argv, env []string, dir string, files []*os.File, attr *syscall.SysProcAttr) (int, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: fds, Sys: attr})
	if err != nil {
		return 0, &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	select {
	case c.started <- struct{}{}:
	default:
	}
	return pid, nil
}

// reap sends every ended child to exits, for ever.
func (c *children) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			<-c.started // no child: wait for the next one
		case ws.Exited() || ws.Signaled():
			c.exits <- exit{pid, ws}
		}
	}
}
