package job

import (
	"fmt"
	"strconv"
	"strings"
)

// NoTask is the array task index of a job that is not an array task (Slurm's
// NO_VAL, 4294967294 in file-name patterns).
const NoTask = uint32(0xfffffffe)

// ID names one job record. Raw is the number users see and never reused. For a
// task of an array, Array is the array's id and Task its index; otherwise
// Array is 0 and Task is NoTask.
type ID struct {
	Raw   uint32 `json:"raw"`
	Array uint32 `json:"array,omitempty"`
	Task  uint32 `json:"task"`
}

// NewID is the id of a job that belongs to no array.
func NewID(raw uint32) ID { return ID{Raw: raw, Task: NoTask} }

// String prints the id as squeue does: 123, or 100_4 for an array task.
func (id ID) String() string {
	if id.Array != 0 && id.Task != NoTask {
		return fmt.Sprintf("%d_%d", id.Array, id.Task)
	}
	return strconv.FormatUint(uint64(id.Raw), 10)
}

// ParseID reads "123" or "100_4". The raw id of an array task is unknown from
// its text and left 0.
func ParseID(s string) (ID, error) {
	array, task, isTask := strings.Cut(s, "_")
	n, err := strconv.ParseUint(array, 10, 32)
	if err != nil || n == 0 {
		return ID{}, fmt.Errorf("invalid job id %q", s)
	}
	if !isTask {
		return NewID(uint32(n)), nil
	}
	t, err := strconv.ParseUint(task, 10, 32)
	if err != nil {
		return ID{}, fmt.Errorf("invalid job id %q", s)
	}
	return ID{Array: uint32(n), Task: uint32(t)}, nil
}

// Attempt names one run of a job: restart 0 is the first. Work orders, output
// and checkpoints carry it, and older attempts are refused.
type Attempt struct {
	Job     uint32 `json:"job"`
	Restart uint32 `json:"restart"`
}

// String prints job.restart, the name used for folders and containers.
func (a Attempt) String() string { return fmt.Sprintf("%d.%d", a.Job, a.Restart) }
