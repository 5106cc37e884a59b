package launch

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// dispatch derives orders whenever the state changes.
func (h *Hub) dispatch(ctx context.Context) error {
	changed, stop := h.Jobs.Watch()
	defer stop()
	var begun atBegin
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(beginAtOnce)
	for {
		s := h.Jobs.Snapshot()
		for j := range s.Active() {
			if j.Run == nil || len(j.Run.Nodes) == 0 || j.Follows() {
				continue // a component's nodes are its leader's to use
			}
			a := j.Run.Attempt
			if j.Run.Ordered.IsZero() {
				if !j.Flags.Has(job.Completing) && h.ready(s, j) && begun.enter(a) {
					g.Go(func() error {
						defer begun.leave(a)
						return h.begin(ctx, s, j)
					})
				}
				continue
			}
			h.orderJob(h.session(j.Run.Nodes[0].Node), s, j)
		}
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-changed:
		}
	}
}

// atBegin holds the attempts whose launch is being committed. One that is then
// not launched after all may come again at the next change.
type atBegin struct {
	mu  sync.Mutex
	set map[job.Attempt]bool
}

func (b *atBegin) enter(a job.Attempt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set[a] {
		return false
	}
	if b.set == nil {
		b.set = map[job.Attempt]bool{}
	}
	b.set[a] = true
	return true
}

func (b *atBegin) leave(a job.Attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.set, a)
}

// beginAtOnce is how many launch orders wait for the same commit at most.
const beginAtOnce = 128

// ready says whether every node of the job is there to take it.
func (h *Hub) ready(s *state.State, j *job.Job) bool {
	for _, a := range j.Run.Nodes {
		n, ok := s.Node(a.Node)
		if !ok || !n.Up() || n.Flags.Has(node.Reclaimed) || h.session(a.Node) == nil {
			return false
		}
	}
	for part := range s.Parts(j) {
		if part.Run == nil || !h.ready(s, part) {
			return false
		}
	}
	return true
}

// begin commits that the attempt may run from now on. The order itself follows
// from the state this makes.
func (h *Hub) begin(ctx context.Context, s *state.State, j *job.Job) error {
	given := hosts(s, j)
	if given[0].Direct = h.direct(s, j); !given[0].Direct {
		if ok, err := h.prepare(ctx, s, j); err != nil || !ok {
			return err
		}
	}
	_, err := h.Jobs.Ordered(ctx, j.Run.Attempt, given)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("order job %s: %w", j.Run.Attempt, err)
	}
	return nil
}

// direct says whether the job's node writes the user's output files itself: those in
// a work directory that it shares. Other files it may not see.
func (h *Hub) direct(s *state.State, j *job.Job) bool {
	n, ok := s.Node(j.Run.Nodes[0].Node)
	if !ok || workDirMode(s.Config.Pool(n.Pool)) != agentapi.WorkDir_WORKDIR_SHARED {
		return false
	}
	out, errFile := h.Output.Files(j)
	return within(j.Spec.WorkDir, out) && (errFile == "" || within(j.Spec.WorkDir, errFile))
}

// within says whether a file lies in a folder, by its name.
func within(dir, file string) bool {
	below, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(below)
}

// appends says whether what is in the job's output files stays: what earlier runs
// printed does, unless --open-mode=truncate asks otherwise.
func appends(c *partitions.Config, j *job.Job) bool {
	if j.Spec.Append != nil {
		return *j.Spec.Append
	}
	return c.JobFileAppend || j.Restarts > 0
}

// outputFailed is how Slurm ends a job whose output file cannot be opened.
var outputFailed = job.ExitCode{Signal: 53}

// prepare makes the job's output files ready; a job whose files can't be opened
// ends here, any other trouble is tried again at the next change.
func (h *Hub) prepare(ctx context.Context, s *state.State, j *job.Job) (bool, error) {
	call, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	userFault, err := h.Output.Prepare(call, j, appends(s.Config, j))
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case !userFault:
		h.Log.Warn("output files not ready", "job", j.ID.Raw, "restart", j.Restarts, "err", err)
		return true, nil // the spool keeps everything until they are
	}
	f := job.LaunchFailure{Class: job.FaultUser, Message: err.Error(), Code: outputFailed}
	return false, h.hopeless(ctx, j, f)
}

