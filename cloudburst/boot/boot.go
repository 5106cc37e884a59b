// Package boot is what a new machine is given so that its agent comes home: one
// maker of the agent's configuration file for every provider, whether it writes the
// file itself, hands it to a program or puts it into a start-up text.
package boot

import (
	"cmp"
	"time"

	"github.com/sbatchd/sbatchd/cloudburst"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// Agent is the content of agent.json on the machine of a request. Paths on the
// machine are the provider's to add.
func Agent(r cloudburst.Request) agentapi.Config {
	return agentapi.Config{
		Node: r.NodeName, Tag: string(r.Tag), Cluster: r.ClusterUUID, Epoch: r.Epoch,
		Controller: r.Agent.Controller, Link: r.Agent.Link, Token: r.Agent.JoinToken, CASHA256: r.Agent.CASHA256,
		CPUs: cmp.Or(r.Agent.CPUs, r.Offer.CPUs), MemoryMiB: cmp.Or(r.Agent.MemoryMiB, r.Offer.MemoryMiB),
		Gres: r.Agent.Gres, Features: r.Agent.Features, Runtime: r.Agent.Runtime, Workdir: r.Agent.Workdir,
		OrphanSeconds: int64(r.Agent.OrphanTimeout / time.Second),
	}
}
