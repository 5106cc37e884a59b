package cli

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// jobIDs lists the ids of a command: with blanks or commas between, or
// jobname=x for all jobs of that name.
func (s *scontrolRun) jobIDs(ctx context.Context, args []string) ([]string, error) {
	if name, ok := cutPrefixFold(args[0], "jobname="); ok {
		c, err := s.client(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := c.Jobs(ctx, client.JobsQuery{})
		if err != nil {
			return nil, err
		}
		var out []string
		for i := range resp.Jobs {
			if j := &resp.Jobs[i]; j.Name == name && !format.Finished(j.JobState) && (s.e.UID == 0 || j.UserID == int64(s.e.UID)) {
				out = append(out, itoa(j.JobID))
			}
		}
		if len(out) == 0 {
			return nil, errno.InvalidJobID
		}
		return out, nil
	}
	return splitIDs(strings.Join(args, ",")), nil
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// each runs a change on every id and prints what failed. last is the line after
// a failure, naming the call; empty: none.
func (s *scontrolRun) each(ctx context.Context, args []string, last string, change func(c *client.Client, id string) error) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("%s error: %s", or(last, "slurm_update"), text(err))
	}
	ids, err := s.jobIDs(ctx, args)
	if err != nil {
		return fail("%s error:%s", or(last, "slurm_update"), " "+text(err))
	}
	var worst error
	partly := false
	for _, id := range ids {
		var err error = errno.InvalidJobID
		if _, ok := parseJobRef(id); ok {
			err = change(c, id)
		}
		switch {
		case err == nil:
		case s.tasksRefused(err):
			partly = true
		default:
			s.e.rawf("%s for job %s", text(err), id)
			worst = err
		}
	}
	switch {
	case worst == nil && !partly:
		return nil
	case worst == nil, last == "":
		return exit(1)
	}
	return fail("%s error:%s", last, text(worst))
}

// tasksRefused prints why a change of an array was refused for some of its tasks, a
// line for each reason; false for another error.
func (s *scontrolRun) tasksRefused(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || len(e.Tasks) == 0 {
		return false
	}
	for _, t := range e.Tasks {
		s.e.rawf("%s: %s", t.StepID, errno.Errno(t.ErrorCode))
	}
	return true
}

func hold(ctx context.Context, s *scontrolRun, args []string) error {
	yes := true
	return s.each(ctx, args, "slurm_suspend", func(c *client.Client, id string) error {
		_, err := c.Update(ctx, id, &wire.JobDescMsg{Hold: &yes})
		return err
	})
}

func release(ctx context.Context, s *scontrolRun, args []string) error {
	no := false
	return s.each(ctx, args, "slurm_suspend", func(c *client.Client, id string) error {
		_, err := c.Update(ctx, id, &wire.JobDescMsg{Hold: &no})
		return err
	})
}

func requeue(ctx context.Context, s *scontrolRun, args []string) error {
	return s.requeue(ctx, args)
}

func requeueHold(ctx context.Context, s *scontrolRun, args []string) error {
	return s.requeue(ctx, args, "Hold")
}

