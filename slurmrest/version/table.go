package version

// edits44 are the differences of v0.0.44 (Slurm 25.11) from v0.0.45 (26.05).
var edits44 = []edit{
	{"controller_ping", "status", drop, ""},
	{"controller_ping", "pinged", add, `"UP"`},
	{"controller_ping", "mode", add, `"primary"`},

	{"slurmdbd_ping", "status", drop, ""},
	{"cluster_rec", "select_plugin", add, `""`},
	{"reservation_info", "watts", add, `{"set":false,"infinite":false,"number":0}`},

	{"stats_msg", "parts_packed", add, `0`},

	{"job_info", "container_type", drop, ""},
	{"job_info", "flags", without, "JOB_IMPLICIT_MAX_NODES"},
	{"job_info", "memory_update_delay", drop, ""},
	{"job_info", "memory_update_margin", drop, ""},
	{"job_info", "power", add, `{"flags":[]}`},
	{"job_info", "job_resources.select_type", replace, `["CPU"]`},

	{"node", "state", without, "POWER_DOWN_ASAP,POWER_DOWN_FORCE"},
	{"node", "next_state_after_reboot", without, "POWER_DOWN_ASAP,POWER_DOWN_FORCE"},
	{"node", "suspend_time", drop, ""},
	{"node", "external_sensors", add, `{}`},
	{"node", "power", add, `{}`},
	{"node", "tres_weighted", add, `0`},

	{"partition_info", "cpus.task_binding", replace, `0`},
	{"partition_info", "flags", drop, ""},
	{"partition_info", "partition.exclusive", drop, ""},
	{"partition_info", "partition.oversubscribe", drop, ""},
	{"partition_info", "preempt_mode", drop, ""},
	{"partition_info", "select_type", replace, `[]`},

	{"job", "exclusive", drop, ""},
	{"job", "original_sluid", drop, ""},
	{"job", "oversubscribe", drop, ""},
	{"job", "sluid", drop, ""},
	{"job", "steps[].pid", add, `""`},
	{"job", "steps[].submit_line", drop, ""},
}

// fields44 are the fields of requests that came with v0.0.45.
var fields44 = map[string][]string{
	"job_desc_msg": {"container_type", "cores_per_socket", "memory_update_delay", "memory_update_margin"},
}

// former44 are the fields of requests that went with v0.0.45.
var former44 = map[string]string{"power_flags": ""}

// edits43 are the further differences of v0.0.43 (Slurm 25.05).
var edits43 = []edit{
	{"job_info", "flags", without, "CONSOLIDATE_SEGMENTS,EXPEDITED_REQUEUE,SPREAD_SEGMENTS"},
	{"job_info", "job_state", without, "EXPEDITING"},
	{"job_info", "step_id", drop, ""},
	{"job_info", "submit_line", drop, ""},
	{"node", "state", without, "BLOCKED,EXTERNAL"},
	{"node", "next_state_after_reboot", without, "BLOCKED,EXTERNAL"},
	{"job", "flags", without, "JOB_ALTERED"},
	{"job", "state.current", without, "EXPEDITING"},
	{"job", "steps[].state", without, "EXPEDITING"},
	{"license", "Nodes", drop, ""},
	{"user", "default.qos", drop, ""},
}

// edits42 are the further differences of v0.0.42 (Slurm 24.11).
var edits42 = []edit{
	{"job_info", "flags", without, "EXTERNAL_JOB"},
	{"job_info", "licenses_allocated", drop, ""},
	{"job_info", "segment_size", drop, ""},
	{"job_info", "stderr_expanded", drop, ""},
	{"job_info", "stdin_expanded", drop, ""},
	{"job_info", "stdout_expanded", drop, ""},

	{"node", "cert_flags", drop, ""},
	{"node", "tls_cert_last_renewal", drop, ""},
	{"node", "topology", drop, ""},

	{"partition_info", "topology", drop, ""},

	{"cluster_rec", "flags", without, "DELETED"},
	{"qos", "flags", without, "DELETED,PARTITION_QOS"},

	{"job", "reservation.requested", drop, ""},
	{"job", "segment_size", drop, ""},
	{"job", "steps[].step.stderr", drop, ""},
	{"job", "steps[].step.stderr_expanded", drop, ""},
	{"job", "steps[].step.stdin", drop, ""},
	{"job", "steps[].step.stdin_expanded", drop, ""},
	{"job", "steps[].step.stdout", drop, ""},
	{"job", "steps[].step.stdout_expanded", drop, ""},
	{"job", "steps[].time.limit", drop, ""},
}
