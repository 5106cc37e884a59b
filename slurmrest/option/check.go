package option

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/hostlist"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

// The checks refuse a value in Slurm's words and note in Values what it
// means. They run when the option is met, so a bad value in a script is an
// error even if the command line overrides it, as with sbatch.

// leadingInt reads the whole number a text begins with, as strtol does.
func leadingInt(text string) (int64, bool) {
	t := strings.TrimLeft(text, " \t\n")
	end := 0
	if end < len(t) && (t[end] == '-' || t[end] == '+') {
		end++
	}
	digits := end
	for end < len(t) && t[end] >= '0' && t[end] <= '9' {
		end++
	}
	if end == digits {
		return 0, false
	}
	n, err := strconv.ParseInt(t[:end], 10, 64)
	if err != nil && t[0] == '-' {
		n = math.MinInt64
	} else if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

// number reads a plain count.
func number(o *Option, text string, least int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !isRange(err) || err == nil && n < least {
		return 0, failure("Invalid numeric value %q for --%s.", text, o.Long)
	}
	if err != nil || n > math.MaxInt32 {
		return 0, failure("Numeric argument (%s) too large for --%s.", text, o.Long)
	}
	return n, nil
}

func isRange(err error) bool {
	e, ok := err.(*strconv.NumError) //nolint:errorlint // straight from strconv
	return ok && e.Err == strconv.ErrRange
}

func checkCount(_ *reader, v *Values, o *Option, text string) (err error) {
	v.num[o.index], err = number(o, text, 1)
	return err
}

func checkCount0(_ *reader, v *Values, o *Option, text string) (err error) {
	v.num[o.index], err = number(o, text, 0)
	return err
}

// checkRange takes "min" or "min-max" and keeps the minimum.
func checkRange(_ *reader, v *Values, o *Option, text string) error {
	low, high, both := strings.Cut(text, "-")
	n, err := strconv.ParseUint(low, 10, 31)
	if err != nil || n == 0 {
		return invalid(o)
	}
	if both {
		if m, err := strconv.ParseUint(high, 10, 31); err != nil || m < n {
			return invalid(o)
		}
	}
	v.num[o.index] = int64(n)
	return nil
}

func checkNodeInfo(r *reader, v *Values, o *Option, text string) error {
	for i, p := range strings.Split(text, ":") {
		if i == len(nodeInfo) {
			break // what follows is not looked at
		}
		if p == "*" {
			continue
		}
		n, err := strconv.ParseUint(p, 10, 31)
		if err != nil || n == 0 {
			return invalid(o)
		}
		level := find(nodeInfo[i])
		v.raw[level.index], v.num[level.index], v.src[level.index] = p, int64(n), r.source
	}
	return nil
}

// nodeInfo are the options that --extra-node-info stands for, in its order.
var nodeInfo = []string{"sockets-per-node", "cores-per-socket", "threads-per-core"}

func checkMemory(_ *reader, v *Values, o *Option, text string) error {
	m, err := tres.ParseMemory(text)
	if err != nil {
		return invalid(o)
	}
	v.num[o.index] = int64(m)
	return nil
}

// Unlimited is what --time's Num is for no limit.
const Unlimited = int64(tres.Infinite)

// limitMinutes reads a time limit; more than 68 years counts as no limit.
func limitMinutes(text string) (int64, bool) {
	m, err := tres.ParseTimeLimit(text)
	if err == nil {
		return int64(m), true
	}
	if n, e := strconv.ParseUint(text, 10, 64); e == nil && n > 1<<20 || isRange(e) && text[0] != '-' {
		return Unlimited, true
	}
	return 0, false
}

func checkTimeLimit(_ *reader, v *Values, o *Option, text string) error {
	minutes, ok := limitMinutes(text)
	if !ok {
		return invalid(o)
	}
	if minutes == 0 && o.Long == "time" {
		minutes = Unlimited
	}
	v.num[o.index] = minutes
	return nil
}

func checkMinutes(_ *reader, v *Values, o *Option, text string) error {
	minutes, ok := limitMinutes(text)
	if !ok || minutes == Unlimited {
		return invalid(o)
	}
	v.num[o.index] = minutes
	return nil
}

func checkTimePoint(r *reader, v *Values, o *Option, text string) error {
	t, err := tres.ParseTime(text, r.in.Now)
	if err != nil {
		return &Error{Exit: ExitUsage, Lines: []Line{
			{Raw, err.Error()},
			{Err, "Invalid --" + o.Long + " specification"},
		}}
	}
	v.num[o.index] = t.Unix()
	return nil
}

func checkNodes(_ *reader, v *Values, o *Option, text string) error {
	bad := usage("%q is not a valid node count", text)
	v.NodesMin, v.NodesMax, v.NodesList = 0, 0, ""
	if strings.ContainsAny(text, ",:") {
		least, most := math.MaxInt, 0
		for _, part := range strings.Split(text, ",") {
			span, step, _ := strings.Cut(part, ":")
			low, high, err := nodeRange(span)
			if n, e := strconv.ParseUint(step, 10, 31); err != nil || step != "" && (e != nil || n == 0) {
				return bad
			}
			least, most = min(least, low), max(most, low, high)
		}
		v.NodesMin, v.NodesMax, v.NodesList = least, most, text
		return nil
	}
	low, high, err := nodeRange(text)
	if err != nil {
		return bad
	}
	if strings.HasSuffix(text, "-") {
		high = -1
	}
	if high != 0 && high < low {
		return usage("Maximum node count %d is less than minimum node count %d", high, low)
	}
	v.NodesMin, v.NodesMax, v.num[o.index] = low, high, int64(low)
	return nil
}

// nodeRange reads N, MIN-MAX, MIN- and -MAX, whose least is one node.
func nodeRange(text string) (low, high int, err error) {
	a, b, both := strings.Cut(text, "-")
	switch {
	case !both:
		low, err = nodeNumber(a)
		return low, 0, err
	case a == "":
		high, err = nodeNumber(b)
		return 1, high, err
	}
	if low, err = nodeNumber(a); err == nil && b != "" {
		high, err = nodeNumber(b)
	}
	return low, high, err
}

// nodeNumber reads a count with an optional k (1024) or m (1024*1024).
func nodeNumber(text string) (int, error) {
	digits, mul := text, 1
	if n := len(text); n > 0 {
		switch text[n-1] | 0x20 {
		case 'k':
			digits, mul = text[:n-1], 1024
		case 'm':
			digits, mul = text[:n-1], 1024*1024
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n > uint64(math.MaxInt32/mul) {
		return 0, fmt.Errorf("bad count %q", text)
	}
	return int(n) * mul, nil
}

func checkHosts(r *reader, v *Values, o *Option, text string) error {
	if strings.Contains(text, "/") {
		return readHosts(r, v, o, text)
	}
	if _, err := hostlist.ParseExpr(text); err != nil {
		return badHosts(err)
	}
	return nil
}

// badHosts are the lines for host names that can't be read.
func badHosts(err error) error {
	e := &Error{Exit: ExitError}
	if h, ok := errors.AsType[*hostlist.Error](err); ok && h.Diag != "" {
		e.Lines = append(e.Lines, Line{Err, h.Diag})
	}
	e.Lines = append(e.Lines, Line{Fatal, "Invalid node list specified"})
	return e
}

func checkNodefile(r *reader, v *Values, o *Option, text string) error {
	return readHosts(r, v, o, text)
}

// readHosts takes a file of host names and sets --nodelist or --exclude. The
// names replace the path, so it also works where the file is not.
func readHosts(r *reader, v *Values, o *Option, path string) error {
	data, err := r.file(path)
	if err != nil {
		e := &Error{Exit: ExitError, Lines: []Line{
			{Err, "slurm_allocate_resources error opening file " + path + ", No such file or directory"},
		}}
		if o.Long == "nodefile" {
			e.Exit, e.Lines = ExitUsage, append(e.Lines, Line{Err, "Invalid --nodefile node file"})
		}
		return e
	}
	hosts := strings.Join(strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' || c == ',' || c == ' ' || c == '\t' }), ",")
	if hosts == "" {
		return invalid(o)
	}
	if _, err := hostlist.ParseExpr(hosts); err != nil {
		return badHosts(err)
	}
	if o.Long == "nodefile" {
		list := find("nodelist")
		v.raw[list.index], v.src[list.index] = hosts, r.source
		return nil
	}
	r.value = hosts
	return nil
}

func checkYesNo(_ *reader, v *Values, o *Option, text string) error {
	switch strings.ToLower(text) {
	case "yes":
		v.num[o.index] = 1
	case "no":
		v.num[o.index] = 0
	default:
		return invalid(o)
	}
	return nil
}

func checkZeroOne(_ *reader, v *Values, o *Option, text string) error {
	n, ok := leadingInt(text)
	if text == "" {
		n, ok = 1, true
	}
	if !ok || n < 0 || n > 1 {
		return invalid(o)
	}
	v.num[o.index] = n
	return nil
}

func checkNice(_ *reader, v *Values, o *Option, text string) error {
	n := int64(100)
	if text != "" {
		n, _ = leadingInt(text) // text without a number counts as 0, as in Slurm
	}
	const most = 2147483645
	if n > most || n < -most {
		return usage("Invalid --nice value, out of range (+/- %d)", most)
	}
	v.num[o.index] = n
	return nil
}

// Top is the Num of --priority=TOP.
const Top = math.MaxUint32 - 1

func checkPriority(_ *reader, v *Values, o *Option, text string) error {
	if strings.EqualFold(text, "TOP") {
		v.num[o.index] = Top
		return nil
	}
	n, _ := leadingInt(text) // text without a number counts as 0, as in Slurm
	switch {
	case n < 0:
		return usage("Priority must be >= 0")
	case n >= Top:
		return usage("Priority must be < %d", int64(Top))
	}
	v.num[o.index] = n
	return nil
}

func checkImmediate(_ *reader, v *Values, o *Option, text string) error {
	if text == "" {
		return nil
	}
	n, err := number(o, text, 0)
	v.num[o.index] = n
	return err
}

func checkPorts(_ *reader, v *Values, o *Option, text string) error {
	if text == "" {
		return nil
	}
	n, ok := leadingInt(text)
	if !ok || n < 0 {
		return invalid(o)
	}
	v.num[o.index] = n
	return nil
}

func checkWait(r *reader, v *Values, o *Option, text string) error {
	if r.in.Tool == Srun {
		return checkCount0(r, v, o, text)
	}
	return nil
}

func checkVerbose(_ *reader, v *Values, _ *Option, _ string) error {
	v.Verbose++
	return nil
}

func checkRoot(r *reader, _ *Values, o *Option, _ string) error {
	if !r.in.Root {
		return usage("--%s only permitted by root user", o.Long)
	}
	return nil
}

func checkNoKill(_ *reader, v *Values, o *Option, text string) error {
	switch {
	case text == "" || strings.EqualFold(text, "set"):
		v.num[o.index] = 1
	case strings.EqualFold(text, "off") || strings.EqualFold(text, "no"):
		v.num[o.index] = 0
	default:
		return invalid(o)
	}
	return nil
}

// --requeue and --no-requeue undo each other; the last one given counts.
func checkRequeue(_ *reader, v *Values, o *Option, text string) error {
	if text != "" && !strings.EqualFold(text, "expedite") {
		return invalid(o)
	}
	v.clear(find("no-requeue"))
	return nil
}

func checkNoRequeue(_ *reader, v *Values, _ *Option, _ string) error {
	v.clear(find("requeue"))
	return nil
}

// oneOf accepts the words given, in any case.
func oneOf(words ...string) func(*reader, *Values, *Option, string) error {
	return func(_ *reader, _ *Values, o *Option, text string) error {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, text) }) {
			return invalid(o)
		}
		return nil
	}
}
