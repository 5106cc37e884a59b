package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// waits says whether a record stands for waiting tasks of an array.
func waits(j *wire.JobInfo) bool { return j.ArrayTaskString != "" && !j.ArrayTaskID.Set }

// namesTask says whether an id that was asked for is one of a record's tasks.
func (q *jobQuery) namesTask(j *format.Job) bool {
	return slices.ContainsFunc(q.ids, func(r jobRef) bool {
		return r.tasks != "" && r.tasks != "*" && r.id == j.ArrayJobID.Number
	})
}

// expandTasks makes a record for each task that an array record still holds.
func expandTasks(j *format.Job) []format.Job {
	var out []format.Job
	for _, n := range heldTasks(j.JobInfo) {
		t := *j.JobInfo
		t.ArrayTaskID, t.ArrayTaskString = wire.N(n), ""
		out = append(out, format.Job{JobInfo: &t})
	}
	return out
}

func heldTasks(j *wire.JobInfo) []int64 {
	list, _, _ := strings.Cut(j.ArrayTaskString, "%")
	return indexes(list, 1<<22)
}

// mergeTasks shows pending tasks that have records of their own on the line of
// their array's waiting ones, where nothing but the reason tells them apart, as
// squeue does. The line then has no %limit.
func mergeTasks(jobs []format.Job) []format.Job {
	type kind struct {
		array           int64
		name, partition string
	}
	at := map[kind]int{}
	out := jobs[:0]
	for _, j := range jobs {
		array := j.ArrayJobID.Or(0)
		if array == 0 || !slices.Equal(j.JobState, []string{"PENDING"}) || !waits(j.JobInfo) && !j.ArrayTaskID.Set {
			out = append(out, j)
			continue
		}
		k := kind{array, j.Name, j.Partition}
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			out = append(out, j)
			continue
		}
		one := *out[i].JobInfo
		one.ArrayTaskString = indexList(append(taskIndexes(&one), taskIndexes(j.JobInfo)...))
		one.ArrayTaskID = wire.Num{}
		if !slices.Contains(strings.Split(one.StateReason, ","), j.StateReason) {
			one.StateReason += "," + j.StateReason
		}
		out[i] = format.Job{JobInfo: &one}
	}
	return out
}

func taskIndexes(j *wire.JobInfo) []int64 {
	if j.ArrayTaskID.Set {
		return []int64{j.ArrayTaskID.Number}
	}
	return heldTasks(j)
}

// indexList prints indexes as ranges: 1-3,7.
func indexList(list []int64) string {
	slices.Sort(list)
	var b []byte
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, list[i], 10)
		if k > i {
			b = strconv.AppendInt(append(b, '-'), list[k], 10)
		}
		i = k + 1
	}
	return string(b)
}
