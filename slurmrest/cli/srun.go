package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/step"
)

func init() {
	register(Command{Name: "srun", Bare: true, About: "run a program as a step of a job", Run: srun})
}

// stepOptions reads the options of srun or salloc; the command is in the second
// result.
func stepOptions(e *Env, t option.Tool, args []string, usage string) (*option.Values, []string, error) {
	early, err := option.First(t, args, e.Getenv)
	if err != nil {
		return nil, nil, err
	}
	if submitHelp(e, t, &early, usage) {
		return nil, nil, exit(0)
	}
	all, err := option.Parse(option.Input{
		Tool: t, Args: args, Environ: e.Environ, Dir: e.Dir, Now: e.Now(), Root: e.UID == 0, ReadFile: e.ReadFile,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range all[0].Notices {
		io.WriteString(e.Stderr, l.Print(e.Prog)) //nolint:errcheck // nowhere left to complain
	}
	return all[0], early.Rest, nil
}

func srun(ctx context.Context, e *Env, in *Input) error {
	v, argv, err := stepOptions(e, option.Srun, in.Args, "command [ARGUMENT...]")
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return fatalf("No command given to execute.")
	}
	job := e.Getenv("SLURM_JOB_ID")
	socket, ok := stepSocket(e)
	switch {
	case job == "":
		return srunJob(ctx, e, v, in.Args, argv)
	case !ok:
		return withExitError(e, failed("Unable to create step for job %s: %s", job, errno.NotSupported))
	}
	if err := checkStep(e, v, job); err != nil {
		return withExitError(e, err)
	}
	req, err := stepRequest(e, v, argv)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
	if err != nil {
		return withExitError(e, failed("Unable to create step for job %s: %v", job, err))
	}
	link, err := step.Dial(ctx, conn, req)
	if err != nil {
		conn.Close() //nolint:errcheck // nothing was started
		return withExitError(e, failed("Unable to create step for job %s: %v", job, err))
	}
	defer link.Close() //nolint:errcheck // ends the step if it has not
	l := &launcher{e: e, v: v, req: req, link: link, job: job}
	return l.run(ctx)
}

// stepSocket finds the socket on which the node starts steps of this job.
func stepSocket(e *Env) (string, bool) {
	if s := e.Getenv("SBATCHD_STEP_SOCKET"); s != "" {
		return s, true
	}
	ep, err := client.ParseEndpoint(e.Getenv("SBATCHD_SERVER"))
	return ep.Address, err == nil && ep.Network == "unix"
}

// checkStep refuses what a step on one node cannot be.
func checkStep(e *Env, v *option.Values, job string) error {
	for _, name := range []string{"pty", "multi-prog"} {
		if v.Given(name) {
			return failed("Unable to create step for job %s: --%s: %s", job, name, errno.NotSupported)
		}
	}
	if id := v.Str("jobid"); id != "" && id != job && v.Source("jobid") == option.CommandLine {
		return failed("Unable to create step for job %s: %s", id, errno.NotSupported)
	}
	if v.Source("nodes") == option.CommandLine && v.NodesMin > 1 {
		return failed("Only allocated 1 nodes asked for %d", v.NodesMin)
	}
	if v.Source("nodelist") == option.CommandLine {
		names, err := hosts(v.Str("nodelist"))
		if err != nil {
			return failed("%v", err)
		}
		for _, n := range names {
			if n != e.Getenv("SLURMD_NODENAME") && n != "localhost" {
				return failed("Unable to create step for job %s: %s", job, errno.RequestedNodeConfigUnavailable)
			}
		}
	}
	return nil
}

func stepRequest(e *Env, v *option.Values, argv []string) (step.Request, error) {
	req := step.Request{
		Name: v.Str("job-name"), Argv: argv, Dir: option.Join(e.Dir, v.Str("chdir")), NTasks: int(max(v.Num("ntasks"), 1)),
		CPUsPerTask: int(v.Num("cpus-per-task")), WaitSeconds: int(v.Num("wait")), StdinTask: -1,
		KillOnBadExit: v.Given("kill-on-bad-exit") && v.Num("kill-on-bad-exit") == 1,
	}
	if v.Source("job-name") != option.CommandLine {
		req.Name = filepath.Base(argv[0])
	}
	if !v.Given("ntasks") && v.Given("ntasks-per-node") {
		req.NTasks = int(v.Num("ntasks-per-node"))
	}
	if v.Source("time") == option.CommandLine && v.Num("time") != option.Unlimited {
		req.TimeLimitSeconds = int(v.Num("time")) * 60
	}
	switch in := v.Str("input"); {
	case strings.EqualFold(in, "none"):
		req.StdinTask = -2
	case in == "" || strings.EqualFold(in, "all"):
	default:
		if n, err := strconv.ParseUint(in, 10, 31); err == nil {
			req.StdinTask = int(n)
		}
	}
	environ, err := v.StepEnviron(e.Environ)
	if err != nil {
		return req, err
	}
	req.Env = append(environ, "SRUN_DEBUG=3", "SLURMD_DEBUG=2", fmt.Sprintf("SLURM_UMASK=%04o", e.Umask))
	if layout := v.Str("distribution"); layout != "" {
		req.Env = append(req.Env, "SLURM_DISTRIBUTION="+layout)
	} else {
		req.Env = append(req.Env, "SLURM_DISTRIBUTION=block")
	}
	if v.Given("label") {
		req.Env = append(req.Env, "SLURM_LABELIO=1")
	}
	if !v.Given("preserve-env") {
		req.Env = append(req.Env, fmt.Sprintf("SLURM_NTASKS=%d", req.NTasks), fmt.Sprintf("SLURM_NPROCS=%d", req.NTasks))
	}
	return req, nil
}

// launcher is one step seen from its srun.
type launcher struct {
	e    *Env
	v    *option.Values
	req  step.Request
	link *step.Conn
	job  string

	info   step.Info
	out    *taskOutput
	err    *taskOutput
	status map[uint32]step.Status
}

func (l *launcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.status = map[uint32]step.Status{}
	var stdin io.Reader = l.e.Stdin
	if name := l.v.Str("input"); name != "" && l.req.StdinTask == -1 && !strings.EqualFold(name, "all") {
		data, err := l.e.ReadFile(l.e.Path(name))
		if err != nil {
			return failed("Could not open stdin file: %v", err)
		}
		stdin = strings.NewReader(string(data))
	}
	frames, ended := make(chan step.Frame), make(chan error, 1)
	go l.read(ctx, frames, ended)
	started := false
	signals := l.e.Signals(ctx)
	var interrupted time.Time
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return l.broken(<-ended)
			}
			if f.Type == step.Started && !started {
				started = true
				if err := json.Unmarshal(f.Data, &l.info); err != nil {
					return failed("step: %v", err)
				}
				if err := l.open(); err != nil {
					return err
				}
				if l.req.StdinTask != -2 {
					go l.feed(stdin) // ends with the input, or with the connection
				}
			}
			if done, err := l.frame(f); done {
				return err
			}
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			if sig == interrupt && !l.v.Given("disable-status") && !l.v.Given("quit-on-interrupt") && l.e.Now().Sub(interrupted) > time.Second {
				interrupted = l.e.Now()
				l.e.infof("interrupt (one more within 1 sec to abort)")
				l.e.infof("StepId=%s.%d tasks %s: running", l.job, l.info.Step, taskRange(0, l.req.NTasks-1))
				continue
			}
			if err := l.link.Write(step.Signal, step.AllTasks, []byte{byte(sig)}); err != nil {
				return l.broken(err)
			}
		}
	}
}

