package server

import (
	"strings"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getResources answers GET /resources/{job_id}: what a job holds, node by node.
func getResources(c *call) {
	t, ok := c.target()
	if !ok {
		return
	}
	s := c.s.cfg.Controller.Snapshot()
	found := t.find(s)
	var list []wire.NodeResourceLayout
	switch {
	case len(found) == 0:
		c.fail(errno.InvalidJobID, "Unable to query JobId="+t.text, "_handle_get")
	case !c.may(found[0]):
		c.fail(errno.AccessDenied, "Unable to query JobId="+t.text, "_handle_get")
	case !found[0].Active() || found[0].Run == nil:
		c.fail(errno.JobNotRunning, "Unable to query JobId="+t.text, "_handle_get")
	default:
		for _, n := range found[0].Run.Nodes {
			list = append(list, layout(n))
		}
	}
	c.reply(func(b []byte) []byte {
		b = append(b, `"nodes":[`...)
		for i := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.record(b, "node_resource_layout", &list[i])
		}
		return append(b, ']', ',')
	})
}

// layout is one node of an allocation. Cores are counted, not told apart: a
// node's CPUs stand for them.
func layout(n job.NodeAlloc) wire.NodeResourceLayout {
	l := wire.NodeResourceLayout{Node: n.Node, SocketsPerNode: 1, CoresPerSocket: int64(n.CPUs), MemAlloc: n.MemoryMiB}
	for name, devices := range n.Gres {
		name, kind, _ := strings.Cut(name, ":")
		l.GRES = append(l.GRES, wire.NodeGRESLayout{Name: name, Type: kind, Count: int64(len(devices)), Index: indexes(devices)})
	}
	return l
}
