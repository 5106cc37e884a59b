package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/slurmrest/client"
	"github.com/sbatchd/sbatchd/slurmrest/option"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// partitionWords are the keys of update PartitionName= whose values are one of a few
// words.
var partitionWords = map[string][]string{
	"default": yesOrNo, "disablerootjobs": yesOrNo, "hidden": yesOrNo, "lln": yesOrNo, "reqresv": yesOrNo, "rootonly": yesOrNo,
	"state": {"UP", "DOWN", "DRAIN", "INACTIVE"},
}

var yesOrNo = []string{"YES", "NO"}

// partitionNumbers are those whose values are numbers, with Slurm's spelling.
var partitionNumbers = map[string]string{
	"maxcpuspernode": "MaxCPUsPerNode", "maxcpuspersocket": "MaxCPUsPerSocket", "maxnodes": "MaxNodes", "minnodes": "MinNodes",
	"priorityjobfactor": "PriorityJobFactor", "prioritytier": "PriorityTier",
}

// partitionTexts are the other keys; how they read is the controller's to say.
var partitionTexts = []string{
	"allocnodes", "allowaccounts", "allowgroups", "allowqos", "alternate", "defmempercpu", "defmempernode", "denyaccounts", "denyqos",
	"gracetime", "jobdefaults", "maxmempercpu", "maxmempernode", "nodes", "overtimelimit", "pools", "preemptmode", "qos",
}

// partitionChange reads Key=Value words about a partition.
func partitionChange(args []string) (wire.PartitionChange, error) {
	c := wire.PartitionChange{Values: map[string]string{}}
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			return c, failed("Invalid input: %s  Request aborted", a)
		}
		low := strings.ToLower(key)
		if low == "partitionname" || low == "partition" {
			c.Name = value
			continue
		}
		if err := checkPartitionValue(low, value, a); err != nil {
			return c, err
		}
		c.Values[low] = value
	}
	return c, nil
}

// checkPartitionValue says what Slurm's scontrol says before it asks anybody.
func checkPartitionValue(key, value, word string) error {
	switch {
	case partitionWords[key] != nil:
		name := map[string]string{"state": "State", "default": "Default", "lln": "LLN", "hidden": "Hidden", "rootonly": "RootOnly",
			"disablerootjobs": "DisableRootJobs", "reqresv": "ReqResv"}[key]
		for _, w := range partitionWords[key] {
			if strings.EqualFold(w, value) {
				return nil
			}
		}
		words := partitionWords[key]
		list := strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
		return &option.Error{Exit: 1, Lines: []option.Line{
			{Level: option.Err, Text: "Invalid input: " + word},
			{Level: option.Err, Text: "Acceptable " + name + " values are " + list},
		}}
	case partitionNumbers[key] != "":
		_, err := strconv.ParseUint(value, 10, 31)
		if err != nil && !strings.EqualFold(value, "UNLIMITED") && !strings.EqualFold(value, "INFINITE") {
			if strings.HasPrefix(key, "priority") {
				return failed("Invalid %s value: %s", partitionNumbers[key], value)
			}
			return failed("Invalid numeric value %q for %s.", value, partitionNumbers[key])
		}
		return nil
	case key == "maxtime" || key == "defaulttime":
		if _, err := tres.ParseTimeLimit(value); err != nil && !strings.EqualFold(value, "NONE") {
			return failed("Invalid input %s", word)
		}
		return nil
	case key == "oversubscribe":
		kind, _, _ := strings.Cut(strings.ToUpper(value), ":")
		if !overlap([]string{kind}, []string{"NO", "EXCLUSIVE", "YES", "FORCE"}) {
			return &option.Error{Exit: 1, Lines: []option.Line{
				{Level: option.Err, Text: "Invalid input: " + word},
				{Level: option.Err, Text: "Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#"},
			}}
		}
		return nil
	case overlap([]string{key}, partitionTexts):
		return nil
	}
	return &option.Error{Exit: 1, Lines: []option.Line{
		{Level: option.Err, Text: "Update of this parameter is not supported: " + word + "\n"},
		{Level: option.Err, Text: "Request aborted"},
	}}
}

func postPartition(ctx context.Context, c *client.Client, change wire.PartitionChange) error {
	return c.Post(ctx, "/sbatchd/v1/partition", change, nil)
}

func updatePartition(ctx context.Context, s *scontrolRun, args []string) error {
	change, err := partitionChange(args)
	if err != nil {
		return err
	}
	if len(change.Values) == 0 {
		return failed("No changes specified")
	}
	c, err := s.client(ctx)
	if err == nil {
		err = postPartition(ctx, c, change)
	}
	if err != nil {
		return fail("slurm_update error: %s", text(err))
	}
	return nil
}

// create makes a partition; reservations are a part that is not built.
func create(ctx context.Context, s *scontrolRun, args []string) error {
	for _, a := range args {
		key, value, _ := strings.Cut(strings.ToLower(a), "=")
		switch key {
		case "partition", "partitionname":
			if value == "default" {
				return failed(`PartitionName cannot be "DEFAULT".`)
			}
			change, err := partitionChange(args)
			if err != nil {
				return err
			}
			change.Create = true
			c, err := s.client(ctx)
			if err == nil {
				err = postPartition(ctx, c, change)
			}
			if err != nil {
				return fail("Error creating the partition: %s", text(err))
			}
			return nil
		case "reservation", "reservationname", "res":
			return notBuilt(ctx, s, "Error creating the reservation: %s")
		case "nodename":
			return notBuilt(ctx, s, "Error creating node(s): %s")
		}
	}
	return failed("Invalid creation entity: %s", args[0])
}

// remove deletes a partition.
func remove(ctx context.Context, s *scontrolRun, args []string) error {
	key, value, _ := strings.Cut(args[0], "=")
	switch strings.ToLower(key) {
	case "partition", "partitionname":
		c, err := s.client(ctx)
		if err == nil {
			err = postPartition(ctx, c, wire.PartitionChange{Name: value, Delete: true})
		}
		if err != nil {
			return fail("delete_partition %s: %s", args[0], text(err))
		}
		return nil
	case "reservation", "reservationname":
		return notBuilt(ctx, s, "slurm_delete_reservation "+args[0]+": %s")
	case "nodename":
		return notBuilt(ctx, s, "slurm_delete_node error: %s")
	}
	return fail("Invalid deletion entity: %s", args[0])
}
