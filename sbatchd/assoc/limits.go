package assoc

import (
	"maps"

	"github.com/sbatchd/sbatchd/partitions/tres"
)

// Limits are the limits of an association or QOS; nil and absent names are no
// limit of its own. Wall times are in minutes, TRES minutes in TRES-minutes.
// The ones per user and per account are a QOS's alone, Priority of Limits an
// association's.
type Limits struct {
	GrpJobs         *uint32 `json:"grp_jobs,omitempty"`
	GrpJobsAccrue   *uint32 `json:"grp_jobs_accrue,omitempty"`
	GrpSubmitJobs   *uint32 `json:"grp_submit_jobs,omitempty"`
	GrpWall         *uint32 `json:"grp_wall,omitempty"`
	MaxJobs         *uint32 `json:"max_jobs,omitempty"` // QOS: per user
	MaxJobsAccrue   *uint32 `json:"max_jobs_accrue,omitempty"`
	MaxSubmitJobs   *uint32 `json:"max_submit_jobs,omitempty"`
	MaxWall         *uint32 `json:"max_wall,omitempty"`
	MinPrio         *uint32 `json:"min_prio,omitempty"`
	JobPriority     *uint32 `json:"job_priority,omitempty"`
	MaxJobsPA       *uint32 `json:"max_jobs_pa,omitempty"`
	MaxJobsAccruePA *uint32 `json:"max_jobs_accrue_pa,omitempty"`
	MaxSubmitJobsPA *uint32 `json:"max_submit_jobs_pa,omitempty"`

	GrpTRES          tres.TRES `json:"grp_tres,omitempty"`
	GrpTRESMins      tres.TRES `json:"grp_tres_mins,omitempty"`
	GrpTRESRunMins   tres.TRES `json:"grp_tres_run_mins,omitempty"`
	MaxTRES          tres.TRES `json:"max_tres,omitempty"` // per job
	MaxTRESPerNode   tres.TRES `json:"max_tres_per_node,omitempty"`
	MaxTRESMins      tres.TRES `json:"max_tres_mins,omitempty"` // per job
	MaxTRESRunMins   tres.TRES `json:"max_tres_run_mins,omitempty"`
	MaxTRESPU        tres.TRES `json:"max_tres_pu,omitempty"`
	MaxTRESPA        tres.TRES `json:"max_tres_pa,omitempty"`
	MaxTRESRunMinsPA tres.TRES `json:"max_tres_run_mins_pa,omitempty"`
	MinTRES          tres.TRES `json:"min_tres,omitempty"` // per job
}

// Number is a limit that is one number.
type Number struct {
	Name string // as sacctmgr's option, whatever its record
	// Inherited says that an association without it has its parent's.
	Inherited bool
	Of        func(*Limits) **uint32
	column    string // Slurm's name for it in a transaction's Info
}

// Numbers are all limits that are one number.
var Numbers = []Number{
	{"GrpJobs", false, func(l *Limits) **uint32 { return &l.GrpJobs }, "grp_jobs"},
	{"GrpJobsAccrue", false, func(l *Limits) **uint32 { return &l.GrpJobsAccrue }, "grp_jobs_accrue"},
	{"GrpSubmitJobs", false, func(l *Limits) **uint32 { return &l.GrpSubmitJobs }, "grp_submit_jobs"},
	{"GrpWall", false, func(l *Limits) **uint32 { return &l.GrpWall }, "grp_wall"},
	{"MaxJobs", true, func(l *Limits) **uint32 { return &l.MaxJobs }, "max_jobs"},
	{"MaxJobsAccrue", true, func(l *Limits) **uint32 { return &l.MaxJobsAccrue }, "max_jobs_accrue"},
	{"MaxSubmitJobs", true, func(l *Limits) **uint32 { return &l.MaxSubmitJobs }, "max_submit_jobs"},
	{"MaxWall", true, func(l *Limits) **uint32 { return &l.MaxWall }, "max_wall_pj"},
	{"MinPrioThresh", true, func(l *Limits) **uint32 { return &l.MinPrio }, "min_prio_thresh"},
	{"Priority", true, func(l *Limits) **uint32 { return &l.JobPriority }, "priority"},
	{"MaxJobsPA", false, func(l *Limits) **uint32 { return &l.MaxJobsPA }, "max_jobs_pa"},
	{"MaxJobsAccruePA", false, func(l *Limits) **uint32 { return &l.MaxJobsAccruePA }, "max_jobs_accrue_pa"},
	{"MaxSubmitJobsPA", false, func(l *Limits) **uint32 { return &l.MaxSubmitJobsPA }, "max_submit_jobs_pa"},
}

