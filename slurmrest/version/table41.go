package version

// edits41 are the further differences of v0.0.41 (Slurm 24.05).
var edits41 = []edit{
	{"controller_ping", "responding", drop, ""},
	{"controller_ping", "primary", drop, ""},

	{"job_info", "exclusive", add, `[]`},
	{"job_info", "minimum_switches", build, `$required_switches`},
	{"job_info", "oversubscribe", add, `false`},
	{"job_info", "priority_by_partition", drop, ""},
	{"job_info", "required_switches", drop, ""},
	{"job_info", "show_flags", add, `["ALL","DETAIL"]`},

	{"shares_resp_msg", "shares[].effective_usage", bare, ""},
	{"shares_resp_msg", "shares[].fairshare.factor", bare, ""},
	{"shares_resp_msg", "shares[].fairshare.level", bare, ""},

	{"assoc", "accounting[].id_alt", drop, ""},
	{"user", "wckeys[].accounting[].id_alt", drop, ""},
	{"wckey", "accounting[].id_alt", drop, ""},
	{"job", "qosreq", drop, ""},
	{"job", "restart_cnt", drop, ""},
	{"qos", "limits.max.jobs.count", drop, ""},
	{"qos", "limits.max.tres.minutes.total", drop, ""},
}

// former41 are the fields of requests that went with v0.0.42 and later.
var former41 = map[string]string{
	"exclusive": "shared", "oversubscribe": "shared", "power_flags": "", "resv_mpi_ports": "",
}

// edits40 are the further differences of v0.0.40 (Slurm 23.11).
var edits40 = []edit{
	{"stats_msg", "bf_cycle_max", drop, ""},
	{"stats_msg", "bf_table_size_sum", drop, ""},
	{"stats_msg", "pending_rpcs", drop, ""},
	{"stats_msg", "pending_rpcs_by_hostlist", drop, ""},
	{"stats_msg", "rpcs_by_message_type[].average_time", bare, ""},
	{"stats_msg", "rpcs_by_message_type[].cycle_last", drop, ""},
	{"stats_msg", "rpcs_by_message_type[].cycle_max", drop, ""},
	{"stats_msg", "rpcs_by_message_type[].dropped", drop, ""},
	{"stats_msg", "rpcs_by_message_type[].queued", drop, ""},
	{"stats_msg", "rpcs_by_user[].average_time", bare, ""},
	{"stats_msg", "schedule_cycle_depth", drop, ""},
	{"stats_msg", "schedule_cycle_sum", drop, ""},

	{"job_info", "flags", without, "STEPMGR_ENABLED"},
	{"job_info", "shared", without, "topo"},
	{"job_info", "job_resources.nodes", build, `$nodes.list`},
	{"job_info", "job_resources.allocated_cores", build, `$cpus`},
	{"job_info", "job_resources.allocated_cpus", build, `$cpus`},
	{"job_info", "job_resources.allocated_hosts", build, `$nodes.count`},
	{"job_info", "job_resources.allocated_nodes", build, `$nodes.allocation[{"nodename":$name,"sockets":{},` +
		`"cpus_used":$cpus.used,"memory_used":$memory.used,"memory_allocated":$memory.allocated}]`},
	{"job_info", "job_resources.cpus", drop, ""},
	{"job_info", "job_resources.select_type", drop, ""},
	{"job_info", "job_resources.threads_per_core", drop, ""},

	{"node", "gpu_spec", drop, ""},
	{"node", "res_cores_per_gpu", drop, ""},
	{"partition_info", "select_type", drop, ""},
	{"reservation_info", "flags", without, "NO_USER_DELETE,USER_DELETE"},

	{"account", "flags", without, "NoUsersAreCoords,UsersAreCoords,WithAssociations,WithCoordinators"},
	{"assoc", "flags", without, "Exact,NoUpdate,NoUsersAreCoords,UsersAreCoords"},
	{"assoc", "id", build, `{"account":$account,"cluster":$cluster,"partition":$partition,"user":$user,"id":$id}`},
	{"stats_rec", "rollups", build, `[` +
		`{"type":"internal","last run":$rollups.hourly.last_run,"max_cycle":$rollups.hourly.duration.max,` +
		`"total_time":$rollups.hourly.duration.time,"total_cycles":$rollups.hourly.count,"mean_cycles":$rollups.hourly.duration.last}]`},
	{"job", "stderr", drop, ""},
	{"job", "stderr_expanded", drop, ""},
	{"job", "stdin", drop, ""},
	{"job", "stdin_expanded", drop, ""},
	{"job", "stdout", drop, ""},
	{"job", "stdout_expanded", drop, ""},
	{"job", "time.planned", drop, ""},
}

// fields40 are the fields of requests that v0.0.40 doesn't know.
var fields40 = map[string][]string{
	"job_desc_msg": {"container_type", "memory_update_delay", "memory_update_margin", "segment_size"},
}
