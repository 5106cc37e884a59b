package option

import (
	"slices"
	"strconv"
	"strings"
)

func checkOpenMode(r *reader, _ *Values, o *Option, text string) error {
	switch strings.ToLower(text[:min(1, len(text))]) { // the first letter is all that Slurm looks at
	case "a":
		r.value = "append"
	case "t":
		r.value = "truncate"
	default:
		return invalid(o)
	}
	return nil
}

func checkExclusive(r *reader, _ *Values, o *Option, text string) error {
	switch strings.ToLower(text) {
	case "", "exclusive", "allocation":
		r.value = "node"
	case "user", "mcs", "topo", "oversubscribe":
		r.value = strings.ToLower(text)
	default:
		return invalid(o)
	}
	return nil
}

func checkDistribution(_ *reader, v *Values, o *Option, text string) error {
	layout, packs, listed := strings.Cut(text, ",")
	if isPack(layout) && !listed {
		return nil
	}
	if packs != "" && !isPack(packs) {
		return invalid(o)
	}
	levels := strings.Split(layout, ":")
	if len(levels) > 3 {
		return invalid(o)
	}
	for i, l := range levels {
		l = strings.ToLower(l)
		switch size, plane := strings.CutPrefix(l, "plane="); {
		case plane && i == 0:
			n, err := strconv.ParseUint(size, 10, 16)
			if err != nil || n == 0 {
				return invalid(o)
			}
			v.num[o.index] = int64(n)
		case l == "plane" && i == 0:
			return &Error{Exit: ExitUsage, Lines: []Line{
				{Err, "Invalid plane size or size not specified"},
				{Err, "Invalid --distribution specification"},
			}}
		case l == "block", l == "cyclic", l == "*":
		case l == "arbitrary" && i == 0:
		case l == "fcyclic" && i > 0:
		default:
			return invalid(o)
		}
	}
	return nil
}

func isPack(word string) bool {
	return strings.EqualFold(word, "pack") || strings.EqualFold(word, "nopack")
}

func checkGresFlags(_ *reader, _ *Values, o *Option, text string) error {
	known := []string{"disable-binding", "enforce-binding", "one-task-per-sharing", "multiple-tasks-per-sharing", "allow-task-sharing"}
	for _, f := range strings.Split(strings.ToLower(text), ",") {
		if !slices.Contains(known, f) {
			return usage("Invalid --%s specification: %s", o.Long, f)
		}
	}
	return nil
}

func checkHint(_ *reader, _ *Values, _ *Option, text string) error {
	for _, h := range strings.Split(text, ",") {
		switch strings.ToLower(h) {
		case "compute_bound", "memory_bound", "multithread", "nomultithread":
		default:
			return failure("unrecognized --hint argument %q, see --hint=help", text)
		}
	}
	return nil
}

// mailEvents gives each word of --mail-type its names in the REST API.
var mailEvents = map[string][]string{
	"none":           nil,
	"begin":          {"BEGIN"},
	"end":            {"END"},
	"fail":           {"FAIL"},
	"requeue":        {"REQUEUE"},
	"stage_out":      {"STAGE_OUT"},
	"time_limit":     {"TIME=100%"},
	"time_limit_90":  {"TIME=90%"},
	"time_limit_80":  {"TIME=80%"},
	"time_limit_50":  {"TIME=50%"},
	"array_tasks":    {"ARRAY_TASKS"},
	"invalid_depend": {"INVALID_DEPENDENCY"},
	"all":            {"BEGIN", "END", "FAIL", "INVALID_DEPENDENCY", "REQUEUE", "STAGE_OUT"},
}

func checkMailType(_ *reader, _ *Values, o *Option, text string) error {
	for _, w := range strings.Split(text, ",") {
		if _, ok := mailEvents[strings.ToLower(w)]; !ok {
			return invalid(o)
		}
	}
	return nil
}

