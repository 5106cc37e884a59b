package scheduler

import (
	"slices"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/state"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// verdict is how it stands with something a job waits for.
type verdict uint8

const (
	depMet verdict = iota
	depWait
	depNever
)

// fate is what became of a job, or of all tasks of an array.
type fate struct {
	known bool
	began bool // every one, or it will not
	ended bool // every one
	ok    bool // every one that ended did so with 0
	start time.Time
}

func (f *fate) add(j *job.Job) {
	final := j.State.Final()
	f.known = true
	f.ended = f.ended && final && !j.Flags.Has(job.Completing)
	f.ok = f.ok && final && j.State == job.Completed && j.ExitCode.OK()
	running := j.State == job.Running && !j.Flags.Has(job.Configuring) || j.State == job.Suspended
	f.began = f.began && (final || running)
	if !final && j.Start.After(f.start) {
		f.start = j.Start
	}
}

// fate finds out what became of a job, an array, or a task; an array is looked
// at once in a pass.
func (p *pass) fate(d job.Dep) fate {
	f := fate{began: true, ended: true, ok: true}
	if d.Task != job.NoTask {
		if j, ok := p.s.Task(d.Job, d.Task); ok {
			f.add(j)
		}
		return f
	}
	if j, ok := p.s.Job(d.Job); ok && (j.ID.Array == 0 || j.ID.Array != d.Job) {
		f.add(j)
		return f
	}
	if known, ok := p.fates[d.Job]; ok {
		return known
	}
	for j := range p.s.Array(d.Job) {
		f.add(j)
	}
	if p.fates == nil {
		p.fates = map[uint32]fate{}
	}
	p.fates[d.Job] = f
	return f
}

// dep judges one thing a job waits for.
func (p *pass) dep(j *job.Job, d job.Dep) verdict {
	if d.Type == job.DepSingleton {
		return p.singleton(j)
	}
	if d.Type == job.DepCorr && d.Array && j.ID.Task != job.NoTask {
		if _, ok := p.s.Task(d.Job, j.ID.Task); ok {
			d.Task = j.ID.Task
		}
	}
	f := p.fate(d)
	wants := d.Type == job.DepOK || d.Type == job.DepNotOK
	switch {
	case !f.known && wants:
		return depNever // how it ended is forgotten
	case !f.known:
		return depMet
	case d.Type == job.DepAfter:
		if f.began && !p.now.Before(f.start.Add(time.Duration(d.Delay)*time.Minute)) {
			return depMet
		}
		return depWait
	case !f.ended:
		return depWait
	case (d.Type == job.DepOK || d.Type == job.DepCorr) && !f.ok, d.Type == job.DepNotOK && f.ok:
		return depNever
	}
	return depMet
}

// owner and name tell apart the jobs that --dependency=singleton runs in turn.
type named struct {
	uid  uint32
	name string
}

// singleton waits for all earlier jobs of the same name and user.
func (p *pass) singleton(j *job.Job) verdict {
	if p.eldest == nil {
		p.eldest = map[named]uint32{}
		note := func(o *job.Job) {
			key := named{o.UID, o.Spec.Name}
			if id, ok := p.eldest[key]; !ok || o.ID.Shown() < id {
				p.eldest[key] = o.ID.Shown()
			}
		}
		for o := range p.s.Pending() {
			note(o)
		}
		for o := range p.s.Active() {
			note(o)
		}
	}
	if p.eldest[named{j.UID, j.Spec.Name}] < j.ID.Shown() {
		return depWait
	}
	return depMet
}

// depends judges all that a job waits for, and says of the tasks of an array that
// waits for another's (aftercorr) which may start.
func (p *pass) depends(j *job.Job) (verdict, job.TaskSet) {
	tasks := j.Tasks
	if j.Depends == nil {
		return depMet, tasks
	}
	left := &job.Depends{Any: j.Depends.Any}
	met, never, corr := 0, 0, 0
	var dead job.TaskSet
	for _, d := range j.Depends.List {
		v := depNever
		switch {
		case d.Failed:
		case d.Type == job.DepCorr && d.Array && j.Waiting():
			var ready, failed job.TaskSet
			if v, ready, failed = p.corresponding(j, d); v == depWait {
				corr++
				tasks, dead = tasks.Both(ready), dead.With(failed)
			}
		default:
			v = p.dep(j, d)
		}
		switch v {
		case depMet:
			met++
			continue
		case depNever:
			never++
			d.Failed = true
		case depWait:
		}
		left.List = append(left.List, d)
	}
	if left.Any && met > 0 || len(left.List) == 0 {
		left = nil
	}
	if !same(left, j.Depends) {
		p.out.Depends = append(p.out.Depends, Depends{j.ID.Raw, left})
	}
	switch {
	case left == nil:
		return depMet, j.Tasks
	case never > 0 && !left.Any, never == len(left.List):
		if p.kills(j) {
			p.out.Dead = append(p.out.Dead, Dead{j.ID.Raw, j.Tasks})
		}
		return depNever, job.TaskSet{}
	case corr > 0 && dead.Len() > 0 && !left.Any && p.kills(j):
		p.out.Dead = append(p.out.Dead, Dead{j.ID.Raw, dead})
		return depWait, job.TaskSet{}
	case corr > 0 && corr == len(left.List) && tasks.Len() > 0:
		return depMet, tasks
	case corr > 0 && dead.Len() == j.Tasks.Len():
		return depNever, job.TaskSet{}
	}
	return depWait, job.TaskSet{}
}

// corresponding judges aftercorr for the waiting tasks of an array: which may
// start, and which never will. depWait: not all of them are decided alike.
func (p *pass) corresponding(j *job.Job, d job.Dep) (v verdict, ready, dead job.TaskSet) {
	var ok, failed []uint32
	whole := p.fate(d)
	if !whole.known || whole.ended && whole.ok {
		return depMet, ready, dead
	}
	for o := range p.s.Array(d.Job) {
		if o.ID.Task == job.NoTask || !o.State.Final() || o.Flags.Has(job.Completing) || !j.Tasks.Has(o.ID.Task) {
			continue
		}
		if o.State == job.Completed && o.ExitCode.OK() {
			ok = append(ok, o.ID.Task)
		} else {
			failed = append(failed, o.ID.Task)
		}
	}
	ready, dead = job.TasksOf(slices.Values(ok)), job.TasksOf(slices.Values(failed))
	if whole.ended {
		ready = j.Tasks.Minus(dead) // those the other array has no task for need not wait
	}
	if dead.Len() == j.Tasks.Len() {
		return depNever, ready, dead
	}
	return depWait, ready, dead
}

// kills says whether a job whose dependency can't be met is to be cancelled.
func (p *pass) kills(j *job.Job) bool {
	if j.Spec.KillOnInvalidDep != nil {
		return *j.Spec.KillOnInvalidDep
	}
	return p.s.Config.KillInvalidDepend
}

func same(a, b *job.Depends) bool {
	return a != nil && b != nil && slices.Equal(a.List, b.List) || a == nil && b == nil
}

// ReadDepends reads a --dependency text and checks it: its jobs exist where how
// they ended will matter, and none of them waits for job self (0: a new one).
// Errors are Slurm's.
func ReadDepends(s *state.State, text string, self uint32) (*job.Depends, error) {
	d, err := job.ParseDepends(text)
	switch {
	case err == job.ErrExpand: //nolint:errorlint // never wrapped
		return nil, errno.NotSupported
	case err != nil:
		return nil, errno.Dependency
	case d == nil:
		return nil, nil //nolint:nilnil // no dependency is a value
	}
	for i := range d.List {
		dep := &d.List[i]
		if dep.Type == job.DepSingleton {
			continue
		}
		j, ok := s.Job(dep.Job)
		dep.Array = ok && j.ID.Array == dep.Job && dep.Task == job.NoTask
		if dep.Task != job.NoTask {
			_, ok = s.Task(dep.Job, dep.Task)
		}
		if !ok && (dep.Type == job.DepOK || dep.Type == job.DepNotOK) || dep.Job == self {
			return nil, errno.Dependency
		}
	}
	if self != 0 && reaches(s, d, self, maxDepth) {
		return nil, errno.CircularDependency
	}
	return d, nil
}

// maxDepth is how far a chain of dependencies is followed (max_depend_depth).
const maxDepth = 10

func reaches(s *state.State, d *job.Depends, self uint32, depth int) bool {
	if d == nil || depth == 0 {
		return false
	}
	for _, dep := range d.List {
		j, ok := s.Job(dep.Job)
		if !ok || j.State != job.Pending {
			continue
		}
		if j.ID.Raw == self || j.ID.Shown() == self || reaches(s, j.Depends, self, depth-1) {
			return true
		}
	}
	return false
}
