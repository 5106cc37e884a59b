package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/runtime/attempt"
	"github.com/sbatchd/sbatchd/runtime/container"
	"github.com/sbatchd/sbatchd/slurmrest/step"
)

// task is one running process of a step.
type task struct {
	rank  int
	proc  container.Process
	stdin *os.File // ours, nil when it has none
	out   [2]*os.File
}

// drain is how long output is still read after a task has ended: what it left
// running may hold the pipe open for ever.
const drain = 200 * time.Millisecond

// step serves one srun.
func (s *shim) step(w http.ResponseWriter, r *http.Request) {
	conn, req, err := step.Accept(w, r)
	if err != nil {
		return // Accept has answered
	}
	defer conn.Close()
	var id uint32
	err = s.do(r.Context(), func() error { id = s.state.NextStep; s.state.NextStep++; return s.save() })
	if err == nil {
		err = s.runStep(id, req, conn)
	}
	if err != nil {
		s.log.Debug("step did not run", "step", id, "err", err)
		_ = conn.Write(step.Error, step.AllTasks, []byte(err.Error())) // srun may be gone
	}
}

func (s *shim) runStep(id uint32, req step.Request, conn *step.Conn) error {
	ctx := s.own()
	if req.NTasks > 4096 {
		return fmt.Errorf("%d tasks are more than a node takes", req.NTasks)
	}
	if req.Name == "" {
		req.Name = filepath.Base(req.Argv[0])
	}
	tasks, err := s.startTasks(ctx, id, req)
	if err != nil {
		return err
	}
	info := step.Info{Job: s.spec.Job, Step: id, Node: s.spec.Node}
	for _, t := range tasks {
		info.Pids = append(info.Pids, t.proc.Pid())
	}
	start := attempt.BootTime()
	s.record(attempt.Step{ID: id, Name: req.Name, NTasks: req.NTasks, At: s.now()})
	_ = conn.WriteJSON(step.Started, step.AllTasks, info) // the reader below sees a gone srun

	run := &stepRun{conn: conn, tasks: tasks, req: req, left: len(tasks)}
	run.timers(ctx)
	go run.listen(ctx)
	var g errgroup.Group
	for _, t := range tasks {
		g.Go(func() error { return run.follow(ctx, t) })
	}
	err = g.Wait()
	run.stop()
	s.forget(tasks)
	s.record(attempt.Step{
		ID: id, Name: req.Name, NTasks: req.NTasks, At: s.now(), Ended: true,
		Code: run.worst.Code, Signal: run.worst.Signal, ElapsedMS: (attempt.BootTime() - start).Milliseconds(),
	})
	if err != nil {
		return err
	}
	_ = conn.Write(step.Done, step.AllTasks, nil) // as above
	return nil
}

// startTasks starts all tasks or none.
func (s *shim) startTasks(ctx context.Context, id uint32, req step.Request) ([]*task, error) {
	var tasks []*task
	for rank := range req.NTasks {
		t, err := s.startTask(ctx, id, rank, req)
		if err != nil {
			for _, t := range tasks {
				t.signal(ctx, syscall.SIGKILL)
				t.close()
			}
			s.forget(tasks)
			return nil, err
		}
		tasks = append(tasks, t)
		s.mu.Lock()
		s.tasks[t] = true
		s.mu.Unlock()
	}
	return tasks, nil
}

func (s *shim) startTask(ctx context.Context, id uint32, rank int, req step.Request) (*task, error) {
	t := &task{rank: rank}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	spec := container.ExecSpec{Argv: req.Argv, Cwd: req.Dir, Env: append(slices.Clip(req.Env), s.stepEnv(id, rank, req)...)}
	if req.StdinTask == rank || req.StdinTask == -1 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		spec.Stdin, t.stdin = r, w
		theirs = append(theirs, r)
	}
	for i, end := range []**os.File{&spec.Stdout, &spec.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.close()
			return nil, err
		}
		*end, t.out[i] = w, r
		theirs = append(theirs, w)
	}
	var err error
	if t.proc, err = s.box.Exec(ctx, spec); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// stepEnv is what a task sees beyond srun's environment.
func (s *shim) stepEnv(id uint32, rank int, req step.Request) []string {
	ranks := make([]string, req.NTasks)
	for i := range ranks {
		ranks[i] = strconv.Itoa(i)
	}
	n, step, r := strconv.Itoa(req.NTasks), strconv.FormatUint(uint64(id), 10), strconv.Itoa(rank)
	env := []string{
		"SLURM_STEP_ID=" + step, "SLURM_STEPID=" + step,
		"SLURM_STEP_NODELIST=" + s.spec.Node, "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=" + n,
		"SLURM_STEP_TASKS_PER_NODE=" + n, "SLURM_NTASKS=" + n, "SLURM_NPROCS=" + n,
		"SLURM_NNODES=1", "SLURM_NODELIST=" + s.spec.Node, "SLURM_TASKS_PER_NODE=" + n,
		"SLURM_PROCID=" + r, "SLURM_LOCALID=" + r, "SLURM_NODEID=0", "SLURM_GTIDS=" + strings.Join(ranks, ","),
		"SLURM_LAUNCH_NODE_IPADDR=127.0.0.1", "SLURM_SRUN_COMM_HOST=127.0.0.1",
		"SLURMD_NODENAME=" + s.spec.Node, "SRUN_DEBUG=3",
	}
	env = append(env, s.spec.StepEnv...)
	if req.CPUsPerTask > 0 {
		env = append(env, "SLURM_CPUS_PER_TASK="+strconv.Itoa(req.CPUsPerTask),
			"SLURM_CPUS_ON_NODE="+strconv.Itoa(req.CPUsPerTask*req.NTasks))
	}
	return env
}