// hopeless ends an attempt that no node is asked to run.
func (h *Hub) hopeless(ctx context.Context, j *job.Job, f job.LaunchFailure) error {
	if err := h.Jobs.LaunchFailed(ctx, j.Run.Attempt, f); err != nil {
		return err
	}
	return h.Jobs.Finished(ctx, j.Run.Attempt)
}

const prepareTimeout = 15 * time.Second

// hosts records what an attempt is really given: the machines as rented.
func hosts(s *state.State, j *job.Job) []job.Host {
	out := make([]job.Host, len(j.Run.Nodes))
	for i, a := range j.Run.Nodes {
		n, _ := s.Node(a.Node)
		host := job.Host{Node: a.Node, Pool: n.Pool, Driver: n.Driver, Share: share(n, a)}
		for name, devices := range a.Gres {
			for _, d := range devices {
				host.GPUs = append(host.GPUs, deviceType(n, name, d))
			}
		}
		if in, ok := s.Instance(n.Instance); ok {
			host.Instance, host.Provider, host.InstanceType = in.Tag, in.Provider, in.InstanceType
			host.Region, host.Spot = in.Region, in.Spot
			host.PriceMicros, host.Currency = in.PriceMicros, in.Currency
		}
		if img := imageOf(s.Config, j, n.Pool); img != nil {
			host.ImageRef = img.GetRef()
		}
		out[i] = host
	}
	return out
}

// share is the part of a node a job holds: the largest of its parts of CPUs,
// memory and GPUs, as a bill sees it.
func share(n *node.Node, a job.NodeAlloc) float64 {
	part := 0.0
	if n.CPUs > 0 {
		part = max(part, float64(a.CPUs)/float64(n.CPUs))
	}
	if n.MemoryMiB > 0 {
		part = max(part, float64(a.MemoryMiB)/float64(n.MemoryMiB))
	}
	for name, devices := range a.Gres {
		if c := n.GresCount(name, ""); c > 0 {
			part = max(part, float64(len(devices))/float64(c))
		}
	}
	return min(part, 1)
}

func deviceType(n *node.Node, name string, device int) string {
	at := 0
	for _, g := range n.Gres {
		if g.Name != name {
			continue
		}
		if device < at+g.Count {
			if g.Type != "" {
				return g.Type
			}
			return name
		}
		at += g.Count
	}
	return name
}

// order sends a node everything the state wants of it.
func (h *Hub) order(s *session) {
	snap := h.Jobs.Snapshot()
	n, ok := snap.Node(s.node)
	if !ok {
		return
	}
	for _, id := range n.Jobs {
		if j, ok := snap.Job(id); ok && j.Active() && j.Run != nil && j.Run.Nodes[0].Node == s.node {
			h.orderJob(s, snap, j)
		}
	}
}

// orderJob sends what the state wants of one attempt and this session has not
// sent yet.
func (h *Hub) orderJob(s *session, snap *state.State, j *job.Job) {
	r := j.Run
	if s == nil || r.Ordered.IsZero() || !r.Ended.IsZero() {
		return
	}
	if r.Start.IsZero() && j.Stop == nil {
		h.once(s, snap, j, "launch", func() (*agentapi.Order, error) { return h.launchOrder(snap, j) })
	}
	for i, sig := range r.Signals {
		h.once(s, snap, j, fmt.Sprintf("signal %d", i), func() (*agentapi.Order, error) {
			return &agentapi.Order{What: &agentapi.Order_Signal{Signal: &agentapi.Signal{
				Signal: int32(sig.Signal), Batch: sig.BatchOnly, Full: sig.Full,
			}}}, nil
		})
	}
	if r.LimitChanges > 0 {
		h.once(s, snap, j, fmt.Sprintf("limit %d", r.LimitChanges), func() (*agentapi.Order, error) {
			return &agentapi.Order{What: &agentapi.Order_SetTimeLimit{SetTimeLimit: &agentapi.SetTimeLimit{
				TimeLimitS: limitSeconds(j.Spec.TimeLimit),
			}}}, nil
		})
	}
	if !r.Notice.IsZero() && !r.NoticeAsked && j.Stop == nil {
		h.once(s, snap, j, fmt.Sprintf("notice %d", r.Notice.UnixNano()), func() (*agentapi.Order, error) {
			return &agentapi.Order{What: &agentapi.Order_Notice{Notice: &agentapi.NodeNotice{
				DeadlineUnixNano: r.Notice.UnixNano(), Kind: "reclaim",
			}}}, nil
		})
	}
	if r.NoticeAsked && j.Stop == nil {
		h.once(s, snap, j, "reclaim", func() (*agentapi.Order, error) {
			return &agentapi.Order{What: &agentapi.Order_Kill{Kill: &agentapi.Kill{
				Reason: agentapi.KillReason_KILL_PREEMPT, Checkpoint: true,
				CheckpointSeconds: seconds(max(r.Notice.Sub(h.Now()), time.Second)),
				Notice:            notice(j, "DUE TO PREEMPTION", r.Notice),
			}}}, nil
		})
	}
	if j.Stop != nil {
		h.once(s, snap, j, "kill "+j.Stop.Why, func() (*agentapi.Order, error) { return killOrder(j), nil })
	}
}

