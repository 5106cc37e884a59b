package launch

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sbatchd/sbatchd/partitions"
	"github.com/sbatchd/sbatchd/runtime/agentapi"
	"github.com/sbatchd/sbatchd/runtime/agentapi/sshlink"
	"github.com/sbatchd/sbatchd/sbatchd/node"
)

// SSHSocket is where the controller listens on a machine with AgentLink=ssh,
// and its agent dials.
const SSHSocket = "/run/sbatchd-agent.sock"

// SSH keeps the links of nodes with AgentLink=ssh: the controller logs in to
// the machine and listens there, for the agent to dial.
type SSH struct {
	Hub    *Hub
	Signer ssh.Signer
	// Dial reaches a machine's sshd by its instance tag and says which host key
	// it must show.
	Dial func(ctx context.Context, tag string) (net.Conn, string, error)

	mu    sync.Mutex
	links map[string]context.CancelFunc // by instance tag
}

// Run keeps one link for every machine that wants one, until ctx ends.
func (s *SSH) Run(ctx context.Context) error {
	s.links = map[string]context.CancelFunc{}
	changed, stop := s.Hub.Jobs.Watch()
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		want := s.wanted()
		s.mu.Lock()
		for tag := range want {
			if s.links[tag] != nil {
				continue
			}
			link, cancel := context.WithCancel(ctx)
			s.links[tag] = cancel
			wg.Go(func() { s.keep(link, tag) })
		}
		for tag, cancel := range s.links {
			if !want[tag] {
				cancel()
				delete(s.links, tag)
			}
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (s *SSH) wanted() map[string]bool {
	snap := s.Hub.Jobs.Snapshot()
	want := map[string]bool{}
	for n := range snap.Nodes() {
		pool := snap.Config.Pool(n.Pool)
		if pool == nil || pool.AgentLink != partitions.SSH || n.Instance == "" {
			continue
		}
		if i, ok := snap.Instance(n.Instance); ok && i.State == node.Created {
			want[i.Tag] = true
		}
	}
	return want
}

// keep opens the link of one machine again and again until ctx ends.
func (s *SSH) keep(ctx context.Context, tag string) {
	var wait agentapi.Backoff
	for ctx.Err() == nil {
		start := time.Now()
		err := s.link(ctx, tag)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > time.Minute {
			wait.Reset()
		}
		s.Hub.Log.Info("ssh link ended, opened again", "instance", tag, "err", err)
		if agentapi.Sleep(ctx, wait.Next()) != nil {
			return
		}
	}
}

func (s *SSH) link(ctx context.Context, tag string) error {
	conn, hostKey, err := s.Dial(ctx, tag)
	if err != nil {
		return err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		conn.Close() //nolint:errcheck // never used
		return fmt.Errorf("host key of %s: %w", tag, err)
	}
	l, err := sshlink.Listen(ctx, conn, sshlink.Config{User: "root", Signer: s.Signer, HostKey: key, Socket: SSHSocket})
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // the connection ends with it
	return s.Hub.Serve(ctx, l)
}
