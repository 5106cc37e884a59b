package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sbatch", Bare: true, About: "submit a batch script", Run: sbatch})
}

func sbatch(ctx context.Context, e *Env, in *Input) error {
	early, err := option.First(option.Sbatch, in.Args, e.Getenv)
	if err != nil {
		return err
	}
	if done := submitHelp(e, option.Sbatch, &early, "[ : [OPTION...]] script [ARGUMENT...]"); done {
		return nil
	}
	given := option.Input{
		Tool: option.Sbatch, Args: in.Args, Environ: e.Environ, Dir: e.Dir, Now: e.Now(), Root: e.UID == 0, ReadFile: e.ReadFile,
	}
	if err := option.CheckArgs(given); err != nil {
		return err
	}
	script, err := readScript(e, &early)
	if err != nil {
		return withExitError(e, err)
	}
	given.Body, given.Name = script.body, script.shown
	values, err := option.Parse(given)
	if err != nil {
		return err
	}
	for _, l := range values[0].Notices {
		io.WriteString(e.Stderr, l.Print(e.Prog)) //nolint:errcheck // nowhere left to complain
	}
	c, err := e.Client(ctx)
	if err != nil {
		return withExitError(e, failed("Batch job submission failed: %s", text(err)))
	}
	if err := checkCluster(ctx, e, c, values[0]); err != nil {
		return err
	}
	req, err := submission(e, values, script)
	if err != nil {
		return err
	}
	resp, err := c.Submit(ctx, req)
	if err != nil {
		return withExitError(e, refusedJob(ctx, e, c, values, err))
	}
	return submitted(ctx, e, c, values[0], resp)
}

// script is a batch script and the names it goes by.
type script struct {
	body  []byte
	name  string   // job name where none is given
	shown string   // in messages
	argv  []string // path and arguments; nil where there is no file
}

func readScript(e *Env, early *option.Early) (script, error) {
	var s script
	switch {
	case early.HasWrap:
		if len(early.Rest) > 0 {
			return s, failed("Script arguments not permitted with --wrap option")
		}
		s = script{body: option.WrapScript(early.Wrap), name: "wrap", shown: "wrap"}
	case len(early.Rest) == 0:
		body, err := io.ReadAll(io.LimitReader(e.Stdin, option.MaxScript+1))
		if err != nil {
			return s, failed("Unable to read script from stdin: %v", err)
		}
		s = script{body: body, name: "sbatch", shown: "stdin"}
	default:
		name := early.Rest[0]
		path, err := findScript(e, name)
		if err != nil {
			return s, failed("Unable to open file %s", name)
		}
		if s.body, err = e.ReadFile(path); err != nil && !isDir(err) {
			return s, failed("Unable to open file %s", name)
		}
		s.name, s.shown = filepath.Base(name), filepath.Base(name)
		if early.Chdir { // the job's own directory decides where the name leads
			path = name
		}
		s.argv = append([]string{path}, early.Rest[1:]...)
	}
	if len(s.body) > option.MaxScript {
		return s, fatalf("Script file %s is too large", s.shown)
	}
	return s, option.CheckScript(s.body)
}

func isDir(err error) bool {
	info, serr := os.Stat(errPath(err))
	return serr == nil && info.IsDir()
}

func errPath(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Path
	}
	return ""
}

