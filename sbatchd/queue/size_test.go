package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/node"
	"github.com/sbatchd/sbatchd/sbatchd/queue"
)

// openConf has a pool that takes whatever is offered.
var openConf = strings.Replace(longConf, "PoolName=other Provider=here CPUs=4 RealMemory=4000", "PoolName=other Provider=acme", 1) +
	"ProviderName=acme Type=fake Trust=cloud\nPartitionName=open Pools=other MaxTime=60 DefaultTime=10\n"

// intend records the machine of other-1, of a size.
func (h *house) intend(incarnation uint32, cpus int, mib int64, gpus string) string {
	h.t.Helper()
	tag := "cafe-other-1-" + string(rune('0'+incarnation))
	ok, err := h.Intend(h.t.Context(), node.Instance{
		Tag: tag, Node: "other-1", Pool: "other", Incarnation: incarnation, CPUs: cpus, MemoryMiB: mib, GPUs: gpus,
	})
	if err != nil || !ok {
		h.t.Fatalf("intend: %t %v", ok, err)
	}
	h.must(h.Learn(h.t.Context(), tag, func(i *node.Instance) { i.State = node.Created }))
	return tag
}

func cpus(n int) func(*queue.Submission) {
	return func(s *queue.Submission) { s.Spec.Partitions, s.Spec.CPUsPerTask = "open", n }
}

// TestOpenPool: a node whose pool leaves its size open has that of the machine
// rented for it, from the rental on, over restarts, until it is given back.
func TestOpenPool(t *testing.T) {
	inBubble(t, openConf, func(h *house) {
		first, second, third := h.submit(in(cpus(2))), h.submit(in(cpus(2))), h.submit(in(cpus(2)))
		h.until(first, "allocated", allocated)
		h.pass(2 * time.Second)
		h.want(second, "PENDING", job.ReasonResources) // nobody knows the size yet
		tag := h.intend(1, 4, 8000, "")
		h.until(second, "beside the first", allocated)
		h.pass(2 * time.Second)
		h.want(third, "PENDING", job.ReasonResources)
		h.must(h.NodeUp(h.t.Context(), node.Registration{Node: "other-1", Tag: tag, CPUs: 3, MemoryMiB: 7900}))
		h.until(second, "back in the queue", func(j *job.Job) bool { return j.State == job.Pending })
		if j := h.job(second); j.Restarts != 0 {
			h.t.Errorf("%d restarts", j.Restarts)
		}
		h.must(h.Reconfigure(h.t.Context(), root, load(h.t, openConf)))
		if n := h.node("other-1"); n.CPUs != 3 || n.MemoryMiB != 7900 || n.UsedCPUs != 2 {
			h.t.Errorf("after a reload the node has %d CPUs, %d MiB, %d in use", n.CPUs, n.MemoryMiB, n.UsedCPUs)
		}
		again, _ := openHouse(h.t, h.m, load(h.t, openConf))
		if n := again.node("other-1"); n.CPUs != 3 || n.UsedCPUs != 2 {
			h.t.Errorf("after a restart the node has %d CPUs, %d in use", n.CPUs, n.UsedCPUs)
		}
		h.must(h.InstanceGone(h.t.Context(), tag, "deleted"))
		if n := h.node("other-1"); n.CPUs <= 4 {
			h.t.Errorf("the next machine may be no larger than %d CPUs", n.CPUs)
		}
	})
}

// TestFittedToTheMachine: jobs that ask for all of a node get all of the machine,
// and GPU numbers follow it.
func TestFittedToTheMachine(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*queue.Submission)
		want job.NodeAlloc
	}{
		{"exclusive", func(s *queue.Submission) { s.Spec.Exclusive = true }, job.NodeAlloc{CPUs: 4, MemoryMiB: 400}},
		{"all memory", func(s *queue.Submission) { s.Spec.MemSet = true }, job.NodeAlloc{CPUs: 1, MemoryMiB: 8000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, openConf, func(h *house) {
				id := h.submit(in(func(s *queue.Submission) { s.Spec.Partitions = "open"; c.edit(s) }))
				h.until(id, "allocated", allocated)
				h.intend(1, 4, 8000, "")
				a := h.job(id).Run.Nodes[0]
				if a.CPUs != c.want.CPUs || a.MemoryMiB != c.want.MemoryMiB {
					h.t.Errorf("holds %+v", a)
				}
				if n := h.node("other-1"); n.UsedCPUs != a.CPUs || n.UsedMiB != a.MemoryMiB {
					h.t.Errorf("node counts %d CPUs, %d MiB", n.UsedCPUs, n.UsedMiB)
				}
			})
		})
	}
	t.Run("devices", func(t *testing.T) {
		conf := strings.Replace(openConf, "PoolName=other Provider=acme", "PoolName=other Provider=acme Gres=gpu:a:1-8", 1)
		inBubble(t, conf, func(h *house) {
			var ids []uint32
			for range 3 {
				ids = append(ids, h.submit(in(func(s *queue.Submission) {
					s.Spec.Partitions, s.Spec.TRESPerNode = "open", "gres/gpu:1"
				})))
			}
			h.until(ids[0], "allocated", allocated)
			h.intend(1, 4, 8000, "gpu:a:2")
			h.until(ids[1], "allocated", allocated)
			h.pass(2 * time.Second)
			h.want(ids[2], "PENDING", job.ReasonResources)
			if a, b := h.job(ids[0]).Run.Nodes[0].Gres["gpu"], h.job(ids[1]).Run.Nodes[0].Gres["gpu"]; !slices.Equal(a, []int{0}) || !slices.Equal(b, []int{1}) {
				h.t.Errorf("GPUs %v and %v", a, b)
			}
		})
	})
}