// interrupt is the number of the keyboard's signal.
const interrupt = 2

// read passes frames on until the connection ends.
func (l *launcher) read(ctx context.Context, frames chan<- step.Frame, ended chan<- error) {
	defer close(frames)
	for {
		f, err := l.link.Read()
		if err != nil {
			ended <- err
			return
		}
		f.Data = append([]byte(nil), f.Data...)
		select {
		case frames <- f:
		case <-ctx.Done():
			ended <- ctx.Err()
			return
		}
	}
}

// feed sends standard input.
func (l *launcher) feed(stdin io.Reader) {
	task := step.AllTasks
	if l.req.StdinTask >= 0 {
		task = uint32(l.req.StdinTask)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := stdin.Read(buf)
		if n > 0 {
			if werr := l.link.Write(step.Stdin, task, buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			l.link.Write(step.StdinEOF, task, nil) //nolint:errcheck // the step may have ended
			return
		}
	}
}

// frame handles one message; done says that it was the last.
func (l *launcher) frame(f step.Frame) (done bool, err error) {
	switch f.Type {
	case step.Stdout:
		return l.output(l.out, f)
	case step.Stderr:
		return l.output(l.err, f)
	case step.Exit:
		var s step.Status
		if err := json.Unmarshal(f.Data, &s); err != nil {
			return true, failed("step: %v", err)
		}
		l.status[f.Task] = s
	case step.Error:
		return true, withExitError(l.e, failed("Unable to create step for job %s: %s", l.job, f.Data))
	case step.Done:
		return true, l.finish()
	}
	return false, nil
}

func (l *launcher) output(o *taskOutput, f step.Frame) (bool, error) {
	if o == nil {
		return false, nil
	}
	if err := o.write(f.Task, f.Data); err != nil {
		return true, failed("%v", err)
	}
	return false, nil
}

// broken says that the node went away before the step's end.
func (l *launcher) broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("connection to the node ended")
	}
	return withExitError(l.e, failed("StepId=%s.%d: %v", l.job, l.info.Step, err))
}