// MailEvents lists the events of --mail-type by their names in the REST API.
func (v *Values) MailEvents() []string {
	var out []string
	for _, w := range splitList(v.Str("mail-type")) {
		for _, e := range mailEvents[strings.ToLower(w)] {
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

func checkProfile(_ *reader, _ *Values, _ *Option, text string) error {
	for _, w := range strings.Split(strings.ToLower(text), ",") {
		switch w {
		case "all", "none", "energy", "task", "lustre", "filesystem", "network":
		default:
			return usage("invalid --profile=%s option", text)
		}
	}
	return nil
}

// limits are the resource limits that --propagate knows, in the order in which
// they are put into the environment.
var limits = []string{"CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS"}

func checkPropagate(_ *reader, _ *Values, _ *Option, text string) error {
	if text == "" || strings.EqualFold(text, "ALL") || strings.EqualFold(text, "NONE") {
		return nil
	}
	for _, w := range strings.Split(text, ",") {
		if !slices.Contains(limits, limitName(w)) {
			return &Error{Exit: ExitError, Lines: []Line{
				{Err, "Bad rlimit name: " + w},
				{Err, "--propagate=" + text + " is not valid."},
			}}
		}
	}
	return nil
}

func limitName(word string) string {
	return strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(word)), "RLIMIT_")
}

// signals are Linux's numbers; ParseSignal and SignalName read them.
var signals = []string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD",
	18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ",
	26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

// ParseSignal reads a signal's number or name, the name with or without SIG.
func ParseSignal(text string) (int, bool) {
	if n, err := strconv.ParseUint(text, 10, 8); err == nil {
		return int(n), n > 0 && n <= 64
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	n := slices.Index(signals, name)
	return n, n > 0 && name != ""
}

// SignalName returns a signal's name without SIG, or its number if it has none.
func SignalName(n int) string {
	if n > 0 && n < len(signals) {
		return signals[n]
	}
	return strconv.Itoa(n)
}

func checkSignal(_ *reader, v *Values, o *Option, text string) error {
	sig := Signal{Seconds: 60}
	flags, rest, flagged := strings.Cut(text, ":")
	if !flagged {
		flags, rest = "", text
	}
	for _, c := range flags {
		switch c {
		case 'B', 'b':
			sig.Batch = true
		case 'R', 'r':
			sig.Reservation = true
		default:
			return invalid(o)
		}
	}
	name, at, timed := strings.Cut(rest, "@")
	var ok bool
	if sig.Number, ok = ParseSignal(name); !ok {
		return invalid(o)
	}
	if timed {
		n, err := strconv.ParseUint(at, 10, 16)
		if err != nil && at != "" {
			return invalid(o)
		}
		sig.Seconds = int(n)
	}
	sig.Name = SignalName(sig.Number)
	v.Signal = sig
	return nil
}

// checkSwitches reads n[@time] and keeps the count; SwitchWait has the time.
func checkSwitches(_ *reader, v *Values, o *Option, text string) (err error) {
	count, _, _ := strings.Cut(text, "@") // a time that is none counts as not given
	v.num[o.index], err = number(o, count, 0)
	return err
}

// checkTresPerTask refuses what no task can be given, and lets cpu=N stand for
// --cpus-per-task.
func checkTresPerTask(_ *reader, v *Values, _ *Option, text string) error {
	v.cpusOfTask = 0
	for _, item := range strings.Split(text, ",") {
		name, count, ok := strings.Cut(item, "=")
		if !ok {
			name, count, _ = strings.Cut(item, ":")
		}
		kind, _, _ := strings.Cut(strings.ToLower(name), "/")
		switch kind {
		case "mem", "energy", "node", "billing", "fs", "vmem", "pages", "bb":
			return fatal("Invalid TRES for --tres-per-task: %s", kind)
		case "":
			return fatal("Invalid TRES for --tres-per-task: %s", item)
		case "cpu":
			n, err := strconv.ParseUint(count, 10, 31)
			if err != nil || n == 0 {
				return fatal("Invalid TRES for --tres-per-task: %s", item)
			}
			v.cpusOfTask = int64(n)
		}
	}
	return nil
}

func checkMoney(_ *reader, _ *Values, o *Option, text string) error {
	if m, ok := ParseMoney(text); !ok || m.Amount == 0 {
		return invalid(o)
	}
	return nil
}

// AutoInterval is the Num of --checkpoint-interval=auto.
const AutoInterval = -1

func checkInterval(r *reader, v *Values, o *Option, text string) error {
	if strings.EqualFold(text, "auto") {
		v.num[o.index] = AutoInterval
		return nil
	}
	if err := checkMinutes(r, v, o, text); err != nil {
		return err
	}
	if v.num[o.index] == 0 {
		return invalid(o)
	}
	return nil
}

func checkRestarts(_ *reader, v *Values, o *Option, text string) error {
	n, err := number(o, text, 1)
	if err == nil && n > 128 {
		err = failure("Invalid numeric value %q for --%s.", text, o.Long)
	}
	v.num[o.index] = n
	return err
}

func checkPackedEnv(_ *reader, _ *Values, o *Option, text string) error {
	kind, name, ok := strings.Cut(text, ":")
	if !ok || name == "" || kind != "conda" && kind != "venv" && kind != "file" {
		return usage("Invalid --%s specification: want conda:NAME, venv:PATH or file:environment.yml", o.Long)
	}
	return nil
}

func checkList(_ *reader, _ *Values, o *Option, text string) error {
	if len(splitList(text)) == 0 {
		return invalid(o)
	}
	return nil
}

// SwitchWait returns the seconds of --switches=n@time, 0 if none were given.
func (v *Values) SwitchWait() int64 {
	_, wait, ok := strings.Cut(v.Str("switches"), "@")
	if !ok {
		return 0
	}
	minutes, _ := limitMinutes(wait) // checked when it was set
	return minutes * 60
}
