package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

const (
	slurm   = "/slurm/" + wire.Newest
	slurmdb = "/slurmdb/" + wire.Newest
)

// Submit sends a job. It is repeated under one key while the connection gets
// cut, so that a job is submitted at most once.
func (c *Client) Submit(ctx context.Context, req *wire.JobSubmitReq) (*wire.JobSubmitResponse, error) {
	var resp wire.JobSubmitResponse
	r := request{method: http.MethodPost, path: slurm + "/job/submit", body: wire.Append(nil, req), key: rand.Text()}
	return &resp, c.call(ctx, r, read(&resp))
}

// JobsQuery narrows Jobs.
type JobsQuery struct {
	Flags []string  // ALL, DETAIL, ...
	Since time.Time // jobs only if something changed since; zero: always
}

// Jobs lists the jobs the controller still remembers.
func (c *Client) Jobs(ctx context.Context, q JobsQuery) (*wire.JobInfoResp, error) {
	query := url.Values{}
	if len(q.Flags) > 0 {
		query.Set("flags", strings.Join(q.Flags, ","))
	}
	if !q.Since.IsZero() {
		query.Set("update_time", seconds(q.Since))
	}
	var resp wire.JobInfoResp
	return &resp, c.get(ctx, slurm+"/jobs/", query, &resp)
}

// Job returns the records of one job id: 123, or 123_4 for an array task. The
// error unwraps to errno.InvalidJobID where there is none.
func (c *Client) Job(ctx context.Context, id string) (*wire.JobInfoResp, error) {
	var resp wire.JobInfoResp
	return &resp, c.get(ctx, slurm+"/job/"+url.PathEscape(id), nil, &resp)
}

// Kill signals or cancels one job id: 123, 123_4, 123_[1-3]. An empty signal
// cancels. Refusals of single records are in the answer's status.
func (c *Client) Kill(ctx context.Context, id, signal string, flags ...string) (*wire.KillJobResp, error) {
	query := url.Values{}
	if signal != "" {
		query.Set("signal", signal)
	}
	if len(flags) > 0 {
		query.Set("flags", strings.Join(flags, ","))
	}
	var resp wire.KillJobResp
	r := request{method: http.MethodDelete, path: slurm + "/job/" + url.PathEscape(id), query: query}
	return &resp, c.call(ctx, r, read(&resp))
}

// KillJobs signals or cancels the jobs that match a filter.
func (c *Client) KillJobs(ctx context.Context, msg *wire.KillJobsMsg) (*wire.KillJobsResp, error) {
	var resp wire.KillJobsResp
	r := request{method: http.MethodDelete, path: slurm + "/jobs/", body: wire.Append(nil, msg)}
	return &resp, c.call(ctx, r, read(&resp))
}

// Update changes one job: hold and release ({"hold":…}), time limit, comment... The
// tasks of an array, 12_3, go to sbatchd's own endpoint: Slurm's takes whole arrays.
func (c *Client) Update(ctx context.Context, id string, msg *wire.JobDescMsg) (*wire.JobPostResponse, error) {
	var resp wire.JobPostResponse
	base := slurm
	if strings.ContainsAny(id, "_+") {
		base = "/sbatchd/v1"
	}
	r := request{method: http.MethodPost, path: base + "/job/" + url.PathEscape(id), body: wire.Append(nil, msg)}
	return &resp, c.call(ctx, r, read(&resp))
}

// Requeue puts jobs back into the queue; flags are Hold, SpecialExit, Incomplete.
func (c *Client) Requeue(ctx context.Context, ids []string, flags ...string) (*wire.JobsRequeueResp, error) {
	var resp wire.JobsRequeueResp
	body := wire.Append(nil, &wire.JobsRequeueQuery{Jobs: ids, Flags: flags})
	r := request{method: http.MethodPost, path: slurm + "/jobs/requeue", body: body}
	return &resp, c.call(ctx, r, read(&resp))
}

// Nodes lists all nodes; with the flag ALL also their hidden partitions.
func (c *Client) Nodes(ctx context.Context, flags ...string) (*wire.NodesResp, error) {
	var resp wire.NodesResp
	return &resp, c.get(ctx, slurm+"/nodes/", flagQuery(flags), &resp)
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string) (*wire.NodesResp, error) {
	var resp wire.NodesResp
	return &resp, c.get(ctx, slurm+"/node/"+url.PathEscape(name), nil, &resp)
}

// UpdateNode changes one node's state, reason, comment...
func (c *Client) UpdateNode(ctx context.Context, name string, msg *wire.UpdateNodeMsg) error {
	r := request{method: http.MethodPost, path: slurm + "/node/" + url.PathEscape(name), body: wire.Append(nil, msg)}
	return c.call(ctx, r, nil)
}

// Partitions lists the partitions that the caller may use; with the flag ALL all
// of them.
func (c *Client) Partitions(ctx context.Context, flags ...string) (*wire.PartitionResp, error) {
	var resp wire.PartitionResp
	return &resp, c.get(ctx, slurm+"/partitions/", flagQuery(flags), &resp)
}

// flagQuery is the query of a list with flags.
func flagQuery(flags []string) url.Values {
	if len(flags) == 0 {
		return nil
	}
	return url.Values{"flags": {strings.Join(flags, ",")}}
}

// Ping asks whether the controllers respond.
func (c *Client) Ping(ctx context.Context) (*wire.PingArrayResp, error) {
	var resp wire.PingArrayResp
	return &resp, c.get(ctx, slurm+"/ping/", nil, &resp)
}

// Diag returns the scheduler's counters.
func (c *Client) Diag(ctx context.Context) (*wire.DiagResp, error) {
	var resp wire.DiagResp
	return &resp, c.get(ctx, slurm+"/diag/", nil, &resp)
}

// Reconfigure makes the controller read its configuration again.
func (c *Client) Reconfigure(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: slurm + "/reconfigure/"}, nil)
}

// DBJobs lists jobs of accounting; query holds the filters of Slurm's
// GET /slurmdb/V/jobs (users, start_time, state, step, show_duplicates, ...).
func (c *Client) DBJobs(ctx context.Context, query url.Values) (*wire.DBJobsResp, error) {
	var resp wire.DBJobsResp
	return &resp, c.get(ctx, slurmdb+"/jobs/", query, &resp)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into wire.Target) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query, sparse: true}, read(into))
}
