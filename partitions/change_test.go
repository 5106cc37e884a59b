package partitions_test

import (
	"strings"
	"testing"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/partitions/tres"
)

func TestChangePartition(t *testing.T) {
	dir := write(t, map[string]string{"slurm.conf": `ClusterName=c
SlurmctldHost=h
NodeName=n[1-3] CPUs=4
PartitionName=a Nodes=n1 Default=YES MaxTime=60
PartitionName=b Nodes=n2
`})
	c, err := partitions.Load(dir + "/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	change := func(name string, values map[string]string) *partitions.Config {
		t.Helper()
		next, err := c.ChangePartition(name, values)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	next := change("a", map[string]string{"state": "down", "MaxTime": "2:00:00", "Nodes": "n[2-3]"})
	if p := next.Partition("a"); p.State != "DOWN" || p.MaxTime != tres.Minutes(120) || len(p.Nodes) != 2 || !p.Default {
		t.Errorf("%+v", p)
	}
	if p := c.Partition("a"); p.State != "UP" || p.MaxTime != 60 {
		t.Errorf("the old config changed: %+v", p)
	}
	if next := change("new", map[string]string{"Default": "YES", "nodes": "n3"}); next.DefaultPartition().Name != "new" || len(next.Partitions) != 3 {
		t.Errorf("%+v", next.Partitions)
	}
	if next := c.WithoutPartition("b"); next.Partition("b") != nil || c.Partition("b") == nil {
		t.Error("b is not gone, or from the old config too")
	}
	for _, bad := range []map[string]string{{"Nodes": "n9"}, {"State": "sideways"}, {"MaxTime": "long"}, {"PartitionName": "x"}} {
		if _, err := c.ChangePartition("a", bad); err == nil {
			t.Errorf("%v was taken", bad)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %q", bad, err)
		}
	}
}
