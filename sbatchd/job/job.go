package job

import (
	"strings"
	"time"
)

// Job is one job record. Values are immutable once published in a state:
// changes replace the record (Clone, edit, put back).
type Job struct {
	ID      ID       `json:"id"`
	Spec    *Spec    `json:"spec"`
	User    string   `json:"user"`
	UID     uint32   `json:"uid"`
	GID     uint32   `json:"gid"`
	Groups  []uint32 `json:"groups,omitempty"`
	Account string   `json:"account,omitempty"`
	QOS     string   `json:"qos,omitempty"`

	// Array is what all tasks of an array share, nil for other jobs.
	Array *Array `json:"array,omitempty"`
	// Tasks are the indexes a record stands for: those of an array that neither
	// started nor were changed by themselves. Once they are cancelled together the
	// record keeps them for accounting.
	Tasks TaskSet `json:"tasks,omitzero"`

	// Het says which component of a heterogeneous job it is, nil for other jobs.
	Het *Het `json:"het,omitempty"`
	// Depends is what it still waits for of --dependency, nil for nothing.
	Depends *Depends `json:"depends,omitempty"`

	State  State  `json:"state"`
	Flags  Flags  `json:"flags,omitempty"`
	Reason Reason `json:"reason,omitempty"`
	// Detail is a sentence that goes with Reason (Slurm's state_desc).
	Detail   string `json:"detail,omitempty"`
	Priority uint32 `json:"priority"` // 0 is held
	// Partition is the one the job runs or ran in; before it starts, the first requested.
	Partition string `json:"partition"`
	// Restarts is which run this is, in every attempt key. Nodes that were given
	// but never told to run the job do not count.
	Restarts uint32 `json:"restarts,omitempty"`
	// LaunchFailures counts requeues in a row that were the system's fault (MaxBatchRequeue).
	LaunchFailures int `json:"launch_failures,omitempty"`
	// Reclaims counts lost or preempted runs (--max-restarts).
	Reclaims int `json:"reclaims,omitempty"`

	Submit   time.Time `json:"submit"`
	Eligible time.Time `json:"eligible,omitzero"`
	// Begin is the earliest start: --begin, or the end of a requeue delay.
	Begin time.Time `json:"begin,omitzero"`
	Start time.Time `json:"start,omitzero"` // of the allocation, as in Slurm
	End   time.Time `json:"end,omitzero"`   // expected while running, real once final

	ExitCode ExitCode `json:"exit_code,omitzero"`
	// Run is the current attempt while the job has or had nodes, else nil.
	Run *Run `json:"run,omitempty"`
	// Stop is what the nodes were last asked to do with the attempt, nil for nothing.
	Stop *Stop `json:"stop,omitempty"`
	// CancelledBy is the user id of who cancelled the job, nil for nobody.
	CancelledBy *uint32 `json:"cancelled_by,omitempty"`
	// Checkpoint is the newest complete checkpoint of any attempt.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
	Comment    string     `json:"comment,omitempty"` // the user's, then ours (admin_comment)
	SystemNote string     `json:"system_note,omitempty"`
}

// Het is a component's place. The components' ids are in a row.
type Het struct {
	Leader uint32 `json:"leader"` // id of the first
	Offset int    `json:"offset"` // 0 leads
	Count  int    `json:"count"`
}

// Leads says whether a job is the first component of several.
func (j *Job) Leads() bool { return j.Het != nil && j.Het.Offset == 0 }

// Follows says whether a job is a component that another leads.
func (j *Job) Follows() bool { return j.Het != nil && j.Het.Offset > 0 }

// Array is an array as it was submitted.
type Array struct {
	Count uint32 `json:"count"`
	Min   uint32 `json:"min"`
	Max   uint32 `json:"max"`
	Step  uint32 `json:"step"` // the first that was given, else 1
	// Limit is how many tasks may run at once, 0 for any number. It may be
	// changed, and the value on the record that bears the array's id counts.
	Limit uint32 `json:"limit,omitempty"`
}

// NewArray reads --array: the tasks, and what they share. Indexes are below most.
func NewArray(text string, most uint32) (TaskSet, *Array, error) {
	tasks, limit, err := ParseTasks(text, most)
	if err != nil {
		return tasks, nil, err
	}
	first, _ := tasks.First()
	_, step, _ := strings.Cut(text, ":")
	return tasks, &Array{
		Count: uint32(tasks.Len()), Min: first, Max: tasks.last(), Step: max(1, leading(step)), Limit: limit,
	}, nil
}

// Clone is a shallow copy for editing; nested pointers are replaced, never
// written through.
func (j *Job) Clone() *Job { c := *j; return &c }

// Attempt is the key of the job's present run.
func (j *Job) Attempt() Attempt { return Attempt{Job: j.ID.Raw, Restart: j.Restarts} }

// Active says whether the job holds nodes: its resources count as used.
func (j *Job) Active() bool {
	return j.State == Running || j.State == Suspended || j.Flags.Has(Completing)
}

// Waiting says whether the record stands for tasks of an array that wait.
func (j *Job) Waiting() bool { return j.State == Pending && j.Tasks.Len() > 0 }

// Held says whether a pending job waits for a release.
func (j *Job) Held() bool { return j.State == Pending && j.Priority == 0 }

// Stop is an order to end an attempt.
type Stop struct {
	// Why is one of the StopX constants.
	Why string `json:"why"`
	// Final is the state the attempt ends in.
	Final State `json:"final"`
	// Requeue says that the job goes back to the queue afterwards.
	Requeue bool `json:"requeue,omitempty"`
	// Hold says that it is then held.
	Hold bool      `json:"hold,omitempty"`
	At   time.Time `json:"at"`
	// By is the uid of who asked.
	By uint32 `json:"by,omitempty"`
	// Signal is the signal named by scancel, 0 for the usual TERM, KILL.
	Signal uint8 `json:"signal,omitempty"`
}

