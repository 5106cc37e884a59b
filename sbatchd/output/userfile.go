package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sbatchd/sbatchd/runtime/asuser"
)

// FollowFile writes a user's own output file, which another machine fills, and goes
// on while the job may print; with a nil live it ends with what is there. The file
// is opened with its owner's rights; one that is not there yet is empty.
func FollowFile(ctx context.Context, w io.Writer, name string, owner asuser.Cred, live func() (restart uint32, more bool)) error {
	var f *os.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		more := false // asked before reading: what is printed before the end is then seen
		if live != nil {
			_, more = live()
		}
		if f == nil {
			var err error
			if f, err = openRegular(name, owner); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if f != nil {
			if _, err := io.Copy(w, f); err != nil {
				return fmt.Errorf("read output: %w", err)
			}
		}
		if !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// openRegular opens a user's file for reading, and waits for nobody: a FIFO is not output.
func openRegular(name string, owner asuser.Cred) (f *os.File, err error) {
	err = asuser.Do(&owner, func() error {
		f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("read output: %s is not a regular file", name)
	}
	return f, nil
}
