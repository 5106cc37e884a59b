package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// loadSteps asks for the steps of running jobs, in the order of job and step.
func loadSteps(ctx context.Context, c *client.Client) ([]format.Step, error) {
	var resp wire.Steps
	if err := c.Get(ctx, "/sbatchd/v1/steps", nil, &resp); err != nil {
		return nil, err
	}
	out := make([]format.Step, len(resp.Steps))
	for i := range resp.Steps {
		out[i].Step = &resp.Steps[i]
	}
	return out, nil
}

// matchesStep says whether a step is the one meant, or one of the job meant.
func (r jobRef) matchesStep(s *format.Step) bool {
	j := wire.JobInfo{JobID: s.JobID}
	if s.Array.JobID != 0 {
		j.ArrayJobID, j.ArrayTaskID = wire.N(s.Array.JobID), wire.N(s.Array.TaskID)
	}
	return r.matches(&j) && (r.step == "" || strings.HasSuffix(s.ID, "."+r.step))
}

// printSteps is squeue --steps.
func (q *jobQuery) printSteps(ctx context.Context, e *Env, c *client.Client) error {
	steps, err := loadSteps(ctx, c)
	if err != nil {
		return fail("slurm_get_job_steps error: %s", text(err))
	}
	steps = slices.DeleteFunc(steps, func(s format.Step) bool { return !q.wantsStep(&s) })
	slices.SortStableFunc(steps, func(a, b format.Step) int {
		return cmp.Or(strings.Compare(a.Partition, b.Partition), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Number(), b.Number()))
	})
	if q.in.Given("json") || q.in.Given("yaml") {
		return q.stepData(e, steps)
	}
	spec := squeueSteps
	if q.in.Given("format") {
		spec = q.in.Str("format")
	}
	cols, unknown := format.ByLetter(format.StepFields, spec)
	if q.in.Given("Format") {
		cols, unknown = format.ByName(format.StepFields, q.in.Str("Format"))
	}
	for _, u := range unknown {
		e.errorf("Invalid job step format specification: %s", u)
	}
	fc := e.format()
	var b []byte
	if !q.in.Given("noheader") {
		b = cols.Header(b)
	}
	for i := range steps {
		b = cols.Line(b, fc, &steps[i])
	}
	e.Stdout.Write(b) //nolint:errcheck // Main flushes and reports
	return nil
}

func (q *jobQuery) wantsStep(s *format.Step) bool {
	in := q.in
	switch {
	case len(q.ids) > 0 && !slices.ContainsFunc(q.ids, func(r jobRef) bool { return r.matchesStep(s) }):
		return false
	case q.users != nil && !q.users[s.UserID], q.not >= 0 && s.UserID == q.not:
		return false
	case !listed(in, "name", s.Name), !listed(in, "partition", s.Partition):
		return false
	case len(q.states) > 0 && !overlap(q.states, s.State):
		return false
	}
	return q.nodes == nil || q.nodes[s.Nodes]
}

// stepData prints steps for --json and --yaml.
func (q *jobQuery) stepData(e *Env, steps []format.Step) error {
	out := struct {
		Steps    []*wire.Step   `json:"steps"`
		Meta     wire.Meta      `json:"meta"`
		Errors   []wire.Error   `json:"errors"`
		Warnings []wire.Warning `json:"warnings"`
	}{Steps: []*wire.Step{}, Errors: []wire.Error{}, Warnings: []wire.Warning{}}
	for _, s := range steps {
		out.Steps = append(out.Steps, s.Step)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return printData(e, data, q.in.Given("yaml"))
}

// showSteps is scontrol show step.
func showSteps(ctx context.Context, s *scontrolRun, args []string) error {
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_get_job_steps error: %s", text(err))
	}
	steps, err := loadSteps(ctx, c)
	if err != nil {
		return fail("slurm_get_job_steps error: %s", text(err))
	}
	if len(args) > 0 {
		ref, ok := parseJobRef(args[0])
		if !ok {
			return failed("Invalid job id: %s", args[0])
		}
		steps = slices.DeleteFunc(steps, func(st format.Step) bool { return !ref.matchesStep(&st) })
		if len(steps) == 0 {
			return failed("scontrol_print_step: slurm_get_job_steps(%s) failed: %s", args[0], errno.InvalidJobID)
		}
	}
	if s.structured() {
		return (&jobQuery{in: s.in}).stepData(s.e, steps)
	}
	if len(steps) == 0 {
		s.e.printf("No job steps in the system\n")
	}
	for i := range steps {
		s.e.printf("%s", s.stepRecord(s.e.format(), &steps[i]))
	}
	return nil
}

func (s *scontrolRun) stepRecord(fc *format.Context, st *format.Step) string {
	r := &record{one: s.oneline}
	r.line("StepId", st.StepID(), "UserId", itoa(st.UserID), "StartTime", fc.Time(st.Time.Start.Number, "Unknown"),
		"TimeLimit", format.Limit(st.Time.Limit).String())
	r.line("State", format.ShownState(st.State).Name, "Partition", st.Partition, "NodeList", st.Nodes)
	r.line("Nodes", "1", "CPUs", itoa(int64(st.NumberCPUs)), "Tasks", itoa(int64(st.NumberTasks)), "Name", st.Name, "Network", null(st.Network))
	r.line("TRES", null(st.TRES.Allocation))
	r.line("ResvPorts", null(st.ReservedPorts))
	r.last("CPUFreqReq", "Default")
	if st.Task.Distribution != "Unknown" {
		r.last("Dist", st.Task.Distribution)
	}
	r.end()
	r.last("SrunHost:Pid", fmt.Sprintf("%s:%d", null(st.Srun.Host), st.Srun.PID))
	return r.String()
}
