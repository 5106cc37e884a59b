package cli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// update changes a job, node or partition; the keys say which.
func update(ctx context.Context, s *scontrolRun, args []string) error {
	for _, a := range args {
		key, _, _ := strings.Cut(a, "=")
		switch strings.ToLower(strings.TrimRight(key, "+-")) {
		case "jobid", "job", "jobname", "name":
			if strings.EqualFold(key, "jobname") || strings.EqualFold(key, "name") {
				if slices.ContainsFunc(args, func(w string) bool { _, ok := cutPrefixFold(w, "jobid="); return ok }) {
					continue
				}
			}
			return updateJob(ctx, s, args)
		case "nodename":
			return updateNode(ctx, s, args)
		case "partitionname":
			return updatePartition(ctx, s, args)
		case "reservationname", "reservation":
			return fail("Error updating the reservation: %s", errno.NotSupported.Error())
		case "stepid":
			return fail("slurm_update error: %s", errno.NotSupported.Error())
		}
	}
	s.e.rawf("No valid entity in update command")
	s.e.rawf(`Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"`)
	return exit(1)
}

func aborted(text string) error {
	return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Raw, Text: text}, {Level: option.Raw, Text: "Request aborted"}}}
}

// updateJob reads Key=Value words into a job description and sends it.
func updateJob(ctx context.Context, s *scontrolRun, args []string) error {
	var ids []string
	var msg wire.JobDescMsg
	byName, rename := "", false
	delta := int64(0)
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			return aborted("Invalid input: " + a)
		}
		switch lower := strings.ToLower(key); lower {
		case "jobid", "job":
			ids = splitIDs(value)
		case "jobname", "name":
			byName, rename = value, true
		case "timelimit+", "timelimit-":
			m, err := tres.ParseTimeLimit(value)
			if err != nil || m == tres.Infinite {
				return failed("Invalid TimeLimit value")
			}
			if delta = int64(m); strings.HasSuffix(lower, "-") {
				delta = -delta
			}
		case "timelimit":
			if sign := value != "" && (value[0] == '+' || value[0] == '-' && value != "-1"); sign {
				m, err := tres.ParseTimeLimit(value[1:])
				if err != nil || m == tres.Infinite {
					return failed("Invalid TimeLimit value")
				}
				if delta = int64(m); value[0] == '-' {
					delta = -delta
				}
				continue
			}
			m, err := tres.ParseTimeLimit(value)
			if err != nil {
				return failed("Invalid TimeLimit value")
			}
			msg.TimeLimit = wire.N(int64(m))
			if m == tres.Infinite || m == 0 {
				msg.TimeLimit = wire.Infinite
			}
		default:
			if err := s.jobField(&msg, lower, value, a); err != nil {
				return err
			}
		}
	}
	if len(ids) == 0 && rename {
		var err error
		if ids, err = s.jobIDs(ctx, []string{"jobname=" + byName}); err != nil {
			return fail("slurm_update error: %s", text(err))
		}
	} else if rename {
		msg.Name = byName
		msg.Give("name")
	}
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_update error: %s", text(err))
	}
	bad := false
	for _, id := range ids {
		var err error = errno.InvalidJobID
		if _, ok := parseJobRef(id); ok {
			m := msg
			if delta != 0 {
				err = s.shift(ctx, &m, id, delta)
			} else {
				err = nil
			}
			if err == nil {
				_, err = c.Update(ctx, id, &m)
			}
		}
		if err != nil {
			if msg.Array != "" && errors.Is(err, errno.NotSupported) {
				s.e.errorf("Update of ArrayTaskThrottle is only allowed on ArrayJobId")
			}
			if bad = true; !s.tasksRefused(err) {
				s.e.rawf("%s for job %s", text(err), id)
			}
		}
	}
	if bad {
		return exit(1)
	}
	return nil
}

// shift sets a time limit that was given as a difference.
func (s *scontrolRun) shift(ctx context.Context, msg *wire.JobDescMsg, id string, minutes int64) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	resp, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	if len(resp.Jobs) == 0 {
		return errno.InvalidJobID
	}
	now := format.Limit(resp.Jobs[0].TimeLimit)
	if now == tres.Infinite || now == tres.NoVal {
		return errno.InvalidTimeLimit
	}
	msg.TimeLimit = wire.N(max(int64(now)+minutes, 1))
	return nil
}

