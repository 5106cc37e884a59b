package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

func init() {
	register(Command{Name: "sdiag", About: "statistics of the controller", Flags: sdiagFlags, Run: sdiag})
}

var sdiagFlags = []Flag{
	{Long: "all", Short: 'a', Help: "all statistics (the default)"},
	{Long: "cluster", Short: 'M', Arg: option.Required, Meta: "name", Help: "one cluster: no effect"},
	{Long: "no-trunc", Help: "whole host names"},
	{Long: "reset", Short: 'r', Help: "start counting again"},
	{Long: "sort-by-id", Short: 'i', Help: "order messages by number"},
	{Long: "sort-by-time", Short: 't', Help: "order messages by total time"},
	{Long: "sort-by-time2", Short: 'T', Help: "order messages by average time"},
	{Long: "json", Arg: option.Optional, Meta: "data_parser", Help: "answer as JSON"},
	{Long: "yaml", Arg: option.Optional, Meta: "data_parser", Help: "answer as YAML"},
}

func sdiag(ctx context.Context, e *Env, in *Input) error {
	c, err := e.Client(ctx)
	if err != nil {
		return fail("slurm_get_statistics: %s", text(err))
	}
	if in.Given("reset") {
		// Counters only grow here: whoever compares two answers takes the difference.
		err := errno.NotSupported
		if e.UID != 0 {
			err = errno.AccessDenied
		}
		return fail("slurm_reset_statistics: %s", err)
	}
	resp, err := c.Diag(ctx)
	if err != nil {
		return fail("slurm_get_statistics: %s", text(err))
	}
	if in.Given("json") || in.Given("yaml") {
		return printStructured(e, in, resp)
	}
	m := &resp.Statistics
	slices.SortStableFunc(m.RPCsByMessageType, func(x, y wire.StatsMsgRPCType) int {
		switch {
		case in.Given("sort-by-id"):
			return cmp.Compare(x.TypeID, y.TypeID)
		case in.Given("sort-by-time"):
			return cmp.Compare(y.TotalTime, x.TotalTime)
		case in.Given("sort-by-time2"):
			return cmp.Compare(y.AverageTime.Number, x.AverageTime.Number)
		}
		return cmp.Compare(y.Count, x.Count)
	})
	e.printf("%s", sdiagText(e, m))
	return nil
}

