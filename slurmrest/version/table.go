package version

// selectTypes44 are the words of select_type that both versions know: none.
// The newer words began with CR_.
const selectTypes44 = "CPU,SOCKET,CORE,BOARD,MEMORY,ONE_TASK_PER_CORE,PACK_NODES,CORE_DEFAULT_DIST_BLOCK,LLN,LINEAR"

// edits44 are the differences of v0.0.44 (Slurm 25.11) from v0.0.45 (26.05).
var edits44 = []edit{
	{"controller_ping", "status", drop, ""},
	{"controller_ping", "pinged", add, `"UP"`},
	{"controller_ping", "mode", add, `"primary"`},

	{"slurmdbd_ping", "status", drop, ""},

	{"stats_msg", "parts_packed", add, `0`},

	{"job_info", "container_type", drop, ""},
	{"job_info", "memory_update_delay", drop, ""},
	{"job_info", "memory_update_margin", drop, ""},
	{"job_info", "power", add, `{"flags":[]}`},
	{"job_info", "job_resources.select_type", only, selectTypes44},

	{"node", "suspend_time", drop, ""},
	{"node", "external_sensors", add, `{}`},
	{"node", "power", add, `{}`},
	{"node", "tres_weighted", add, `0`},

	{"partition_info", "cpus.task_binding", replace, `0`},
	{"partition_info", "flags", drop, ""},
	{"partition_info", "partition.exclusive", drop, ""},
	{"partition_info", "partition.oversubscribe", drop, ""},
	{"partition_info", "preempt_mode", drop, ""},
	{"partition_info", "select_type", only, selectTypes44},

	{"job", "exclusive", drop, ""},
	{"job", "original_sluid", drop, ""},
	{"job", "oversubscribe", drop, ""},
	{"job", "sluid", drop, ""},
	{"job", "steps[].pid", add, `""`},
	{"job", "steps[].submit_line", drop, ""},
}
