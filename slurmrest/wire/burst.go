package wire

import "time"

// The types below are the answers of sbatchd's own endpoints, /sbatchd/v1/...;
// they have no counterpart in Slurm and go through encoding/json. Money is in
// units of Currency, not cents.

// Pools answers GET /sbatchd/v1/pools.
type Pools struct {
	Pools []Pool `json:"pools"`
}

// Pool is one pool as configured and as it stands.
type Pool struct {
	Name       string   `json:"name"`
	Provider   string   `json:"provider"`
	Type       string   `json:"type"` // the provider's driver
	State      string   `json:"state"`
	Capacity   string   `json:"capacity"`
	Trust      string   `json:"trust"`
	Runtime    string   `json:"runtime"`
	Workdir    string   `json:"workdir"`
	AgentLink  string   `json:"agent_link"`
	Gres       string   `json:"gres"`
	CPUs       int      `json:"cpus"`
	MemoryMiB  int64    `json:"memory_mib"`
	MaxPrice   string   `json:"max_price"` // per node-hour, empty for none
	Partitions []string `json:"partitions"`
	MinNodes   int      `json:"min_nodes"`
	MaxNodes   int      `json:"max_nodes"`

	// Nodes by what stands behind them.
	Up           int `json:"up"`
	PoweringUp   int `json:"powering_up"`
	PoweringDown int `json:"powering_down"`
	PoweredDown  int `json:"powered_down"`
	Down         int `json:"down"`

	// Until and Why say that the pool is set aside, and what its provider answered.
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
	// DeadMan says who ends a machine that lost its controller: provider, agent or nobody.
	DeadMan string `json:"dead_man"`
}

// Offers answers GET /sbatchd/v1/offers?pool=NAME.
type Offers struct {
	Offers []Offer `json:"offers"`
	// Errors are pools that could not be asked, with the reason.
	Errors []string `json:"errors,omitempty"`
}

// Offer is one thing a pool's provider would rent now.
type Offer struct {
	Pool         string  `json:"pool"`
	Provider     string  `json:"provider"`
	InstanceType string  `json:"instance_type"`
	Region       string  `json:"region"`
	Gres         string  `json:"gres"`
	CPUs         int     `json:"cpus"`
	MemoryMiB    int64   `json:"memory_mib"`
	Interconnect string  `json:"interconnect,omitempty"`
	Spot         bool    `json:"spot"`
	PricePerHour float64 `json:"price_per_hour"`
	Currency     string  `json:"currency"`
	Available    int     `json:"available,omitempty"` // 0: not told
}

// Bill answers GET /sbatchd/v1/bill/{job}: what was given, how it ended, and
// what it cost.
type Bill struct {
	JobID    uint32        `json:"job_id"`
	Name     string        `json:"name"`
	User     string        `json:"user"`
	Attempts []BillAttempt `json:"attempts"`
	Result   BillResult    `json:"result"`
	// Totals, one for each currency.
	Totals []BillTotal `json:"totals"`
}

// BillAttempt is one run of the job: the machines it got and their cost.
type BillAttempt struct {
	Restart    uint32     `json:"restart"`
	State      string     `json:"state"`
	ExitCode   string     `json:"exit_code"` // status:signal
	Start      time.Time  `json:"start,omitzero"`
	End        time.Time  `json:"end,omitzero"`
	Seconds    float64    `json:"seconds"`        // nodes held
	Useful     float64    `json:"useful_seconds"` // of them work that a later run did not repeat
	Lost       float64    `json:"lost_seconds"`   // booting, staging, and work done again
	Checkpoint uint32     `json:"checkpoint,omitempty"`
	Restored   uint32     `json:"restored,omitempty"`
	Hosts      []BillHost `json:"hosts"`
}

