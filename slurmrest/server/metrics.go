package server

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// stats count requests since start.
type stats struct {
	requests, refused atomic.Int64
}

// healthz answers 200 as soon as requests are served; nobody need say who asks.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "ok\n") //nolint:errcheck // the client is gone
}

// metrics shows counts alone, so it asks nobody who they are.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Metrics != nil {
		s.cfg.Metrics.ServeHTTP(w, r)
		return
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(s.Collector())
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// Collector measures the controller for Prometheus: Slurm's own names for jobs
// and nodes, and ours for the queue and the server.
func (s *Server) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Server }

var (
	descJobs = prometheus.NewDesc("slurm_jobs", "Jobs the controller remembers.", nil, nil)
	descJob  = func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("slurm_jobs_"+name, help, nil, nil)
	}
	descJobStates  = jobDescs()
	descNodes      = prometheus.NewDesc("slurm_nodes", "Nodes, rented or not.", nil, nil)
	descNodeStates = nodeDescs()
	descCPUs       = prometheus.NewDesc("slurm_nodes_cpus", "CPUs of nodes that are up.", nil, nil)
	descCPUsUsed   = prometheus.NewDesc("slurm_nodes_cpus_alloc", "CPUs that jobs hold.", nil, nil)
	descRequests   = prometheus.NewDesc("sbatchd_rest_requests_total", "REST requests.", nil, nil)
	descRefused    = prometheus.NewDesc("sbatchd_rest_refused_total", "REST requests without a good identity.", nil, nil)
	descCommits    = prometheus.NewDesc("sbatchd_commits_total", "Transactions of the queue.", nil, nil)
	descCommands   = prometheus.NewDesc("sbatchd_commands_total", "Commands the queue committed.", nil, nil)
	descCommitTime = prometheus.NewDesc("sbatchd_commit_seconds_total", "Time spent in commits.", nil, nil)
	descInbox      = prometheus.NewDesc("sbatchd_inbox_commands", "Commands that wait for the queue.", nil, nil)
)

// jobStates are the names of Slurm's own metrics, in the order of job.States.
var jobStates = [...]string{
	"pending", "running", "suspended", "completed", "cancelled", "failed",
	"timeout", "node_failed", "preempted", "bootfail", "deadline", "outofmemory",
}

func jobDescs() []*prometheus.Desc {
	list := make([]*prometheus.Desc, len(jobStates))
	for i, name := range jobStates {
		list[i] = descJob(name, "Jobs in state "+job.State(i).String()+".")
	}
	return append(list, descJob("configuring", "Jobs whose nodes boot."), descJob("completing", "Jobs that end."))
}

var nodeStates = [...]string{"alloc", "mixed", "idle", "down", "drain", "powered_down", "powering_up", "powering_down", "notresponding"}

func nodeDescs() []*prometheus.Desc {
	list := make([]*prometheus.Desc, len(nodeStates))
	for i, name := range nodeStates {
		list[i] = prometheus.NewDesc("slurm_nodes_"+name, "Nodes that are "+name+".", nil, nil)
	}
	return list
}

// Describe lists what Collect sends.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descJobStates {
		ch <- d
	}
	for _, d := range descNodeStates {
		ch <- d
	}
	for _, d := range []*prometheus.Desc{
		descJobs, descNodes, descCPUs, descCPUsUsed, descRequests, descRefused, descCommits, descCommands, descCommitTime, descInbox,
	} {
		ch <- d
	}
}

// Collect reads one snapshot.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	snap := c.s.cfg.Controller.Snapshot()
	jobs := make([]int, len(descJobStates))
	for j := range snap.Jobs() {
		jobs[j.State]++
		if j.Flags.Has(job.Configuring) {
			jobs[len(jobStates)]++
		}
		if j.Flags.Has(job.Completing) {
			jobs[len(jobStates)+1]++
		}
	}
	for i, d := range descJobStates {
		gauge(d, jobs[i])
	}
	gauge(descJobs, snap.JobCount())

	nodes := make([]int, len(nodeStates))
	cpus, used := 0, 0
	for n := range snap.Nodes() {
		count(nodes, n)
		used += n.UsedCPUs
		if n.Up() {
			cpus += n.CPUs
		}
	}
	for i, d := range descNodeStates {
		gauge(d, nodes[i])
	}
	gauge(descNodes, snap.NodeCount())
	gauge(descCPUs, cpus)
	gauge(descCPUsUsed, used)

	counter(descRequests, float64(c.s.served.requests.Load()))
	counter(descRefused, float64(c.s.served.refused.Load()))
	q := c.s.cfg.Controller.Counters()
	counter(descCommits, float64(q.Commits))
	counter(descCommands, float64(q.Commands))
	counter(descCommitTime, q.CommitTime.Seconds())
	gauge(descInbox, q.Inbox)
}

// count adds a node to the states it is in, in the order of nodeStates.
func count(nodes []int, n *node.Node) {
	switch n.Base() {
	case node.Allocated:
		nodes[0]++
	case node.Mixed:
		nodes[1]++
	case node.Idle:
		nodes[2]++
	case node.Down:
		nodes[3]++
	case node.Unknown:
	}
	for i, f := range []node.Flags{node.Drain, node.PoweredDown, node.PoweringUp, node.PoweringDown, node.NotResponding} {
		if n.Flags.Has(f) {
			nodes[4+i]++
		}
	}
}