// jobField reads one key of update JobId=. word is as typed, for messages.
func (s *scontrolRun) jobField(msg *wire.JobDescMsg, key, value, word string) error {
	text := func(to *string, field string) error {
		*to = value
		msg.Give(field)
		return nil
	}
	count := func(to **int64, what string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 0 {
			return failed("Invalid %s value: %s", what, value)
		}
		*to = &n
		return nil
	}
	size := func(to *wire.Num, what string) error {
		m, err := tres.ParseMemory(value)
		if err != nil {
			return failed("Invalid %s value: %s", what, value)
		}
		*to = wire.N(int64(m))
		return nil
	}
	switch key {
	case "account":
		return text(&msg.Account, "account")
	case "admincomment":
		return text(&msg.AdminComment, "admin_comment")
	case "burstbuffer":
		return text(&msg.BurstBuffer, "burst_buffer")
	case "clusters":
		return text(&msg.Clusters, "clusters")
	case "comment":
		return text(&msg.Comment, "comment")
	case "dependency":
		return text(&msg.Dependency, "dependency")
	case "extra":
		return text(&msg.Extra, "extra")
	case "features":
		return text(&msg.Constraints, "constraints")
	case "gres":
		return text(&msg.TRESPerNode, "tres_per_node")
	case "licenses":
		return text(&msg.Licenses, "licenses")
	case "mailuser":
		return text(&msg.MailUser, "mail_user")
	case "mcslabel":
		return text(&msg.MCSLabel, "mcs_label")
	case "partition":
		return text(&msg.Partition, "partition")
	case "prefer":
		return text(&msg.Prefer, "prefer")
	case "qos":
		return text(&msg.QOS, "qos")
	case "reservationname":
		return text(&msg.Reservation, "reservation")
	case "stderr":
		return text(&msg.StandardError, "standard_error")
	case "stdin":
		return text(&msg.StandardInput, "standard_input")
	case "stdout":
		return text(&msg.StandardOutput, "standard_output")
	case "wckey":
		return text(&msg.Wckey, "wckey")
	case "workdir":
		return text(&msg.CurrentWorkingDirectory, "current_working_directory")
	case "reqnodelist", "nodelist":
		msg.RequiredNodes = nodeWords(value)
		msg.Give("required_nodes")
	case "excnodelist":
		msg.ExcludedNodes = nodeWords(value)
		msg.Give("excluded_nodes")
	case "arraytaskthrottle":
		n, _ := strconv.ParseUint(value, 10, 31) // as good as 0 if it is none
		msg.Array = "%" + strconv.FormatUint(n, 10)
	case "cpuspertask":
		return count(&msg.CPUsPerTask, "CPUsPerTask")
	case "minmemorynode":
		return size(&msg.MemoryPerNode, "MinMemoryNode")
	case "minmemorycpu":
		return size(&msg.MemoryPerCPU, "MinMemoryCPU")
	case "mincpusnode":
		return count(&msg.MinimumCPUsPerNode, "MinCPUsNode")
	case "mintmpdisknode":
		var n wire.Num
		if err := size(&n, "MinTmpDiskNode"); err != nil {
			return err
		}
		msg.TemporaryDiskPerNode = &n.Number
	case "nice":
		n := int64(100)
		if value != "" {
			var err error
			if n, err = strconv.ParseInt(value, 10, 32); err != nil {
				return failed("Invalid nice value, must be between -2147483645 and 2147483645")
			}
		}
		msg.Nice = &n
	case "numcpus", "minprocs", "reqprocs":
		return count(&msg.MinimumCPUs, "NumCPUs")
	case "numtasks", "reqtasks":
		return count(&msg.Tasks, "NumTasks")
	case "taskspernode":
		return count(&msg.TasksPerNode, "TasksPerNode")
	case "numnodes", "reqnodes", "minnodes":
		low, high, both := strings.Cut(value, "-")
		least, err := strconv.ParseInt(low, 10, 32)
		most := least
		if err == nil && both {
			most, err = strconv.ParseInt(high, 10, 32)
		}
		if err != nil || least < 0 {
			return failed("\"%s\" is not a valid node count", value)
		}
		msg.MinimumNodes, msg.MaximumNodes = &least, &most
	case "priority":
		if strings.EqualFold(value, "TOP") {
			msg.Priority = wire.N(option.Top)
			return nil
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return failed("Invalid Priority value: %s", value)
		}
		msg.Priority = wire.N(n)
	case "requeue":
		n, err := strconv.ParseUint(value, 10, 1)
		if err != nil {
			return failed("Invalid Requeue value: %s", value)
		}
		yes := n == 1
		msg.Requeue = &yes
	case "starttime", "eligibletime":
		t, err := tres.ParseTime(value, s.e.Now())
		if err != nil {
			return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Raw, Text: err.Error()}}}
		}
		msg.BeginTime = wire.N(t.Unix())
	case "deadline", "endtime":
		t, err := tres.ParseTime(value, s.e.Now())
		if err != nil {
			return &option.Error{Exit: 1, Lines: []option.Line{{Level: option.Raw, Text: err.Error()}}}
		}
		n := t.Unix()
		if key == "deadline" {
			msg.Deadline = &n
		} else {
			msg.EndTime = &n
		}
	case "timemin":
		m, err := tres.ParseTimeLimit(value)
		if err != nil {
			return failed("Invalid TimeMin value")
		}
		msg.TimeMinimum = wire.N(int64(m))
	case "oversubscribe", "shared":
		switch strings.ToLower(value) {
		case "yes", "1":
			msg.Shared = []string{"oversubscribe"}
		case "no", "0":
			msg.Shared = []string{"none"}
		default:
			return failed("Invalid OverSubscribe value: %s", value)
		}
	default:
		return aborted("Update of this parameter is not supported: " + word)
	}
	return nil
}

