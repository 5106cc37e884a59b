package sim_test

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// machine is one computer with its agent, shims and scripts. What is below mu
// is on its disk and outlives the agent and a reboot, not the machine.
type machine struct {
	w     *world
	name  string // instance id, or the node's name
	node  string
	tag   string
	cpus  int
	gpus  int
	ended func() // ends the machine from inside; nil for one's own

	mu       sync.Mutex
	rng      *rand.Rand
	power    context.Context // of the present boot
	off      context.CancelFunc
	kill     context.CancelFunc // of the present agent; nil is none
	link     chan struct{}      // closed while the network works
	cut      bool
	wake     chan struct{}
	renewed  time.Time // when the last renewal that was answered was sent
	epoch    uint64
	seq      uint64
	reports  []*agentapi.Report // not acknowledged
	held     map[job.Attempt]*attempt
	over     map[uint32]uint32 // job -> first restart not released
	done     map[uint64]bool   // orders
	reclaims time.Time         // announced end
}

// attempt is one run of a job on a machine.
type attempt struct {
	key      job.Attempt
	launch   *agentapi.Launch
	behave   behaviour
	began    bool
	exited   bool
	frozen   bool
	dropped  bool // FORGET: nothing is wanted
	lost     bool // its shim was killed
	killed   *agentapi.Kill
	limit    time.Duration // 0 is none
	written  uint64        // bytes of output
	acked    uint64
	alive    bool // its goroutine runs
	finished bool
}

func newMachine(w *world, name, node, tag string, cpus, gpus int, seed int64) *machine {
	link := make(chan struct{})
	close(link)
	return &machine{
		w: w, name: name, node: node, tag: tag, cpus: cpus, gpus: gpus, rng: rand.New(rand.NewSource(seed)),
		link: link, wake: make(chan struct{}, 1), renewed: time.Now(),
		held: map[job.Attempt]*attempt{}, over: map[uint32]uint32{}, done: map[uint64]bool{},
	}
}

// boot powers the machine on. Scripts of an earlier boot are gone.
func (m *machine) boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off != nil {
		return
	}
	m.power, m.off = context.WithCancel(m.w.ctx)
	for _, a := range m.held {
		if a.began && !a.exited {
			a.lost = true
		}
		m.hold(a)
	}
	m.startAgent()
}

// crash powers it off without warning.
func (m *machine) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off == nil {
		return
	}
	m.off()
	m.off, m.kill = nil, nil
	for _, a := range m.held {
		m.w.truth.end(a.key, m.name)
		a.alive = false
	}
}

// startAgent starts the agent process. The caller holds mu.
func (m *machine) startAgent() {
	if m.off == nil || m.kill != nil {
		return
	}
	ctx, kill := context.WithCancel(m.power)
	m.kill = kill
	m.w.spawn(func() { m.agent(ctx) })
}

// killAgent kills the agent process; it is started again after d.
func (m *machine) killAgent(d time.Duration) {
	m.mu.Lock()
	power := m.power
	if m.kill != nil {
		m.kill()
		m.kill = nil
	}
	m.mu.Unlock()
	m.w.spawn(func() {
		if sleep(power, d) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.startAgent()
		}
	})
}

// killShim kills what holds one running script; it reports whether there was
// one.
func (m *machine) killShim() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.held {
		if a.began && !a.exited && !a.lost {
			a.lost = true
			return true
		}
	}
	return false
}

// cutLink takes the network away for d.
func (m *machine) cutLink(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cut {
		return
	}
	m.cut, m.link = true, make(chan struct{})
	link := m.link
	m.w.spawn(func() {
		sleep(m.w.ctx, d)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cut = false
		close(link)
	})
}

func (m *machine) network() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.link
}

// hold lets a shim go on with an attempt. The caller holds mu.
func (m *machine) hold(a *attempt) {
	if a.alive || a.finished {
		return
	}
	a.alive = true
	ctx := m.power
	m.w.spawn(func() { m.life(ctx, a) })
}