// Set is a limit that is a list of TRES.
type Set struct {
	Name      string
	Inherited bool
	Of        func(*Limits) *tres.TRES
	column    string
}

// Sets are all limits that are lists of TRES.
var Sets = []Set{
	{"GrpTRES", false, func(l *Limits) *tres.TRES { return &l.GrpTRES }, "grp_tres"},
	{"GrpTRESMins", false, func(l *Limits) *tres.TRES { return &l.GrpTRESMins }, "grp_tres_mins"},
	{"GrpTRESRunMins", false, func(l *Limits) *tres.TRES { return &l.GrpTRESRunMins }, "grp_tres_run_mins"},
	{"MaxTRES", true, func(l *Limits) *tres.TRES { return &l.MaxTRES }, "max_tres_pj"},
	{"MaxTRESPerNode", true, func(l *Limits) *tres.TRES { return &l.MaxTRESPerNode }, "max_tres_pn"},
	{"MaxTRESMins", true, func(l *Limits) *tres.TRES { return &l.MaxTRESMins }, "max_tres_mins_pj"},
	{"MaxTRESRunMins", true, func(l *Limits) *tres.TRES { return &l.MaxTRESRunMins }, "max_tres_run_mins"},
	{"MaxTRESPU", false, func(l *Limits) *tres.TRES { return &l.MaxTRESPU }, "max_tres_pu"},
	{"MaxTRESPA", false, func(l *Limits) *tres.TRES { return &l.MaxTRESPA }, "max_tres_pa"},
	{"MaxTRESRunMinsPA", false, func(l *Limits) *tres.TRES { return &l.MaxTRESRunMinsPA }, "max_tres_run_mins_pa"},
	{"MinTRES", false, func(l *Limits) *tres.TRES { return &l.MinTRES }, "min_tres_pj"},
}

// LimitChange is a change of limits by name; what is not named stays.
type LimitChange struct {
	// Numbers has nil for a limit to clear.
	Numbers map[string]*uint32
	// Sets are laid over what is there: tres.Unlimited clears one resource.
	Sets map[string]tres.TRES
}

// Empty says that nothing would change.
func (c *LimitChange) Empty() bool { return len(c.Numbers) == 0 && len(c.Sets) == 0 }

// apply changes l; what was shared with another record is replaced, not written.
func (c *LimitChange) apply(l *Limits) {
	for _, n := range Numbers {
		if v, ok := c.Numbers[n.Name]; ok {
			*n.Of(l) = v
		}
	}
	for _, s := range Sets {
		over, ok := c.Sets[s.Name]
		if !ok {
			continue
		}
		next := s.Of(l).Clone()
		for name, v := range over {
			if v == tres.Unlimited {
				delete(next, name)
			} else {
				next[name] = v
			}
		}
		if len(next) == 0 {
			next = nil
		}
		*s.Of(l) = next
	}
}

// inherit fills what a child has not from its parent.
func (l *Limits) inherit(p *Limits) {
	for _, n := range Numbers {
		if n.Inherited && *n.Of(l) == nil {
			*n.Of(l) = *n.Of(p)
		}
	}
	for _, s := range Sets {
		if !s.Inherited || len(*s.Of(p)) == 0 {
			continue
		}
		next := maps.Clone(*s.Of(p))
		maps.Copy(next, *s.Of(l))
		*s.Of(l) = next
	}
}