func (s *scontrolRun) requeue(ctx context.Context, args []string, flags ...string) error {
	for len(args) > 0 {
		if v, ok := cutPrefixFold(args[0], "state="); ok {
			if strings.EqualFold(v, "specialexit") || strings.EqualFold(v, "SE") {
				flags = append(flags, "SpecialExit")
			}
		} else if strings.EqualFold(args[0], "incomplete") {
			flags = append(flags, "Incomplete")
		} else {
			break
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return fail("too few arguments for keyword:requeue")
	}
	return s.each(ctx, args, "", func(c *client.Client, id string) error {
		resp, err := c.Requeue(ctx, []string{id}, flags...)
		if err != nil {
			return err
		}
		for _, job := range resp.Status {
			for _, r := range job {
				switch {
				case r.ErrorCode == 0:
				case strings.Contains(r.StepID, "["):
					return &client.Error{Errno: errno.Errno(r.ErrorCode), Tasks: job}
				default:
					return errno.Errno(r.ErrorCode)
				}
			}
		}
		return nil
	})
}

// nodeVerb answers what Slurm asks the daemon of its own node.
// notBuilt refuses what belongs to a part that is not built: an administrator is
// told so, others what Slurm tells them. format has one %s.
func notBuilt(_ context.Context, s *scontrolRun, format string) error {
	err := errno.NotSupported
	if s.e.UID != 0 {
		err = errno.UserIDMissing
	}
	return fail(format, err)
}

func top(ctx context.Context, s *scontrolRun, args []string) error {
	return s.each(ctx, args, "", func(*client.Client, string) error { return errno.AccessDenied })
}

// power brings nodes up or down.
func power(ctx context.Context, s *scontrolRun, args []string) error {
	state := "POWER_" + strings.ToUpper(args[0])
	nodes := args[1:]
	if len(nodes) > 1 && state == "POWER_DOWN" && (strings.EqualFold(nodes[0], "asap") || strings.EqualFold(nodes[0], "force")) {
		state, nodes = state+"_"+strings.ToUpper(nodes[0]), nodes[1:]
	}
	if state != "POWER_UP" && !strings.HasPrefix(state, "POWER_DOWN") {
		return fail("invalid keyword: power %s", args[0])
	}
	return updateNode(ctx, s, []string{"nodename=" + strings.Join(nodes, ","), "state=" + state})
}

func reconfigure(ctx context.Context, s *scontrolRun, _ []string) error {
	c, err := s.client(ctx)
	if err == nil {
		err = c.Reconfigure(ctx)
	}
	if err == nil {
		return nil
	}
	if ce, ok := errors.AsType[*client.Error](err); ok && ours(ce) {
		s.e.errorf("%s", ce.Description)
	}
	return fail("slurm_reconfigure error:%s", text(err))
}

func token(ctx context.Context, s *scontrolRun, args []string) error {
	var req wire.TokenRequest
	for _, a := range args {
		if v, ok := cutPrefixFold(a, "username="); ok {
			req.User = v
		} else if v, ok := cutPrefixFold(a, "lifespan="); ok {
			n, err := strconv.ParseInt(v, 10, 32)
			if strings.EqualFold(v, "infinite") {
				n, err = -1, nil
			}
			if err != nil {
				return failed("Invalid numeric value %q for lifespan.", v)
			}
			req.Lifespan = n
		} else {
			return fail("Invalid option: `%s`", a)
		}
	}
	c, err := s.client(ctx)
	if err != nil {
		return fail("token: %s", text(err))
	}
	var out wire.Token
	if err := c.Post(ctx, "/sbatchd/v1/token", req, &out); err != nil {
		return fail("token: %s", text(err))
	}
	s.e.printf("SLURM_JWT=%s\n", out.Token)
	return nil
}

// waitReady waits until a job's nodes are up.
func waitReady(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return failed("%s", text(err))
	}
	for pause := 250 * time.Millisecond; ; pause = min(pause*2, 8*time.Second) {
		resp, err := c.Job(ctx, args[0])
		if err != nil && !errors.Is(err, errno.InvalidJobID) {
			return failed("%s", text(err))
		}
		if err != nil || len(resp.Jobs) == 0 {
			s.e.infof("Problem running job %s", args[0])
			return exit(1)
		}
		if format.Finished(resp.Jobs[0].JobState) {
			s.e.infof("Job %s no longer running", args[0])
			return exit(1)
		}
		j := &resp.Jobs[0]
		if format.ShownState(j.JobState).Name == "RUNNING" {
			s.e.infof("Nodes are ready for job %s", args[0])
			return nil
		}
		if err := s.e.Sleep(ctx, pause); err != nil {
			return exit(1)
		}
	}
}

// write saves a batch script or the configuration.
func write(ctx context.Context, s *scontrolRun, args []string) error {
	if !strings.HasPrefix("batch_script", strings.ToLower(args[0])) { // may be cut short
		return fail("invalid write argument:%s", args[0])
	}
	if len(args) < 2 {
		return nil // as Slurm
	}
	id := args[1]
	c, err := s.client(ctx)
	if err != nil {
		return fail("job script retrieval failed: %s", text(err))
	}
	body, err := c.Stream(ctx, "/sbatchd/v1/script/"+url.PathEscape(id), nil)
	if err != nil {
		if errors.Is(err, errno.AccessDenied) {
			err = errno.UserIDMissing // what Slurm calls somebody else's script
		}
		s.e.rawf("job script retrieval failed: %s", text(err))
		return nil
	}
	defer body.Close() //nolint:errcheck // only read
	name := "slurm-" + id + ".sh"
	if len(args) > 2 {
		name = args[2]
	}
	if name == "-" {
		_, err := io.Copy(s.e.Stdout, body)
		return err
	}
	f, err := s.e.Create(s.e.Path(name))
	if err != nil {
		return fail("failed to open file `%s`: %v", name, err)
	}
	if _, err := io.Copy(f, body); err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return fail("failed to write file `%s`: %v", name, err)
	}
	if err := f.Close(); err != nil {
		return fail("failed to write file `%s`: %v", name, err)
	}
	s.e.printf("batch script for job %s written to %s\n", id, name)
	return nil
}