// once sends an order unless this session already did. Its id follows from what
// it is about, so the agent knows a repeated one.
func (h *Hub) once(s *session, snap *state.State, j *job.Job, what string, build func() (*agentapi.Order, error)) {
	id := orderID(j.Run.Attempt, what)
	s.mu.Lock()
	_, sent := s.sent[id]
	s.sent[id] = sentOrder{j.Run.Attempt, what == "launch" || j.Stop != nil && what == "kill "+j.Stop.Why}
	s.mu.Unlock()
	if sent {
		return
	}
	o, err := build()
	if err != nil {
		h.Log.Error("order not sent", "job", j.ID.Raw, "restart", j.Run.Restart, "node", s.node, "err", err)
		s.mu.Lock()
		delete(s.sent, id)
		s.mu.Unlock()
		return
	}
	o.Id = id
	o.Key = &agentapi.Key{Job: j.ID.Raw, Restart: j.Run.Restart, Step: agentapi.BatchStep, Epoch: snap.Epoch}
	s.send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_Order{Order: o}})
}

// release lets a node forget an attempt the controller has everything of.
func (h *Hub) release(s *session, a job.Attempt) {
	s.send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_Order{Order: &agentapi.Order{
		Id:   orderID(a, "release"),
		Key:  &agentapi.Key{Job: a.Job, Restart: a.Restart, Step: agentapi.BatchStep, Epoch: h.Jobs.Snapshot().Epoch},
		What: &agentapi.Order_Release{Release: &agentapi.Release{}},
	}}})
}

func orderID(a job.Attempt, what string) uint64 {
	f := fnv.New64a()
	fmt.Fprintf(f, "%s %s", a, what)
	return f.Sum64()
}

func limitSeconds(minutes uint32) uint32 {
	if minutes == job.NoLimit {
		return 0
	}
	return minutes * 60
}

func killOrder(j *job.Job) *agentapi.Order {
	k := &agentapi.Kill{}
	switch j.Stop.Why {
	case job.StopCancel:
		k.Reason, k.Notice = agentapi.KillReason_KILL_CANCEL, notice(j, "DUE to SIGNAL Terminated", j.Stop.At)
	case job.StopTimeLimit:
		k.Reason, k.Notice = agentapi.KillReason_KILL_TIME_LIMIT, notice(j, "DUE TO TIME LIMIT", j.Stop.At)
	case job.StopRequeue:
		k.Reason, k.Notice = agentapi.KillReason_KILL_REQUEUE, notice(j, "DUE TO JOB REQUEUE", j.Stop.At)
	case job.StopPreempt, job.StopReclaim:
		k.Reason, k.Notice = agentapi.KillReason_KILL_PREEMPT, notice(j, "DUE TO PREEMPTION", j.Stop.At)
		k.Checkpoint = true
	case job.StopNodeFail:
		k.Reason, k.Notice = agentapi.KillReason_KILL_NODE_FAIL, notice(j, "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", j.Stop.At)
	}
	return &agentapi.Order{What: &agentapi.Order_Kill{Kill: k}}
}

// notice is the line Slurm's launcher writes into a job's stderr when the job
// is ended from outside (slurmstepd, Slurm 26.05).
func notice(j *job.Job, why string, at time.Time) string {
	return fmt.Sprintf("[%s] error: *** JOB %d ON %s CANCELLED AT %s %s ***", at.Local().Format("2006-01-02T15:04:05.000"), j.ID.Raw,
		j.Run.Nodes[0].Node, at.Local().Format("2006-01-02T15:04:05"), why)
}