// life takes an attempt from wherever it is to its end.
func (m *machine) life(ctx context.Context, a *attempt) {
	m.mu.Lock()
	prepare := time.Duration(1+m.rng.Intn(8)) * time.Second
	m.mu.Unlock()
	for elapsed := time.Duration(0); ; {
		m.mu.Lock()
		over := m.step(a, elapsed, prepare)
		m.mu.Unlock()
		if over || !sleep(ctx, time.Second) {
			return
		}
		m.mu.Lock()
		if !a.frozen {
			elapsed += time.Second
			if !a.began {
				prepare -= time.Second
				elapsed = 0
			}
		}
		m.mu.Unlock()
	}
}

// step is one second of an attempt; it says whether the attempt needs no more
// of them. The caller holds mu.
func (m *machine) step(a *attempt, elapsed, prepare time.Duration) bool {
	if m.held[a.key] != a {
		return true
	}
	fence := m.w.with.FenceTimeout
	switch {
	case a.exited:
		if a.acked < a.written && !a.dropped {
			return false
		}
		a.finished, a.alive = true, false
		m.report(a, &agentapi.Report{Event: &agentapi.Report_Finished{Finished: &agentapi.Finished{}}})
		return true
	case a.lost:
		m.w.truth.end(a.key, m.name)
		a.exited = true
		m.report(a, &agentapi.Report{Event: &agentapi.Report_Lost{Lost: &agentapi.Lost{Message: "the shim is gone"}}})
	case !a.began && a.killed != nil:
		m.exit(a, 0, &agentapi.Exited{Signal: 15, Reason: agentapi.ExitReason_EXIT_KILLED})
	case !a.began:
		if prepare <= 0 {
			m.begin(a)
		}
	case a.frozen:
	case time.Since(m.renewed) >= fence:
		a.frozen = true
		m.w.truth.end(a.key, m.name)
	case a.killed != nil:
		why := agentapi.ExitReason_EXIT_KILLED
		if a.killed.GetReason() == agentapi.KillReason_KILL_TIME_LIMIT {
			why = agentapi.ExitReason_EXIT_TIME_LIMIT
		}
		m.exit(a, elapsed, &agentapi.Exited{Signal: 15, Reason: why})
	case a.limit > 0 && elapsed >= a.limit:
		m.exit(a, elapsed, &agentapi.Exited{Signal: 15, Reason: agentapi.ExitReason_EXIT_TIME_LIMIT})
	case !m.reclaims.IsZero() && !a.behave.ignores && time.Until(m.reclaims) > time.Second:
		m.exit(a, elapsed, &agentapi.Exited{Reason: agentapi.ExitReason_EXIT_RECLAIMED})
	case elapsed >= a.behave.work:
		m.exit(a, elapsed, &agentapi.Exited{Code: a.behave.exit})
	}
	return false
}

// begin starts the script, or fails to. The caller holds mu.
func (m *machine) begin(a *attempt) {
	if a.behave.fails != "" && m.rng.Intn(2) == 0 {
		class := agentapi.FailClass_FAIL_INFRA
		if a.behave.fails == "user" {
			class = agentapi.FailClass_FAIL_USER
		}
		a.exited = true
		m.report(a, &agentapi.Report{Event: &agentapi.Report_LaunchFailed{LaunchFailed: &agentapi.LaunchFailed{
			Class: class, Message: "the simulated " + a.behave.fails + " fault",
		}}})
		return
	}
	a.began = true
	a.written += 10
	m.w.truth.begin(a.key, m.name)
	m.report(a, &agentapi.Report{Event: &agentapi.Report_Started{Started: &agentapi.Started{Pid: 1}}})
}

// exit ends the script. The caller holds mu.
func (m *machine) exit(a *attempt, elapsed time.Duration, e *agentapi.Exited) {
	m.w.truth.end(a.key, m.name)
	if a.began {
		m.w.truth.spent(a.key, elapsed)
		a.written += 10
	}
	a.exited = true
	e.Usage = &agentapi.Usage{ElapsedMs: uint64(elapsed / time.Millisecond)}
	m.report(a, &agentapi.Report{Event: &agentapi.Report_Exited{Exited: e}})
}

