package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/cloudburst/provider/fake"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

var (
	alice = auth.Identity{User: "alice", UID: 1000, GID: 1000, Groups: []uint32{1000}, Role: auth.User}
	root  = auth.Identity{User: "root", Role: auth.Admin}
)

// act does one thing at random.
func (w *world) act() {
	type deed struct {
		weight int
		name   string
		do     func()
	}
	deeds := []deed{
		{12, "submit", w.submit},
		{3, "cancel", w.cancel},
		{2, "requeue", w.requeue},
		{2, "hold", w.hold},
		{2, "release", w.release},
		{1, "time limit", w.relimit},
		{3, "provider fault", w.providerFault},
		{2, "no capacity", w.noCapacity},
		{1, "heal", w.heal},
		{3, "reclaim", w.reclaim},
		{4, "cut link", w.cutLink},
		{3, "kill agent", w.killAgent},
		{2, "kill shim", w.killShim},
		{1, "reboot", w.reboot},
		{3, "kill controller", w.stop},
		{3, "crash at commit", w.crashAtCommit},
		{1, "node update", w.updateNode},
		{1, "reconfigure", w.reconfigure},
		{1, "rehearse", w.rehearse},
		{2, "wait", w.wait},
		{1, "outage", w.outage},
		{1, "slow disk", w.slowDisk},
		{2, "resubmit", w.resubmit},
	}
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	n := w.rng.Intn(sum)
	for _, d := range deeds {
		if n -= d.weight; n < 0 {
			w.log.Info("ACT", "do", d.name)
			d.do()
			return
		}
	}
}

// ask sends a command to the controller if there is one.
func (w *world) ask(do func(context.Context, *queue.Queue) error) {
	c := w.now()
	if c == nil {
		return
	}
	if err := do(c.ctx, c.q); err != nil {
		w.log.Info("answered", "err", err)
	}
}

func (w *world) submit() {
	spec := &job.Spec{
		WorkDir: "/", NodesMin: 1, Tasks: 1, CPUsPerTask: 1 + w.rng.Intn(2), Requeue: w.rng.Intn(6) > 0,
		TimeLimit: uint32(1 + w.rng.Intn(10)), TimeSet: true, Burst: &job.Burst{MaxRestarts: 8},
	}
	b := behaviour{work: time.Duration(5+w.rng.Intn(300)) * time.Second, ignores: w.rng.Intn(4) == 0}
	if w.rng.Intn(4) == 0 {
		b.exit = int32(1 + w.rng.Intn(3))
	}
	if w.rng.Intn(6) == 0 {
		b.fails = []string{"infra", "user"}[w.rng.Intn(2)]
	}
	switch w.rng.Intn(9) {
	case 0:
		spec.TRESPerNode = "gres/gpu:1"
	case 1:
		spec.NodesMin, spec.NodesMax, spec.Tasks = 2, 2, 2
	case 2:
		spec.CPUsPerTask = 4
	case 3:
		spec.CPUsPerTask, spec.Exclusive = 1, true
	case 4:
		spec.Partitions = "own"
	case 5:
		spec.CPUsPerTask = 6 // the pool big alone
	case 6:
		spec.Begin = time.Now().Add(time.Duration(w.rng.Intn(120)) * time.Second)
	case 7:
		if id, ok := w.anyJob(); ok {
			spec.Dependency = fmt.Sprintf("%s:%d", []string{"after", "afterany", "afterok", "afternotok"}[w.rng.Intn(4)], id)
		}
	}
	w.keys++
	w.send(queue.Submission{
		Spec: spec, Script: b.script(), Hold: w.rng.Intn(10) == 0, IdempotencyKey: fmt.Sprintf("key-%d", w.keys),
	})
}

// send submits. Without an answer the client will ask again with the same key.
func (w *world) send(in queue.Submission) {
	w.ask(func(ctx context.Context, q *queue.Queue) error {
		out, err := q.Submit(ctx, alice, in)
		if _, refused := errors.AsType[errno.Errno](err); refused {
			return err
		}
		if err != nil {
			w.unsure = append(w.unsure, in)
			return err
		}
		if w.accepted[out.ID.Raw] {
			w.truth.wrong("id %d was given out twice", out.ID.Raw)
		}
		w.accepted[out.ID.Raw] = true
		return nil
	})
}

// resubmit repeats what was not answered.
func (w *world) resubmit() {
	if w.now() == nil {
		return
	}
	again := w.unsure
	w.unsure = nil
	for _, in := range again {
		w.send(in)
	}
}

func (w *world) anyJob() (uint32, bool) {
	if len(w.accepted) == 0 {
		return 0, false
	}
	n := w.rng.Intn(len(w.accepted))
	for id := uint32(1); ; id++ {
		if w.accepted[id] {
			if n--; n < 0 {
				return id, true
			}
		}
	}
}

func (w *world) onJob(do func(context.Context, *queue.Queue, uint32) error) {
	if id, ok := w.anyJob(); ok {
		w.ask(func(ctx context.Context, q *queue.Queue) error { return do(ctx, q, id) })
	}
}

func (w *world) cancel() {
	w.onJob(func(ctx context.Context, q *queue.Queue, id uint32) error {
		return q.Cancel(ctx, alice, job.RefTo(id), 0, false)
	})
}

