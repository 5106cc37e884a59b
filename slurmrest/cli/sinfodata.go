package cli

import (
	"encoding/json"
	"fmt"

	"github.com/sbatchd/sbatchd/slurmrest/format"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// infoLine is one record of sinfo --json: what its lines hold, in the names of
// Slurm's schema.
type infoLine struct {
	Node struct {
		State []string `json:"state"`
	} `json:"node"`
	Nodes struct {
		Allocated int      `json:"allocated"`
		Idle      int      `json:"idle"`
		Other     int      `json:"other"`
		Total     int      `json:"total"`
		Hostnames []string `json:"hostnames"`
		Addresses []string `json:"addresses"`
		Nodes     []string `json:"nodes"`
	} `json:"nodes"`
	CPUs struct {
		Allocated int64 `json:"allocated"`
		Idle      int64 `json:"idle"`
		Other     int64 `json:"other"`
		Total     int64 `json:"total"`
		Minimum   int64 `json:"minimum"`
		Maximum   int64 `json:"maximum"`
	} `json:"cpus"`
	Memory struct {
		Minimum   int64 `json:"minimum"`
		Maximum   int64 `json:"maximum"`
		Allocated int64 `json:"allocated"`
	} `json:"memory"`
	Weight struct {
		Minimum int64 `json:"minimum"`
		Maximum int64 `json:"maximum"`
	} `json:"weight"`
	Features struct {
		Total  string `json:"total"`
		Active string `json:"active"`
	} `json:"features"`
	Gres struct {
		Total string `json:"total"`
		Used  string `json:"used"`
	} `json:"gres"`
	Cluster   string              `json:"cluster"`
	Comment   string              `json:"comment"`
	Extra     string              `json:"extra"`
	Partition *wire.PartitionInfo `json:"partition"`
}

// printInfoData prints lines for --json and --yaml.
func printInfoData(e *Env, in *Input, groups []format.NodeGroup) error {
	out := struct {
		Sinfo    []infoLine     `json:"sinfo"`
		Meta     wire.Meta      `json:"meta"`
		Errors   []wire.Error   `json:"errors"`
		Warnings []wire.Warning `json:"warnings"`
	}{Sinfo: []infoLine{}, Errors: []wire.Error{}, Warnings: []wire.Warning{}}
	for _, g := range groups {
		out.Sinfo = append(out.Sinfo, newInfoLine(g))
	}
	data, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return printData(e, data, in.Given("yaml"))
}

func newInfoLine(g format.NodeGroup) infoLine {
	var l infoLine
	l.Partition = g.Part
	l.Node.State = []string{}
	for i, n := range g.Nodes {
		if i == 0 {
			l.Node.State = n.State
			l.CPUs.Minimum, l.Memory.Minimum, l.Weight.Minimum = n.CPUs, n.RealMemory, n.Weight
			l.Features.Total, l.Features.Active = format.List(n.Features), format.List(n.ActiveFeatures)
			l.Gres.Total, l.Gres.Used, l.Cluster, l.Comment, l.Extra = n.GRES, n.GRESUsed, n.ClusterName, n.Comment, n.Extra
		}
		l.CPUs.Minimum, l.CPUs.Maximum = min(l.CPUs.Minimum, n.CPUs), max(l.CPUs.Maximum, n.CPUs)
		l.Memory.Minimum, l.Memory.Maximum = min(l.Memory.Minimum, n.RealMemory), max(l.Memory.Maximum, n.RealMemory)
		l.Weight.Minimum, l.Weight.Maximum = min(l.Weight.Minimum, n.Weight), max(l.Weight.Maximum, n.Weight)
		l.Memory.Allocated += n.AllocMemory
		l.CPUs.Total += n.CPUs
		l.CPUs.Allocated += n.AllocCPUs
		l.CPUs.Idle += n.AllocIdleCPUs
		l.Nodes.Nodes = append(l.Nodes.Nodes, n.Name)
		l.Nodes.Hostnames = append(l.Nodes.Hostnames, n.Hostname)
		l.Nodes.Addresses = append(l.Nodes.Addresses, n.Address)
	}
	l.CPUs.Other = max(l.CPUs.Total-l.CPUs.Allocated-l.CPUs.Idle, 0)
	l.Nodes.Allocated, l.Nodes.Idle, l.Nodes.Other = format.CountNodes(&g)
	l.Nodes.Total = len(g.Nodes)
	return l
}