// stepRun is a step under way.
type stepRun struct {
	conn  *step.Conn
	tasks []*task
	req   step.Request
	limit *time.Timer

	mu    sync.Mutex // protects the fields below
	left  int
	worst step.Status
	wait  *time.Timer
}

// timers arms the step's own time limit.
func (r *stepRun) timers(ctx context.Context) {
	if r.req.TimeLimitSeconds > 0 {
		r.limit = time.AfterFunc(time.Duration(r.req.TimeLimitSeconds)*time.Second, func() { r.end(ctx) })
	}
}

func (r *stepRun) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range []*time.Timer{r.limit, r.wait} {
		if t != nil {
			t.Stop()
		}
	}
}

// end stops every task: SIGTERM, and SIGKILL a little later.
func (r *stepRun) end(ctx context.Context) {
	r.signal(ctx, step.AllTasks, syscall.SIGCONT)
	r.signal(ctx, step.AllTasks, syscall.SIGTERM)
	time.AfterFunc(2*time.Second, func() { r.signal(ctx, step.AllTasks, syscall.SIGKILL) })
}

func (r *stepRun) signal(ctx context.Context, rank uint32, sig syscall.Signal) {
	for _, t := range r.tasks {
		if rank == step.AllTasks || int(rank) == t.rank {
			t.signal(ctx, sig)
		}
	}
}

// listen hands what srun sends to the tasks; a gone srun ends the step.
func (r *stepRun) listen(ctx context.Context) {
	for {
		f, err := r.conn.Read()
		if err != nil {
			r.end(ctx)
			return
		}
		switch f.Type {
		case step.Stdin:
			for _, t := range r.tasks {
				if t.stdin != nil {
					_, _ = t.stdin.Write(f.Data) // a task may have closed its stdin
				}
			}
		case step.StdinEOF:
			for _, t := range r.tasks {
				if t.stdin != nil {
					t.stdin.Close()
				}
			}
		case step.Signal:
			if len(f.Data) == 1 {
				r.signal(ctx, f.Task, syscall.Signal(f.Data[0]))
			}
		default: // a newer srun's word
		}
	}
}

// follow passes a task's output on and tells its end after the last of it.
func (r *stepRun) follow(ctx context.Context, t *task) error {
	var readers sync.WaitGroup
	for i, kind := range []step.Type{step.Stdout, step.Stderr} {
		readers.Go(func() {
			buf := make([]byte, step.MaxFrame)
			for {
				n, err := t.out[i].Read(buf)
				if n > 0 {
					_ = r.conn.Write(kind, uint32(t.rank), buf[:n]) // read on, or the task would block
				}
				if err != nil {
					return
				}
			}
		})
	}
	exit, err := t.proc.Wait(ctx)
	for _, f := range t.out {
		if derr := f.SetReadDeadline(time.Now().Add(drain)); derr != nil {
			f.Close()
		}
	}
	readers.Wait()
	t.close()
	if err != nil {
		return err
	}
	if exit.Lost {
		exit.Signal = int(syscall.SIGKILL)
	}
	status := step.Status{Code: exit.Code, Signal: exit.Signal, OOM: exit.OOM}
	_ = r.conn.WriteJSON(step.Exit, uint32(t.rank), status) // a gone srun is seen by listen
	r.ended(ctx, status)
	return nil
}

// ended counts a task's end and applies -K and -W.
func (r *stepRun) ended(ctx context.Context, status step.Status) {
	r.mu.Lock()
	r.left--
	if status.Code+128*status.Signal > r.worst.Code+128*r.worst.Signal {
		r.worst = status
	}
	kill := r.left > 0 && r.req.KillOnBadExit && (status.Code != 0 || status.Signal != 0)
	if r.left > 0 && r.wait == nil && r.req.WaitSeconds > 0 {
		r.wait = time.AfterFunc(time.Duration(r.req.WaitSeconds)*time.Second, func() { r.end(ctx) })
	}
	r.mu.Unlock()
	if kill {
		r.end(ctx)
	}
}

// signal is best effort: the task may have ended.
func (t *task) signal(ctx context.Context, sig syscall.Signal) { _ = t.proc.Signal(ctx, sig) }

func (t *task) close() {
	for _, f := range []*os.File{t.stdin, t.out[0], t.out[1]} {
		if f != nil {
			f.Close()
		}
	}
}

func (s *shim) forget(tasks []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		delete(s.tasks, t)
	}
}

// signalTasks sends to the processes of every step.
func (s *shim) signalTasks(ctx context.Context, sig syscall.Signal) {
	s.mu.Lock()
	tasks := make([]*task, 0, len(s.tasks))
	for t := range s.tasks {
		tasks = append(tasks, t)
	}
	s.mu.Unlock()
	for _, t := range tasks {
		t.signal(ctx, sig)
	}
}

// record appends a line about a step for the agent to report.
func (s *shim) record(rec attempt.Step) {
	line, err := json.Marshal(rec)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(s.path(attempt.StepsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		s.log.Warn("step is not recorded", "step", rec.ID, "err", err)
	}
}
