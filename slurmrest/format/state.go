package format

import (
	"slices"
	"strings"
)

// JobState is a state or state flag of jobs.
type JobState struct {
	Name, Compact string
}

// JobStates are the base states in the order of their numbers, then the flags in
// the order in which Slurm lists them.
var JobStates = []JobState{
	{"PENDING", "PD"}, {"RUNNING", "R"}, {"SUSPENDED", "S"}, {"COMPLETED", "CD"}, {"CANCELLED", "CA"},
	{"FAILED", "F"}, {"TIMEOUT", "TO"}, {"NODE_FAIL", "NF"}, {"PREEMPTED", "PR"}, {"BOOT_FAIL", "BF"},
	{"DEADLINE", "DL"}, {"OUT_OF_MEMORY", "OOM"},
	{"COMPLETING", "CG"}, {"CONFIGURING", "CF"}, {"EXPEDITING", "EX"}, {"RESIZING", "RS"}, {"RESV_DEL_HOLD", "RD"},
	{"REQUEUED", "RQ"}, {"REQUEUE_FED", "RF"}, {"REQUEUE_HOLD", "RH"}, {"REVOKED", "RV"}, {"SIGNALING", "SI"},
	{"SPECIAL_EXIT", "SE"}, {"STAGE_OUT", "SO"}, {"STOPPED", "ST"},
}

// BaseStates is how many of JobStates are base states.
const BaseStates = 12

// shownFirst are the flags that hide the base state, first match first.
var shownFirst = []string{
	"COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
	"SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING",
}

// ParseJobState reads a state's long or compact name in any case.
func ParseJobState(text string) (JobState, bool) {
	for _, s := range JobStates {
		if strings.EqualFold(text, s.Name) || strings.EqualFold(text, s.Compact) {
			return s, true
		}
	}
	return JobState{}, false
}

// ShownState picks from a job's base state and flags the one that squeue and
// scontrol show.
func ShownState(states []string) JobState {
	for _, flag := range shownFirst {
		if slices.Contains(states, flag) {
			s, _ := ParseJobState(flag)
			return s
		}
	}
	return BaseState(states)
}

// BaseState picks the base state.
func BaseState(states []string) JobState {
	for _, s := range JobStates[:BaseStates] {
		if slices.Contains(states, s.Name) {
			return s
		}
	}
	if len(states) > 0 {
		return JobState{states[0], states[0]}
	}
	return JobState{"UNKNOWN", "?"}
}

// Finished says whether a job has come to its end.
func Finished(states []string) bool {
	b := BaseState(states)
	return b.Name != "PENDING" && b.Name != "RUNNING" && b.Name != "SUSPENDED" && b.Name != "UNKNOWN"
}

// StateNumber orders jobs by state as squeue's sort does.
func StateNumber(states []string) int {
	n := slices.IndexFunc(JobStates, func(s JobState) bool { return s.Name == BaseState(states).Name })
	for i, flag := range []string{"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED"} {
		if slices.Contains(states, flag) {
			n += 1 << (10 + i)
		}
	}
	return n
}

// nodeBits are the numbers of node states and flags, for sorting.
var nodeBits = map[string]int{
	"UNKNOWN": 0, "DOWN": 1, "IDLE": 2, "ALLOCATED": 3, "ERROR": 4, "MIXED": 5, "FUTURE": 6,
	"EXTERNAL": 1 << 4, "RESERVED": 1 << 5, "UNDRAIN": 1 << 6, "CLOUD": 1 << 7, "DRAIN": 1 << 9, "COMPLETING": 1 << 10,
	"NOT_RESPONDING": 1 << 11, "POWERED_DOWN": 1 << 12, "FAIL": 1 << 13, "POWERING_UP": 1 << 14,
	"MAINTENANCE": 1 << 15, "REBOOT_REQUESTED": 1 << 16, "REBOOT_CANCELED": 1 << 17, "POWERING_DOWN": 1 << 18,
	"DYNAMIC_FUTURE": 1 << 19, "REBOOT_ISSUED": 1 << 20, "PLANNED": 1 << 21, "INVALID_REG": 1 << 22,
	"POWER_DOWN": 1 << 23, "POWER_UP": 1 << 24, "POWER_DRAIN": 1 << 25, "DYNAMIC_NORM": 1 << 26, "BLOCKED": 1 << 27,
}

// NodeStateNumber orders nodes by state as sinfo's sort does.
func NodeStateNumber(states []string) int {
	n := 0
	for _, s := range states {
		n |= nodeBits[s]
	}
	return n
}

// NodeState gives the long and compact strings that sinfo shows for a node's
// base state and flags, with the suffix that says more.
func NodeState(states []string) (long, compact string) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(states, n) })
	}
	suffix := nodeSuffix(has)
	busy := has("ALLOCATED", "MIXED", "COMPLETING")
	with := func(l, c string) (string, string) { return l + suffix, c + suffix }
	switch {
	case has("INVALID_REG"):
		return "inval", "inval"
	case has("MAINTENANCE") && !has("DRAIN", "ALLOCATED", "MIXED", "DOWN"):
		if has("NOT_RESPONDING") {
			return "maint*", "maint*"
		}
		return "maint", "maint"
	case has("REBOOT_ISSUED", "REBOOT_REQUESTED") && !has("ALLOCATED", "MIXED"):
		return with("reboot", "boot")
	case has("DRAIN") && busy:
		return with("draining", "drng")
	case has("DRAIN"):
		return with("drained", "drain")
	case has("FAIL") && busy:
		return with("failing", "failg")
	case has("FAIL"):
		return with("fail", "fail")
	case has("DOWN"):
		return with("down", "down")
	case has("ALLOCATED"):
		if has("COMPLETING") && suffix == "" {
			return "allocated+", "alloc+"
		}
		return with("allocated", "alloc")
	case has("COMPLETING"):
		return with("completing", "comp")
	case has("MIXED"):
		return with("mixed", "mix")
	case has("RESERVED"):
		return with("reserved", "resv")
	case has("PLANNED"):
		return "planned", "plnd"
	case has("BLOCKED"):
		return with("blocked", "block")
	case has("IDLE"):
		return with("idle", "idle")
	case has("FUTURE"):
		return with("future", "futr")
	}
	return with("unknown", "unk")
}

// nodeSuffix is the first of the marks that apply.
func nodeSuffix(has func(...string) bool) string {
	switch {
	case has("MAINTENANCE"):
		return "$"
	case has("REBOOT_ISSUED"):
		return "^"
	case has("REBOOT_REQUESTED"):
		return "@"
	case has("POWERING_UP", "POWER_UP"):
		return "#"
	case has("POWERING_DOWN"):
		return "%"
	case has("POWERED_DOWN"):
		return "~"
	case has("POWER_DOWN", "POWER_DRAIN"):
		return "!"
	case has("NOT_RESPONDING"):
		return "*"
	case has("PLANNED") && has("MIXED"):
		return "-"
	}
	return ""
}
