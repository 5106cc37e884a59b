package server

import (
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getPing answers GET /ping: who answers responds.
func getPing(c *call) {
	start := time.Now()
	c.s.cfg.Controller.Snapshot()
	ping := wire.ControllerPing{
		Hostname: c.hostname(), Responding: true, Primary: true, Status: "UP", Latency: max(1, time.Since(start).Microseconds()),
	}
	c.reply(func(b []byte) []byte {
		return append(c.record(append(b, `"pings":[`...), "controller_ping", &ping), ']', ',')
	})
}

// hostname is the controller's name as the configuration has it.
func (c *call) hostname() string {
	if hosts := c.s.cfg.Controller.Snapshot().Config.SlurmctldHosts; len(hosts) > 0 {
		return hosts[0]
	}
	return c.s.cfg.Hostname
}

// getDBPing answers GET of slurmdb's ping: accounting is in the same process.
func getDBPing(c *call) {
	ping := wire.DBPing{Hostname: or(c.s.cfg.Controller.Snapshot().Config.Values["AccountingStorageHost"], c.hostname()), Responding: true, Primary: true, Status: "UP", Latency: 1}
	c.reply(func(b []byte) []byte {
		return append(c.record(append(b, `"pings":[`...), "slurmdbd_ping", &ping), ']', ',')
	})
}

// getDiag answers GET /diag.
func getDiag(c *call) {
	s := c.s.cfg.Controller.Snapshot()
	now := wire.N(c.s.cfg.Now().Unix())
	counters := c.s.cfg.Controller.Counters()
	m := wire.StatsMsg{
		ReqTime: now, ReqTimeStart: wire.N(c.s.started.Unix()), JobStatesTS: now, BFWhenLastCycle: zero,
		ServerThreadCount: 1, AgentQueueSize: int64(counters.Inbox),
		JobsSubmitted: int64(s.NextJobID) - int64(max(1, s.Config.FirstJobID)), ScheduleQueueLength: int64(s.PendingCount()),
	}
	schedules(&m, counters, c.s.cfg.Now().Sub(c.s.started))
	for j := range s.Jobs() {
		if !j.Start.IsZero() {
			m.JobsStarted++
		}
		switch j.State {
		case job.Pending:
			m.JobsPending++
		case job.Running, job.Suspended:
			m.JobsRunning++
		case job.Completed:
			m.JobsCompleted++
		case job.Cancelled:
			m.JobsCanceled++
		default:
			m.JobsFailed++
		}
	}
	c.reply(func(b []byte) []byte {
		return append(c.record(append(b, `"statistics":`...), "stats_msg", &m), ',')
	})
}

// schedules fills in the scheduler's passes; there is one kind of them, so that
// nothing is backfilled apart. Times are in microseconds.
func schedules(m *wire.StatsMsg, n queue.Counters, up time.Duration) {
	m.ScheduleCycleLast, m.ScheduleCycleMax, m.ScheduleCycleSum = n.PassLast.Microseconds(), n.PassMax.Microseconds(), n.PassSum.Microseconds()
	m.ScheduleCycleTotal, m.ScheduleCycleDepth, m.ScheduleExit.EndJobQueue = n.Passes, n.PassDepth, n.Passes
	if n.Passes > 0 {
		m.ScheduleCycleMean, m.ScheduleCycleMeanDepth = m.ScheduleCycleSum/n.Passes, n.PassDepth/n.Passes
	}
	if minutes := int64(up.Minutes()); minutes > 0 {
		m.ScheduleCyclePerMinute = n.Passes / minutes
	}
}

// getLicenses answers GET /licenses: there are none.
func getLicenses(c *call) {
	tail := c.now("last_update")
	c.warn("Zero licenses to dump", "")
	c.reply(func(b []byte) []byte { return tail(append(b, `"licenses":[],`...)) })
}

// getReconfigure answers GET /reconfigure, which changes something indeed.
func getReconfigure(c *call) {
	const what = "slurm_reconfigure() failed"
	q := c.s.cfg.Controller
	cfg := q.Snapshot().Config
	if c.who.Role == auth.Admin {
		var err error
		if cfg, err = c.s.cfg.Reload(); err != nil {
			// The faults, not a number, are what an administrator needs.
			c.errors = append(c.errors, wire.Error{
				Description: err.Error(), ErrorNumber: int64(errno.Unspecified), Error: errno.Unspecified.Error(), Source: "slurm_reconfigure()",
			})
			c.reply(nil)
			return
		}
	}
	if err := q.Reconfigure(c.r.Context(), c.who, cfg); err != nil {
		c.fail(notAdmin(err), what, "slurm_reconfigure()")
	}
	c.reply(nil)
}