// findScript looks for a script as sbatch does: a name with a slash as it is,
// any other in the current directory, then on PATH. It needs to be readable, not
// executable.
func findScript(e *Env, name string) (string, error) {
	if strings.Contains(name, "/") {
		return e.Path(name), nil
	}
	first := e.Path(name)
	if _, err := os.Stat(first); err == nil {
		return first, nil
	}
	for _, dir := range filepath.SplitList(e.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not found", name)
}

// submission builds the body of job/submit.
func submission(e *Env, values []*option.Values, s script) (*wire.JobSubmitReq, error) {
	req := &wire.JobSubmitReq{Script: string(s.body)}
	var burst []option.Burst
	for _, v := range values {
		name := s.name
		if v.Given("job-name") {
			name = v.Str("job-name")
		}
		environ, err := v.Environ(option.Shell{
			Environ: e.Environ, Dir: e.Dir, Host: e.Host, Umask: e.Umask, Nice: e.Nice,
			Limits: e.Limits, JobName: name, ReadFile: e.ReadFile,
		})
		if err != nil {
			return nil, err
		}
		req.Jobs = append(req.Jobs, v.Job(option.Submission{Name: name, Dir: e.Dir, Argv: s.argv, Environ: environ}))
		b := v.Burst()
		b.SubmitLine = e.Prog + " " + strings.Join(e.Args, " ")
		b.SubmitHost, b.SubmitSID, b.Umask = e.Host, e.SID, fmt.Sprintf("%04o", e.Umask)
		burst = append(burst, b)
	}
	var err error
	if len(values) == 1 {
		req.Job, req.Jobs = &req.Jobs[0], nil
		req.Sbatchd, err = json.Marshal(burst[0])
	} else {
		req.Sbatchd, err = json.Marshal(burst)
	}
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	return req, nil
}

// checkCluster refuses clusters that are not the controller's.
func checkCluster(ctx context.Context, e *Env, c *client.Client, v *option.Values) error {
	if !v.Given("clusters") {
		return nil
	}
	_, err := clusterName(ctx, e, c, v.Str("clusters"))
	return err
}

// clusterName asks for the controller's cluster and refuses names that are not
// its own.
func clusterName(ctx context.Context, e *Env, c *client.Client, wanted string) (string, error) {
	ping, err := c.Ping(ctx)
	if err != nil {
		return "", failed("%s", text(err))
	}
	own := ping.Meta.Slurm.Cluster
	for _, name := range strings.Split(wanted, ",") {
		if name != own && name != "all" && name != "" {
			return "", &option.Error{Exit: 1, Lines: []option.Line{
				{Level: option.Err, Text: fmt.Sprintf("No cluster '%s' known by database.", name)},
				{Level: option.Err, Text: fmt.Sprintf("'%s' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see available clusters.", name)},
			}}
		}
	}
	return own, nil
}

// refusedJob turns the controller's refusal into sbatch's lines.
func refusedJob(ctx context.Context, e *Env, c *client.Client, values []*option.Values, err error) error {
	v := values[0]
	if v.Given("test-only") {
		return fail("allocation failure: %s", text(err))
	}
	out := &option.Error{Exit: 1}
	out.Lines = append(out.Lines, refusalReason(ctx, c, v, err)...)
	if errors.Is(err, errno.InvalidGRES) || errors.Is(err, errno.InvalidTRES) { // sbatch finds these by itself
		out.Lines = append(out.Lines, option.Line{Level: option.Err, Text: text(err)})
		return out
	}
	what := map[option.Tool]string{
		option.Sbatch: "Batch job submission failed: ", option.Srun: "Unable to allocate resources: ", option.Salloc: "Job submit/allocate failed: ",
	}[v.Tool]
	out.Lines = append(out.Lines, option.Line{Level: option.Err, Text: what + text(err)})
	return out
}

// refusalReason finds what Slurm says before the refusal itself, and what the
// controller adds in its own words.
func refusalReason(ctx context.Context, c *client.Client, v *option.Values, err error) []option.Line {
	var lines []option.Line
	switch {
	case errors.Is(err, errno.InvalidPartition):
		if parts, perr := c.Partitions(ctx); perr == nil {
			for _, name := range strings.Split(v.Str("partition"), ",") {
				if !slices.ContainsFunc(parts.Partitions, func(p wire.PartitionInfo) bool { return p.Name == name }) {
					return append(lines, option.Line{Level: option.Err, Text: "invalid partition specified: " + name})
				}
			}
		}
	case errors.Is(err, errno.AccessDenied) && v.Given("reboot"):
		return append(lines, option.Line{Level: option.Err, Text: "rebooting of nodes is only allowed for admins"})
	}
	if e, ok := errors.AsType[*client.Error](err); ok && ours(e) {
		lines = append(lines, option.Line{Level: option.Err, Text: e.Description})
	}
	return lines
}

// ours says whether the controller explained itself beyond Slurm's words.
func ours(e *client.Error) bool {
	return e.Description != "" && e.Description != e.Error() && (e.Source == "sbatchd" || strings.HasPrefix(e.Source, "#/"))
}

// withExitError lets SLURM_EXIT_ERROR decide about the status of a failure.
func withExitError(e *Env, err error) error {
	if o, ok := errors.AsType[*option.Error](err); ok && o.Exit == option.ExitError {
		o.Exit = exitError(e)
	}
	return err
}

// submitted prints what sbatch prints, and waits where that is wanted.
func submitted(ctx context.Context, e *Env, c *client.Client, v *option.Values, resp *wire.JobSubmitResponse) error {
	for _, l := range strings.Split(resp.JobSubmitUserMsg, "\n") {
		if l != "" {
			e.infof("%s", l)
		}
	}
	if v.Given("test-only") {
		return nil // the message was the answer
	}
	cluster := ""
	if v.Given("clusters") {
		cluster = resp.Meta.Slurm.Cluster
	}
	switch {
	case v.Given("quiet"):
	case v.Given("parsable") && cluster != "":
		e.printf("%d;%s\n", resp.JobID, cluster)
	case v.Given("parsable"):
		e.printf("%d\n", resp.JobID)
	case cluster != "":
		e.printf("Submitted batch job %d on cluster %s\n", resp.JobID, cluster)
	default:
		e.printf("Submitted batch job %d\n", resp.JobID)
	}
	if v.Given("wait") {
		return waitJob(ctx, e, c, resp.JobID)
	}
	return nil
}

// waitJob blocks until the job and all its tasks have ended; its status is the
// highest of theirs, 1 for a death by signal.
func waitJob(ctx context.Context, e *Env, c *client.Client, id int64) error {
	if err := e.flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	pause := 500 * time.Millisecond
	for failures := 0; ; {
		if err := e.Sleep(ctx, pause); err != nil {
			return exit(1)
		}
		pause = min(pause*3/2, 8*time.Second)
		resp, err := c.Job(ctx, fmt.Sprint(id))
		switch {
		case errors.Is(err, errno.InvalidJobID):
			return acctStatus(ctx, c, id)
		case err != nil:
			if failures++; failures > 20 {
				return failed("Job %d: %s", id, text(err))
			}
			continue
		}
		failures = 0
		highest, over := 0, len(resp.Jobs) > 0
		for i := range resp.Jobs {
			j := &resp.Jobs[i]
			if !format.Finished(j.JobState) || slices.Contains(j.JobState, "COMPLETING") {
				over = false
				break
			}
			highest = max(highest, jobStatus(j.ExitCode, j.JobState))
		}
		if over {
			if highest == 0 {
				return nil
			}
			return exit(highest)
		}
	}
}

func jobStatus(code wire.ProcessExitCodeVerbose, states []string) int {
	switch {
	case code.Signal.ID.Or(0) != 0:
		return 1
	case code.ReturnCode.Or(0) != 0:
		return int(code.ReturnCode.Or(0))
	case format.BaseState(states).Name != "COMPLETED":
		return 1
	}
	return 0
}

// acctStatus is the end of a job that the controller has already forgotten.
func acctStatus(ctx context.Context, c *client.Client, id int64) error {
	resp, err := c.DBJobs(ctx, url.Values{"step": {fmt.Sprint(id)}})
	if err != nil {
		return failed("Job %d: %s", id, text(err))
	}
	highest := 0
	for i := range resp.Jobs {
		highest = max(highest, jobStatus(resp.Jobs[i].ExitCode, resp.Jobs[i].State.Current))
	}
	if highest == 0 {
		return nil
	}
	return exit(highest)
}

// description is the controller's own sentence about an error, if it has one.
func description(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Description != e.Error() {
		return e.Description
	}
	return ""
}