// report keeps a report until it is acknowledged. The caller holds mu.
func (m *machine) report(a *attempt, r *agentapi.Report) {
	m.seq++
	r.Seq = m.seq
	if a != nil {
		if a.dropped {
			return
		}
		r.Key = &agentapi.Key{Job: a.key.Job, Restart: a.key.Restart, Step: agentapi.BatchStep}
	}
	m.reports = append(m.reports, r)
	m.poke()
}

func (m *machine) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// announce tells the machine when its provider takes it away.
func (m *machine) announce(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reclaims = at
	m.report(nil, &agentapi.Report{Event: &agentapi.Report_Notice{Notice: &agentapi.NodeNotice{DeadlineUnixNano: at.UnixNano()}}})
}

// order does what the controller asks; it answers why not. The caller holds mu.
func (m *machine) order(o *agentapi.Order) (refused string) {
	key := job.Attempt{Job: o.GetKey().GetJob(), Restart: o.GetKey().GetRestart()}
	if o.GetKey().GetEpoch() < m.epoch {
		return "the order is of an older leadership"
	}
	m.epoch = o.GetKey().GetEpoch()
	if m.done[o.GetId()] {
		return ""
	}
	if l := o.GetLaunch(); l != nil {
		if refused = m.launch(key, l); refused == "" {
			m.done[o.GetId()] = true
		}
		return refused
	}
	a := m.held[key]
	if a == nil {
		if o.GetRelease() != nil {
			return ""
		}
		return "no such job on this node"
	}
	switch {
	case o.GetKill() != nil:
		a.killed = o.GetKill()
	case o.GetSetTimeLimit() != nil:
		a.limit = time.Duration(o.GetSetTimeLimit().GetTimeLimitS()) * time.Second
	case o.GetRelease() != nil:
		m.forget(a)
	}
	m.done[o.GetId()] = true
	return ""
}

func (m *machine) launch(key job.Attempt, l *agentapi.Launch) (refused string) {
	switch {
	case m.held[key] != nil:
		return ""
	case m.over[key.Job] > key.Restart:
		return "this run of the job is over"
	}
	if r := m.w.disk.run(key); r == nil || r.Ordered.IsZero() {
		m.w.truth.wrong("attempt %s was sent to %s before that was committed", key, m.name)
	}
	cpus, taken := int(l.GetCpus()), map[uint32]bool{}
	for _, a := range m.held {
		if !a.exited {
			cpus += int(a.launch.GetCpus())
			for _, g := range a.launch.GetGpus() {
				taken[g.GetIndex()] = true
			}
		}
	}
	if cpus > m.cpus {
		m.w.truth.wrong("machine %s of %s has %d CPUs and is given %d", m.name, m.node, m.cpus, cpus)
	}
	for _, g := range l.GetGpus() {
		if taken[g.GetIndex()] || int(g.GetIndex()) >= m.gpus {
			m.w.truth.wrong("GPU %d of %s is given to %s, it is taken or not there", g.GetIndex(), m.name, key)
		}
	}
	a := &attempt{key: key, launch: l, behave: behaviourOf(l.GetScript()), limit: time.Duration(l.GetTimeLimitS()) * time.Second}
	m.held[key] = a
	m.hold(a)
	return ""
}

// forget removes an attempt from the disk. The caller holds mu.
func (m *machine) forget(a *attempt) {
	m.w.truth.end(a.key, m.name)
	delete(m.held, a.key)
	m.over[a.key.Job] = max(m.over[a.key.Job], a.key.Restart+1)
}

// behaviour is what a job's script does.
type behaviour struct {
	work    time.Duration
	exit    int32
	ignores bool   // goes on after a notice
	fails   string // infra or user: every other launch fails
}

func (b behaviour) script() []byte {
	return fmt.Appendf(nil, "#!/bin/sh\n# %d %d %t %s.\n", int(b.work/time.Second), b.exit, b.ignores, b.fails)
}

func behaviourOf(script []byte) behaviour {
	var b behaviour
	var seconds int
	var fails string
	if _, err := fmt.Sscanf(string(script), "#!/bin/sh\n# %d %d %t %s\n", &seconds, &b.exit, &b.ignores, &fails); err != nil {
		panic(err)
	}
	b.work, b.fails = time.Duration(seconds)*time.Second, fails[:len(fails)-1]
	return b
}

// sleep waits for d and says whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
