package assoc

import (
	"fmt"
	"slices"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// qosOf are the QOS that a filter selects, by number.
func (b *Book) qosOf(f Filter) []*QOS {
	var out []*QOS
	for q := range b.AllQOS() {
		if among(f.Names, q.Name) && among(f.Descriptions, q.Description) && (len(f.IDs) == 0 || slices.Contains(f.IDs, q.ID)) {
			out = append(out, q)
		}
	}
	return out
}

func (d *Draft) addQOS(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, problem(errno.AccessDenied, "%s", errno.AccessDenied.Error())
	}
	list, err := names(e.Where.Names)
	if err != nil {
		return r, err
	}
	for _, n := range list {
		if _, ok := d.QOSNamed(n); ok {
			continue
		}
		q := &QOS{ID: d.next(KindQOS), Name: n, Description: n, UsageFactor: 1}
		if err := d.applyQOS(q, e.Set); err != nil {
			return r, err
		}
		d.setQOS(q)
		d.txn("Add QOS", n, e.Set.info())
		r.QOS = append(r.QOS, n)
	}
	return r, nil
}

func (d *Draft) modifyQOS(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	list := d.qosOf(e.Where)
	if e.Set.NewName != nil && len(list) > 1 {
		return r, problem(errno.OneChange, "%s", errno.OneChange.Error())
	}
	for _, q := range list {
		next := *q
		if e.Set.NewName != nil {
			to, err := names([]string{*e.Set.NewName})
			if err != nil {
				return r, err
			}
			if _, taken := d.QOSNamed(to[0]); taken {
				return r, problem(errno.BadName, "%s", errno.BadName.Error())
			}
			next.Name = to[0]
		}
		if err := d.applyQOS(&next, e.Set); err != nil {
			return r, err
		}
		d.setQOS(&next)
		d.txn("Modify QOS", fmt.Sprintf("(name='%s')", q.Name), e.Set.info())
		r.QOS = append(r.QOS, q.Name)
	}
	return r, nil
}

func (d *Draft) applyQOS(q *QOS, s Settings) error {
	setAny(&q.Description, s.Description)
	setNumber(&q.Priority, s.Priority)
	setNumber(&q.GraceTime, s.GraceTime)
	setAny(&q.PreemptMode, s.PreemptMode)
	if s.Flags != nil {
		q.Flags = changeFlags(q.Flags, s.Flags)
	}
	if s.Preempt != nil {
		ids, err := d.changeList(q.Preempt, s.Preempt)
		if err != nil {
			return err
		}
		if slices.Contains(ids, q.ID) {
			return problem(errno.QOSPreemptionLoop, "%s", errno.QOSPreemptionLoop.Error())
		}
		if q.Preempt = ids; len(ids) == 0 {
			q.Preempt = nil
		}
	}
	if s.PreemptExempt != nil {
		q.PreemptExempt = nil
		if *s.PreemptExempt >= 0 {
			v := uint32(*s.PreemptExempt)
			q.PreemptExempt = &v
		}
	}
	if s.UsageFactor != nil {
		if q.UsageFactor = *s.UsageFactor; q.UsageFactor < 0 {
			q.UsageFactor = 1
		}
	}
	setOptional(&q.UsageThreshold, s.UsageThreshold)
	setOptional(&q.LimitFactor, s.LimitFactor)
	s.Limits.apply(&q.Limits)
	return nil
}

func setNumber(to, from *uint32) {
	if from != nil {
		*to = *from
	}
}

// setOptional sets a number that may be absent, which a negative one asks for.
func setOptional(to **float64, from *float64) {
	if from == nil {
		return
	}
	if *to = from; *from < 0 {
		*to = nil
	}
}

// changeFlags applies a change of flags and keeps Slurm's order.
func changeFlags(have []Flag, c *ListChange) []Flag {
	var out []Flag
	for _, f := range Flags {
		had, named := slices.Contains(have, f.Flag), slices.Contains(c.Names, string(f.Flag))
		on := named
		switch c.Op {
		case "+":
			on = had || named
		case "-":
			on = had && !named
		}
		if on {
			out = append(out, f.Flag)
		}
	}
	return out
}

func (d *Draft) removeQOS(e Edit) (r Result, err error) {
	if err := d.operator(); err != nil {
		return r, err
	}
	for _, q := range d.qosOf(e.Where) {
		for _, a := range d.Select(Filter{}) {
			if a.DefaultQOS == q.ID {
				return Result{}, problem(errno.NoRemoveDefaultQOS, "%s", errno.NoRemoveDefaultQOS.Error())
			}
		}
		for _, a := range d.Select(Filter{}) {
			if i := slices.Index(a.QOS, q.ID); i >= 0 {
				next := *a
				if next.QOS = slices.Delete(slices.Clone(a.QOS), i, i+1); len(next.QOS) == 0 {
					next.QOS = nil
				}
				d.setAssoc(&next)
			}
		}
		for o := range d.AllQOS() {
			if i := slices.Index(o.Preempt, q.ID); i >= 0 {
				next := *o
				next.Preempt = slices.Delete(slices.Clone(o.Preempt), i, i+1)
				d.setQOS(&next)
			}
		}
		delete(d.qos, q.ID)
		d.markID(KindQOS, q.ID)
		d.txn("Remove QOS", fmt.Sprintf("id='%d'", q.ID), "")
		r.QOS = append(r.QOS, q.Name)
	}
	return r, nil
}