// sdiagText is the whole answer, block by block.
func sdiagText(e *Env, m *wire.StatsMsg) string {
	const bar = "*******************************************************\n"
	at := func(n wire.Num) string {
		if n.Or(0) == 0 {
			return "N/A"
		}
		return fmt.Sprintf("%s (%d)", ctime(e, n.Number), n.Number)
	}
	text := bar + fmt.Sprintf("sdiag output at %s\nData since      %s\n", at(m.ReqTime), at(m.ReqTimeStart)) + bar
	text += fmt.Sprintf("Server thread count:  %d\nRPC queue enabled:    0\nAgent queue size:     %d\nAgent count:          %d\nAgent thread count:   %d\nDBD Agent queue size: %d\n\n",
		m.ServerThreadCount, m.AgentQueueSize, m.AgentCount, m.AgentThreadCount, m.DbdAgentQueueSize)
	text += fmt.Sprintf("Jobs submitted: %d\nJobs started:   %d\nJobs completed: %d\nJobs canceled:  %d\nJobs failed:    %d\n\n",
		m.JobsSubmitted, m.JobsStarted, m.JobsCompleted, m.JobsCanceled, m.JobsFailed)
	text += fmt.Sprintf("Job states ts:  %s\nJobs pending:   %d\nJobs running:   %d\n\n", at(m.JobStatesTS), m.JobsPending, m.JobsRunning)
	text += fmt.Sprintf("Main schedule statistics (microseconds):\n\tLast cycle:   %d\n\tMax cycle:    %d\n\tTotal cycles: %d\n", m.ScheduleCycleLast, m.ScheduleCycleMax, m.ScheduleCycleTotal)
	if m.ScheduleCycleTotal > 0 {
		text += fmt.Sprintf("\tMean cycle:   %d\n\tMean depth cycle:  %d\n", m.ScheduleCycleMean, m.ScheduleCycleMeanDepth)
	}
	if m.ScheduleCyclePerMinute > 0 {
		text += fmt.Sprintf("\tCycles per minute: %d\n", m.ScheduleCyclePerMinute)
	}
	x := &m.ScheduleExit
	text += fmt.Sprintf("\tLast queue length: %d\n\nMain scheduler exit:\n\tEnd of job queue:%d\n\tHit default_queue_depth: %d\n\tHit sched_max_job_start: %d\n\tBlocked on licenses: %d\n\tHit max_rpc_cnt: %d\n\tTimeout (max_sched_time): %d\n\n",
		m.ScheduleQueueLength, x.EndJobQueue, x.DefaultQueueDepth, x.MaxJobStart, x.Licenses, x.MaxRPCCnt, x.MaxSchedTime)
	text += sdiagBackfill(m, at(m.BFWhenLastCycle))
	text += fmt.Sprintf("Latency for 1000 calls to gettimeofday(): %d microseconds\n\nRemote Procedure Call statistics by message type\n", m.GettimeofdayLatency)
	for _, r := range m.RPCsByMessageType {
		text += fmt.Sprintf("\t%-40s(%5d) count:%-6d ave_time:%-6d total_time:%d\n", r.MessageType, r.TypeID, r.Count, r.AverageTime.Number, r.TotalTime)
	}
	text += "\nRemote Procedure Call statistics by user\n"
	for _, r := range m.RPCsByUser {
		text += fmt.Sprintf("\t%-16s(%8d) count:%-6d ave_time:%-6d total_time:%d\n", r.User, r.UserID, r.Count, r.AverageTime.Number, r.TotalTime)
	}
	return text + "\nPending RPC statistics\n\tNo pending RPCs\n"
}

func sdiagBackfill(m *wire.StatsMsg, last string) string {
	text := fmt.Sprintf("Backfilling stats\n\tTotal backfilled jobs (since last slurm start): %d\n\tTotal backfilled jobs (since last stats cycle start): %d\n\tTotal backfilled heterogeneous job components: %d\n\tTotal cycles: %d\n\tLast cycle when: %s\n\tLast cycle: %d\n\tMax cycle:  %d\n",
		m.BFBackfilledJobs, m.BFLastBackfilledJobs, m.BFBackfilledHetJobs, m.BFCycleCounter, last, m.BFCycleLast, m.BFCycleMax)
	if m.BFCycleCounter > 0 {
		text += fmt.Sprintf("\tMean cycle: %d\n", m.BFCycleMean)
	}
	text += fmt.Sprintf("\tLast depth cycle: %d\n\tLast depth cycle (try sched): %d\n", m.BFLastDepth, m.BFLastDepthTry)
	if m.BFCycleCounter > 0 {
		text += fmt.Sprintf("\tDepth Mean: %d\n\tDepth Mean (try depth): %d\n", m.BFDepthMean, m.BFDepthMeanTry)
	}
	text += fmt.Sprintf("\tLast queue length: %d\n", m.BFQueueLen)
	if m.BFCycleCounter > 0 {
		text += fmt.Sprintf("\tQueue length mean: %d\n", m.BFQueueLenMean)
	}
	text += fmt.Sprintf("\tLast table size: %d\n", m.BFTableSize)
	if m.BFCycleCounter > 0 {
		text += fmt.Sprintf("\tMean table size: %d\n", m.BFTableSizeMean)
	}
	x := &m.BFExit
	return text + fmt.Sprintf("\nBackfill exit\n\tEnd of job queue:%d\n\tHit bf_max_job_start: %d\n\tHit bf_max_job_test: %d\n\tSystem state changed: %d\n\tHit table size limit (bf_node_space_size): %d\n\tTimeout (bf_max_time): %d\n\n",
		x.EndJobQueue, x.BFMaxJobStart, x.BFMaxJobTest, x.StateChanged, x.BFNodeSpaceSize, x.BFMaxTime)
}
