package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/state"
)

// Verdict says of one place whether a waiting job could run there, and if not
// now, why, in a sentence.
type Verdict struct {
	Partition string
	Pool      string // empty: the partition's own nodes
	Fits      bool   // it could start now
	Why       string
	Until     time.Time // the pool is set aside until then
}

// Explain goes through every place the job may use, pool by pool.
func Explain(s *state.State, j *job.Job, now time.Time) []Verdict {
	var out []Verdict
	p := newPass(s, now)
	for _, name := range SplitPartitions(j.Spec) {
		part := s.Config.Partition(name)
		if part == nil {
			out = append(out, Verdict{Partition: name, Why: "the partition is not in the config (any more)"})
			continue
		}
		if len(part.Nodes) > 0 {
			out = append(out, p.explain(j, part, nil))
		}
		for _, pool := range part.Pools {
			out = append(out, p.explain(j, part, pool))
		}
	}
	return out
}

func (p *pass) explain(j *job.Job, part *partitions.Partition, pool *partitions.Pool) Verdict {
	v := Verdict{Partition: part.Name}
	if pool != nil {
		v.Pool = pool.Name
	}
	need, err := NeedOf(j.Spec, part, p.s.Config)
	if err != nil {
		v.Why = err.Error()
		return v
	}
	if over := overLimit(j.Spec, part); over != job.ReasonNone {
		v.Why = fmt.Sprintf("the job exceeds a limit of partition %s (%s)", part.Name, over)
		return v
	}
	if pool != nil {
		if sentence := Forbidden(j.Spec.Burst, pool); sentence != "" {
			v.Why = sentence
			return v
		}
		if pool.Down() {
			v.Why = "the pool is DOWN: it rents nothing"
			return v
		}
	}
	rooms, whole, count := p.roomsOf(j, part, pool, need)
	if _, ok := need.place(whole); !ok {
		v.Why = "no node has what the job asks for, even when empty: " + lacking(need, whole)
		return v
	}
	if pool != nil {
		if st := p.s.Pools[pool.Name]; st.Until.After(p.now) {
			v.Why, v.Until = fmt.Sprintf("%s; tried again at %s", st.Why, st.Until.Local().Format(time.DateTime)), st.Until
			return v
		}
	}
	if _, ok := need.place(rooms); ok {
		v.Fits = true
		if j.Held() || j.Begin.After(p.now) {
			v.Why = "it would fit now"
		}
		return v
	}
	v.Why = fmt.Sprintf("busy: %d of %d nodes in use by other jobs", count.busy, count.all)
	if count.away > 0 {
		v.Why += fmt.Sprintf(", %d drained, down or on their way down", count.away)
	}
	return v
}

type tally struct{ all, busy, away int }

// roomsOf lists the place's nodes as they are and as if they were empty.
func (p *pass) roomsOf(j *job.Job, part *partitions.Partition, pool *partitions.Pool, need Need) (now, whole []room, t tally) {
	only, exclude := nodeSets(j.Spec)
	for _, name := range part.NodeNames() {
		n, ok := p.s.Node(name)
		if !ok || pool == nil && n.Pool != "" || pool != nil && n.Pool != pool.Name {
			continue
		}
		if exclude[name] || len(only) > 0 && !only[name] || !need.Features.holds(n.Features) {
			continue
		}
		t.all++
		whole = append(whole, empty(n))
		switch {
		case !n.Schedulable():
			t.away++
		case len(n.Jobs) > 0:
			t.busy++
			now = append(now, p.room(name))
		default:
			now = append(now, p.room(name))
		}
	}
	return now, whole, t
}

// lacking says what the largest node has against what is asked.
func lacking(need Need, rooms []room) string {
	if len(rooms) == 0 {
		return "no node here matches its features or node list"
	}
	var best *node.Node
	for _, r := range rooms {
		if best == nil || r.node.CPUs > best.CPUs {
			best = r.node
		}
	}
	have := fmt.Sprintf("a node has %d CPUs, %d MiB", best.CPUs, best.MemoryMiB)
	if g := state.FormatGres(best.Gres); g != "" {
		have += ", " + g
	}
	ask := []string{fmt.Sprintf("%d task(s) of %d CPU(s) on %d node(s)", need.Tasks, need.CPUsPerTask, need.NodesMin)}
	if need.MemPerNode > 0 {
		ask = append(ask, fmt.Sprintf("%d MiB a node", need.MemPerNode))
	}
	if n := need.GPUs(need.NodesMin); n > 0 {
		ask = append(ask, fmt.Sprintf("%d GPU(s)", n))
	}
	return have + "; the job asks for " + strings.Join(ask, ", ")
}
