package launch_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

// join shows a token as a machine that has no certificate yet.
func (h *house) join(token string) (*agentapi.JoinReply, error) {
	h.t.Helper()
	key, err := agentapi.NewKey()
	if err != nil {
		h.t.Fatal(err)
	}
	csr, err := agentapi.NewRequest(key, "spot-1")
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := agentapi.Connect(h.t.Context(), h.dial, agentapi.JoinTLS(h.authority.SHA256(), time.Now))
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the answer is here
	return agentapi.NewAgentLinkClient(c).Join(h.t.Context(), &agentapi.JoinRequest{Token: token, Csr: csr})
}

func TestJoin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	token := h.authority.NewToken("spot-1", tag, time.Now().Add(time.Minute))
	r, err := h.join(token)
	if err != nil || len(r.GetCertificate()) == 0 {
		t.Fatalf("join: %v", err)
	}
	if _, err := h.join(token); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a second key used the token: %v", err)
	}
	// Also after a restart: the first key is remembered by the queue.
	h.serve()
	if _, err := h.join(token); status.Code(err) != codes.PermissionDenied {
		t.Errorf("after a restart: %v", err)
	}
}

// TestRenewIsForThePresentMachine: a node's earlier machine gets no further.
func TestRenewIsForThePresentMachine(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.rent()
	key, err := agentapi.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := agentapi.NewRequest(key, "spot-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   agentapi.Identity
		want codes.Code
	}{
		{spot1, codes.OK},
		{agentapi.Identity{Cluster: cluster, Node: "spot-1", Tag: cluster + "-spot-1-0"}, codes.PermissionDenied},
	} {
		_, err := agentapi.NewAgentLinkClient(h.connect(c.id)).Renew(t.Context(), &agentapi.RenewRequest{Csr: csr})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v", c.id.Tag, err)
		}
	}
}
