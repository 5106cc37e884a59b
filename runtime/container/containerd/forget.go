package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/containerd/api/services/tasks/v1"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"golang.org/x/sys/unix"
)

// forget takes a container out of containerd: task, record and snapshot.
// What is not there is fine. The record goes after the task, without which
// containerd would not find the task any more.
func (r *Runtime) forget(ctx context.Context, id string) error {
	made, err := r.client.LoadContainer(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		if err := r.forgetRemains(ctx, id); err != nil {
			return err
		}
		return ignoreNotFound(r.client.SnapshotService(r.cfg.Snapshotter).Remove(ctx, id), "remove snapshot")
	case err != nil:
		return fmt.Errorf("load container: %w", err)
	}
	task, err := made.Task(ctx, nil)
	if err == nil {
		_, err = task.Delete(ctx, client.WithProcessKill)
	}
	if errdefs.IsNotFound(err) {
		// A shim that was still creating the task when containerd died is
		// there, but has no task to show; this ends it.
		_, err = r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
		err = errgrpc.ToNative(err)
	}
	if ignoreNotFound(err, "") != nil {
		return fmt.Errorf("delete task: %w", err)
	}
	if err := r.forgetRemains(ctx, id); err != nil {
		return err
	}
	return ignoreNotFound(made.Delete(ctx, client.WithSnapshotCleanup), "delete container")
}

// forgetRemains takes away what a task leaves outside containerd's own books,
// once containerd has no task of that name: a shim that it started and did not
// live to note, the task's folder, runc's.
func (r *Runtime) forgetRemains(ctx context.Context, id string) error {
	if err := r.killShims(id); err != nil {
		return err
	}
	if err := r.forgetRunc(ctx, id); err != nil {
		return err
	}
	for _, state := range []string{"state", ""} { // ours (Daemon), a distribution's
		bundle := filepath.Join(filepath.Dir(r.cfg.Address), state, "io.containerd.runtime.v2.task", r.cfg.Namespace, id)
		if _, err := os.Stat(bundle); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := unix.Unmount(filepath.Join(bundle, "rootfs"), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil &&
			!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount root of %s: %w", id, err)
		}
		if err := os.RemoveAll(bundle); err != nil {
			return fmt.Errorf("remove remains of task: %w", err)
		}
	}
	return nil
}

// killShims kills the containerd-shims of a container, found by their command
// lines; each container has its own.
func (r *Runtime) killShims(id string) error {
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // it ended
		}
		args := strings.Split(string(text), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") ||
			after(args, "-id") != id || after(args, "-namespace") != r.cfg.Namespace || after(args, "-address") != r.cfg.Address {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(list)))
		if err != nil {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill shim %d: %w", pid, err)
		}
	}
	return nil
}

// after is the argument that follows a flag, "" for none.
func after(args []string, flag string) string {
	for i, arg := range args[:len(args)-1] {
		if arg == flag {
			return args[i+1]
		}
	}
	return ""
}

// forgetRunc removes what runc still knows of a container whose shim did not
// live to say so.
func (r *Runtime) forgetRunc(ctx context.Context, id string) error {
	root := filepath.Join(r.cfg.RuncState, r.cfg.Namespace)
	if _, err := os.Stat(filepath.Join(root, id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out, err := exec.CommandContext(ctx, "runc", "--root", root, "delete", "--force", id).CombinedOutput()
	if err == nil {
		return nil
	}
	// A creation that was cut off leaves a folder without state, which runc
	// itself does not take away.
	if _, stateErr := os.Stat(filepath.Join(root, id, "state.json")); errors.Is(stateErr, os.ErrNotExist) {
		return os.RemoveAll(filepath.Join(root, id))
	}
	return fmt.Errorf("runc delete: %w: %s", err, out)
}

func ignoreNotFound(err error, what string) error {
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