// finish prints how tasks failed and turns the worst into the exit status.
func (l *launcher) finish() error {
	for _, o := range []*taskOutput{l.out, l.err} {
		if o != nil {
			if err := o.close(); err != nil {
				return failed("%v", err)
			}
		}
	}
	if err := l.e.flush(); err != nil {
		return nil //nolint:nilerr // nobody reads on
	}
	worst := 0
	killed := false
	for _, g := range l.failures() {
		l.e.errorf("%s: %s: %s", l.info.Node, taskRange(g.first, g.last), describe(g.status))
		code := g.status.Code
		if g.status.Signal != 0 {
			code, killed = 128+g.status.Signal, true
		}
		worst = max(worst, code)
	}
	if killed {
		l.e.infof("Force Terminated StepId=%s.%d", l.job, l.info.Step)
	}
	if worst == 0 {
		return nil
	}
	return exit(worst & 0xff)
}

// taskGroup is a run of tasks that ended the same way.
type taskGroup struct {
	first, last int
	status      step.Status
}

func (l *launcher) failures() []taskGroup {
	var out []taskGroup
	for rank := range l.req.NTasks {
		s := l.status[uint32(rank)]
		if s == (step.Status{}) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].last == rank-1 && out[n-1].status == s {
			out[n-1].last = rank
			continue
		}
		out = append(out, taskGroup{rank, rank, s})
	}
	return out
}

func taskRange(first, last int) string {
	if first >= last {
		return fmt.Sprintf("task %d", first)
	}
	return fmt.Sprintf("tasks %d-%d", first, last)
}

// deaths are the C library's words for signals.
var deaths = map[int]string{
	1: "Hangup", 2: "Interrupt", 3: "Quit", 4: "Illegal instruction", 5: "Trace/breakpoint trap", 6: "Aborted", 7: "Bus error",
	8: "Floating point exception", 9: "Killed", 10: "User defined signal 1", 11: "Segmentation fault", 12: "User defined signal 2",
	13: "Broken pipe", 14: "Alarm clock", 15: "Terminated", 24: "CPU time limit exceeded", 25: "File size limit exceeded", 31: "Bad system call",
}

func describe(s step.Status) string {
	switch {
	case s.OOM:
		return "Out Of Memory"
	case s.Signal != 0:
		if text, ok := deaths[s.Signal]; ok {
			return text
		}
		return fmt.Sprintf("Unknown signal %d", s.Signal)
	}
	return fmt.Sprintf("Exited with exit code %d", s.Code)
}
