package job

import (
	"fmt"
	"strconv"
	"strings"
)

// NoTask is the array task index of a job that is not an array task (Slurm's
// NO_VAL, 4294967294 in file-name patterns).
const NoTask = uint32(0xfffffffe)

// ID names one job record. Raw is a number that is never reused. Array is the
// array's id for the record that stands for its waiting tasks (Raw is the same
// number, Task is NoTask) and for each task that left it; 0 for other jobs, whose
// Task is NoTask too.
type ID struct {
	Raw   uint32 `json:"raw"`
	Array uint32 `json:"array,omitempty"`
	Task  uint32 `json:"task"`
}

// NewID is the id of a job that belongs to no array.
func NewID(raw uint32) ID { return ID{Raw: raw, Task: NoTask} }

// Shown is the number users were told: an array's for its tasks.
func (id ID) Shown() uint32 {
	if id.Array != 0 {
		return id.Array
	}
	return id.Raw
}

// String prints the id as squeue does: 123, or 100_4 for an array task.
func (id ID) String() string {
	if id.Array != 0 && id.Task != NoTask {
		return fmt.Sprintf("%d_%d", id.Array, id.Task)
	}
	return strconv.FormatUint(uint64(id.Raw), 10)
}

// Ref is a job as users name it: 12 is a job, or all of an array or of a
// heterogeneous job; 12_3 and 12_[1-5] are tasks, 12+1 is a component.
type Ref struct {
	ID    uint32
	Tasks TaskSet // empty: all
	Part  int     // of a heterogeneous job; AllParts: all
}

// AllParts is a Ref's Part when none is named.
const AllParts = -1

// RefTo names a whole job.
func RefTo(id uint32) Ref { return Ref{ID: id, Part: AllParts} }

// RefTask names one task of an array.
func RefTask(array, task uint32) Ref {
	return Ref{ID: array, Tasks: TaskSet{runs: []span{{task, task, 1}}, size: 1}, Part: AllParts}
}

// maxIndex bounds the indexes of a Ref: above Slurm's largest MaxArraySize.
const maxIndex = 4000001

// ParseRef reads 12, 12_3, 12_[1-5,7], 12_* and 12+1.
func ParseRef(text string) (Ref, error) {
	bad := fmt.Errorf("invalid job id %q", text)
	base, part, isPart := strings.Cut(text, "+")
	base, tasks, isTask := strings.Cut(base, "_")
	n, err := strconv.ParseUint(base, 10, 32)
	if err != nil || n == 0 || isPart && isTask {
		return Ref{}, bad
	}
	r := RefTo(uint32(n))
	if isPart {
		k, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return Ref{}, bad
		}
		r.Part = int(k)
	}
	if isTask && tasks != "*" {
		if r.Tasks, _, err = ParseTasks(tasks, maxIndex); err != nil {
			return Ref{}, bad
		}
	}
	return r, nil
}

// String prints the job as it was named, tasks in brackets.
func (r Ref) String() string {
	switch {
	case r.Tasks.Len() > 0:
		return fmt.Sprintf("%d_[%s]", r.ID, r.Tasks)
	case r.Part != AllParts:
		return fmt.Sprintf("%d+%d", r.ID, r.Part)
	}
	return strconv.FormatUint(uint64(r.ID), 10)
}

// Attempt names one run of a job: restart 0 is the first. Work orders, output
// and checkpoints carry it, and older attempts are refused.
type Attempt struct {
	Job     uint32 `json:"job"`
	Restart uint32 `json:"restart"`
}

// String prints job.restart, the name used for folders and containers.
func (a Attempt) String() string { return fmt.Sprintf("%d.%d", a.Job, a.Restart) }
