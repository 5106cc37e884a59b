package launch

import (
	"context"
	"fmt"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/sbatchd/job"
)

// settleFor bounds how long an ended job waits for its output to reach the
// user's files before it counts as finished anyway, with a note.
const settleFor = 20 * time.Second

// report passes one report to the queue and acknowledges it once the queue has
// committed what follows from it.
func (s *session) report(ctx context.Context, r *agentapi.Report) error {
	if err := s.take(ctx, r); err != nil {
		return fmt.Errorf("report of node %s: %w", s.node, err)
	}
	s.send(&agentapi.ControllerMessage{Body: &agentapi.ControllerMessage_ReportAck{ReportAck: &agentapi.ReportAck{Seq: r.GetSeq()}}})
	return nil
}

// has says whether an attempt is the present one of its job and runs on this
// session's node. A node is believed about nothing else.
func (s *session) has(a job.Attempt) bool {
	j, ok := s.hub.Jobs.Snapshot().Job(a.Job)
	return ok && present(j, a) && j.Run.Nodes[0].Node == s.node
}

func (s *session) take(ctx context.Context, r *agentapi.Report) error {
	a := job.Attempt{Job: r.GetKey().GetJob(), Restart: r.GetKey().GetRestart()}
	q := s.hub.Jobs
	if a.Job != 0 && !s.has(a) {
		// Of an attempt that is over, or that never was this node's to speak of:
		// nothing follows from it, and the agent may be done with it.
		if r.GetFinished() != nil {
			s.hub.release(s, a)
		}
		return nil
	}
	if id := r.GetKey().GetStep(); a.Job != 0 && id != agentapi.BatchStep {
		return s.step(ctx, a, id, r)
	}
	switch e := r.GetEvent().(type) {
	case *agentapi.Report_Started:
		return q.Started(ctx, a, e.Started.GetImageDigest(), e.Started.GetDriverVersion(), uint32(max(0, e.Started.GetRestoredNumber())))
	case *agentapi.Report_Progress:
		return q.Progress(ctx, a, e.Progress.GetPhase())
	case *agentapi.Report_Exited:
		return q.Ended(ctx, a, exitOf(e.Exited))
	case *agentapi.Report_LaunchFailed:
		return q.LaunchFailed(ctx, a, failureOf(e.LaunchFailed))
	case *agentapi.Report_Lost:
		return q.Lost(ctx, a, e.Lost.GetMessage())
	case *agentapi.Report_CheckpointDone:
		c := e.CheckpointDone
		return q.Checkpointed(ctx, a, job.Checkpoint{
			Number: c.GetNumber(), Bytes: int64(c.GetBytes()), Reason: c.GetReason(), SHA256: c.GetManifestSha256(),
		})
	case *agentapi.Report_CheckpointFailed:
		s.hub.Log.Warn("checkpoint failed", "job", a.Job, "restart", a.Restart, "node", s.node, "err", e.CheckpointFailed.GetMessage())
		return q.Note(ctx, a.Job, "checkpoint failed: "+e.CheckpointFailed.GetMessage())
	case *agentapi.Report_Notice:
		return q.NodeNotice(ctx, s.node, time.Unix(0, e.Notice.GetDeadlineUnixNano()))
	case *agentapi.Report_StagedOut:
		if why := e.StagedOut.GetMessage(); why != "" {
			return q.Note(ctx, a.Job, "results: "+why)
		}
		return nil
	case *agentapi.Report_Finished:
		return s.finished(ctx, a)
	case *agentapi.Report_Frozen:
		s.hub.Log.Warn("job frozen by its fence", "job", a.Job, "restart", a.Restart, "node", s.node, "frozen", e.Frozen.GetFrozen())
		return nil
	}
	return nil
}

// step takes what a node says of an srun.
func (s *session) step(ctx context.Context, a job.Attempt, id uint32, r *agentapi.Report) error {
	switch e := r.GetEvent().(type) {
	case *agentapi.Report_Started:
		return s.hub.Jobs.StepStarted(ctx, a, job.Step{ID: id, Name: e.Started.GetStepName(), Tasks: int(e.Started.GetNtasks())})
	case *agentapi.Report_Exited:
		return s.hub.Jobs.StepEnded(ctx, a, id, exitOf(e.Exited).Code)
	}
	return nil
}

// finished lets the output reach the user's files, closes the attempt and lets
// the node forget it.
func (s *session) finished(ctx context.Context, a job.Attempt) error {
	q := s.hub.Jobs
	if j, ok := q.Snapshot().Job(a.Job); ok {
		settle, cancel := context.WithTimeout(ctx, settleFor)
		note := s.hub.Output.Settle(settle, j)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if note != "" {
			if err := q.Note(ctx, a.Job, note); err != nil {
				return err
			}
		}
	}
	if err := q.Finished(ctx, a); err != nil {
		return err
	}
	s.hub.release(s, a)
	return nil
}

func exitOf(e *agentapi.Exited) job.Exit {
	x := job.Exit{
		Code: job.ExitCode{Status: uint8(e.GetCode()), Signal: uint8(e.GetSignal())},
		OOM:  e.GetOom(),
		Usage: job.Usage{
			ElapsedMs: int64(e.GetUsage().GetElapsedMs()), UserUs: int64(e.GetUsage().GetUserUs()),
			SystemUs: int64(e.GetUsage().GetSystemUs()), MaxRSSKiB: int64(e.GetUsage().GetMaxRssKib()),
		},
	}
	switch e.GetReason() {
	case agentapi.ExitReason_EXIT_SCRIPT:
		x.Reason = job.ExitScript
	case agentapi.ExitReason_EXIT_TIME_LIMIT:
		x.Reason = job.ExitTimeLimit
	case agentapi.ExitReason_EXIT_KILLED:
		x.Reason = job.ExitKilled
	case agentapi.ExitReason_EXIT_RECLAIMED:
		x.Reason = job.ExitReclaimed
	case agentapi.ExitReason_EXIT_ORPHANED:
		x.Reason = job.ExitOrphaned
	}
	return x
}

func failureOf(f *agentapi.LaunchFailed) job.LaunchFailure {
	out := job.LaunchFailure{Message: f.GetMessage()}
	switch f.GetClass() {
	case agentapi.FailClass_FAIL_INFRA:
		out.Class = job.FaultInfra
	case agentapi.FailClass_FAIL_IMAGE:
		out.Class = job.FaultImage
	case agentapi.FailClass_FAIL_PIN:
		out.Class = job.FaultPin
	case agentapi.FailClass_FAIL_DRIVER:
		out.Class = job.FaultDriver
	case agentapi.FailClass_FAIL_USER:
		out.Class = job.FaultUser
	}
	return out
}
