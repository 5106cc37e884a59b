package wire

// PartitionChange asks POST /sbatchd/v1/partition to change, create or delete a
// partition. Values are keys of slurm.conf.
type PartitionChange struct {
	Name   string            `json:"name"`
	Create bool              `json:"create,omitempty"`
	Delete bool              `json:"delete,omitempty"`
	Values map[string]string `json:"values,omitempty"`
}

// Steps answers GET /sbatchd/v1/steps, in the form of squeue --steps --json.
type Steps struct {
	Steps []Step `json:"steps"`
}

// Step is a step of a running job. The keys are those of squeue --steps --json.
type Step struct {
	Array          StepArray `json:"array"`
	Cluster        string    `json:"cluster"`
	Container      string    `json:"container"`
	ContainerID    string    `json:"container_id"`
	ContainerType  string    `json:"container_type"`
	CPU            StepCPU   `json:"cpu"`
	TRES           StepTRES  `json:"tres"`
	Name           string    `json:"name"`
	Network        string    `json:"network"`
	Nodes          string    `json:"nodes"`
	NumberCPUs     int       `json:"number_cpus"`
	NumberTasks    int       `json:"number_tasks"`
	Partition      string    `json:"partition"`
	ReservedPorts  string    `json:"reserved_ports"`
	Time           StepTime  `json:"time"`
	Srun           StepSrun  `json:"srun"`
	State          []string  `json:"state"`
	SLUID          string    `json:"sluid"`
	ID             string    `json:"id"`
	Stderr         string    `json:"stderr"`
	Stdin          string    `json:"stdin"`
	Stdout         string    `json:"stdout"`
	StdinExpanded  string    `json:"stdin_expanded"`
	StdoutExpanded string    `json:"stdout_expanded"`
	StderrExpanded string    `json:"stderr_expanded"`
	SubmitLine     string    `json:"submit_line"`
	Task           StepTask  `json:"task"`
	User           string    `json:"user"`

	// Ours, for the commands' filters and columns.
	JobID  int64 `json:"job_id"`
	UserID int64 `json:"user_id"`
}

// StepArray is the array that the step's job belongs to, 0 for none.
type StepArray struct {
	JobID  int64 `json:"job_id"`
	TaskID int64 `json:"task_id"` // 4294967294 for none
}

// StepCPU holds what was asked of the CPUs' frequency, which we never change.
type StepCPU struct {
	Frequency struct {
		Min      Num `json:"min"`
		Max      Num `json:"max"`
		Governor Num `json:"governor"`
	} `json:"frequency"`
}

// StepTRES is what the step holds.
type StepTRES struct {
	Per struct {
		CPU    string `json:"cpu"`
		Memory string `json:"memory"`
		Step   string `json:"step"`
		Node   string `json:"node"`
		Socket string `json:"socket"`
		Task   string `json:"task"`
	} `json:"per"`
	Allocation string `json:"allocation"`
	Binding    string `json:"binding"`
	Frequency  string `json:"frequency"`
}

// StepTime is when the step began and how long it may take, in seconds and minutes.
type StepTime struct {
	Running Num `json:"running"`
	Start   Num `json:"start"`
	Limit   Num `json:"limit"`
}

// StepSrun is the srun behind the step.
type StepSrun struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// StepTask says how tasks are spread.
type StepTask struct {
	Distribution string `json:"distribution"`
}