func (w *world) requeue() {
	hold := w.rng.Intn(4) == 0
	w.onJob(func(ctx context.Context, q *queue.Queue, id uint32) error {
		return q.Requeue(ctx, alice, job.RefTo(id), hold)
	})
}

func (w *world) hold() {
	w.onJob(func(ctx context.Context, q *queue.Queue, id uint32) error { return q.Hold(ctx, alice, job.RefTo(id)) })
}

func (w *world) release() {
	w.onJob(func(ctx context.Context, q *queue.Queue, id uint32) error {
		return q.Release(ctx, alice, job.RefTo(id))
	})
}

func (w *world) relimit() {
	minutes := uint32(1 + w.rng.Intn(10))
	w.onJob(func(ctx context.Context, q *queue.Queue, id uint32) error {
		return q.Update(ctx, root, job.RefTo(id), queue.Change{TimeLimit: &minutes})
	})
}

func (w *world) providerFault() {
	f := fake.Fault{
		Op:    []string{"create", "create", "delete", "list", "offers"}[w.rng.Intn(5)],
		Times: 1 + w.rng.Intn(4),
		Err: []error{
			cloudburst.ErrTransient, cloudburst.ErrTransient, cloudburst.ErrQuota, cloudburst.ErrNoCapacity, cloudburst.ErrAuth,
			cloudburst.ErrBadRequest,
			cloudburst.RateLimited{After: 7 * time.Second},
			errors.New("503 Service Unavailable"),
		}[w.rng.Intn(8)],
		Delay: time.Duration(w.rng.Intn(4)) * 20 * time.Second,
	}
	if f.Op == "create" || f.Op == "delete" {
		// Effect and error: only an unclear answer can be that.
		if f.After = w.rng.Intn(2) == 0; f.After {
			f.Err = cloudburst.ErrTransient
		}
	}
	w.cloud.Fail(f)
	if w.rng.Intn(3) == 0 {
		w.mu.Lock()
		w.deaf += 1 + w.rng.Intn(2)
		w.mu.Unlock()
	}
}

func (w *world) noCapacity() {
	w.cloud.SetCapacity([]string{"fake-a100", "fake-none", "fake-small"}[w.rng.Intn(3)], w.rng.Intn(2))
}

func (w *world) heal() {
	w.cloud.Heal()
	for _, name := range []string{"fake-a100", "fake-none", "fake-small"} {
		w.cloud.SetCapacity(name, -1)
	}
}

func (w *world) reclaim() {
	m := w.some(true)
	if m == nil {
		return
	}
	notice := time.Duration(w.rng.Intn(3)*20) * time.Second
	w.cloud.Reclaim(m.node, notice)
	if notice > 0 && w.rng.Intn(4) > 0 {
		m.announce(time.Now().Add(notice))
	}
}

func (w *world) rehearse() {
	m := w.some(true)
	if m == nil {
		return
	}
	w.ask(func(ctx context.Context, q *queue.Queue) error { return q.Reclaim(ctx, root, m.node, 20*time.Second) })
}

func (w *world) cutLink() {
	if m := w.some(w.rng.Intn(3) > 0); m != nil {
		m.cutLink(time.Duration([]int{5, 30, 50, 100, 155, 170, 250}[w.rng.Intn(7)]) * time.Second)
	}
}

func (w *world) killAgent() {
	if m := w.some(w.rng.Intn(2) == 0); m != nil {
		m.killAgent(time.Duration(1+w.rng.Intn(90)) * time.Second)
	}
}

func (w *world) killShim() {
	for range 4 {
		if m := w.some(w.rng.Intn(2) == 0); m != nil && m.killShim() {
			return
		}
	}
}

func (w *world) reboot() {
	m := w.some(false)
	m.crash()
	w.spawn(func() {
		sleep(w.ctx, 20*time.Second)
		m.boot()
	})
}

func (w *world) crashAtCommit() { w.disk.crash(1+w.rng.Intn(6), w.rng.Intn(2) == 0) }

func (w *world) updateNode() {
	names := []string{"ws1", "ws2", "spot-1", "spot-2", "big-1"}
	name := names[w.rng.Intn(len(names))]
	change := queue.NodeChange{State: []string{"DRAIN", "DOWN", "RESUME", "RESUME", "POWER_DOWN"}[w.rng.Intn(5)], Reason: "simulated"}
	if change.State == "RESUME" {
		change.Reason = ""
	}
	w.ask(func(ctx context.Context, q *queue.Queue) error { return q.UpdateNode(ctx, root, name, change) })
}

func (w *world) reconfigure() {
	if w.cfg == w.with {
		w.cfg = w.without
	} else {
		w.cfg = w.with
	}
	w.ask(func(ctx context.Context, q *queue.Queue) error { return q.Reconfigure(ctx, root, w.cfg) })
}

func (w *world) wait() { sleep(w.ctx, time.Duration(w.rng.Intn(90))*time.Second) }

// outage leaves the world without a controller for long: scripts freeze, and
// machines may end themselves.
func (w *world) outage() {
	w.stop()
	sleep(w.ctx, time.Duration([]int{100, 160, 400, 720}[w.rng.Intn(4)])*time.Second)
}

func (w *world) slowDisk() {
	w.disk.slowness(time.Duration(w.rng.Intn(4)*w.rng.Intn(1500)) * time.Millisecond)
}

// locked lets many goroutines write to one buffer.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
