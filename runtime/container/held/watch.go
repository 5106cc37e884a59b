package held

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the process is dead, to its last thread.
func awaitExit(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil // EINVAL: the number is a thread's by now
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	_, err = poll(ctx, fd)
	return err
}

// watch tells when a file appears in a folder. Where the node has no inotify
// left to give, fd is -1 and it looks now and then.
type watch struct{ fd int }

const glance = 5 * time.Millisecond

func newWatch(dir string) (watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watch{-1}, nil //nolint:nilerr // see above
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO); err != nil {
		return watch{}, errors.Join(fmt.Errorf("watch %s: %w", dir, err), unix.Close(fd))
	}
	return watch{fd}, nil
}

func (w watch) close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd) // nothing is written to it
	}
}

// wait returns when a file has appeared or the process of the pidfd died.
func (w watch) wait(ctx context.Context, pidfd int) (dead bool, err error) {
	if w.fd < 0 {
		brief, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		if _, err := poll(brief, pidfd); err != nil {
			return false, ctx.Err()
		}
		return true, nil
	}
	ready, err := poll(ctx, pidfd, w.fd)
	if err != nil {
		return false, err
	}
	var events [4096]byte
	for n := 1; n > 0; { // until drained: it does not block
		n, _ = unix.Read(w.fd, events[:])
	}
	return ready == 0, nil
}

// poll returns the index of the first descriptor that is ready to read, or the
// error of ctx.
func poll(ctx context.Context, fds ...int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("poll: %w", err)
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(wake, one) // an eventfd that small takes it
	})
	defer func() {
		if !stop() {
			<-done // it still uses the descriptor
		}
		_ = unix.Close(wake)
	}()
	set := make([]unix.PollFd, 0, len(fds)+1)
	for _, fd := range append(fds, wake) {
		set = append(set, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		_, err := unix.Poll(set, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("poll", err)
		}
		for i := range fds {
			if set[i].Revents != 0 {
				return i, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}
