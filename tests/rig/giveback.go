package rig

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var suspendTime = regexp.MustCompile(`(?m)^SuspendTime=.*$`)

// Admin is root, or without root the user that all this runs as.
func (r *Rig) Admin() *User {
	u := &User{Name: "root", Home: r.Dir}
	if me, err := user.Current(); err == nil && !r.Root {
		u.Name = me.Username
		u.UID, u.GID = uint32(os.Getuid()), uint32(os.Getgid()) //nolint:gosec // ids are small
	}
	return u
}

// GiveBack cancels every job, shortens SuspendTime so that idle nodes go, waits
// until the last one has been given back, and asks the providers for leaks.
func (c *Controller) GiveBack(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s is over", within))
	defer cancel()
	admin := Cmd{User: c.rig.Admin()}
	if jobs, err := c.As(ctx, admin, "squeue", "-h", "-t", "all", "-o", "%i %T"); err != nil {
		return err
	} else if ids := unfinished(jobs.Stdout); len(ids) > 0 {
		if _, err := c.As(ctx, admin, append([]string{"scancel", "-Q"}, ids...)...); err != nil {
			return err
		}
	}
	path := filepath.Join(c.Config, "slurm.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("give back: %w", err)
	}
	short := suspendTime.ReplaceAll(text, []byte("SuspendTime=1"))
	if err := os.WriteFile(path, short, 0o644); err != nil {
		return fmt.Errorf("give back: %w", err)
	}
	if result, err := c.As(ctx, admin, "scontrol", "reconfigure"); err != nil || result.Code != 0 {
		return fmt.Errorf("scontrol reconfigure: %v (%w)", result, err)
	}
	return Eventually(ctx, "every node to be given back", func() (bool, string, error) {
		nodes, err := c.As(ctx, admin, "sinfo", "-a", "-N", "-h", "-O", "NodeList:64,StateComplete:80")
		if err != nil {
			return false, "", err
		}
		for line := range strings.Lines(nodes.Stdout) {
			// Machines of the site's own stay.
			if strings.Contains(line, "cloud") && !strings.Contains(line, "powered_down") {
				return false, nodes.String(), nil
			}
		}
		leaks, err := c.As(ctx, admin, "sburst", "leaks")
		if err != nil {
			return false, "", err
		}
		return NothingRented(leaks.Stdout), leaks.String(), nil
	})
}

// NothingRented reads what sburst leaks printed: no provider lists anything, and
// nothing is leaked.
func NothingRented(leaks string) bool {
	for line := range strings.Lines(leaks) {
		if slices.Contains(strings.Fields(line), "yes") {
			return false
		}
	}
	return strings.HasSuffix(strings.TrimSpace(leaks), "leaked: 0")
}

// unfinished picks the ids of jobs that squeue does not call ended.
func unfinished(squeue string) []string {
	var ids []string
	for line := range strings.Lines(squeue) {
		if f := strings.Fields(line); len(f) == 2 && strings.Contains("PENDING CONFIGURING RUNNING SUSPENDED COMPLETING REQUEUED", f[1]) {
			ids = append(ids, f[0])
		}
	}
	return ids
}
