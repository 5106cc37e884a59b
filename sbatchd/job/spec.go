package job

import "time"

// NoLimit is an unlimited time limit.
const NoLimit = uint32(0xffffffff)

// Spec is a job as it was submitted (and later updated by its owner). The
// script and the environment are stored by hash, not here.
type Spec struct {
	Name       string   `json:"name"`
	Partitions string   `json:"partitions"` // comma list as requested, resolved names
	WorkDir    string   `json:"work_dir"`
	ScriptHash string   `json:"script,omitempty"`
	EnvHash    string   `json:"env,omitempty"`
	Argv       []string `json:"argv,omitempty"` // argv[0] is the script's name
	SubmitHost string   `json:"submit_host,omitempty"`
	SubmitLine string   `json:"submit_line,omitempty"`

	NodesMin      int    `json:"nodes_min"`
	NodesMax      int    `json:"nodes_max,omitempty"`
	Tasks         int    `json:"tasks"`
	TasksSet      bool   `json:"tasks_set,omitempty"` // -n was given
	TasksPerNode  int    `json:"tasks_per_node,omitempty"`
	CPUsPerTask   int    `json:"cpus_per_task"`
	CPUsSet       bool   `json:"cpus_set,omitempty"`     // -c was given
	MinCPUs       int    `json:"min_cpus,omitempty"`     // per node
	MemPerNode    int64  `json:"mem_per_node,omitempty"` // MiB; with MemSet 0 is all of the node
	MemPerCPU     int64  `json:"mem_per_cpu,omitempty"`
	MemPerGPU     int64  `json:"mem_per_gpu,omitempty"`
	MemSet        bool   `json:"mem_set,omitempty"`
	TmpDisk       int64  `json:"tmp_disk,omitempty"` // MiB
	TRESPerNode   string `json:"tres_per_node,omitempty"`
	TRESPerJob    string `json:"tres_per_job,omitempty"`
	TRESPerTask   string `json:"tres_per_task,omitempty"`
	TRESPerSocket string `json:"tres_per_socket,omitempty"`
	CPUsPerTRES   string `json:"cpus_per_tres,omitempty"`

	TimeLimit uint32    `json:"time_limit"` // minutes, NoLimit for none
	TimeSet   bool      `json:"time_set,omitempty"`
	TimeMin   uint32    `json:"time_min,omitempty"`
	Begin     time.Time `json:"begin,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`

	Constraint string `json:"constraint,omitempty"`
	ReqNodes   string `json:"req_nodes,omitempty"` // hostlist
	ExcNodes   string `json:"exc_nodes,omitempty"`
	Dependency string `json:"dependency,omitempty"`
	// KillOnInvalidDep ends the job when its dependency can't be met; nil is the cluster's default.
	KillOnInvalidDep *bool  `json:"kill_on_invalid_dep,omitempty"`
	Licenses         string `json:"licenses,omitempty"`
	Reservation      string `json:"reservation,omitempty"`
	WCKey            string `json:"wckey,omitempty"`
	Array            string `json:"array,omitempty"`
	Exclusive        bool   `json:"exclusive,omitempty"`
	Oversubscribe    bool   `json:"oversubscribe,omitempty"`
	Overcommit       bool   `json:"overcommit,omitempty"`
	Contiguous       bool   `json:"contiguous,omitempty"`
	Nice             int32  `json:"nice,omitempty"`

	Requeue  bool     `json:"requeue"`
	Append   *bool    `json:"append,omitempty"` // --open-mode; nil is the cluster's default
	Output   string   `json:"output,omitempty"` // pattern, absolute
	Error    string   `json:"error,omitempty"`
	Input    string   `json:"input,omitempty"`
	Signal   Signal   `json:"signal,omitzero"`
	Umask    uint32   `json:"umask,omitempty"`
	MailType []string `json:"mail_type,omitempty"`
	MailUser string   `json:"mail_user,omitempty"`
	// Stored holds job_desc_msg fields that are shown but not acted on, as given.
	Stored map[string]string `json:"stored,omitempty"`

	Image string `json:"image,omitempty"` // --container-image, else the partition's or pool's
	Burst *Burst `json:"burst,omitempty"`
}

// Signal is --signal: what to send this many seconds before the end.
type Signal struct {
	Num     uint8  `json:"num,omitempty"`
	Seconds uint16 `json:"seconds,omitempty"`
	Batch   bool   `json:"batch,omitempty"`
	Reserve bool   `json:"reserve,omitempty"`
}

// Burst is what #BURST lines and our own options say (design: Jobs).
type Burst struct {
	CheckpointDir      string   `json:"checkpoint_dir,omitempty"`
	CheckpointInterval string   `json:"checkpoint_interval,omitempty"` // minutes or auto
	CheckpointHook     string   `json:"checkpoint_hook,omitempty"`
	RestoreHook        string   `json:"restore_hook,omitempty"`
	MaxRestarts        int      `json:"max_restarts,omitempty"`  // 1..128
	QueueTimeout       uint32   `json:"queue_timeout,omitempty"` // minutes
	MaxPrice           string   `json:"max_price,omitempty"`     // per GPU-hour
	Budget             string   `json:"budget,omitempty"`
	Regions            []string `json:"regions,omitempty"`
	Trust              string   `json:"trust,omitempty"`
	Providers          []string `json:"providers,omitempty"`
	Interconnect       string   `json:"interconnect,omitempty"`
	Env                string   `json:"env,omitempty"`
	Secrets            []string `json:"secrets,omitempty"`
	StageIn            []string `json:"stage_in,omitempty"`
	StageOut           []string `json:"stage_out,omitempty"`
}