// BillHost is one machine of an attempt.
type BillHost struct {
	Node         string   `json:"node"`
	Pool         string   `json:"pool,omitempty"`
	Provider     string   `json:"provider,omitempty"`
	Instance     string   `json:"instance,omitempty"`
	InstanceType string   `json:"instance_type,omitempty"`
	Region       string   `json:"region,omitempty"`
	Spot         bool     `json:"spot,omitempty"`
	GPUs         []string `json:"gpus,omitempty"`
	Driver       string   `json:"driver,omitempty"`
	ImageRef     string   `json:"image_ref,omitempty"`
	ImageDigest  string   `json:"image_digest,omitempty"`
	PricePerHour float64  `json:"price_per_hour"`
	Currency     string   `json:"currency,omitempty"`
	Share        float64  `json:"share"` // of the node, 0..1
	Cost         float64  `json:"cost"`
	UsefulCost   float64  `json:"useful_cost"`
	LostCost     float64  `json:"lost_cost"`
}

// BillResult is how the job stands.
type BillResult struct {
	State    string `json:"state"`
	ExitCode string `json:"exit_code"`
	Reason   string `json:"reason,omitempty"`
	Restarts uint32 `json:"restarts"`
	Output   string `json:"output,omitempty"` // path of the output file
	Error    string `json:"error,omitempty"`
	WorkDir  string `json:"work_dir"`
}

// BillTotal sums up one currency.
type BillTotal struct {
	Currency string  `json:"currency"`
	Cost     float64 `json:"cost"`
	Useful   float64 `json:"useful"`
	Lost     float64 `json:"lost"`
}

// Checkpoints answers GET /sbatchd/v1/checkpoints/{job}.
type Checkpoints struct {
	JobID       uint32       `json:"job_id"`
	Checkpoints []Checkpoint `json:"checkpoints"`
}

// Checkpoint is one complete saved state of a job.
type Checkpoint struct {
	Number  uint32    `json:"number"`
	Restart uint32    `json:"restart"`
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Bytes   int64     `json:"bytes"`
	Files   int       `json:"files,omitempty"`
	SHA256  string    `json:"sha256,omitempty"` // of the manifest
	Newest  bool      `json:"newest"`           // what a requeue would restore
}

// Explain answers GET /sbatchd/v1/explain/{job}: why a job waits.
type Explain struct {
	JobID  uint32        `json:"job_id"`
	State  string        `json:"state"`
	Reason string        `json:"reason"`
	Detail string        `json:"detail,omitempty"`
	Pools  []ExplainPool `json:"pools"`
}

// ExplainPool is one place where the job could run, or why not.
type ExplainPool struct {
	Partition string    `json:"partition"`
	Pool      string    `json:"pool,omitempty"` // empty: the partition's own nodes
	Fits      bool      `json:"fits"`
	Why       string    `json:"why,omitempty"`
	Until     time.Time `json:"until,omitzero"` // set aside until then
}

// Leaks answers GET /sbatchd/v1/leaks: what the providers list beside what the
// ledger knows.
type Leaks struct {
	Instances []LeakRow `json:"instances"`
	Leaked    int       `json:"leaked"`
	Errors    []string  `json:"errors,omitempty"` // providers that could not be asked
}

// LeakRow is one instance that a provider lists or the ledger says lives.
type LeakRow struct {
	Provider   string `json:"provider"`
	ProviderID string `json:"provider_id,omitempty"`
	Tag        string `json:"tag,omitempty"`
	Node       string `json:"node,omitempty"`
	Ledger     string `json:"ledger"` // intent, created, deleting, gone; empty: unknown
	Listed     bool   `json:"listed"`
	Leaked     bool   `json:"leaked"`
	Note       string `json:"note,omitempty"`
}

// TokenRequest is the body of POST /sbatchd/v1/token. A lifespan of 0 is the
// default, -1 infinite.
type TokenRequest struct {
	User     string `json:"user,omitempty"`
	Lifespan int64  `json:"lifespan_seconds,omitempty"`
}

// Token answers it.
type Token struct {
	Token string `json:"token"`
}

// ConfigValues answers GET /sbatchd/v1/config: the global keys for scontrol show
// config, under Slurm's spelling.
type ConfigValues struct {
	Path   string            `json:"path"`
	Time   time.Time         `json:"time"`
	Values map[string]string `json:"values"`
}

// ReclaimRequest is the body of POST /sbatchd/v1/reclaim/{node}: treat the node
// as if its provider had announced to take it, with so many seconds' notice.
type ReclaimRequest struct {
	Notice int64 `json:"notice_seconds"`
}
