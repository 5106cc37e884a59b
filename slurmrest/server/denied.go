package server

import (
	"bytes"
	"strings"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// denial is what an operation says where the controller doesn't take the token.
type denial struct {
	payload     string // members with a comma behind each
	description string // with a path's variable in braces
	source      string
}

const (
	never  = `{"set":true,"infinite":false,"number":0},`
	noJobs = `"jobs":[],"last_backfill":` + never + `"last_update":` + never
)

// denials are the words of Slurm 26.05, by method and path; others say nothing
// but the error.
var denials = map[string]denial{
	"GET /jobs":                              {noJobs, "Unable to query jobs", "slurm_load_jobs()"},
	"GET /job/{job_id}":                      {noJobs, "Unable to query JobId={job_id}", "_handle_job_get"},
	"GET /jobs/state":                        {`"jobs":null,`, "Unable to query job states", "slurm_load_job_state()"},
	"GET /job/{job_id}/requeue":              {`"status":[],`, "Requeue JobID={job_id} failed", "op_handler_job_requeue"},
	"POST /job/submit":                       {"", "Batch job submission failed", submitSource},
	"POST /job/allocate":                     {"", "Job allocation request failed", "slurm_allocate_resources_blocking()"},
	"POST /job/{job_id}":                     {`"results":null,`, "Job update requested failed", updateSource},
	"DELETE /job/{job_id}":                   {`"status":[],`, "Signal request failed", "slurm_kill_jobs()"},
	"DELETE /jobs":                           {`"status":[],`, "Signal request failed", "slurm_kill_jobs()"},
	"POST /jobs/requeue":                     {`"status":[],`, "Requeue failed", "op_handler_jobs_requeue"},
	"GET /nodes":                             {"", "Failure to query nodes", "_dump_nodes"},
	"GET /node/{node_name}":                  {"", "Failure to query node {node_name}", "_dump_nodes"},
	"POST /node/{node_name}":                 {"", "Failure to update node {node_name}", "_update_node"},
	"DELETE /node/{node_name}":               {"", "Failure to delete node {node_name}", "op_handler_node"},
	"POST /nodes":                            {"", "Failure to update node", "_update_nodes"},
	"POST /new/node":                         {"", "Failure to create node", "_create_node"},
	"GET /partition/{partition_name}":        {"", "Unable to query partitions", "_partition_get"},
	"DELETE /partition/{partition_name}":     {"", "Unable to delete partition", "slurm_delete_partition()"},
	"GET /licenses":                          {`"licenses":[],"last_update":` + never, "slurm_load_licenses() was unable to load licenses", "op_handler_licenses"},
	"GET /reservations":                      {"", "Unable to query reservations", "slurm_load_reservations()"},
	"GET /reservation/{reservation_name}":    {"", "Unable to query reservations", "slurm_load_reservations()"},
	"DELETE /reservation/{reservation_name}": {"", "Error deleting reservation {reservation_name}", "slurm_delete_reservation"},
	"GET /conf":                              {"", "slurm_load_ctl_conf() failed", "_dump_config"},
	"GET /resources/{job_id}":                {`"nodes":[],`, "Unable to query JobId={job_id}", "_handle_get"},
	"GET /diag":                              {"", "slurm_get_statistics() failed to get slurmctld statistics", "op_handler_diag"},
	"GET /reconfigure":                       {"", "slurm_reconfigure() failed", "op_handler_reconfigure"},
}

// denied is the handler of an operation for requests with a token that is no
// good; nil where the answer is the router's.
func denied(e endpoint, a api) func(*call) {
	switch {
	case a == ofSbatchd:
		return nil
	case a == ofSlurmdb:
		return func(c *call) {
			c.fail(errno.DBConnection, "Failed to open slurmdbd connection", "openapi_get_db_conn")
			c.reply(nil)
		}
	case e.path == "/ping":
		return deniedPing
	}
	d := denials[e.method+" "+e.path]
	return func(c *call) {
		description := d.description
		for name, value := range mux.Vars(c.r) {
			description = strings.Replace(description, "{"+name+"}", value, 1)
		}
		c.fail(errno.ProtocolAuthenticationError, description, d.source)
		c.reply(func(b []byte) []byte { return append(b, d.payload...) })
	}
}

// deniedPing answers that the controller doesn't respond, which is no error.
func deniedPing(c *call) {
	ping := wire.ControllerPing{
		Hostname: c.hostname(), Primary: true, Status: errno.ProtocolAuthenticationError.Error(), Latency: 1,
	}
	c.reply(func(b []byte) []byte {
		b = append(c.record(append(b, `"pings":[`...), "controller_ping", &ping), ']', ',')
		return bytes.Replace(b, []byte(`"pinged":"UP"`), []byte(`"pinged":"DOWN"`), 1)
	})
}
