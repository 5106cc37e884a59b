package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/attempt"
)

// noticePoll is how often a reclaim is looked for.
const noticePoll = 500 * time.Millisecond

// orphanGrace is how long jobs have to be saved once the controller is given up.
const orphanGrace = 10 * time.Minute

// notice is a reclaim that was announced.
type notice struct {
	deadline time.Time // wall time at which the machine goes
	orphan   bool      // not a provider's: the controller is lost
}

// watchNotice looks for the provider's word that the machine is taken away.
func (a *Agent) watchNotice(ctx context.Context) error {
	if a.cfg.NoticeFile == "" {
		return nil
	}
	for {
		n, found, err := agentapi.LoadNotice(a.cfg.NoticeFile)
		if err != nil {
			a.log.Warn("reclaim notice cannot be read", "err", err)
		}
		if found && err == nil {
			return a.takeNotice(&notice{deadline: n.At})
		}
		if err := agentapi.Sleep(ctx, noticePoll); err != nil {
			return err
		}
	}
}

// takeNotice tells every job and the controller. Of several notices the earliest
// deadline counts, for saves that have not begun.
func (a *Agent) takeNotice(n *notice) error {
	a.mu.Lock()
	first := a.notice == nil
	news := first || n.deadline.Before(a.notice.deadline)
	if news {
		a.notice = n
	}
	if first {
		close(a.noticed)
	}
	a.mu.Unlock()
	if !news {
		return nil
	}
	a.log.Info("the node is being taken away", "deadline", n.deadline, "orphan", n.orphan)
	kind := "reclaim"
	if n.orphan {
		kind = "orphan"
	}
	return a.report(&agentapi.Report{Event: &agentapi.Report_Notice{Notice: &agentapi.NodeNotice{
		DeadlineUnixNano: n.deadline.UnixNano(), Kind: kind,
	}}})
}

// deadline is when the machine goes; far away without a notice.
func (a *Agent) deadline() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.notice == nil {
		return a.cfg.Now().Add(time.Hour)
	}
	return a.notice.deadline
}

func (a *Agent) isOrphan() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.notice != nil && a.notice.orphan
}

// watchOrphan is the dead man's switch: OrphanTimeout after the controller was last
// heard the jobs are saved and the machine ends itself, for nobody would pay attention
// to its bill.
func (a *Agent) watchOrphan(ctx context.Context) error {
	limit := time.Duration(a.cfg.OrphanSeconds) * time.Second
	if limit <= 0 {
		return nil
	}
	for {
		a.mu.Lock()
		left := a.lastContact + limit - attempt.BootTime()
		a.mu.Unlock()
		if left <= 0 {
			break
		}
		if err := agentapi.Sleep(ctx, min(left, 30*time.Second)); err != nil {
			return err
		}
	}
	a.log.Warn("the controller is lost, saving the jobs and ending the machine", "after", limit)
	if err := a.takeNotice(&notice{deadline: a.cfg.Now().Add(orphanGrace), orphan: true}); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, orphanGrace)
	defer cancel()
	for _, r := range a.attempts() {
		for !r.read().Over {
			if agentapi.Sleep(wait, lookAgain) != nil {
				break
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.cfg.Poweroff(ctx)
}

// activated tells whoever made the node that it is in use.
func (a *Agent) activated() {
	if a.cfg.ActiveFile == "" {
		return
	}
	f, err := os.OpenFile(a.cfg.ActiveFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		a.log.Warn("node is not marked as in use", "err", err)
	}
}