func nodeWords(value string) []string {
	if value == "" {
		return []string{}
	}
	return []string{value}
}

// nodeStateWords are the states that update NodeName= takes, with their names in
// the API.
var nodeStateWords = map[string]string{
	"down": "DOWN", "drain": "DRAIN", "fail": "FAIL", "future": "FUTURE", "noresp": "NOT_RESPONDING", "resume": "RESUME",
	"undrain": "UNDRAIN", "idle": "IDLE", "power_up": "POWER_UP", "power_down": "POWER_DOWN", "power_down_asap": "POWER_DOWN_ASAP",
	"power_down_force": "POWER_DOWN_FORCE", "cancel_reboot": "REBOOT_CANCELED",
}

func updateNode(ctx context.Context, s *scontrolRun, args []string) error {
	var names []string
	var msg wire.UpdateNodeMsg
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			return aborted("Invalid input: " + a)
		}
		switch strings.ToLower(key) {
		case "nodename":
			var err error
			if names, err = hosts(value); err != nil {
				return fail("slurm_update error: %s", errno.InvalidNodeName.Error())
			}
		case "state":
			st, ok := nodeStateWords[strings.ToLower(value)]
			if !ok {
				s.e.rawf("Invalid input: %s", a)
				s.e.rawf("Request aborted")
				s.e.rawf("Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN")
				return fail("Not all states are valid given a node's prior state")
			}
			msg.State = []string{st}
		case "reason":
			msg.Reason = strings.Trim(value, `"'`)
			msg.Give("reason")
		case "comment":
			msg.Comment = value
			msg.Give("comment")
		case "extra":
			msg.Extra = value
			msg.Give("extra")
		case "weight":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return aborted("Invalid input: " + a)
			}
			msg.Weight = wire.N(n)
		case "gres":
			msg.GRES = value
			msg.Give("gres")
		case "availablefeatures", "features":
			msg.Features = strings.Split(value, ",")
		case "activefeatures":
			msg.FeaturesAct = strings.Split(value, ",")
		default:
			return aborted("Update of this parameter is not supported: " + a)
		}
	}
	if len(msg.State) > 0 && msg.Reason == "" && slices.Contains([]string{"DOWN", "DRAIN", "FAIL"}, msg.State[0]) {
		return fail("You must specify a reason when DOWNING or DRAINING a node. Request denied")
	}
	c, err := s.client(ctx)
	if err != nil {
		return fail("slurm_update error: %s", text(err))
	}
	for _, n := range names {
		if err := c.UpdateNode(ctx, n, &msg); err != nil {
			return fail("slurm_update error: %s", text(err))
		}
	}
	return nil
}