// Reasons of a Stop.
const (
	StopCancel    = "cancel"
	StopTimeLimit = "timelimit"
	StopRequeue   = "requeue"
	StopPreempt   = "preempt"
	StopReclaim   = "reclaim"
	StopNodeFail  = "node_fail"
)

// Checkpoint is one complete saved state.
type Checkpoint struct {
	Number  uint32    `json:"number,omitempty"` // 1, 2, ...; 0 is none
	Restart uint32    `json:"restart,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	// SHA256 is the manifest's hash in hex.
	SHA256 string `json:"sha256,omitempty"`
}

// NodeAlloc is what a job holds on one node.
type NodeAlloc struct {
	Node      string           `json:"node"`
	CPUs      int              `json:"cpus"`
	MemoryMiB int64            `json:"memory_mib,omitempty"`
	Gres      map[string][]int `json:"gres,omitempty"` // gres name (gpu) -> device indexes on the node
	Tasks     int              `json:"tasks,omitempty"`
}

// Run is one attempt: what was really given and how it went. It is the
// accounting record of the attempt and written to SQL whenever it changes.
type Run struct {
	Attempt
	Partition string      `json:"partition"`
	Nodes     []NodeAlloc `json:"nodes"`
	Hosts     []Host      `json:"hosts,omitempty"` // one per node, filled as nodes come up

	Alloc time.Time `json:"alloc"` // nodes given
	// Ordered is when the launch order was committed: from here on the attempt may run.
	Ordered time.Time `json:"ordered,omitzero"`
	Start   time.Time `json:"start,omitzero"` // script started
	Ended   time.Time `json:"ended,omitzero"` // script over, or attempt given up
	Free    time.Time `json:"free,omitzero"`  // nodes given back to the partition

	State    State    `json:"state"`
	Reason   Reason   `json:"reason,omitempty"`
	ExitCode ExitCode `json:"exit_code,omitzero"`
	OOM      bool     `json:"oom,omitempty"`
	Usage    Usage    `json:"usage,omitzero"`
	// Restored is the checkpoint the attempt began from, 0 for none.
	Restored uint32 `json:"restored,omitempty"`
	// Saved is the newest complete checkpoint made by this attempt.
	Saved Checkpoint `json:"saved,omitzero"`
	// Phase is the agent's word for what happens before the script runs.
	Phase string `json:"phase,omitempty"`
	// Steps are the sruns of the attempt, by number, at most MaxSteps.
	Steps []Step `json:"steps,omitempty"`
	// Signals are those asked for by scancel, in order.
	Signals []Sent `json:"signals,omitempty"`
	// Notice is the moment the provider takes the node away, if announced.
	Notice time.Time `json:"notice,omitzero"`
	// NoticeAsked: an admin announced it, the provider didn't.
	NoticeAsked bool `json:"notice_asked,omitempty"`
	// Limit is the time limit in minutes the nodes were told at launch;
	// LimitChanges counts the changes since, so that each is told once.
	Limit        uint32 `json:"limit,omitempty"`
	LimitChanges uint32 `json:"limit_changes,omitempty"`
}

// Sent is a signal asked for: to the steps, to the batch script alone, or to both
// with all their children.
type Sent struct {
	Signal    uint8 `json:"signal"`
	BatchOnly bool  `json:"batch_only,omitempty"`
	Full      bool  `json:"full,omitempty"`
}

// Clone is a shallow copy for editing.
func (r *Run) Clone() *Run { c := *r; return &c }

// CPUs is the total over all nodes.
func (r *Run) CPUs() int {
	n := 0
	for _, a := range r.Nodes {
		n += a.CPUs
	}
	return n
}

// NodeNames lists the run's nodes in order.
func (r *Run) NodeNames() []string {
	names := make([]string, len(r.Nodes))
	for i, a := range r.Nodes {
		names[i] = a.Node
	}
	return names
}

// Host is the machine an attempt really ran on, as rented.
type Host struct {
	Node         string   `json:"node"`
	Instance     string   `json:"instance,omitempty"` // the ledger's tag
	Pool         string   `json:"pool,omitempty"`
	Provider     string   `json:"provider,omitempty"`
	InstanceType string   `json:"instance_type,omitempty"`
	Region       string   `json:"region,omitempty"`
	Spot         bool     `json:"spot,omitempty"`
	PriceMicros  int64    `json:"price_micros,omitempty"` // per hour for the whole node, in millionths of Currency
	Currency     string   `json:"currency,omitempty"`
	Share        float64  `json:"share,omitempty"` // part of the node the job holds, 0..1
	Driver       string   `json:"driver,omitempty"`
	GPUs         []string `json:"gpus,omitempty"` // types as reported
	ImageDigest  string   `json:"image_digest,omitempty"`
	ImageRef     string   `json:"image_ref,omitempty"`
	// Direct says that the node writes the user's output files itself.
	Direct bool `json:"direct,omitempty"`
}

// Usage is what the attempt consumed, measured by the agent on a monotonic clock.
type Usage struct {
	ElapsedMs int64 `json:"elapsed_ms,omitempty"`
	UserUs    int64 `json:"user_us,omitempty"`
	SystemUs  int64 `json:"system_us,omitempty"`
	MaxRSSKiB int64 `json:"max_rss_kib,omitempty"`
}
